/* SPDX-License-Identifier: Apache-2.0 */
/* Things that do not change during a run: machine, environment, versions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include <tcpx/query.h>

#include "base/config.h"
#include "cli_environ.h"
#include "diag_snapshot.h"
#include "doctor_probe.h"
#include "sys/cpu.h"
#include "topo/pairing.h"

#define LINES_MAX 16384
#define CPUS "/sys/devices/system/cpu"

/* The lines of recorded come first, so that they win over ours of the same name. */
static void put_recorded(const char *recorded, FILE *out)
{
	FILE *in = recorded ? fopen(recorded, "re") : NULL;
	char line[4096];

	while (in && fgets(line, sizeof(line), in))
		fputs(line, out);
	if (in)
		fclose(in);
}

static int diag_static_by_name(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;
	size_t len = strcspn(x, "="), other = strcspn(y, "=");
	int order = strncmp(x, y, len < other ? len : other);

	if (!order)
		order = (len > other) - (len < other);
	return order ? order : (x > y) - (x < y);
}

/* Sorts the lines of text and keeps the first one of each name. */
static void put_first_of_each(char *text, FILE *out)
{
	char *lines[LINES_MAX], *rest = text, *line, *before = "";
	size_t count = 0;

	while (count < LINES_MAX && (line = strsep(&rest, "\n")) != NULL)
		if (strchr(line, '='))
			lines[count++] = line;
	qsort(lines, count, sizeof(lines[0]), diag_static_by_name);
	for (size_t i = 0; i < count; i++) {
		size_t len = strcspn(lines[i], "=") + 1;

		if (strncmp(lines[i], before, len) != 0)
			fprintf(out, "%s\n", lines[i]);
		before = lines[i];
	}
}

char *diag_environment(const char *recorded)
{
	char *all = NULL, *text = NULL;
	size_t len;
	FILE *both = open_memstream(&all, &len), *out = open_memstream(&text, &len);

	if (both) {
		put_recorded(recorded, both);
		cli_environ_write(both);
		fclose(both);
	}
	if (out && all)
		put_first_of_each(all, out);
	free(all);
	if (out && !fclose(out))
		return text;
	free(text);
	return NULL;
}

static void put_graph(const struct topo *topo, FILE *out)
{
	static struct topo_pairs pairs;
	char pci[PCI_TEXT_MAX];

	topo_pairs_build(topo, NULL, NULL, &pairs);
	for (unsigned i = 0; i < topo->nnodes; i++)
		fprintf(out, "node %d: cpus %s\n", topo->nodes[i].id, topo->nodes[i].cpus);
	for (unsigned i = 0; i < topo->nnics; i++) {
		const struct topo_nic *nic = &topo->nics[i];

		fprintf(out, "nic %s: %s node %d driver %s mtu %u speed %llu state %s\n", nic->name,
			pci_format(nic->place.pci, pci), nic->place.numa, nic->driver, nic->mtu,
			(unsigned long long)nic->speed_mbps, nic->state);
	}
	for (unsigned i = 0; i < topo->ngpus; i++) {
		const struct topo_gpu *gpu = &topo->gpus[i];
		const struct topo_owner *owner = topo_owner_of(&pairs, gpu->place.pci);

		fprintf(out, "gpu %u: %s node %d nic %s;", i, pci_format(gpu->place.pci, pci),
			gpu->place.numa, owner && *owner->nic_name ? owner->nic_name : "none");
		for (unsigned k = 0; k < topo->nnics; k++)
			fprintf(out, " %s %s", topo->nics[k].name,
				topo_distance_name(
					topo_distance(topo, &gpu->place, &topo->nics[k].place)));
		fputc('\n', out);
	}
}

/* The model of the CPUs as lscpu shows it: lines of the first one in /proc/cpuinfo, and its
 * caches. */
static void put_model(FILE *out)
{
	static const char *const keys[][2] = {{"model name", ""},
					      {"vendor_id", " vendor"},
					      {"cpu family", " family"},
					      {"model\t", " model"},
					      {"stepping", " stepping"},
					      {"microcode", " microcode"},
					      {"cpu cores", " cores of a socket"},
					      {"siblings", " threads of a socket"},
					      {"CPU implementer", " implementer"},
					      {"CPU part", " part"}};
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f) && *line != '\n')
		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
			const char *value = strchr(line, ':');

			if (value && !strncmp(line, keys[i][0], strlen(keys[i][0])))
				fprintf(out, "cpu%s: %s", keys[i][1],
					value + 1 + strspn(value + 1, " \t"));
		}
	if (f)
		fclose(f);
}

static void put_caches(FILE *out)
{
	static const char *const files[] = {"level", "type", "size", "shared_cpu_list"};
	char path[120], line[4][64];

	for (unsigned i = 0; i < 8; i++) {
		for (unsigned k = 0; k < 4; k++) {
			snprintf(path, sizeof(path), CPUS "/cpu0/cache/index%u/%s", i, files[k]);
			if (doctor_read_line(path, line[k], sizeof(line[k])))
				return;
		}
		fprintf(out, "cpu cache L%s %s: %s, cpus %s\n", line[0], line[1], line[2], line[3]);
	}
}

char *diag_topology(void)
{
	struct topo *topo;
	char *text = NULL, line[256];
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	put_model(out);
	put_caches(out);
	if (!doctor_read_line(CPUS "/online", line, sizeof(line)))
		fprintf(out, "cpus online: %s\n", line);
	fprintf(out, "cpus usable: %u\n", sys_cpu_usable());
	if (topo_scan(config_text(CONFIG_SYSFS), &topo) == TCPX_OK) {
		put_graph(topo, out);
		topo_free(topo);
	}
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

char *diag_versions(void)
{
	struct utsname name;
	tcpx_feature feature = {.sz = sizeof(feature)};
	char *text = NULL, line[256];
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	fprintf(out, "tcpx: %s\n", tcpx_version());
#ifdef __GLIBC__
	fprintf(out, "glibc: %s\n", gnu_get_libc_version());
#endif
	if (!uname(&name))
		fprintf(out, "kernel: %s %s %s\n", name.sysname, name.release, name.machine);
	if (!doctor_read_line("/proc/driver/nvidia/version", line, sizeof(line)))
		fprintf(out, "gpu driver: %s\n", line);
	fprintf(out, "plugin path: %s\n", config_text(CONFIG_PLUGIN_PATH));
	for (uint32_t i = 0; tcpx_feature_get(i, &feature) == TCPX_OK; i++)
		fprintf(out, "feature %s: %s, %s\n", feature.name, feature.built ? "yes" : "no",
			feature.reason);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

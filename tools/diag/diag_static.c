/* SPDX-License-Identifier: Apache-2.0 */
/* What does not change while something runs: the machine, the environment, the versions. */
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
#include "cli_secret.h"
#include "diag_snapshot.h"
#include "doctor_probe.h"
#include "sys/cpu.h"
#include "topo/pairing.h"

#define VARIABLES_MAX 4096

extern char **environ;

/* Other variables are nobody's business. */
static const char *const shown[] = {
	"NCCL_",     "TCPX_",	    "UCCL_",
	"CUDA_",     "NVIDIA_",	    "LD_",
	"OMPI_",     "PMIX_",	    "PMI_",
	"SLURM_",    "OMP_",	    "UCX_",
	"FI_",	     "GLOO_",	    "MASTER_",
	"RANK=",     "WORLD_SIZE=", "LOCAL_RANK=",
	"HOSTFILE=", "PATH=",	    "JOB_COMPLETION_INDEX=",
};

static int is_shown(const char *variable)
{
	for (unsigned i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		if (!strncmp(variable, shown[i], strlen(shown[i])))
			return 1;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void put_variable(const char *variable, FILE *out)
{
	size_t name = strcspn(variable, "=");

	if (cli_is_secret(variable, name)) {
		fprintf(out, "%.*s=(hidden)\n", (int)name, variable);
		return;
	}
	for (const char *p = variable; *p; p++)
		fputc(*p == '\n' ? ' ' : *p, out);
	fputc('\n', out);
}

char *diag_environment(void)
{
	const char *sorted[VARIABLES_MAX];
	unsigned count = 0;
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	for (char **at = environ; *at && count < VARIABLES_MAX; at++)
		if (is_shown(*at))
			sorted[count++] = *at;
	qsort(sorted, count, sizeof(sorted[0]), by_name);
	for (unsigned i = 0; i < count; i++)
		put_variable(sorted[i], out);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
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

/* The first "model name" of /proc/cpuinfo. */
static void put_model(FILE *out)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256], name[200];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "model name : %199[^\n]", name) == 1) {
			fprintf(out, "cpu: %s\n", name);
			break;
		}
	if (f)
		fclose(f);
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
	if (!doctor_read_line("/sys/devices/system/cpu/online", line, sizeof(line)))
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
	tcpx_feature feature;
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

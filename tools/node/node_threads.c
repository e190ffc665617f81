/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a rank: their role, and the CPUs that the kernel allows. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/cpus.h"
#include "base/error.h"
#include "cli_json.h"
#include "node.h"
#include "topo/graph.h"

#define LINE_COLUMNS 100

/* Roles by the name of a thread; threads of a plugin or driver have other names. */
static const char *role_of(const char *name)
{
	static const char *const roles[][2] = {
		{"tcpx-work-", "worker"}, {"tcpx-prio", "priority"}, {"tcpx-control", "control"},
		{"tcpx-gpu-", "gpu"},	  {"tcpx-plugin", "plugin"}, {"tcpx-node", "stage"},
		{"main", "main"}};

	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		if (!strncmp(name, roles[i][0], strlen(roles[i][0])))
			return roles[i][1];
	return "other";
}

/* Reads the line of a file in /proc that begins with the word, without its newline; "": none. */
static void read_line(const char *path, const char *start, char *out, size_t cap)
{
	FILE *file = fopen(path, "re");
	char line[CPUS_TEXT];

	*out = '\0';
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, start, strlen(start)) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(out, cap, "%s",
			 line + strlen(start) + strspn(line + strlen(start), " \t"));
		break;
	}
	if (file)
		fclose(file);
}

/* The NUMA node that has all of the CPUs, or TOPO_NUMA_UNKNOWN if there is none. */
static int node_of(const struct topo *topo, const char *list)
{
	struct cpus cpus, node;

	if (!topo || cpus_parse(list, &cpus))
		return TOPO_NUMA_UNKNOWN;
	for (unsigned i = 0; i < topo->nnodes; i++) {
		if (cpus_parse(topo->nodes[i].cpus, &node))
			continue;
		cpus_and(&cpus, &node, &node);
		if (cpus_count(&cpus) && cpus_count(&node) == cpus_count(&cpus))
			return topo->nodes[i].id;
	}
	return TOPO_NUMA_UNKNOWN;
}

static int by_place(const void *a, const void *b)
{
	const struct node_thread *x = a, *y = b;
	int order = strcmp(role_of(x->name), role_of(y->name));

	order = order ? order : strcmp(x->cpus, y->cpus);
	return order ? order : strcmp(x->name, y->name);
}

uint32_t node_threads_list(struct node_thread *out_threads, uint32_t max)
{
	DIR *folder = opendir("/proc/self/task");
	struct topo *topo = NULL;
	struct dirent *entry;
	uint32_t count = 0;
	char path[300];

	if (!folder)
		return 0;
	if (topo_scan(config_text(CONFIG_SYSFS), &topo) != TCPX_OK)
		topo = NULL;
	while (count < max && (entry = readdir(folder)) != NULL) {
		struct node_thread *it = &out_threads[count];

		if (*entry->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		read_line(path, "", it->name, sizeof(it->name));
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		read_line(path, "Cpus_allowed_list:", it->cpus, sizeof(it->cpus));
		it->node = node_of(topo, it->cpus);
		/* other threads may have inherited this name */
		if (atoi(entry->d_name) == getpid())
			snprintf(it->name, sizeof(it->name), "main");
		count += *it->name != '\0';
	}
	closedir(folder);
	topo_free(topo);
	qsort(out_threads, count, sizeof(*out_threads), by_place);
	return count;
}

static bool alike(const struct node_thread *a, const struct node_thread *b)
{
	return !strcmp(role_of(a->name), role_of(b->name)) && !strcmp(a->cpus, b->cpus);
}

void node_threads_print(uint32_t rank, const struct node_thread *threads, uint32_t count)
{
	int used = printf("threads of rank %u:", rank);

	for (uint32_t i = 0, next; i < count; i = next) {
		const struct node_thread *it = &threads[i];
		char text[CPUS_TEXT + 64], where[24] = "";

		for (next = i + 1; next < count && alike(it, &threads[next]);)
			next++;
		if (it->node != TOPO_NUMA_UNKNOWN)
			snprintf(where, sizeof(where), " (node %d)", it->node);
		snprintf(text, sizeof(text), " %u %s on CPUs %s%s", next - i, role_of(it->name),
			 it->cpus, where);
		if (i && used + (int)strlen(text) + 1 > LINE_COLUMNS)
			used = printf(",\n   ") - 2;
		else if (i)
			used += printf(",");
		used += printf("%s", text);
	}
	printf("\n");
}

void node_threads_json(struct cli_json *rank, const struct node_thread *threads, uint32_t count)
{
	struct cli_json *list = cli_json_array(rank, "threads"), *o;

	for (uint32_t i = 0; list && i < count; i++) {
		o = cli_json_object(list, NULL);
		cli_json_text(o, "name", threads[i].name);
		cli_json_text(o, "role", role_of(threads[i].name));
		cli_json_text(o, "cpus", threads[i].cpus);
		node_numa_json(o, "numa", threads[i].node);
	}
}

void node_numa_json(struct cli_json *object, const char *key, int numa)
{
	if (numa == TOPO_NUMA_UNKNOWN)
		cli_json_null(object, key);
	else
		cli_json_integer(object, key, (uint64_t)numa);
}

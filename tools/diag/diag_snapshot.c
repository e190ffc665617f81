/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of interfaces, counters, routes, sysctls, threads, interrupts and CPUs. */
#include "diag_snapshot.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "doctor_probe.h"
#include "sys/addr.h"
#include "sys/ethtool.h"
#include "sys/iface.h"

#define PROCESSES_MAX 4096

const char *diag_kind_name(enum diag_kind kind)
{
	static const char *const names[DIAG_KINDS] = {"interfaces", "counters", "routes",
						      "sysctls",    "affinity", "irqs",
						      "interrupts", "cpu"};

	return names[kind];
}

/* Calls fn for each entry of a folder, by name. */
static void each_entry(const char *folder, void (*fn)(const char *name, FILE *out), FILE *out)
{
	struct dirent **list;
	int count = scandir(folder, &list, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		if (list[i]->d_name[0] != '.')
			fn(list[i]->d_name, out);
		free(list[i]);
	}
	if (count >= 0)
		free(list);
}

static void net_folder(char *path, size_t cap, const char *nic, const char *more)
{
	snprintf(path, cap, "%s/class/net%s%s%s", config_text(CONFIG_SYSFS), *nic ? "/" : "", nic,
		 more);
}

static void put_interface(const char *name, FILE *out)
{
	static const char *const files[] = {"/operstate", "/mtu", "/speed", "/address", "/carrier"};
	char path[4400], line[128];

	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		net_folder(path, sizeof(path), name, files[i]);
		if (!doctor_read_line(path, line, sizeof(line)))
			fprintf(out, "%s %s: %s\n", name, files[i] + 1, line);
	}
}

static void diag_snapshot_put_interfaces(FILE *out)
{
	struct sys_iface *list = NULL;
	unsigned count = 0;
	char path[4200], text[SYS_ADDR_TEXT];

	net_folder(path, sizeof(path), "", "");
	each_entry(path, put_interface, out);
	if (sys_iface_list(&list, &count) != TCPX_OK)
		return;
	for (unsigned i = 0; i < count; i++)
		fprintf(out, "%s address %s/%u: up\n", list[i].name,
			sys_addr_host_text(&list[i].addr, text), list[i].prefix);
	free(list);
}

struct statistics {
	const char *nic;
	FILE *out;
};

static void put_statistic(void *arg, const char *label, uint64_t value)
{
	const struct statistics *to = arg;

	fprintf(to->out, "%s %s: %llu\n", to->nic, label, (unsigned long long)value);
}

/* Writes the kernel's counters of the interface and those of its driver (ethtool -S), also from
 * a file if one is set. */
static void put_counters_of(const char *name, FILE *out)
{
	struct statistics to = {name, out};
	const char *source = config_text(CONFIG_DEVMEM_STATS);
	char path[4600], line[64];
	struct dirent **list;
	int count;

	net_folder(path, sizeof(path), name, "/statistics");
	count = scandir(path, &list, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		char file[4900];

		snprintf(file, sizeof(file), "%s/%s", path, list[i]->d_name);
		if (list[i]->d_name[0] != '.' && !doctor_read_line(file, line, sizeof(line)))
			fprintf(out, "%s %s: %s\n", name, list[i]->d_name, line);
		free(list[i]);
	}
	if (count >= 0)
		free(list);
	if (sys_ethtool_each(name, NULL, put_statistic, &to) != TCPX_OK)
		LOG_DEBUG("NIC %s has no statistics of its driver", name);
	if (*source && sys_ethtool_each(name, source, put_statistic, &to) != TCPX_OK)
		LOG_DEBUG("NIC %s has no statistics in %s", name, source);
}

void diag_counters(FILE *out)
{
	char path[4200];

	net_folder(path, sizeof(path), "", "");
	each_entry(path, put_counters_of, out);
}

static void put_routes4(FILE *out)
{
	FILE *f = fopen("/proc/net/route", "re");
	char line[256], nic[32], to[INET_ADDRSTRLEN], via[INET_ADDRSTRLEN];
	unsigned dst, gateway, flags, metric, mask;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%31s %x %x %x %*d %*d %u %x", nic, &dst, &gateway, &flags,
			   &metric, &mask) != 6)
			continue;
		inet_ntop(AF_INET, &dst, to, sizeof(to));
		inet_ntop(AF_INET, &gateway, via, sizeof(via));
		fprintf(out, "%s/%d dev %s: via %s metric %u flags %x\n", to,
			__builtin_popcount(mask), nic, via, metric, flags);
	}
	if (f)
		fclose(f);
}

static void put_routes6(FILE *out)
{
	FILE *f = fopen("/proc/net/ipv6_route", "re");
	char line[256], hex[33], nic[32], to[INET6_ADDRSTRLEN];
	unsigned prefix, metric;

	while (f && fgets(line, sizeof(line), f)) {
		struct in6_addr addr;

		if (sscanf(line, "%32s %x %*s %*s %*s %x %*s %*s %*s %31s", hex, &prefix, &metric,
			   nic) != 4)
			continue;
		for (unsigned i = 0; i < 16; i++)
			if (sscanf(hex + 2 * i, "%2hhx", &addr.s6_addr[i]) != 1)
				addr.s6_addr[i] = 0;
		inet_ntop(AF_INET6, &addr, to, sizeof(to));
		fprintf(out, "%s/%u dev %s: metric %u\n", to, prefix, nic, metric);
	}
	if (f)
		fclose(f);
}

static void put_routes(FILE *out)
{
	put_routes4(out);
	put_routes6(out);
}

static void put_sysctls_of(const char *folder, const char *prefix, FILE *out)
{
	struct dirent **list;
	int count = scandir(folder, &list, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		char path[600], line[512];

		snprintf(path, sizeof(path), "%s/%s", folder, list[i]->d_name);
		if (list[i]->d_type == DT_REG && !doctor_read_line(path, line, sizeof(line)))
			fprintf(out, "%s%s: %s\n", prefix, list[i]->d_name, line);
		free(list[i]);
	}
	if (count >= 0)
		free(list);
}

/* Some sysctls hold keys of the kernel (SYN cookies, fast open); they are unreadable or masked. */
static void put_filter(const char *nic, FILE *out)
{
	char path[200], line[64];

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%.64s/rp_filter", nic);
	if (!doctor_read_line(path, line, sizeof(line)))
		fprintf(out, "net.ipv4.conf.%s.rp_filter: %s\n", nic, line);
}

static void put_sysctls(FILE *out)
{
	put_sysctls_of("/proc/sys/net/core", "net.core.", out);
	put_sysctls_of("/proc/sys/net/ipv4", "net.ipv4.", out);
	each_entry("/proc/sys/net/ipv4/conf", put_filter, out);
	put_sysctls_of("/proc/sys/vm", "vm.", out);
}

/* Marks root and all its descendants, repeating until no process is added. */
static unsigned family(pid_t root, pid_t pids[PROCESSES_MAX])
{
	static struct {
		pid_t pid, parent;
	} all[PROCESSES_MAX];
	unsigned count = 0, found = 1;
	DIR *folder = opendir("/proc");
	const struct dirent *entry;

	while (folder && count < PROCESSES_MAX && (entry = readdir(folder)) != NULL) {
		char path[64], line[512], *end;

		snprintf(path, sizeof(path), "/proc/%.20s/stat", entry->d_name);
		if (!isdigit((unsigned char)entry->d_name[0]) ||
		    doctor_read_line(path, line, sizeof(line)))
			continue;
		end = strrchr(line, ')'); /* the name may contain blanks and brackets */
		if (!end || sscanf(end + 1, " %*c %d", &all[count].parent) != 1)
			continue;
		all[count++].pid = (pid_t)atoi(entry->d_name);
	}
	if (folder)
		closedir(folder);
	pids[0] = root;
	for (unsigned k = 0; k < found; k++)
		for (unsigned i = 0; i < count && found < PROCESSES_MAX; i++)
			if (all[i].parent == pids[k] && all[i].pid != root)
				pids[found++] = all[i].pid;
	return found;
}

/* "tid 12 name: cpus 0-3 nodes 0" */
static void put_thread(pid_t pid, const char *tid, FILE *out)
{
	char path[96], line[512], name[64] = "", cpus[256] = "", nodes[64] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/status", (int)pid, tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "Name: %63[^\n]", name);
		sscanf(line, "Cpus_allowed_list: %255s", cpus);
		sscanf(line, "Mems_allowed_list: %63s", nodes);
	}
	if (f)
		fclose(f);
	if (*name)
		fprintf(out, "%d %s %s: cpus %s nodes %s\n", (int)pid, tid, name, cpus, nodes);
}

static void put_affinity(FILE *out, pid_t process)
{
	static pid_t pids[PROCESSES_MAX];
	unsigned count = family(process, pids);

	for (unsigned i = 0; i < count; i++) {
		struct dirent **list;
		char path[64];
		int threads;

		snprintf(path, sizeof(path), "/proc/%d/task", (int)pids[i]);
		threads = scandir(path, &list, NULL, alphasort);
		for (int k = 0; k < threads; k++) {
			if (list[k]->d_name[0] != '.')
				put_thread(pids[i], list[k]->d_name, out);
			free(list[k]);
		}
		if (threads >= 0)
			free(list);
	}
}

static void put_file(const char *path, FILE *out)
{
	FILE *f = fopen(path, "re");
	char part[4096];
	size_t got;

	while (f && (got = fread(part, 1, sizeof(part), f)) > 0)
		fwrite(part, 1, got, out);
	if (f)
		fclose(f);
}

static void put_irq(const char *name, FILE *out)
{
	char path[300], line[256];

	snprintf(path, sizeof(path), "/proc/irq/%s/smp_affinity_list", name);
	if (isdigit((unsigned char)*name) && !doctor_read_line(path, line, sizeof(line)))
		fprintf(out, "irq %s cpus: %s\n", name, line);
}

static void put_irqs(FILE *out)
{
	each_entry("/proc/irq", put_irq, out);
}

static void put_interrupts(FILE *out)
{
	put_file("/proc/interrupts", out);
}

static void put_cpu(FILE *out)
{
	char line[256];

	if (!doctor_read_line("/proc/loadavg", line, sizeof(line)))
		fprintf(out, "load: %s\n", line);
	put_file("/proc/stat", out);
}

int diag_snapshot_take(struct diag_snapshot *snapshot, pid_t process)
{
	static void (*const fns[DIAG_KINDS])(FILE *) = {
		[DIAG_INTERFACES] = diag_snapshot_put_interfaces,
		[DIAG_COUNTERS] = diag_counters,
		[DIAG_ROUTES] = put_routes,
		[DIAG_SYSCTLS] = put_sysctls,
		[DIAG_IRQS] = put_irqs,
		[DIAG_INTERRUPTS] = put_interrupts,
		[DIAG_CPU] = put_cpu,
	};

	memset(snapshot, 0, sizeof(*snapshot));
	for (unsigned i = 0; i < DIAG_KINDS; i++) {
		size_t len;
		FILE *out = open_memstream(&snapshot->texts[i], &len);

		if (out && fns[i])
			fns[i](out);
		else if (out)
			put_affinity(out, process);
		if (!out || fclose(out)) {
			diag_snapshot_free(snapshot);
			return -1;
		}
	}
	return 0;
}

void diag_snapshot_free(struct diag_snapshot *snapshot)
{
	for (unsigned i = 0; i < DIAG_KINDS; i++)
		free(snapshot->texts[i]);
	memset(snapshot, 0, sizeof(*snapshot));
}

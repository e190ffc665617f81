/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces with settings and counters, and the process that listens on our port. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "doctor_probe.h"
#include "perf_host.h"
#include "sys/addr.h"
#include "sys/iface.h"

#define PROCESSES_MAX 4096
#define TCP_LISTEN_STATE 10

/* Reads a number from the sysfs folder of an interface. */
static void doctor_probe_net_put_number(struct doctor_facts *facts, const char *nic,
					const char *file, const char *key, int at)
{
	char path[4400], line[64];

	snprintf(path, sizeof(path), "%s/class/net/%s/%s", config_text(CONFIG_SYSFS), nic, file);
	if (!doctor_read_line(path, line, sizeof(line)))
		doctor_put_text(facts, line, "nic.%d.%s", at, key);
}

static uint64_t filter_of(const char *name)
{
	char path[128], line[16];

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/rp_filter", name);
	return doctor_read_line(path, line, sizeof(line)) ? UINT64_MAX : strtoull(line, NULL, 10);
}

static void put_settings(struct doctor_facts *facts, const char *nic, int at)
{
	uint64_t all = filter_of("all"), own = filter_of(nic);
	char path[4400], line[64];

	doctor_probe_net_put_number(facts, nic, "mtu", "mtu", at);
	doctor_probe_net_put_number(facts, nic, "speed", "speed_mbps",
				    at); /* -1 is not a count and is dropped */
	doctor_probe_net_put_number(facts, nic, "operstate", "state", at);
	doctor_probe_net_put_number(facts, nic, "statistics/rx_errors", "rx_errors", at);
	doctor_probe_net_put_number(facts, nic, "statistics/tx_errors", "tx_errors", at);
	doctor_probe_net_put_number(facts, nic, "statistics/rx_crc_errors", "crc_errors", at);
	doctor_probe_net_put_number(facts, nic, "statistics/rx_dropped", "rx_dropped", at);
	snprintf(path, sizeof(path), "%s/class/net/%s/carrier", config_text(CONFIG_SYSFS), nic);
	/* the kernel reports nothing for an interface that is down */
	doctor_put_flag(facts, !doctor_read_line(path, line, sizeof(line)) && !strcmp(line, "1"),
			"nic.%d.carrier", at);
	if (own != UINT64_MAX && all != UINT64_MAX)
		doctor_put_count(facts, own > all ? own : all, "nic.%d.rp_filter", at);
}

/* Interfaces on PCI have a row already; others get one if they have an address. */
void doctor_probe_nics(struct doctor_facts *facts)
{
	struct sys_iface *ifaces = NULL;
	unsigned count = 0, names = 0;
	char text[SYS_ADDR_TEXT];
	const char *nic;

	if (sys_iface_list(&ifaces, &count) != TCPX_OK)
		count = 0;
	for (unsigned i = 0; i < count; i++) {
		unsigned before = 0;
		int at;

		while (before < i && strcmp(ifaces[i].name, ifaces[before].name))
			before++;
		if (before == i) /* an interface is listed once per address */
			doctor_put_text(facts, ifaces[i].name, "iface.%u", names++);
		if (ifaces[i].loopback)
			continue;
		at = doctor_nic_row(facts, ifaces[i].name);
		if (at >= 0 && !doctor_text(facts, "nic.%d.address", at))
			doctor_put_text(facts, sys_addr_host_text(&ifaces[i].addr, text),
					"nic.%d.address", at);
	}
	free(ifaces);
	for (int i = 0; (nic = doctor_text(facts, "nic.%d.name", i)); i++)
		put_settings(facts, nic, i);
}

/* The inode of a socket that listens on the port; 0: none. */
static unsigned long listener(const char *table, unsigned port)
{
	unsigned long inode = 0;
	char line[512];
	FILE *f = fopen(table, "re");

	while (f && !inode && fgets(line, sizeof(line), f)) {
		unsigned local, state;
		unsigned long found;

		if (sscanf(line,
			   " %*[0-9]: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s "
			   "%lu",
			   &local, &state, &found) == 3 &&
		    local == port && state == TCP_LISTEN_STATE)
			inode = found;
	}
	if (f)
		fclose(f);
	return inode;
}

/* Whether a process has the socket open. */
static int holds(const char *pid, unsigned long inode)
{
	char path[300], want[48], target[64];
	const struct dirent *entry;
	int found = 0;
	DIR *folder;

	snprintf(want, sizeof(want), "socket:[%lu]", inode);
	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	folder = opendir(path);
	while (folder && !found && (entry = readdir(folder)) != NULL) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/%.20s/fd/%.20s", pid, entry->d_name);
		len = readlink(path, target, sizeof(target) - 1);
		target[len < 0 ? 0 : len] = '\0';
		found = !strcmp(target, want);
	}
	if (folder)
		closedir(folder);
	return found;
}

/* "name (pid 12)" of the process that has the socket; "" without permission to see it. */
static void find_holder(unsigned long inode, char *out, size_t cap, char name[64])
{
	DIR *folder = opendir("/proc");
	const struct dirent *entry;
	unsigned looked = 0;
	char path[64];

	*out = *name = '\0';
	while (folder && looked < PROCESSES_MAX && (entry = readdir(folder)) != NULL) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		looked++;
		if (!holds(entry->d_name, inode))
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/comm", entry->d_name);
		doctor_read_line(path, name, 64);
		snprintf(out, cap, "%s (pid %.20s)", name, entry->d_name);
		break;
	}
	if (folder)
		closedir(folder);
}

void doctor_probe_port(struct doctor_facts *facts)
{
	unsigned port = perf_port_default();
	unsigned long inode = listener("/proc/net/tcp", port);
	char by[128], name[64];

	if (access("/proc/net/tcp", R_OK))
		return;
	doctor_put_count(facts, port, "port.number");
	if (!inode)
		inode = listener("/proc/net/tcp6", port);
	if (!inode) {
		doctor_put_text(facts, "free", "port.state");
		return;
	}
	find_holder(inode, by, sizeof(by), name);
	doctor_put_text(facts, strcmp(name, "tcpx") ? "taken" : "ours", "port.state");
	if (*by)
		doctor_put_text(facts, by, "port.by");
}

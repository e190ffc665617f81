/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel, limits, control group, capabilities, IOMMU, and the key file. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <tcpx/query.h>

#include "base/config.h"
#include "cli_key.h"
#include "doctor_probe.h"

#define CAP_NET_ADMIN_BIT 12
#define CAP_IPC_LOCK_BIT 14

static const char *const sysctls[] = {
	"net.core.optmem_max",
	"net.core.somaxconn",
	"net.core.rmem_max",
	"net.core.wmem_max",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_wmem",
	"net.ipv4.tcp_mtu_probing",
	"net.ipv4.tcp_slow_start_after_idle",
	"net.ipv4.tcp_congestion_control",
	"net.ipv4.tcp_allowed_congestion_control",
	"net.ipv4.tcp_available_congestion_control",
};

static void put_sysctl(struct doctor_facts *facts, const char *name)
{
	char path[128], line[256];

	snprintf(path, sizeof(path), "/proc/sys/%s", name);
	for (char *p = path + 10; *p; p++)
		if (*p == '.')
			*p = '/';
	if (doctor_read_line(path, line, sizeof(line)))
		return;
	for (char *p = line; *p; p++)
		if (*p == '\t')
			*p = ' ';
	doctor_put_text(facts, line, "sysctl.%s", name);
}

static void doctor_probe_host_put_limit(struct doctor_facts *facts, const char *name, int which)
{
	struct rlimit limit;

	if (!getrlimit((__typeof__(RLIMIT_NOFILE))which, &limit))
		doctor_put_count(
			facts, limit.rlim_cur == RLIM_INFINITY ? DOCTOR_UNLIMITED : limit.rlim_cur,
			"limit.%s", name);
}

/* Reads lines of /proc/self/status. */
static void put_status(struct doctor_facts *facts)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[512];
	uint64_t caps;

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "CapEff:", 7)) {
			caps = strtoull(line + 7, NULL, 16);
			doctor_put_flag(facts, caps >> CAP_IPC_LOCK_BIT & 1, "cap.ipc_lock");
			doctor_put_flag(facts, caps >> CAP_NET_ADMIN_BIT & 1, "cap.net_admin");
		} else if (!strncmp(line, "Cpus_allowed_list:", 18)) {
			doctor_put_text(facts, line + 18 + strspn(line + 18, " \t"), "cpu.allowed");
		}
	}
	if (f)
		fclose(f);
}

/* The memory limit of the control group, version 1 or 2. */
static void put_cgroup(struct doctor_facts *facts)
{
	static const char *const files[] = {"/sys/fs/cgroup%.200s/memory.max",
					    "/sys/fs/cgroup/memory.max",
					    "/sys/fs/cgroup/memory%.200s/memory.limit_in_bytes",
					    "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
	char group[256] = "", path[300], line[64];
	const char *slash;
	uint64_t bytes;

	if (doctor_read_line("/proc/self/cgroup", group, sizeof(group)))
		return;
	slash = strchr(group, '/');
	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const char *mark = strstr(files[i], "%.200s");

		if (mark)
			snprintf(path, sizeof(path), "%.*s%.200s%s", (int)(mark - files[i]),
				 files[i], slash ? slash : "", mark + 6);
		else
			snprintf(path, sizeof(path), "%s", files[i]);
		if (doctor_read_line(path, line, sizeof(line)))
			continue;
		bytes = strcmp(line, "max") ? strtoull(line, NULL, 10) : DOCTOR_UNLIMITED;
		/* version 1 writes a number near 2^63 if there is no limit */
		doctor_put_count(facts, bytes > 1ull << 60 ? DOCTOR_UNLIMITED : bytes,
				 "cgroup.memory");
		return;
	}
	doctor_put_count(facts, DOCTOR_UNLIMITED, "cgroup.memory");
}

/* "NVRM version: NVIDIA UNIX ... Kernel Module  535.104.05  ..." */
static void put_driver(struct doctor_facts *facts)
{
	char line[256], *word, *rest = NULL;

	if (doctor_read_line("/proc/driver/nvidia/version", line, sizeof(line)))
		return;
	for (word = strtok_r(line, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest))
		if (isdigit((unsigned char)*word) && strchr(word, '.')) {
			doctor_put_text(facts, word, "driver.version");
			return;
		}
}

static void count_iommus(struct doctor_facts *facts)
{
	char path[4200];
	const struct dirent *entry;
	unsigned count = 0;
	DIR *folder;

	snprintf(path, sizeof(path), "%s/class/iommu", config_text(CONFIG_SYSFS));
	folder = opendir(path);
	if (!folder)
		return;
	while ((entry = readdir(folder)) != NULL)
		count += entry->d_name[0] != '.';
	closedir(folder);
	doctor_put_count(facts, count, "iommu.groups");
}

void doctor_probe_host(struct doctor_facts *facts)
{
	struct utsname name;
	char host[65] = "";

	doctor_put_text(facts, tcpx_version(), "tool");
	if (!gethostname(host, sizeof(host) - 1))
		doctor_put_text(facts, host, "host");
	if (!uname(&name))
		doctor_put_text(facts, name.release, "kernel");
	doctor_put_flag(facts, !access("/.dockerenv", F_OK) || !access("/run/.containerenv", F_OK),
			"container");
	for (unsigned i = 0; i < sizeof(sysctls) / sizeof(sysctls[0]); i++)
		put_sysctl(facts, sysctls[i]);
	doctor_probe_host_put_limit(facts, "memlock", RLIMIT_MEMLOCK);
	doctor_probe_host_put_limit(facts, "nofile", RLIMIT_NOFILE);
	put_status(facts);
	put_cgroup(facts);
	put_driver(facts);
	count_iommus(facts);
}

/* Judges the key file as the library does. */
static const char *key_state(const char *file, const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return "malformed";
	if (st->st_uid != geteuid() && st->st_uid)
		return "owner";
	if (st->st_mode & (S_IRWXG | S_IRWXO))
		return "mode";
	return access(file, R_OK) ? "denied" : "ok";
}

void doctor_probe_key(struct doctor_facts *facts, const char *file)
{
	char mode[16], list[CLI_KEY_IDS_MAX * CLI_KEY_ID_TEXT + 1] = "";
	struct cli_key_ids keys = {0};
	tcpx_status status;
	const char *state;
	struct stat st;

	file = file ? file : config_text(CONFIG_KEY_FILE);
	if (!*file) {
		doctor_put_text(facts, "none", "key.state");
		return;
	}
	doctor_put_text(facts, file, "key.file");
	if (stat(file, &st)) {
		doctor_put_text(facts, errno == ENOENT || errno == ENOTDIR ? "missing" : "denied",
				"key.state");
		return;
	}
	snprintf(mode, sizeof(mode), "%04o", st.st_mode & 07777);
	doctor_put_text(facts, mode, "key.mode");
	state = key_state(file, &st);
	if (!strcmp(state, "ok") && !cli_key_read(file, &keys, &status) && status == TCPX_OK &&
	    !keys.count)
		state = "malformed";
	doctor_put_text(facts, state, "key.state");
	for (unsigned i = 0; i < keys.count && i < CLI_KEY_IDS_MAX; i++) {
		size_t used = strlen(list);

		snprintf(list + used, sizeof(list) - used, "%s%s", used ? " " : "", keys.ids[i]);
	}
	if (keys.count)
		doctor_put_text(facts, list, "key.ids");
}

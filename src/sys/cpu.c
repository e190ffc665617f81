/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs that the process may use (affinity mask, cgroup quota), and the start and placement of
 * threads. */
#include "sys/cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "sys/fd.h"

#define CPU_PATH_MAX 1024

/* Reads a file, at most cap - 1 bytes of it, and appends a NUL. Returns the number of bytes read,
 * or -1 if the file cannot be opened. */
static ssize_t read_text(const char *path, char *buf, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;
	size_t len = 0;

	if (fd < 0)
		return -1;
	while (len < cap - 1) {
		got = read(fd, buf + len, cap - 1 - len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		len += (size_t)got;
	}
	sys_fd_close(fd);
	buf[len] = '\0';
	return (ssize_t)len;
}

void sys_cpu_allowed(struct cpus *out_cpus)
{
	memset(out_cpus, 0, sizeof(*out_cpus));
	/* The kernel refuses a mask that is shorter than its own, so longer ones are tried in turn.
	 * Linux supports at most 8192 CPUs on x86. */
	for (int cpus = 1024; cpus <= 16384; cpus *= 4) {
		size_t size = CPU_ALLOC_SIZE(cpus);
		cpu_set_t *set = CPU_ALLOC(cpus);
		int rc;

		if (!set)
			return;
		rc = sched_getaffinity(0, size, set);
		for (int cpu = 0; rc == 0 && cpu < cpus; cpu++)
			if (CPU_ISSET_S((size_t)cpu, size, set))
				cpus_add(out_cpus, (unsigned)cpu);
		CPU_FREE(set);
		if (rc == 0)
			return;
	}
}

static unsigned affinity_cores(void)
{
	struct cpus allowed;
	unsigned count;
	long configured;

	sys_cpu_allowed(&allowed);
	count = cpus_count(&allowed);
	if (count)
		return count;
	configured = sysconf(_SC_NPROCESSORS_ONLN);
	return configured > 0 ? (unsigned)configured : 1;
}

static unsigned quota_cores(long long quota, long long period)
{
	if (quota <= 0 || period <= 0)
		return 0;
	if (quota / period >= 1 << 20)
		return 0;
	return (unsigned)((quota + period - 1) / period);
}

/* Returns the quota of the cgroup whose files are in `folder`, in cores, or 0 if it has none. The
 * v2 file contains "QUOTA PERIOD", such as "150000 100000", or "max PERIOD". */
static unsigned folder_quota(const char *folder, int v2)
{
	char path[CPU_PATH_MAX + 32], text[64];
	long long quota = 0, period = 0;

	if (v2) {
		snprintf(path, sizeof(path), "%s/cpu.max", folder);
		if (read_text(path, text, sizeof(text)) <= 0)
			return 0;
		if (sscanf(text, "%lld %lld", &quota, &period) != 2)
			return 0;
		return quota_cores(quota, period);
	}
	snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
	if (read_text(path, text, sizeof(text)) <= 0 || sscanf(text, "%lld", &quota) != 1)
		return 0;
	snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
	if (read_text(path, text, sizeof(text)) <= 0 || sscanf(text, "%lld", &period) != 1)
		return 0;
	return quota_cores(quota, period);
}

/* Returns the smaller of two quotas; 0 means no quota. */
static unsigned smaller_quota(unsigned a, unsigned b)
{
	return !a ? b : !b ? a : a < b ? a : b;
}

/* Returns the smallest quota of a cgroup and its ancestors, or 0 if none has a quota. `group` is
 * the path of the cgroup below `mount`. In a container `group` may be a path of the host; levels
 * that do not exist in the container count as levels without a quota. If the path is too long or
 * contains "..", only `mount` is read. */
static unsigned group_quota(const char *mount, const char *group, int v2)
{
	char folder[CPU_PATH_MAX];
	size_t floor = strlen(mount);
	unsigned least = 0;
	int len = snprintf(folder, sizeof(folder), "%s%s", mount, group);

	if (len < 0 || (size_t)len >= sizeof(folder) || strstr(group, ".."))
		return folder_quota(mount, v2);
	for (;;) {
		char *slash;

		least = smaller_quota(least, folder_quota(folder, v2));
		slash = strrchr(folder + floor, '/');
		if (!slash)
			return least;
		*slash = '\0';
	}
}

/* Whether "cpu" is in the list of controllers of a v1 hierarchy. Commas separate the entries. */
static int names_cpu(const char *controllers)
{
	size_t len;

	for (; *controllers; controllers += len + (controllers[len] == ',')) {
		len = strcspn(controllers, ",");
		if (len == 3 && memcmp(controllers, "cpu", 3) == 0)
			return 1;
	}
	return 0;
}

unsigned sys_cpu_quota(const char *membership, const char *root)
{
	char line[CPU_PATH_MAX], mount[CPU_PATH_MAX];
	unsigned least = 0;
	size_t len;

	/* Each line is "id:controllers:path"; `controllers` is empty in v2. */
	for (; *membership; membership += len + (membership[len] == '\n')) {
		char *controllers, *group;

		len = strcspn(membership, "\n");
		if (len >= sizeof(line))
			continue;
		memcpy(line, membership, len);
		line[len] = '\0';
		controllers = strchr(line, ':');
		group = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!group)
			continue;
		*controllers++ = *group++ = '\0';
		if (!*controllers) {
			least = smaller_quota(least, group_quota(root, group, 1));
		} else if (names_cpu(controllers)) {
			snprintf(mount, sizeof(mount), "%.400s/%.400s", root, controllers);
			if (access(mount, F_OK))
				snprintf(mount, sizeof(mount), "%.400s/cpu", root);
			least = smaller_quota(least, group_quota(mount, group, 0));
		}
	}
	return least;
}

unsigned sys_cpu_usable(void)
{
	char membership[4096];

	if (read_text("/proc/self/cgroup", membership, sizeof(membership)) < 0)
		membership[0] = '\0';
	return smaller_quota(affinity_cores(), sys_cpu_quota(membership, "/sys/fs/cgroup"));
}

void sys_thread_slice(uint64_t ns)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {.size = sizeof(attr), .policy = SCHED_OTHER, .runtime = ns};

	if (sched_getscheduler(0) != SCHED_OTHER)
		return;				  /* the user chose another policy, which stays */
	attr.nice = getpriority(PRIO_PROCESS, 0); /* nice value of the calling thread */
	(void)syscall(SYS_sched_setattr, 0, &attr, 0);
}

void sys_mutex_init_short(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	if (pthread_mutexattr_init(&attr)) {
		pthread_mutex_init(lock, NULL);
		return;
	}
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

tcpx_status sys_thread_start(pthread_t *out_thread, const char *name, void *(*fn)(void *arg),
			     void *arg)
{
	char cut[16];
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
	sigset_t all, old;
	int err;

	sigfillset(&all);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&all, faults[i]);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(out_thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return error_set(err == EAGAIN	 ? TCPX_ERR_LIMIT
				 : err == ENOMEM ? TCPX_ERR_NO_MEMORY
						 : TCPX_ERR_SYSTEM,
				 err, "cannot start the thread %s (ulimit -u, pids limit)", name);
	snprintf(cut, sizeof(cut), "%s", name);
	pthread_setname_np(*out_thread, cut);
	return TCPX_OK;
}

void sys_thread_place(pthread_t thread, const struct cpus *cpus)
{
	size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);

	if (!set)
		return;
	CPU_ZERO_S(bytes, set);
	for (unsigned cpu = 0; cpu < CPUS_MAX; cpu++)
		if (cpus_has(cpus, cpu))
			CPU_SET_S(cpu, bytes, set);
	(void)pthread_setaffinity_np(thread, bytes, set);
	CPU_FREE(set);
}

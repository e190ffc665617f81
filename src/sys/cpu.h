/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs that the process may use, and the start, placement and scheduling of threads. */
#ifndef SYS_CPU_H
#define SYS_CPU_H

#include <pthread.h>

#include <tcpx/types.h>

#include "base/cpus.h"

/* Returns the number of cores that this process may use, at least 1. It is the number of CPUs in
 * the affinity mask, or the cgroup quota if that is smaller. The quota is the smallest of the
 * cgroup (v1 or v2) and its ancestors, rounded up. */
unsigned sys_cpu_usable(void);

/* Sets *out_cpus to the affinity mask of the calling thread, which is normally the cpuset of the
 * process. Sets it to the empty set if the system does not report the mask. */
void sys_cpu_allowed(struct cpus *out_cpus);

/* Returns the cgroup quota in cores, rounded up, or 0 without a quota. `membership` is the text of
 * /proc/self/cgroup, and `root` the mount point of the hierarchies ("/sys/fs/cgroup"). Called by
 * sys_cpu_usable() and by tests. */
unsigned sys_cpu_quota(const char *membership, const char *root);

/* Sets the time slice of the calling thread. A thread with a short slice preempts threads with
 * longer slices when it wakes. Does nothing before Linux 6.12, or if the policy is not
 * SCHED_OTHER. */
void sys_thread_slice(uint64_t ns);

/* Initialises a lock that is held for less than a microsecond at a time. A thread that finds the
 * lock taken spins for a while before it sleeps. Otherwise like pthread_mutex_init. */
void sys_mutex_init_short(pthread_mutex_t *lock);

/* Binds the thread to these CPUs. Does nothing if the kernel refuses. */
void sys_thread_place(pthread_t thread, const struct cpus *cpus);

/* Starts a thread called `name`, truncated to 15 bytes. All signals are blocked except faults that
 * a thread raises itself. The thread therefore runs no handler of the application for any other
 * signal, while crash reporters still work. Returns ERR_LIMIT (too many threads), ERR_NO_MEMORY or
 * ERR_SYSTEM. */
tcpx_status sys_thread_start(pthread_t *out_thread, const char *name, void *(*fn)(void *arg),
			     void *arg);

/* Tells the processor that the thread spins until another thread writes to memory. */
static inline void sys_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif

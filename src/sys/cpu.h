/* SPDX-License-Identifier: Apache-2.0 */
/* Usable cores and threads of ours. */
#ifndef SYS_CPU_H
#define SYS_CPU_H

#include <pthread.h>

#include <tcpx/types.h>

#include "base/cpus.h"

/* Cores this process may use, at least 1: the smaller of the affinity mask and the cgroup quota
 * (v1 or v2, of every level up to the root, rounded up). */
unsigned sys_cpu_usable(void);

/* The calling thread's affinity mask, which is the process's cpuset unless somebody narrowed it; of
 * a machine that does not tell: none. */
void sys_cpu_allowed(struct cpus *out_cpus);

/* The quota alone, in cores rounded up; 0: none. membership: /proc/self/cgroup's text;
 * root: where the hierarchies are mounted ("/sys/fs/cgroup"). For tests. */
unsigned sys_cpu_quota(const char *membership, const char *root);

/* The calling thread runs at most ns at a stretch, and so preempts those with longer slices when it
 * wakes (Linux 6.12; before, and where the thread is not of SCHED_OTHER, nothing changes). */
void sys_thread_slice(uint64_t ns);

/* A lock that is held for less than a microsecond: who finds it taken looks again for a while
 * before he sleeps. As pthread_mutex_init otherwise. */
void sys_mutex_init_short(pthread_mutex_t *lock);

/* The thread runs on these CPUs alone; where the kernel does not let it, as before. */
void sys_thread_place(pthread_t thread, const struct cpus *cpus);

/* Starts a thread named name (cut to 15 bytes) with all signals blocked but the faults a thread
 * raises itself, so that none of the caller's handlers runs on it and crash reporters still work.
 * ERR_LIMIT (thread limit); ERR_NO_MEMORY; ERR_SYSTEM. */
tcpx_status sys_thread_start(pthread_t *out_thread, const char *name, void *(*fn)(void *arg),
			     void *arg);

/* Of a loop that waits for another thread's store. */
static inline void sys_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif

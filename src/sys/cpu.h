/* SPDX-License-Identifier: Apache-2.0 */
/* Usable cores, affinity, and threads of the library. */
#ifndef SYS_CPU_H
#define SYS_CPU_H

#include <pthread.h>

#include <tcpx/types.h>

#include "base/cpus.h"

/* Cores that this process may use, at least 1: those of the affinity mask, or the cgroup quota if
 * that is smaller (v1 or v2, of every level up to the root, rounded up). */
unsigned sys_cpu_usable(void);

/* The affinity mask of the calling thread, normally the cpuset of the process; empty if the system
 * does not report it. */
void sys_cpu_allowed(struct cpus *out_cpus);

/* Returns the cgroup quota alone, in cores, rounded up; 0: none. membership: the text of
 * /proc/self/cgroup; root: mount point of the hierarchies ("/sys/fs/cgroup"). For sys_cpu_usable
 * and tests. */
unsigned sys_cpu_quota(const char *membership, const char *root);

/* Sets the time slice of the calling thread. With a short one the thread, when it wakes, preempts
 * threads with longer slices. Needs Linux 6.12 and SCHED_OTHER; otherwise nothing changes. */
void sys_thread_slice(uint64_t ns);

/* Initialises a lock that is held for less than a microsecond: a thread that finds it taken spins
 * for a while before it sleeps. Otherwise like pthread_mutex_init. */
void sys_mutex_init_short(pthread_mutex_t *lock);

/* Binds the thread to these CPUs; if the kernel refuses, nothing changes. */
void sys_thread_place(pthread_t thread, const struct cpus *cpus);

/* Starts a thread named name (truncated to 15 bytes). All signals are blocked except the faults
 * that a thread raises itself, so no handler of the application runs on it and crash reporters
 * still work. ERR_LIMIT (thread limit); ERR_NO_MEMORY; ERR_SYSTEM. */
tcpx_status sys_thread_start(pthread_t *out_thread, const char *name, void *(*fn)(void *arg),
			     void *arg);

/* Tells the processor that a loop waits for a store of another thread. */
static inline void sys_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif

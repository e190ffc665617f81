/* SPDX-License-Identifier: Apache-2.0 */
/* The process-wide runtime: one control thread, and workers that serve channels. */
#ifndef ENGINE_RUNTIME_ENGINE_RUNTIME_H
#define ENGINE_RUNTIME_ENGINE_RUNTIME_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "sys/links.h"
#include "sys/loop.h"

#include <tcpx/tcpx.h>

struct engine_chan;

/* A thread that serves channels. */
struct engine_worker {
	int epfd, wakefd;
	uint32_t index;
	/* number of its channels; a new channel goes to the worker that has the fewest */
	_Atomic uint32_t channels;
	int node; /* NUMA node of its CPUs; TOPO_NUMA_UNKNOWN: any CPU */
	/* prios: this is the worker of the priority channels. polls: a channel asked for a round
	 * although it has no event. */
	bool prios, polls;
	pthread_t thread;
	pthread_mutex_t lock; /* guards kicked, graves and lent */
	/* kicked: channels that were kicked; graves: channels whose reference is dropped after
	 * this round */
	struct list_node kicked, graves;
	struct list_node lent; /* channels on which an application receives (app_poll.c) */
	_Atomic uint32_t sleeping;
	_Atomic int64_t roused_ns; /* until this time the worker waits awake for a kick */
	bool roomy;		   /* the machine has cores to spare, so the worker may spin */
	_Atomic int stop;
};

struct engine_runtime {
	pthread_mutex_t lock;
	/* changes under lock; read without it, since a forked child may find the lock held */
	_Atomic uint32_t refs;
	struct sys_loop loop;
	pthread_t control;
	_Atomic int stop;
	struct engine_worker *workers;
	uint32_t nworkers; /* for bulk channels; one more serves the priority channels */
	_Atomic uint32_t fork_generation; /* of the process that started the runtime */
	/* late: closed sessions whose memory a copy still uses. late_looked: a thread waits for
	 * the ends of these copies. Both under lock. */
	struct list_node late;
	bool late_looked;
	_Atomic uint32_t peers_freed; /* futex: counts the freed peers of all sessions */
	struct sys_post prefill_post; /* posted while a peer waits for staging memory */
	_Atomic bool prefill_watched;
	_Atomic uint32_t solo_posted, solo_answered; /* solo.c; 1: a transfer has the turn */

	/* Only the control thread uses these. */
	struct sys_links links;
	struct list_node sessions;
	struct list_node reap; /* reap_item: reaper.h */
	struct sys_timer reap_timer, prefill_timer;
};

extern struct engine_runtime engine_runtime;

/* runtime_start.c: starts the runtime at the first call, stops it at the last put. workers: 0:
 * the default number. */
tcpx_status runtime_get(uint32_t workers);
void runtime_put(void);
/* runtime.c: runs fn(arg) on the control thread and waits until it has returned. */
void runtime_call(void (*fn)(void *arg), void *arg);
/* Called when a peer was freed: wakes those that wait for that when they close a session. Any
 * thread. */
void runtime_peer_freed(void);
bool runtime_is_control(void); /* whether the calling thread is the control thread */

#endif

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
	/* number of channels that the worker serves; a new channel goes to the worker with the
	 * fewest, if possible on its NIC's node */
	_Atomic uint32_t channels;
	int node; /* NUMA node of the worker's CPUs; TOPO_NUMA_UNKNOWN: any CPU */
	/* prios: this worker serves the priority channels. polls: a channel has asked for another
	 * round although it has no event. */
	bool prios, polls;
	pthread_t thread;
	pthread_mutex_t lock; /* guards kicked, graves and lent */
	/* kicked: channels that were kicked; graves: channels whose reference is dropped at the end
	 * of the round */
	struct list_node kicked, graves;
	struct list_node lent; /* channels on which an application receives (app_poll.c) */
	_Atomic uint32_t sleeping;
	/* worker_rouse(): when the worker was last roused; until when it stays awake for that */
	_Atomic int64_t roused_ns, awake_ns;
	bool roomy; /* the machine has cores to spare, so the worker may spin */
	_Atomic int stop;
};

struct engine_runtime {
	pthread_mutex_t lock;
	/* written under `lock`; read without it, since a forked child may find the lock held for
	 * ever */
	_Atomic uint32_t refs;
	struct sys_loop loop;
	pthread_t control;
	_Atomic int stop;
	struct engine_worker *workers;
	/* workers of bulk channels; one more worker serves the priority channels */
	uint32_t nworkers;
	_Atomic uint32_t fork_generation; /* of the process that started the runtime */
	/* late: closed sessions whose peers are still in use, for example by a copy. late_looked: a
	 * thread waits until these peers are freed. Both are under `lock`. */
	struct list_node late;
	bool late_looked;
	_Atomic uint32_t peers_freed; /* futex: counts the freed peers of all sessions */
	struct sys_post prefill_post; /* posted when an urgent fill waits for staging memory */
	_Atomic bool prefill_watched;
	/* 1 while a transfer that this process posted has its turn to use a priority channel as a
	 * solo transfer; 1 while an answer to a READ has the other turn (path/solo.c) */
	_Atomic uint32_t solo_posted, solo_answered;

	/* Only the control thread uses the fields below. */
	struct sys_links links;
	struct list_node sessions;
	struct list_node reap; /* list of reap_item: reaper.h */
	struct sys_timer reap_timer, prefill_timer;
};

extern struct engine_runtime engine_runtime;

/* Defined in runtime_start.c. runtime_get() starts the runtime at the first call, runtime_put()
 * stops it at the last one. `workers` is the number of workers of bulk channels; if it is 0,
 * TCPX_WORKERS or the default applies. */
tcpx_status runtime_get(uint32_t workers);
void runtime_put(void);
/* Runs fn(arg) on the control thread and waits until fn has returned. Defined in runtime.c. */
void runtime_call(void (*fn)(void *arg), void *arg);
/* Called by any thread when a peer was freed. Wakes threads that close a session and wait for its
 * peers to be freed. */
void runtime_peer_freed(void);
bool runtime_is_control(void); /* whether the caller is the control thread */

#endif

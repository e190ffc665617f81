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

struct engine_worker {
	int epfd, wakefd;
	uint32_t index;
	_Atomic uint32_t channels; /* a new one goes to the worker with the fewest */
	int node;		   /* NUMA node of its CPUs; TOPO_NUMA_UNKNOWN: any CPU */
	bool lanes, polls;	   /* polls: a channel asked for a round without an event */
	pthread_t thread;
	pthread_mutex_t lock;		 /* guards the three lists */
	struct list_node kicked, graves; /* graves: channels to drop after this round */
	struct list_node looked_at;	 /* channels on which an application polls */
	_Atomic uint32_t sleeping;
	_Atomic int64_t roused_ns; /* until then it waits awake for a kick */
	bool roomy;		   /* there are cores to spare for a thread that spins */
	_Atomic int stop;
};

struct engine_runtime {
	pthread_mutex_t lock;
	_Atomic uint32_t refs; /* changes under the lock, which a forked child may find held */
	struct sys_loop loop;
	pthread_t control;
	_Atomic int stop;
	struct engine_worker *workers;
	uint32_t nworkers; /* for bulk channels; one more after them serves the lanes */
	_Atomic uint32_t fork_generation; /* of the process that started the runtime */
	struct list_node late;		  /* closed sessions whose memory a copy still uses; lock */
	bool late_looked;		  /* a thread waits for them; lock */
	_Atomic uint32_t peers_freed;	  /* futex: how many peers of all sessions were freed */
	struct sys_post prefill_post;	  /* a peer waits for staging memory */
	_Atomic bool prefill_watched;
	_Atomic uint32_t lone_posted, lone_answered; /* lone.c: transfers that have the turn */

	/* control thread only */
	struct sys_links links;
	struct list_node sessions;
	struct list_node reap; /* reap_item: reaper.h */
	struct sys_timer reap_timer, prefill_timer;
};

extern struct engine_runtime engine_runtime;

/* runtime_start.c */
tcpx_status runtime_get(uint32_t workers);
void runtime_put(void);
/* runtime.c */
/* Runs fn(arg) on the control thread and waits for its end. */
void runtime_call(void (*fn)(void *arg), void *arg);
/* Any thread: a peer was freed, so that a session that closes may be free to go. */
void runtime_peer_freed(void);
bool runtime_is_control(void); /* the calling thread is the control thread */

#endif

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
	_Atomic uint32_t channels; /* that it serves; the next one goes where they are fewest */
	int node;		   /* whose CPUs it runs on; TOPO_NUMA_UNKNOWN: any */
	bool lanes, polls;	   /* polls: some channel is looked at again without an event */
	pthread_t thread;
	pthread_mutex_t lock;		 /* guards kicked */
	struct list_node kicked, graves; /* graves: channels to let go of after this round */
	_Atomic uint32_t sleeping;
	_Atomic int stop;
};

struct engine_runtime {
	pthread_mutex_t lock;
	_Atomic uint32_t refs; /* changes under the lock, which a forked child may find held */
	struct sys_loop loop;
	pthread_t control;
	_Atomic int stop;
	struct engine_worker *workers;
	uint32_t nworkers; /* of bulk channels; one more behind them serves the lanes */
	_Atomic uint32_t fork_generation; /* of the process that started it */
	struct list_node late;		  /* closed sessions whose memory a copy still has; lock */
	bool late_looked;		  /* a thread looks after them; lock */
	struct sys_post prefill_post;	  /* somebody waits for staging memory */
	_Atomic bool prefill_watched;
	_Atomic uint32_t lone_posted, lone_answered; /* lone.c: how many there are */

	/* control thread only */
	struct sys_links links;
	struct list_node sessions;
	struct list_node leases;  /* stopped channels whose peer still reads */
	struct list_node shares;  /* of dead peers that may still read */
	struct list_node holding; /* of dead peers that may still take what is held */
	struct sys_timer lease_timer, prefill_timer, share_timer, hold_timer;
};

extern struct engine_runtime engine_runtime;

/* runtime_start.c */
tcpx_status runtime_get(uint32_t workers);
void runtime_put(void);
/* runtime.c */
/* Runs fn(arg) on the control thread and waits for its end. */
void runtime_call(void (*fn)(void *arg), void *arg);
bool runtime_is_control(void); /* this thread is; it touches no memory of the caller */

/* worker.c */
tcpx_status worker_start(struct engine_worker *worker, uint32_t index, bool lanes);
void worker_stop(struct engine_worker *worker);
void worker_kick(struct engine_chan *chan);
bool worker_sleeps(const struct engine_chan *chan);
void worker_again(struct engine_chan *chan); /* calls->event(EPOLLIN) soon */
void worker_poll(struct engine_chan *chan);  /* its own thread: the same, and who else may run */
void worker_look(struct engine_chan *chan);  /* at what it is asked for */
void worker_bury(struct engine_chan *chan);  /* takes over one reference */
void worker_looked(void);  /* an application did, and found nothing: it may spin */
bool worker_watched(void); /* one did just now, and the lanes' worker may stay awake beside it */
bool worker_is_current(const struct engine_worker *worker);

#endif

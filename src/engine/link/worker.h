/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: the threads that serve channels. */
#ifndef ENGINE_LINK_WORKER_H
#define ENGINE_LINK_WORKER_H

#include "engine/runtime/engine_runtime.h"

/* prios: the worker of all priority channels. */
tcpx_status worker_start(struct engine_worker *worker, uint32_t index, bool prios);
void worker_stop(struct engine_worker *worker);
void worker_kick(struct engine_chan *chan);
bool worker_sleeps(const struct engine_chan *chan);
/* The channel's worker will be kicked within a fraction of a millisecond: if it sleeps, it wakes
 * up now and waits for the kick. Does nothing where cores are scarce. Any thread, under any
 * lock. */
void worker_rouse(struct engine_worker *worker);
void worker_again(struct engine_chan *chan); /* the worker calls calls->event(EPOLLIN) soon */
/* as worker_again(), but called on the worker's thread; the worker also yields */
void worker_poll(struct engine_chan *chan);
void worker_look(struct engine_chan *chan); /* the worker calls calls->kicked() soon */
/* An application polls on the channel: the worker takes it back when that stops. Any thread. */
void worker_lend(struct engine_chan *chan);
void worker_bury(struct engine_chan *chan); /* takes over a reference, dropped after the round */
/* An application polled and found nothing, so the worker of the priority channels may spin. */
void worker_app_polled(void);
/* Whether an application polled less than WATCH_NS ago, so that the worker of the priority
 * channels may be awake. Always false on a machine with too few cores. */
bool worker_app_polls(void);
bool worker_is_current(const struct engine_worker *worker);

#endif

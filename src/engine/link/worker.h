/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: the threads that serve channels. */
#ifndef ENGINE_LINK_WORKER_H
#define ENGINE_LINK_WORKER_H

#include "engine/runtime/engine_runtime.h"

/* Starts a worker and its thread. `prios` is true for the worker of all priority channels. */
tcpx_status worker_start(struct engine_worker *worker, uint32_t index, bool prios);
void worker_stop(struct engine_worker *worker);
void worker_kick(struct engine_chan *chan);
bool worker_sleeps(const struct engine_chan *chan);
/* Called by any thread, under any lock. Announces that the worker will soon have something to do.
 * If the worker sleeps, or if the caller is the worker's own thread, the worker stays awake for the
 * next awake_ns. Does nothing if the worker was roused less than every_ns ago. Nor does it where
 * workers may not spin, because there are too few cores or only one worker of bulk channels. */
void worker_rouse(struct engine_worker *worker, int64_t awake_ns, int64_t every_ns);
void worker_again(struct engine_chan *chan); /* makes the worker receive soon, without an event */
/* like worker_again(), but called on the worker's own thread; the worker may also yield its core */
void worker_poll(struct engine_chan *chan);
void worker_look(struct engine_chan *chan); /* makes the worker call calls->kicked() soon */
/* Puts the channel into worker->lent, because an application receives on the channel. The worker
 * takes the channel back when the application stops polling. Called by any thread. */
void worker_lend(struct engine_chan *chan);
void worker_bury(struct engine_chan *chan); /* takes over a reference, which the worker drops */
/* Tells that an application polled at `now_ns` and found nothing. The worker of the priority
 * channels may spin then, if the machine has enough cores. */
void worker_app_polled(int64_t now_ns);
/* Returns whether an application polled less than WATCH_NS (worker.c) ago, so that the worker of
 * the priority channels, or the application itself, looks at them at once. */
bool worker_app_polls(void);
/* Returns whether the machine has cores for workers that spin while an application polls. */
bool worker_cores_suffice(void);
bool worker_is_current(const struct engine_worker *worker);

#endif

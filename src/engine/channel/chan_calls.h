/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on a channel: create, run by the owner of a direction, sample, stop. */
#ifndef ENGINE_CHANNEL_CHAN_CALLS_H
#define ENGINE_CHANNEL_CHAN_CALLS_H

#include "engine/link/engine.h"

struct engine_runtime;
struct mem_region;

/* chan.c, chan_run.c */
tcpx_status chan_create(struct engine_peer *peer, uint32_t index, uint32_t epoch,
			struct net_chan *net, int node, struct engine_chan **out_chan);
void chan_start(struct engine_chan *chan); /* adds the channel to its worker's epoll set */
void chan_fail(struct engine_chan *chan, tcpx_status status, int err);
/* Called by the control thread at each heartbeat. If nothing has arrived on the channel for a
 * second, gives memory of its buffers back to the kernel. */
void chan_trim(struct engine_chan *chan, int64_t now_ns);
void chan_tx_kick(struct engine_chan *chan);
/* Like chan_tx_kick, but a thread that posts a solo WRITE (path/solo.c) sends all of it. */
void chan_tx_kick_solo(struct engine_chan *chan);
/* Makes the calling thread the tx owner. Returns false if the channel is stopped, or if another
 * thread is the tx owner; then that thread or the worker checks for work again. */
bool chan_tx_try(struct engine_chan *chan);
void chan_tx_leave(struct engine_chan *chan);
bool chan_rx_try(struct engine_chan *chan);
void chan_rx_leave(struct engine_chan *chan);
int chan_wait_recv(struct engine_chan *chan);
void chan_keep_recv(struct engine_chan *chan);
int chan_wait_send(struct engine_chan *chan);
/* makes epoll stop reporting room to send, unless the transport is full */
void chan_wait_send_end(struct engine_chan *chan);

/* chan_stop.c */
/* Stops a channel, on the control thread: no thread can become the owner of a direction any more.
 * If neither direction has an owner, tears the channel down and returns true; the descriptor is
 * closed when the last reference is dropped. Otherwise returns false: an owner is inside a call,
 * which may take long if a page of the application's memory is not present. When that call has
 * returned, the control thread tears the channel down and calls left(). */
bool chan_stop(struct engine_chan *chan, void (*left)(struct engine_chan *chan));

/* chan_sample.c */
/* Asks the worker for a sample of the transport's figures. Returns false if the worker has not
 * taken the sample of an earlier call yet. */
bool chan_sample_ask(struct engine_chan *chan);
/* called by the worker: takes a sample if one was asked for */
void chan_sample_take(struct engine_chan *chan);
/* called when the channel is torn down: wakes the threads that wait for a sample */
void chan_sample_drop(struct engine_chan *chan);
/* Copies the last sample. Any thread. */
void chan_sample_read(struct engine_chan *chan, struct net_chan_info *out_info);
/* Asks for new samples of count channels and waits for them, at most 100 ms. A channel whose
 * worker stays in a call longer keeps its last sample. The caller holds no lock. */
void chan_sample_all(struct engine_chan *const *chans, uint32_t count);

/* chan_tx.c and chan_rx.c. chan_*_run() is called by the owner of the direction, chan_*_drop() by
 * the control thread for a stopped channel. chan_tx_run() sends until no frame is left, the
 * transport is full, a payload is not loaded yet, or about `budget` bytes are sent. */
void chan_tx_run(struct engine_chan *chan, uint64_t budget);
void chan_tx_drop(struct engine_chan *chan);
/* lease.c. Called by the control thread for a stopped channel that lent memory which the peer may
 * still read. Keeps that memory in use until the peer no longer reads it. */
void lease_start(struct engine_chan *chan);
/* chan_rx.c. Receives until the transport has nothing more or about `budget` bytes have come.
 * Returns whether any have. */
bool chan_rx_run(struct engine_chan *chan, uint64_t budget);
void chan_rx_drop(struct engine_chan *chan);
/* Called before a thread sleeps until data arrives: sets the transport's low-water mark. In the
 * middle of a large payload the mark is high, so that not every packet wakes the thread; otherwise
 * it is one byte. */
void chan_rx_mark(struct engine_chan *chan);
/* Called with link.lock held when the region is deregistered. If a chunk for the region has arrived
 * in part and no receive call works on it, releases the chunk's regions and sends the rest of the
 * chunk to scratch. */
void chan_rx_forget(struct engine_chan *chan, struct mem_region *region);

#endif

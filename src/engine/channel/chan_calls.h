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
void chan_start(struct engine_chan *chan); /* adds it to its worker's epoll set */
void chan_fail(struct engine_chan *chan, tcpx_status status, int err);
/* Called by the control thread at each heartbeat: gives back memory of a channel that has been idle
 * for a second. */
void chan_trim(struct engine_chan *chan, int64_t now_ns);
void chan_tx_kick(struct engine_chan *chan);
bool chan_tx_try(struct engine_chan *chan); /* false: the owner kicks the worker when it leaves */
void chan_tx_leave(struct engine_chan *chan);
bool chan_rx_try(struct engine_chan *chan);
void chan_rx_leave(struct engine_chan *chan);
int chan_wait_recv(struct engine_chan *chan);
void chan_keep_recv(struct engine_chan *chan);
int chan_wait_send(struct engine_chan *chan);
void chan_sent_all(struct engine_chan *chan); /* epoll no longer reports that there is room */

/* chan_stop.c */
/* Called by the control thread. No thread becomes the owner of a direction any more. True: no
 * direction had an owner, and the channel is torn down; its descriptor closes with the last
 * reference. False: an owner is in a call, which may wait long for a page of the caller's memory.
 * When the call has returned, the channel is torn down and left() is called on the control
 * thread. */
bool chan_stop(struct engine_chan *chan, void (*left)(struct engine_chan *chan));

/* chan_sample.c */
/* Asks the worker for a sample of the transport's figures. False: the worker still owes the sample
 * of an earlier call. */
bool chan_sample_ask(struct engine_chan *chan);
void chan_sample_take(struct engine_chan *chan); /* worker: takes the sample that was asked for */
void chan_sample_drop(struct engine_chan *chan); /* wakes the waiters: there will be no sample */
/* Copies the last sample. Any thread. */
void chan_sample_read(struct engine_chan *chan, struct net_chan_info *out_info);
/* Asks for new samples of count channels and waits for them. If a worker stays in a call for long,
 * the last sample of its channel remains. The caller holds no lock. */
void chan_sample_all(struct engine_chan *const *chans, uint32_t count);

/* chan_tx.c, chan_rx.c. The owner of the direction calls chan_*_run(); the control thread calls
 * chan_*_drop() for a stopped channel. */
void chan_tx_run(struct engine_chan *chan, uint64_t budget);
void chan_tx_drop(struct engine_chan *chan);
/* lease.c, control thread: keeps memory in use that the stopped channel lent and that the peer may
 * still read; takes over the core_io of the channel's last frame. */
void lease_start(struct engine_chan *chan);
/* Receives until nothing is left or budget bytes have come. */
void chan_rx_run(struct engine_chan *chan, uint64_t budget);
void chan_rx_drop(struct engine_chan *chan);
/* Call it before the worker sleeps: in the middle of a large payload it keeps the worker from being
 * woken for every packet. */
void chan_rx_mark(struct engine_chan *chan);
/* The region is deregistered: a frame that is parked between two calls releases it. The caller
 * holds link.lock. */
void chan_rx_forget(struct engine_chan *chan, struct mem_region *region);

#endif

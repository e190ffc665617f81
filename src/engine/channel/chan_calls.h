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
/* Control thread, each heartbeat: a channel that has been idle for a second gives memory back. */
void chan_trim(struct engine_chan *chan, int64_t now_ns);
void chan_tx_kick(struct engine_chan *chan);
bool chan_tx_try(struct engine_chan *chan); /* false: its owner kicks the worker */
void chan_tx_leave(struct engine_chan *chan);
bool chan_rx_try(struct engine_chan *chan);
void chan_rx_leave(struct engine_chan *chan);
int chan_wait_recv(struct engine_chan *chan);
void chan_keep_recv(struct engine_chan *chan);
int chan_wait_send(struct engine_chan *chan);
void chan_sent_all(struct engine_chan *chan); /* tx owner: epoll reports no more room */

/* chan_stop.c */
/* Control thread. No thread becomes the owner of a direction any more. True: no direction had an
 * owner, and the channel is torn down; the descriptor closes with the last reference. False: a call
 * is under way, which may wait long for a page of the caller's memory. When it has returned, the
 * channel is torn down and left is called on the control thread. */
bool chan_stop(struct engine_chan *chan, void (*left)(struct engine_chan *chan));

/* chan_sample.c */
/* Asks the worker for a sample of the transport. False: it still owes the one of an earlier
 * call. */
bool chan_sample_ask(struct engine_chan *chan);
void chan_sample_take(struct engine_chan *chan); /* worker: takes the sample that was asked for */
void chan_sample_drop(struct engine_chan *chan); /* wakes the waiters: there will be no sample */
/* The last sample. Any thread. */
void chan_sample_read(struct engine_chan *chan, struct net_chan_info *out_info);
/* Takes new samples of count channels; where a worker stays in a call for long, the last sample
 * remains. No lock held. */
void chan_sample_all(struct engine_chan *const *chans, uint32_t count);

/* chan_tx.c, chan_rx.c: the owner of the direction calls them */
void chan_tx_run(struct engine_chan *chan, uint64_t budget);
void chan_tx_drop(struct engine_chan *chan);
/* lease.c, control thread: the peer may still read memory that the stopped channel lent; takes over
 * the frame's io. */
void lease_start(struct engine_chan *chan);
/* Receives until nothing is left or budget bytes have come. */
void chan_rx_run(struct engine_chan *chan, uint64_t budget);
void chan_rx_drop(struct engine_chan *chan);
/* Before the worker sleeps: in the middle of a large payload it is not woken for every segment. */
void chan_rx_mark(struct engine_chan *chan);
/* link.lock: the region is deregistered; a frame that is parked between two calls releases it. */
void chan_rx_forget(struct engine_chan *chan, struct mem_region *region);

#endif

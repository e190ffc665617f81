/* SPDX-License-Identifier: Apache-2.0 */
/* What is done with a channel: made, run by who owns a direction, sampled, stopped. */
#ifndef ENGINE_CHANNEL_CHAN_CALLS_H
#define ENGINE_CHANNEL_CHAN_CALLS_H

#include "engine/link/channel.h"

struct engine_runtime;
struct mem_region;

/* chan.c, chan_run.c */
tcpx_status chan_create(struct engine_peer *peer, uint32_t index, uint32_t epoch,
			struct net_chan *net, int node, struct engine_chan **out_chan);
void chan_start(struct engine_chan *chan); /* into its worker's set */
void chan_fail(struct engine_chan *chan, tcpx_status status, int err);
/* Control thread, each beat: a channel that was idle since the last one keeps little memory. */
void chan_trim(struct engine_chan *chan, int64_t now_ns);
void chan_tx_kick(struct engine_chan *chan);
bool chan_tx_try(struct engine_chan *chan); /* false: whoever has it kicks the worker */
void chan_tx_leave(struct engine_chan *chan);
bool chan_rx_try(struct engine_chan *chan);
void chan_rx_leave(struct engine_chan *chan);
int chan_wait_recv(struct engine_chan *chan);
void chan_keep_recv(struct engine_chan *chan);
int chan_wait_send(struct engine_chan *chan);
void chan_sent_all(struct engine_chan *chan); /* tx owner: no more events for room */

/* chan_stop.c */
/* Control thread. Nobody gets in any more. True: nobody is inside either, and the channel is torn
 * down; the descriptor closes with the last reference. False: a call is under way, which may wait
 * for a page of the caller's memory for long; left is called on this thread when it has returned
 * and the channel is torn down. */
bool chan_stop(struct engine_chan *chan, void (*left)(struct engine_chan *chan));

/* chan_sample.c */
/* Asks the worker for a sample of the transport. False: it owes one since an earlier call. */
bool chan_sample_ask(struct engine_chan *chan);
void chan_sample_take(struct engine_chan *chan); /* the worker: the one that is asked for */
void chan_sample_drop(struct engine_chan *chan); /* there will be none any more */
/* The last one. Any thread. */
void chan_sample_read(struct engine_chan *chan, struct net_chan_info *out_info);
/* New ones of count channels; of a worker that is in a call for long the last one. No lock held. */
void chan_sample_all(struct engine_chan *const *chans, uint32_t count);

/* chan_tx.c, chan_rx.c: with the direction's ownership */
void chan_tx_run(struct engine_chan *chan, uint64_t budget);
void chan_tx_drop(struct engine_chan *chan);
/* lease.c, control thread: a stopped channel whose peer may be reading; takes the frame's io. */
void lease_start(struct engine_chan *chan);
void leases_init(struct engine_runtime *runtime);
void leases_forget(struct engine_runtime *runtime); /* the runtime stops */
/* Receives until nothing is there or budget bytes came; true when something came. */
void chan_rx_run(struct engine_chan *chan, uint64_t budget);
void chan_rx_drop(struct engine_chan *chan);
/* Before the worker sleeps on it: in the middle of a large payload not for every segment. */
void chan_rx_mark(struct engine_chan *chan);
/* peer.lock: the region goes away; what is parked lets go of it. */
void chan_rx_forget(struct engine_chan *chan, struct mem_region *region);

#endif

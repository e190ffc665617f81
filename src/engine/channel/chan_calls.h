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
/* Called by the control thread at each heartbeat: gives back buffer memory of a channel on which
 * nothing arrived for a second. */
void chan_trim(struct engine_chan *chan, int64_t now_ns);
void chan_tx_kick(struct engine_chan *chan);
/* Makes the calling thread the tx owner. False: another thread is, and kicks the worker when it
 * leaves; or the channel is stopped. */
bool chan_tx_try(struct engine_chan *chan);
void chan_tx_leave(struct engine_chan *chan);
bool chan_rx_try(struct engine_chan *chan);
void chan_rx_leave(struct engine_chan *chan);
int chan_wait_recv(struct engine_chan *chan);
void chan_keep_recv(struct engine_chan *chan);
int chan_wait_send(struct engine_chan *chan);
/* unless the transport is full: epoll no longer reports that it takes more */
void chan_sent_all(struct engine_chan *chan);

/* chan_stop.c */
/* Called by the control thread. From now on no thread can become the owner of a direction. True:
 * no direction had an owner, and the channel is torn down; its descriptor is closed when the last
 * reference is dropped. False: an owner is in a call, which may take long if a page of the
 * caller's memory is not present. When the call has returned, the channel is torn down and left()
 * is called on the control thread. */
bool chan_stop(struct engine_chan *chan, void (*left)(struct engine_chan *chan));

/* chan_sample.c */
/* Asks the worker for a sample of the transport's figures. False: the worker still owes the sample
 * of an earlier call. */
bool chan_sample_ask(struct engine_chan *chan);
void chan_sample_take(struct engine_chan *chan); /* worker: takes the sample that was asked for */
/* wakes the threads that wait for a sample, because none will be taken */
void chan_sample_drop(struct engine_chan *chan);
/* Copies the last sample. Any thread. */
void chan_sample_read(struct engine_chan *chan, struct net_chan_info *out_info);
/* Asks for new samples of count channels and waits for them, at most 100 ms. A channel whose
 * worker stays in a call longer keeps its last sample. The caller holds no lock. */
void chan_sample_all(struct engine_chan *const *chans, uint32_t count);

/* chan_tx.c, chan_rx.c. The owner of the direction calls chan_*_run(), the control thread
 * chan_*_drop() for a stopped channel. chan_tx_run() sends until nothing is left, the transport
 * is full, or `budget` bytes are sent. */
void chan_tx_run(struct engine_chan *chan, uint64_t budget);
void chan_tx_drop(struct engine_chan *chan);
/* lease.c, control thread: called for a stopped channel that lent memory which the peer may still
 * read. Keeps that memory in use, by the core_io of the channel's last frame, until the peer has
 * ended reading. */
void lease_start(struct engine_chan *chan);
/* Receives until the transport has nothing more or about `budget` bytes have come. */
void chan_rx_run(struct engine_chan *chan, uint64_t budget);
void chan_rx_drop(struct engine_chan *chan);
/* Called before the worker sleeps. In the middle of a large payload it sets the transport's
 * low-water mark, so that the worker is not woken for every packet. */
void chan_rx_mark(struct engine_chan *chan);
/* Called when the region is deregistered, with link.lock held: a chunk for the region that has
 * arrived in part, and that no receive call works on, gives up its regions, and the rest of the
 * chunk goes to scratch. */
void chan_rx_forget(struct engine_chan *chan, struct mem_region *region);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pure core of a link between two sessions: which frame goes next on which channel, what an
 * arriving frame means, when a transfer ends. No I/O, no clock, no thread: every function runs
 * under the link's lock, time is an argument, effects leave through struct core_ops.
 *
 * Invariants
 *  I1  A transfer ends exactly once: ops->ended runs once per core_xfer_post that returned OK.
 *  I2  After ops->ended no channel reads or writes the transfer's local memory: each use is counted
 *      in xfer->refs, from the moment when a frame is cut or accepted until the transport has given
 *      the buffer back or the channel was redirected to scratch memory.
 *  I3  A WRITE is DONE only when every chunk was acknowledged, i.e. applied and not refused; a READ
 *      only when every byte was applied here; a notification is published after that.
 *  I4  A chunk of a lost channel is cut again only after the peer's fence for that epoch, which
 *      tells exactly which chunks were applied: nothing is applied twice or missed.
 *  I5  The state that a peer can make us keep is bounded by the credits of our hello; more is
 *      ERR_PROTOCOL.
 */
#ifndef CORE_LINK_H
#define CORE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/fill.h"
#include "core/link_ops.h"
#include "core/link_rx.h"
#include "core/link_state.h"
#include "core/link_tx.h"
#include "core/xfer.h"
#include <tcpx/types.h>

tcpx_status core_link_init(struct core_link *link, const struct core_config *cfg);
/* After core_link_fail. Frees what the link owns. */
void core_link_fini(struct core_link *link);

/* The peer accepts chunks by reference of up to `bytes`. The limit only rises. */
void core_link_refs(struct core_link *link, uint64_t bytes);

/* Every transfer ends with status, every push and note is dropped. No channel may be inside a call,
 * except those of core_chan_stays, whose transfers end with core_chan_left. Idempotent. */
void core_link_fail(struct core_link *link, tcpx_status status);
/* Called before core_link_fail() if the peer may go on reading sources by reference: transfers
 * and pushes that have such chunks in flight end only at core_link_unlease(). */
void core_link_lease(struct core_link *link);
void core_link_unlease(struct core_link *link);

/* Iterates over what is under way, in the order of posts: NULL gives the first one, the last one
 * gives NULL. Call it before the current one is ended. */
struct core_xfer *core_xfer_after(const struct core_link *link, const struct core_xfer *xfer);
struct core_push *core_push_after(const struct core_link *link, const struct core_push *push);

/* Channels: the number of times that the channel has come up. */
uint32_t core_chan_epoch(const struct core_link *link, uint32_t channel);
tcpx_status core_chan_up(struct core_link *link, uint32_t channel, uint32_t epoch);
/* The channel's transport is closed, no thread is inside it, and nothing reads the sources of its
 * messages. Sends the fence when no commit of the channel is under way any more. */
void core_chan_lost(struct core_link *link, uint32_t channel);
/* The sender (tx) or the receiver (rx) is inside a call that may take long. Until
 * core_chan_left(), core_chan_lost() may not be called, and after core_link_fail() the memory
 * that the call uses stays in use. */
void core_chan_stays(struct core_link *link, uint32_t channel, bool tx, bool rx);
void core_chan_left(struct core_link *link, uint32_t channel);
/* Called before core_chan_lost() on a channel of plugin messages whose oldest message was not
 * sent, for an unknown reason. A transfer to which this happens twice ends with `status`, since
 * its source may be the cause. */
void core_chan_stuck(struct core_link *link, uint32_t channel, tcpx_status status);
/* The peer's FENCE of a channel arrived: it has applied our frames up to `applied`, and refused
 * those in nacks. Once our own fence is sent as well, the other frames go to other channels. OK too
 * if the fence was handled before. ERR_PROTOCOL: impossible values. */
tcpx_status core_chan_fence(struct core_link *link, uint32_t channel, uint32_t epoch,
			    uint64_t applied, const struct core_nack *nacks, uint32_t count);
/* The control connection is up again: fences that were not answered are sent again. */
void core_link_refence(struct core_link *link);
/* channels that are up, of all kinds */
uint32_t core_link_channels_up(const struct core_link *link);
/* channels of plugin messages that are up */
uint32_t core_link_messages_up(const struct core_link *link);
/* No channel of plugin messages will come up: transfers that wait for one end with status. */
void core_link_strand(struct core_link *link, tcpx_status status);

/* Transfers. Post takes a transfer that is IDLE or FINAL. ERR_STATE; ERR_AGAIN (no notification
 * budget, or CORE_CANCELLED_MAX cancelled SENDs wait for the peer); ERR_NO_MEMORY; the link's error
 * if it is dead. The bytes of a notification are copied. */
tcpx_status core_xfer_post(struct core_link *link, struct core_xfer *xfer);
/* The bytes of a WRITE or READ marked `direct` are in place, or never will be (status). */
void core_xfer_moved(struct core_link *link, struct core_xfer *xfer, tcpx_status status);
/* Ends the transfer with `status` as soon as nothing uses its memory; may call ops->ended() at
 * once. ERR_STATE. */
tcpx_status core_xfer_cancel(struct core_link *link, struct core_xfer *xfer, tcpx_status status);
/* Ends transfers whose deadline has passed; returns the next deadline or 0. */
int64_t core_link_expire(struct core_link *link, int64_t now_ns);
/* Sends a standalone notification that no request waits for. */
tcpx_status core_note_send(struct core_link *link, const void *data, uint64_t bytes);
/* The number of the last standalone notification; and whether some up to a number were not yet
 * taken by the peer. */
uint64_t core_note_last(const struct core_link *link);
bool core_notes_wait(const struct core_link *link, uint64_t number);
/* The application released a notification of `bytes`. empty: it has read all others. */
void core_note_consumed(struct core_link *link, uint64_t bytes, bool empty);

/* For a flush: asks the peer to acknowledge every frame sent so far soon. Notifications, those
 * queued or sent again included, ask until the peer has taken all; ops->note_ended() tells of
 * each. */
void core_link_ask(struct core_link *link);

/* Serves a READ of the peer. The engine has filled push->prog, job.peer_xfer and
 * job.linear_base. */
void core_push_start(struct core_link *link, struct core_push *push);
void core_push_refuse(struct core_link *link, uint64_t xfer_id, tcpx_status status);
/* The source region goes away: the peer's READ ends with status. */
void core_push_stop(struct core_link *link, struct core_push *push, tcpx_status status);

/* Whether the link waits for the shared staging pool; then call core_stage_more() when some is
 * free. */
static inline bool core_stage_waits(const struct core_link *link)
{
	return link->stage_in.waiting;
}
void core_stage_more(struct core_link *link);

/* Call when the account may have room for the notifications of a peer that waits. */
void core_note_more(struct core_link *link);
/* What the account has set aside for this peer beyond its first window, not counting what the
 * application holds and may release. */
uint64_t core_note_held(const struct core_link *link);
/* A counter that grows whenever a frame of a notification begins or ends. */
uint64_t core_note_moves(const struct core_link *link);

#endif

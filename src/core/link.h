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
/* Frees what the link owns. Called after core_link_fail(), when all requests have ended. */
void core_link_fini(struct core_link *link);

/* The peer accepts chunks by reference of up to `bytes`. The limit only rises, to CORE_REF_MOST
 * at the most. */
void core_link_refs(struct core_link *link, uint64_t bytes);

/* Ends the link: every transfer ends with `status`, every read response and notification is
 * dropped. No channel may be inside a call of its transport, except those that core_chan_stays()
 * has named, whose transfers end in core_chan_left(). A second call does nothing. */
void core_link_fail(struct core_link *link, tcpx_status status);
/* Called before core_link_fail() if the peer may go on reading sources by reference: transfers
 * and read responses that have such chunks in flight end only at core_link_unlease(). */
void core_link_lease(struct core_link *link);
void core_link_unlease(struct core_link *link);

/* Iterate over the transfers and read responses under way, oldest first: NULL gives the first
 * one, the last one gives NULL. To end the current one, call this before. */
struct core_xfer *core_xfer_after(const struct core_link *link, const struct core_xfer *xfer);
struct core_resp *core_resp_after(const struct core_link *link, const struct core_resp *resp);

/* Channels. The epoch of the channel's last connection; 0: there was none. */
uint32_t core_chan_epoch(const struct core_link *link, uint32_t channel);
/* The channel, which was down, is connected with a higher epoch than before; else ERR_STALE.
 * ERR_PROTOCOL: there is no such channel; ERR_NO_MEMORY; the link's error if it is dead. */
tcpx_status core_chan_up(struct core_link *link, uint32_t channel, uint32_t epoch);
/* Called when the channel's transport is closed, no thread is inside it, and nothing reads the
 * sources of its messages. Sends the fence when no commit of the channel is under way any more. */
void core_chan_lost(struct core_link *link, uint32_t channel);
/* A channel is stopped although its sender (tx) or its receiver (rx) is inside a call that may take
 * long. Until core_chan_left() is called, core_chan_lost() may not be called, and after
 * core_link_fail() the memory that the call uses stays in use. */
void core_chan_stays(struct core_link *link, uint32_t channel, bool tx, bool rx);
/* The calls that core_chan_stays() was told of have returned. */
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
/* The control connection is up again, and fences may have been lost with the one before. Sends
 * again each fence whose channel has not come up since. */
void core_link_refence(struct core_link *link);
/* number of channels that are up, of all kinds */
uint32_t core_link_channels_up(const struct core_link *link);
/* number of channels of plugin messages that are up */
uint32_t core_link_messages_up(const struct core_link *link);
/* No channel of plugin messages will come up: transfers whose chunks go as messages end with
 * `status`, and READs of the peer with ERR_REMOTE. */
void core_link_strand(struct core_link *link, tcpx_status status);

/* Transfers. Posts one that is IDLE or FINAL, else ERR_STATE. ERR_AGAIN: no notification budget
 * now, or CORE_CANCELLED_MAX cancelled SENDs wait for the peer; ERR_LIMIT: the notification is
 * larger than the budget; ERR_NO_MEMORY; the link's error if it is dead. The bytes of a
 * notification are copied. */
tcpx_status core_xfer_post(struct core_link *link, struct core_xfer *xfer);
/* The bytes of a WRITE or READ marked `direct` are in place, or never will be (status). */
void core_xfer_moved(struct core_link *link, struct core_xfer *xfer, tcpx_status status);
/* Ends the transfer with `status` as soon as nothing uses its memory; may call ops->ended() at
 * once. The status of one that is ending already stays as it is. ERR_STATE: it is not under way. */
tcpx_status core_xfer_cancel(struct core_link *link, struct core_xfer *xfer, tcpx_status status);
/* Ends transfers whose deadline has passed; returns the next deadline, or 0 if there is none. */
int64_t core_link_expire(struct core_link *link, int64_t now_ns);
/* Sends a standalone notification that no request waits for. Errors: those that core_xfer_post()
 * returns for a notification. */
tcpx_status core_note_send(struct core_link *link, const void *data, uint64_t bytes);
/* The last number that was given to a standalone notification, which may still wait to be sent;
 * 0: none was given. */
uint64_t core_note_last(const struct core_link *link);
/* Whether the peer has not yet taken all standalone notifications up to this number. */
bool core_notes_wait(const struct core_link *link, uint64_t number);
/* Called when the application has released a notification of `bytes`. empty: it has read all that
 * arrived. */
void core_note_consumed(struct core_link *link, uint64_t bytes, bool empty);

/* For a flush: asks the peer to acknowledge soon every frame that was sent so far. From now on
 * frames of notifications ask as well, until the peer has taken all notifications;
 * ops->note_ended() tells of each for which no request waits. */
void core_link_ask(struct core_link *link);

/* Serves one requested piece of a READ of the peer. The engine has filled resp->segs, job.peer_xfer
 * and job.linear_base. */
void core_resp_start(struct core_link *link, struct core_resp *resp);
/* Refuses a READ of the peer, which ends there with `status`. */
void core_resp_refuse(struct core_link *link, uint64_t xfer_id, tcpx_status status);
/* Stops serving a READ, because its source region goes away for example: the READ ends at the peer
 * with `status`. */
void core_resp_stop(struct core_link *link, struct core_resp *resp, tcpx_status status);

/* Whether the link waits for the shared staging pool; then call core_stage_more() when some is
 * free. */
static inline bool core_stage_waits(const struct core_link *link)
{
	return link->stage_in.waiting;
}
void core_stage_more(struct core_link *link);

/* Called when the session's account may have memory again: grants the peer the cover that it has
 * requested, as far as there is memory. */
void core_note_more(struct core_link *link);
/* Number of standalone notifications that the peer has not acknowledged. */
uint32_t core_note_untaken(const struct core_link *link);
/* How much of the account this peer keeps busy: what is set aside for its notifications that have
 * not reached the application yet, less its first window; 0 if that is not more than the window. */
uint64_t core_note_held(const struct core_link *link);
/* A counter that grows when a notification begins to arrive and when a frame of one has arrived. */
uint64_t core_note_moves(const struct core_link *link);

#endif

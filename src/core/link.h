/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of a link between two sessions: which frame goes next on which channel, what an arriving
 * frame means, when a transfer ends. It does no I/O, reads no clock and starts no thread. Every
 * function runs under the link's lock, time is an argument, effects leave through struct core_ops.
 *
 * Invariants
 *  I1  A transfer ends exactly once: ops->ended runs once per core_xfer_post that returned OK.
 *  I2  After ops->ended no channel reads or writes the transfer's local memory: each use is counted
 *      in xfer->refs, from the moment when a frame is cut or accepted until the transport has given
 *      the buffer back or the channel was redirected to scratch memory. Sources that the peer or a
 *      plugin reads by itself are counted in xfer->job.reading.
 *  I3  A WRITE is DONE only when every chunk was acknowledged, i.e. applied and not refused. A READ
 *      is DONE only when every byte was applied here. Notifications are published after the bytes.
 *  I4  A chunk of a lost channel is cut again only after the peer's fence for that epoch, which
 *      tells exactly which chunks were applied: nothing is applied twice or missed.
 *  I5  A peer can make us keep only as much state as the credits of our hello allow; a frame beyond
 *      them is ERR_PROTOCOL.
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

/* Called when the peer accepts chunks by reference of up to `bytes`. Raises the largest size of
 * such chunks to that, at most to CORE_REF_MOST. Never lowers it. */
void core_link_refs(struct core_link *link, uint64_t bytes);

/* Ends the link: transfers end with `status`, or with their own if they are ending already; read
 * responses and notifications are dropped. No channel may be inside a call of its transport, except
 * for calls announced by core_chan_stays(), whose transfers end in core_chan_left(). */
void core_link_fail(struct core_link *link, tcpx_status status);
/* Called before core_link_fail() if the peer may go on reading sources by reference. A transfer or
 * read response with job.reading > 0 then does not end before core_link_unlease(). */
void core_link_lease(struct core_link *link);
void core_link_unlease(struct core_link *link);

/* Return the transfer or read response under way that began next after the argument, or NULL. If
 * the argument is NULL, return the oldest. A caller that ends one must get the next one first. */
struct core_xfer *core_xfer_after(const struct core_link *link, const struct core_xfer *xfer);
struct core_resp *core_resp_after(const struct core_link *link, const struct core_resp *resp);

/* Returns the channel's last epoch, even of a connection that only the peer saw; 0: none yet. */
uint32_t core_chan_epoch(const struct core_link *link, uint32_t channel);
/* Called when a channel is connected. Returns ERR_STALE if the channel was not down or `epoch` is
 * no higher than before, ERR_PROTOCOL if there is no such channel, ERR_NO_MEMORY, or a dead link's
 * error. */
tcpx_status core_chan_up(struct core_link *link, uint32_t channel, uint32_t epoch);
/* Called when the channel's transport is closed, no thread is inside it, and nothing reads the
 * sources of its messages. Sends the fence, at once or when the copies of its chunks have ended. */
void core_chan_lost(struct core_link *link, uint32_t channel);
/* Called when a channel is stopped while its sender (`tx`) or receiver (`rx`) is inside a call that
 * may take long. Until core_chan_left(), core_chan_lost() must not be called, and the memory that
 * the call uses stays in use, even after core_link_fail(). */
void core_chan_stays(struct core_link *link, uint32_t channel, bool tx, bool rx);
/* Called when the calls announced by core_chan_stays() have returned. */
void core_chan_left(struct core_link *link, uint32_t channel);
/* Called before core_chan_lost() on a channel of plugin messages if its oldest message was not
 * sent, for an unknown reason. The second time for a transfer, ends it with `status`, and for a
 * read response, ends the peer's READ with ERR_REMOTE: the source may be the cause. */
void core_chan_stuck(struct core_link *link, uint32_t channel, tcpx_status status);
/* Called when the peer's FENCE of a channel arrives. The peer has applied or refused our frames up
 * to `applied`; `nacks` are its refusals. Our frames after `applied` are sent again on other
 * channels, once our own fence is sent. Returns OK also for a fence that is old or was handled
 * before, ERR_PROTOCOL for impossible values, or a dead link's error. */
tcpx_status core_chan_fence(struct core_link *link, uint32_t channel, uint32_t epoch,
			    uint64_t applied, const struct core_nack *nacks, uint32_t count);
/* Called when the control connection is up again: fences may have been lost with the old
 * connection. Sends again each fence whose channel has not come up since. */
void core_link_refence(struct core_link *link);
/* Returns the number of channels of all kinds that are up. */
uint32_t core_link_channels_up(const struct core_link *link);
/* Returns the number of channels of plugin messages that are up. */
uint32_t core_link_messages_up(const struct core_link *link);
/* Called when no channel of plugin messages has come up in time. WRITEs, READs and SENDs whose
 * chunks are such messages end with `status`, READs of the peer that they serve with ERR_REMOTE. */
void core_link_strand(struct core_link *link, tcpx_status status);

/* Posts a transfer. Returns ERR_STATE unless it is IDLE or FINAL; ERR_AGAIN if too little
 * notification budget is left now, or, for a SEND, if CORE_CANCELLED_MAX cancelled SENDs wait to be
 * reported; ERR_LIMIT if the notification is larger than the budget; ERR_NO_MEMORY; or a dead
 * link's error. The bytes of a notification are copied. */
tcpx_status core_xfer_post(struct core_link *link, struct core_xfer *xfer);
/* Called when the engine has copied a WRITE or READ marked `direct`, or failed to (`status`). */
void core_xfer_moved(struct core_link *link, struct core_xfer *xfer, tcpx_status status);
/* Ends the transfer with `status` as soon as nothing uses its memory (`strict`: and no frame of it
 * is in flight). Keeps the status of one that is ending. ERR_STATE: it is not under way. */
tcpx_status core_xfer_cancel(struct core_link *link, struct core_xfer *xfer, tcpx_status status);
/* Ends transfers whose deadline has passed. Returns the next deadline, or 0 without one. */
int64_t core_link_expire(struct core_link *link, int64_t now_ns);
/* Sends a standalone notification that no request waits for. Returns the errors that
 * core_xfer_post() returns for a notification. */
tcpx_status core_note_send(struct core_link *link, const void *data, uint64_t bytes);
/* Returns the last number that was given to a standalone notification, or 0 if there was none. That
 * notification may still wait to be sent. */
uint64_t core_note_last(const struct core_link *link);
/* Whether a standalone notification with a number up to `number` is not acknowledged yet. */
bool core_notes_wait(const struct core_link *link, uint64_t number);
/* Called when the application has released a notification of `bytes` bytes, if the link is alive.
 * `empty`: the application has released all notifications that were published. */
void core_note_consumed(struct core_link *link, uint64_t bytes, bool empty);

/* Begins a flush: asks the peer to acknowledge soon every frame that was sent so far. Until all
 * notifications are acknowledged, frames of notifications ask as well. ops->note_ended() is called
 * for each acknowledged notification that no request waits for. */
void core_link_ask(struct core_link *link);

/* Begins to serve one requested piece of a READ of the peer. The engine has zeroed *resp and set
 * resp->segs, and in resp->job peer_xfer, linear_base, path, fills and by_prio. */
void core_resp_start(struct core_link *link, struct core_resp *resp);
/* Refuses a READ of the peer. The READ ends at the peer with `status`. */
void core_resp_refuse(struct core_link *link, uint64_t xfer_id, tcpx_status status);
/* Stops serving a READ, for example because its source region is deregistered. The READ ends at the
 * peer with `status`. */
void core_resp_stop(struct core_link *link, struct core_resp *resp, tcpx_status status);

/* Whether the link waits for memory of the shared staging pool. The engine must then call
 * core_stage_more() when some is free. */
static inline bool core_stage_waits(const struct core_link *link)
{
	return link->stage_in.waiting;
}
void core_stage_more(struct core_link *link);

/* Called when the session's account may have memory again. Grants the peer the cover that it has
 * requested, or at least what its next notification needs, if there is memory. */
void core_note_more(struct core_link *link);
/* Returns the number of standalone notifications that the peer has not acknowledged. */
uint32_t core_note_untaken(const struct core_link *link);
/* Returns how much of the account is set aside for notifications of this peer that have not reached
 * the application, beyond the peer's first window; 0 if no more than the window is set aside. */
uint64_t core_note_pending(const struct core_link *link);
/* Returns cover.moves, a counter that grows while notifications arrive. */
uint64_t core_note_moves(const struct core_link *link);

#endif

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

/* The peer takes chunks by reference of up to `bytes`. The limit never falls. */
void core_link_refs(struct core_link *link, uint64_t bytes);

/* Every transfer ends with status, every push and note is dropped. No channel may be inside a call,
 * except those of core_chan_stays, whose transfers end with core_chan_left. Idempotent. */
void core_link_fail(struct core_link *link, tcpx_status status);
/* Before core_link_fail: the peer may go on reading chunks by reference, so transfers and pushes
 * that have such chunks in flight do not end before core_link_unlease. */
void core_link_lease(struct core_link *link);
void core_link_unlease(struct core_link *link);

/* Iterates over what is under way, in the order of posts: NULL gives the first one, the last one
 * gives NULL. Call it before the current one is ended. */
struct core_xfer *core_xfer_after(const struct core_link *link, const struct core_xfer *xfer);
struct core_push *core_push_after(const struct core_link *link, const struct core_push *push);

/* Channels. */
uint32_t core_chan_epoch(const struct core_link *link, uint32_t channel);
tcpx_status core_chan_up(struct core_link *link, uint32_t channel, uint32_t epoch);
/* The transport is closed, no thread is inside it, and nothing reads the sources of its messages.
 * Sends the fence as soon as no commit of the channel is under way. */
void core_chan_lost(struct core_link *link, uint32_t channel);
/* The sender or the receiver is inside a call that may last. Until core_chan_left core_chan_lost
 * may not be called, and after core_link_fail the memory of that call stays in use. */
void core_chan_stays(struct core_link *link, uint32_t channel, bool tx, bool rx);
void core_chan_left(struct core_link *link, uint32_t channel);
/* Before core_chan_lost, on a channel of plugin messages: the oldest one was not sent, for an
 * unknown reason. A transfer to which this happens twice ends with status, as its source may be at
 * fault. */
void core_chan_stuck(struct core_link *link, uint32_t channel, tcpx_status status);
/* The peer's fence. */
tcpx_status core_chan_fence(struct core_link *link, uint32_t channel, uint32_t epoch,
			    uint64_t applied, const struct core_nack *nacks, uint32_t count);
/* The control link is up again: fences that were not answered are sent again. */
void core_link_refence(struct core_link *link);
uint32_t core_link_channels_up(const struct core_link *link); /* of all kinds */
uint32_t core_link_messages_up(const struct core_link *link); /* of plugin messages */
/* No channel of plugin messages will come up: transfers that wait for one end with status. */
void core_link_strand(struct core_link *link, tcpx_status status);

/* Transfers. Post takes a transfer that is IDLE or FINAL. ERR_STATE; ERR_AGAIN (no notification
 * budget, or CORE_CANCELLED_MAX cancelled SENDs wait for the peer); ERR_NO_MEMORY; the link's error
 * if it is dead. The bytes of a notification are copied. */
tcpx_status core_xfer_post(struct core_link *link, struct core_xfer *xfer);
/* The bytes of a WRITE or READ that goes direct are in place, or will never be. */
void core_xfer_moved(struct core_link *link, struct core_xfer *xfer, tcpx_status status);
/* Ends it with status as soon as its memory is not used; may call ops->ended at once. ERR_STATE. */
tcpx_status core_xfer_cancel(struct core_link *link, struct core_xfer *xfer, tcpx_status status);
/* Ends transfers whose deadline has passed; returns the next deadline or 0. */
int64_t core_link_expire(struct core_link *link, int64_t now_ns);
/* Sends a standalone notification that no request waits for. */
tcpx_status core_note_send(struct core_link *link, const void *data, uint64_t bytes);
/* The number of the last standalone notification; whether the peer has yet to take one up to a
 * number. */
uint64_t core_note_last(const struct core_link *link);
bool core_notes_wait(const struct core_link *link, uint64_t number);
/* The application released a notification of `bytes`; empty: none is unread. */
void core_note_consumed(struct core_link *link, uint64_t bytes, bool empty);

/* For a flush: every frame sent so far is to be acknowledged soon. Notifications, those queued and
 * those sent again included, ask for it until all are taken; ops->note_ended tells of each. */
void core_link_ask(struct core_link *link);

/* READ at the responder. The engine fills push->prog, job.peer_xfer and job.linear_base. */
void core_push_start(struct core_link *link, struct core_push *push);
void core_push_refuse(struct core_link *link, uint64_t xfer_id, tcpx_status status);
/* The source region goes away: the peer's READ ends with status. */
void core_push_stop(struct core_link *link, struct core_push *push, tcpx_status status);

/* The link waits for room in the shared staging pool; core_stage_more tells it that there may
 * be. */
static inline bool core_stage_waits(const struct core_link *link)
{
	return link->stage_in.waiting;
}
void core_stage_more(struct core_link *link);

/* The account may have room for the notifications of a peer that waits. */
void core_note_more(struct core_link *link);
/* What the account has set aside for the peer beyond the first window, without what the application
 * has and may release. */
uint64_t core_note_held(const struct core_link *link);
/* Grows whenever a frame of a notification begins or ends. */
uint64_t core_note_moves(const struct core_link *link);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pure core of a link between two sessions: which frame goes next on which channel, what an
 * arriving frame means, when a transfer ends. No I/O, no clock, no thread: every function runs
 * under the link's lock, time is an argument, effects leave through struct core_ops.
 *
 * Invariants
 *  I1  A transfer ends exactly once: ops->ended runs once per core_xfer_post that returned OK.
 *  I2  When ended ran, no channel reads or writes the transfer's local memory: each use is counted
 *      in xfer->refs, from the moment a frame is cut or accepted until the transport gave the
 *      buffer back or the channel was redirected to scratch.
 *  I3  A WRITE is DONE only when every chunk was acknowledged, i.e. applied and not refused; a READ
 *      only when every byte was applied here; a notification is published after that.
 *  I4  A chunk of a lost channel is cut again only after the peer's fence for that epoch; the fence
 *      tells exactly which chunks were applied, so nothing is applied twice or missed.
 *  I5  State that a peer can make us keep is bounded by credits given in the hello; more is
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
/* After core_link_fail only. Frees what it owns. */
void core_link_fini(struct core_link *link);

/* The peer takes chunks by reference of so many bytes; less than before counts for nothing. */
void core_link_refs(struct core_link *link, uint64_t bytes);

/* Every transfer ends with status, every push and note is dropped. No channel may be in a call but
 * those of core_chan_stays, whose transfers end with core_chan_left. Idempotent. */
void core_link_fail(struct core_link *link, tcpx_status status);
/* Before that: the peer may still read what was lent to it, so transfers and pushes of which chunks
 * by reference are under way do not end before core_link_unlease. */
void core_link_lease(struct core_link *link);
void core_link_unlease(struct core_link *link);

/* What is under way, in the order of posts: the one after it, the first after NULL; NULL: the last
 * was it. Ask before the one is ended. */
struct core_xfer *core_xfer_after(const struct core_link *link, const struct core_xfer *xfer);
struct core_push *core_push_after(const struct core_link *link, const struct core_push *push);

/* Channels. */
uint32_t core_chan_epoch(const struct core_link *link, uint32_t channel);
tcpx_status core_chan_up(struct core_link *link, uint32_t channel, uint32_t epoch);
/* The transport is closed and nobody is inside it, nor reads what its messages were sent from.
 * Sends the fence when no commit is under way. */
void core_chan_lost(struct core_link *link, uint32_t channel);
/* Its sender, or its receiver, is in a call that may last: until core_chan_left the channel is not
 * lost, and when the link fails the memory of that call stays in use. */
void core_chan_stays(struct core_link *link, uint32_t channel, bool tx, bool rx);
void core_chan_left(struct core_link *link, uint32_t channel);
/* Before that, of a channel of messages: its oldest one did not go, and nobody said why. A transfer
 * that does this again ends with status: its source may be at fault. */
void core_chan_stuck(struct core_link *link, uint32_t channel, tcpx_status status);
/* The peer's fence. */
tcpx_status core_chan_fence(struct core_link *link, uint32_t channel, uint32_t epoch,
			    uint64_t applied, const struct core_nack *nacks, uint32_t count);
/* The control link came back: fences not answered yet are sent again. */
void core_link_refence(struct core_link *link);
uint32_t core_link_channels_up(const struct core_link *link); /* of all kinds */
uint32_t core_link_messages_up(const struct core_link *link); /* of messages */
/* No channel of messages will be up: what waits for one ends with status. */
void core_link_strand(struct core_link *link, tcpx_status status);

/* Transfers. Post takes the transfer from IDLE or FINAL. ERR_STATE; ERR_AGAIN (notification
 * budget; or the peer does not take the numbers of cancelled SENDs); ERR_NO_MEMORY; the link's
 * error when dead. An OP_NOTIFY and attached bytes are copied. */
tcpx_status core_xfer_post(struct core_link *link, struct core_xfer *xfer);
/* Ends it with status as soon as its memory is quiet; may call ended at once. ERR_STATE. */
tcpx_status core_xfer_cancel(struct core_link *link, struct core_xfer *xfer, tcpx_status status);
/* Ends those whose deadline is over; returns the next deadline or 0. */
int64_t core_link_expire(struct core_link *link, int64_t now_ns);
/* Sends a notification alone that nobody waits for. */
tcpx_status core_note_send(struct core_link *link, const void *data, uint64_t bytes);
/* The number of the last one alone; whether one up to that number is not taken by the peer yet. */
uint64_t core_note_last(const struct core_link *link);
bool core_notes_wait(const struct core_link *link, uint64_t number);
/* The application released a notification of so many bytes; empty: none is unread. */
void core_note_consumed(struct core_link *link, uint64_t bytes, bool empty);

/* Somebody flushes: every frame sent so far is to be acknowledged soon, and notifications ask for
 * it, those queued and those sent again included, until all are taken (note_ended tells). */
void core_link_ask(struct core_link *link);

/* READ at the responder. push->prog and job.peer_xfer/linear_base are filled by the engine. */
void core_push_start(struct core_link *link, struct core_push *push);
void core_push_refuse(struct core_link *link, uint64_t xfer_id, tcpx_status status);
/* The source region goes away: the reader's request fails with status. */
void core_push_stop(struct core_link *link, struct core_push *push, tcpx_status status);

/* The link waits for room in the shared staging pool, and is told by core_stage_more. */
static inline bool core_stage_waits(const struct core_link *link)
{
	return link->stage_in.waiting;
}
void core_stage_more(struct core_link *link);

/* The account has room again for the notifications of a peer that waits. */
void core_note_more(struct core_link *link);
/* What it has set aside for the peer beyond its share, and the application cannot give back. */
uint64_t core_note_held(const struct core_link *link);
/* Grows whenever a frame of a notification begins or ends. */
uint64_t core_note_moves(const struct core_link *link);

#endif

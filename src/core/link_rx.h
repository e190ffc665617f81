/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving: what an arriving frame means, where its payload goes. */
#ifndef CORE_LINK_RX_H
#define CORE_LINK_RX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "core/prog.h"
#include "core/xfer.h"
#include <tcpx/types.h>

struct core_link;

/* Receiving. */
enum core_rx_kind {
	CORE_RX_NONE = 0, /* frame has no payload: core_rx_end follows at once */
	CORE_RX_SCRATCH,  /* read the payload and forget it */
	CORE_RX_REGION,	  /* DATA: the engine resolves key, offset and table */
	CORE_RX_PROG,	  /* local side of prog at linear */
	CORE_RX_MESSAGE,  /* collect the payload, hand it to core_rx_end */
	CORE_RX_NOTE,	  /* into note->data + frame->linear */
	CORE_RX_LIST,	  /* READ_REQ: the table is a list to push */
};
struct core_rx {
	enum core_rx_kind kind;
	const struct core_prog *prog;
	struct core_xfer *xfer;
	struct core_notify_in *note;
	uint64_t linear;
};
/* A validated header arrived; its call has begun. ERR_PROTOCOL ends the link; ERR_NO_MEMORY the
 * channel, and the frame comes again over another one. READ_REQ: the engine makes a push and passes
 * it to core_push_start, or refuses by core_push_refuse, then rx_end. */
tcpx_status core_rx_begin(struct core_link *link, uint32_t channel, const struct frame *frame,
			  struct core_rx *out_rx);
int core_rx_pause(struct core_link *link, uint32_t channel);
int core_rx_resume(struct core_link *link, uint32_t channel);
/* The trailer is there. status: TCPX_OK applied; TCPX_IN_PROGRESS: a commit is under way, ends by
 * core_rx_committed with the same sequence; a request error: refused (NACK). valid: the trailer's
 * word. data: the payload of CORE_RX_MESSAGE. Errors as above. */
tcpx_status core_rx_end(struct core_link *link, uint32_t channel, bool valid, tcpx_status status,
			const void *data);
/* xfer: whose memory was written (by id, it may be gone), bytes of the chunk; staged: the part of
 * them that was in staging, none of a chunk by reference. */
void core_rx_committed(struct core_link *link, uint32_t channel, uint32_t epoch, uint64_t seq,
		       uint64_t xfer_id, uint64_t bytes, uint64_t staged, tcpx_status status);
void core_recv_applied(struct core_link *link, struct core_xfer *xfer, tcpx_status status);

/* Whether the receiver is in a call with the frame under way; else the frame is parked. */
bool core_rx_in_call(const struct core_link *link, uint32_t channel);
/* The memory that the frame goes to is taken away: the rest goes to scratch. Of a call under way
 * the caller answers for that itself. */
void core_rx_redirect(struct core_link *link, uint32_t channel);
bool core_rx_aborted(const struct core_link *link, uint32_t channel);
/* The frame under way is of a notification. */
bool core_rx_notes(const struct core_link *link, uint32_t channel);

#endif

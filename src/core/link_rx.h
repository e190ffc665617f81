/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving: what an arriving frame means, and where its payload goes. */
#ifndef CORE_LINK_RX_H
#define CORE_LINK_RX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "core/segs.h"
#include "core/xfer.h"
#include <tcpx/types.h>

struct core_link;

enum core_rx_kind {
	CORE_RX_NONE = 0, /* no payload: the caller calls core_rx_end() at once */
	CORE_RX_SCRATCH,  /* read the payload and drop it */
	CORE_RX_REGION,	  /* DATA: the engine finds the region by key and offset, or by the table */
	/* RDATA, SDATA: receive into the local regions of `segs`, from `linear` on */
	CORE_RX_SEGS,
	CORE_RX_MESSAGE, /* an eager SEND: collect the payload for core_rx_end() */
	CORE_RX_NOTE,	 /* NOTIFY: receive into note->data, from `linear` on */
	CORE_RX_LIST,	 /* READ_REQ: the table lists the pieces that the peer wants to read */
};
/* Where the payload of an arriving frame goes. */
struct core_rx {
	enum core_rx_kind kind;
	const struct core_segs *segs; /* SEGS: the segment list of `xfer` */
	struct core_xfer *xfer;
	struct core_notify_in *note; /* NOTE: the notification that arrives */
	uint64_t linear;	     /* offset of the payload in its transfer or notification */
};
/* Called when a well-formed header has arrived. Sets in *out_rx where the payload goes; a receive
 * call then counts as under way. After ERR_PROTOCOL the caller ends the link. After ERR_NO_MEMORY
 * it ends the channel, and the peer sends the frame again on another channel. For a READ_REQ the
 * engine must call core_resp_start() or core_resp_refuse() before core_rx_end(). */
tcpx_status core_rx_begin(struct core_link *link, uint32_t channel, const struct frame *frame,
			  struct core_rx *out_rx);
/* core_rx_pause() is called when the receive call has returned and the frame is not complete,
 * core_rx_resume() before the next receive call. Both return 1 if the frame is aborted: the rest of
 * the frame then goes to scratch memory. */
int core_rx_pause(struct core_link *link, uint32_t channel);
int core_rx_resume(struct core_link *link, uint32_t channel);
/* Called when the whole frame has arrived. `valid`: its trailer says that the payload is right.
 * `status` is TCPX_OK if the payload is applied; TCPX_IN_PROGRESS if it is still being copied, so
 * that core_rx_committed() with the frame's sequence follows; or an error, with which the READ or
 * RECV of the chunk ends, or a chunk of a WRITE is refused (NACK). `data` is the payload of
 * CORE_RX_MESSAGE. Returns the errors of core_rx_begin(), with the same consequences. */
tcpx_status core_rx_end(struct core_link *link, uint32_t channel, bool valid, tcpx_status status,
			const void *data);
/* Called when the copy of a chunk to its destination has ended. The source was staging, a plugin's
 * bounce pages or, by reference, the peer's memory. `xfer_id` is this side's READ or RECV, which
 * may be ending, or 0 for a chunk of the peer's WRITE. `bytes` is the length of the chunk, and
 * `staged` says how many of these bytes were in staging. */
void core_rx_committed(struct core_link *link, uint32_t channel, uint32_t epoch, uint64_t seq,
		       uint64_t xfer_id, uint64_t bytes, uint64_t staged, tcpx_status status);
/* Called when a copy of an eager SEND has ended for which ops->deliver() returned
 * TCPX_IN_PROGRESS. */
void core_recv_applied(struct core_link *link, struct core_xfer *xfer, tcpx_status status);

/* Whether a receive call counts as under way for the arriving frame: from core_rx_begin() or
 * core_rx_resume() until core_rx_pause() or core_rx_end(). */
bool core_rx_in_call(const struct core_link *link, uint32_t channel);
/* Makes the rest of the arriving frame go to scratch memory. If a receive call is under way, the
 * caller must make sure that the call no longer writes to the old memory. */
void core_rx_redirect(struct core_link *link, uint32_t channel);
/* Whether the rest of the arriving frame goes to scratch memory. */
bool core_rx_aborted(const struct core_link *link, uint32_t channel);
/* Whether a frame of a notification is arriving. */
bool core_rx_notes(const struct core_link *link, uint32_t channel);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* How far notifications may leave: what the receiver's account has set aside for them. All counters
 * are sums of costs since the link began (docs/design/core.md, "Cover"). */
#ifndef CORE_COVER_H
#define CORE_COVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct core_cover {
	/* The sender's side. */
	/* first window that the peer's hello gave; what the peer's CREDIT frames added to it */
	uint64_t first_out, granted_out;
	uint64_t sent, queued; /* sum paid for; sum paid for or waiting in `unpaid` */
	/* request_due: a request must be sent; request_open: one was sent and is not answered */
	bool request_due, request_open;
	struct list_node unpaid; /* core_note: those that wait for cover, in posted order */
	/* The receiver's side. */
	/* first window of our hello; sum granted beyond it; of that, sent in CREDIT frames */
	uint64_t first, granted, advertised;
	/* up to which position the peer asks for cover; up to which it needs cover to send its
	 * next notification */
	uint64_t requested, least;
	uint64_t out;	/* cost of the notifications that the application holds */
	uint64_t spare; /* cost released by the application and not yet returned to the account */
	/* grows when a notification begins to arrive and when a frame of one has arrived */
	uint64_t moves;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a link's cover, in both directions: how far notifications may leave. Except for the
 * first windows, `out` and `spare`, amounts are sums of costs since the link began
 * (docs/design/core.md, "Cover"). */
#ifndef CORE_COVER_H
#define CORE_COVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct core_cover {
	/* The sender's side. */
	/* the first window in the peer's hello; the sum that the peer's CREDIT frames granted
	 * beyond it */
	uint64_t first_out, granted_out;
	uint64_t sent, queued; /* cost paid for; cost paid for or waiting in `unpaid` */
	/* request_due: a request for cover must be sent; request_open: one was sent and is not
	 * answered */
	bool request_due, request_open;
	struct list_node unpaid; /* core_note: wait for cover, in the order of core_note_start() */
	/* The receiver's side. */
	/* the first window in our hello; the sum granted beyond it; how much of this sum was
	 * announced in CREDIT frames */
	uint64_t first, granted, advertised;
	/* the position up to which the peer requests cover; the position that its next notification
	 * needs */
	uint64_t requested, least;
	uint64_t out;	/* cost of the notifications published and not released */
	uint64_t spare; /* cost that was released; not yet granted again or given to the account */
	/* A counter. Grows when a notification begins to arrive, and when a frame of a notification
	 * has arrived. Piggybacked notifications do not count. */
	uint64_t moves;
};

#endif

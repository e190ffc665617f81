/* SPDX-License-Identifier: Apache-2.0 */
/* How far notifications may leave: what the receiver's account has set aside for them. All counters
 * are sums of costs since the link began (docs/design/core.md, "Cover"). */
#ifndef CORE_COVER_H
#define CORE_COVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct core_cover {
	/* the sender's side */
	uint64_t first_out, granted_out; /* the peer's first window; what it granted beyond that */
	uint64_t sent, queued;		 /* paid for; the same with those in unpaid */
	bool request_due, request_open;	 /* open: sent, and not answered */
	struct list_node unpaid;	 /* core_note: wait for cover, in posted order */
	/* the receiver's side */
	uint64_t first, granted, advertised; /* advertised: of what is granted */
	uint64_t requested, least; /* the position the peer asks for; the least that helps */
	uint64_t out;		   /* of notifications that the application has */
	uint64_t spare; /* released by the application, not returned to the account yet */
	uint64_t moves; /* frames of notifications that began or ended */
};

#endif

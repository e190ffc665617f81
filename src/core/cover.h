/* SPDX-License-Identifier: Apache-2.0 */
/* How far notifications may leave: what the receiver's account has set aside for them. */
#ifndef CORE_COVER_H
#define CORE_COVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* cover.c: what the receiver's account has set aside. Cumulative costs. */
struct core_cover {
	/* as the sender */
	uint64_t first_out, granted_out; /* the peer's first window; what it granted beyond that */
	uint64_t sent, wanted;		 /* paid for; with those that wait for their turn */
	bool wish_due, wished;		 /* wished: no answer has come */
	struct list_node unpaid;	 /* core_note */
	/* as the receiver */
	uint64_t first, granted, told; /* told: of what was granted */
	uint64_t asked, least;	       /* the peer's wish: upto where, and to the first */
	uint64_t out;		       /* of notifications that the application has */
	uint64_t spare;		       /* released, and not given back to the account yet */
	uint64_t moves;		       /* frames of notifications that began or ended */
};

#endif

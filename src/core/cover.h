/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications of a link: those that arrive, and how far each side may go on. */
#ifndef CORE_COVER_H
#define CORE_COVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define CORE_INCOMING_BITS 4 /* log2 of the buckets that a link always has */

struct core_config;
struct core_notify_in;
struct core_ops;

/* Notifications that arrive, or that are whole and wait for the order. */
struct core_incoming {
	struct list_node list; /* core_notify_in */
	struct core_notify_in **heads, *few[1u << CORE_INCOMING_BITS];
	uint32_t bits, count;
	uint64_t multiplier;
	const struct core_ops *ops; /* note_alloc and note_free */
	void *arg;
};

/* incoming.c: knows no link */
void core_incoming_init(struct core_incoming *in, const struct core_config *cfg);
void core_incoming_fini(struct core_incoming *in); /* frees those that are in it */
struct core_notify_in *core_incoming_find(struct core_incoming *in, uint64_t number,
					  bool standalone);
void core_incoming_add(struct core_incoming *in, struct core_notify_in *msg);
void core_incoming_remove(struct core_incoming *in, struct core_notify_in *msg);

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

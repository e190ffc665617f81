/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications of a link: those that leave, and those that arrive and are not published yet. There
 * are two sequences of numbers: one for notifications that are sent alone ("standalone"), which are
 * published in the order of their numbers, and one for those that are attached to a request.
 */
#ifndef CORE_NOTIFY_H
#define CORE_NOTIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "core/job.h"

#define CORE_INCOMING_BITS 4 /* log2 of the number of buckets in the smallest table */

struct core_config;
struct core_ops;
struct core_xfer;

/* An outgoing notification. A copy of its bytes follows the struct. */
struct core_note {
	struct core_job job;
	struct core_xfer *xfer; /* the request that waits for it, or NULL */
	uint64_t number;
	uint64_t bytes;
	uint32_t refs; /* number of frames under way that use its bytes */
	bool standalone;
	/* its frame was cut right after the only frame of its WRITE, and is in a channel's ring */
	bool piggybacked;
	bool paid;		 /* it has cover: its cost is counted in cover.sent */
	struct list_node node;	 /* in link->notify.notes */
	struct list_node unpaid; /* in cover.unpaid while it waits for cover */
	const void *data;
};

/* An arriving notification, allocated by ops->note_alloc(). The core owns it until it is published;
 * then the engine does. */
struct core_notify_in {
	struct list_node node;	      /* in incoming.list or piggyback.waiting; then the engine's */
	struct core_notify_in *chain; /* next one in the same bucket (incoming.c) */
	/* its number; if piggybacked, sequence of its WRITE's frame */
	uint64_t number;
	uint64_t bytes; /* length of the whole notification */
	uint64_t got;	/* bytes of parts that are in place */
	uint64_t begun; /* bytes of parts that are in place or arriving */
	uint64_t seams; /* keyed sum that shows whether its parts leave a gap: note_seam() */
	uint64_t there; /* bytes of its memory that count as in use in the account */
	void *from;	/* for the engine, after ops->notify() */
	bool standalone;
	/* Standalone and complete. Such a notification waits for those with lower numbers. */
	bool whole;
	unsigned char data[];
};

/* Notifications of the peer that are arriving, or that are complete and wait for lower numbers.
 * Piggybacked ones are in core_piggyback instead. */
struct core_incoming {
	struct list_node list; /* list of core_notify_in */
	/* The 2^bits buckets of the hash table by number; each is a chain. `few` has the buckets
	 * while the table is small. */
	struct core_notify_in **heads, *few[1u << CORE_INCOMING_BITS];
	uint32_t bits, count;	    /* count: notifications in the table */
	uint64_t multiplier;	    /* secret factor of the hash function */
	const struct core_ops *ops; /* for note_alloc() and note_free() */
	void *arg;
};

/* incoming.c */
void core_incoming_init(struct core_incoming *in, const struct core_config *cfg);
void core_incoming_fini(struct core_incoming *in); /* frees its notifications */
struct core_notify_in *core_incoming_find(struct core_incoming *in, uint64_t number,
					  bool standalone);
void core_incoming_add(struct core_incoming *in, struct core_notify_in *msg);
void core_incoming_remove(struct core_incoming *in, struct core_notify_in *msg);

/* The notifications of a link. */
struct core_notify {
	struct core_incoming incoming;
	struct list_node notes; /* list of core_note: made and not acknowledged */
	/* the last numbers that were given to standalone and to attached notifications */
	uint64_t alone_last, attached_last;
	/* number of the peer's next standalone notification to be published */
	uint64_t alone_due;
	/* Set by core_link_ask(): frames of notifications ask for an acknowledgement, until all
	 * notifications are acknowledged. */
	bool flush;
};

void core_notify_init(struct core_notify *notify, const struct core_config *cfg);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications of a link: those that leave, and those that arrive and are not published yet. They
 * are numbered in two sequences: one for notifications that are sent alone, which are published in
 * the order of their numbers, and one for those that are attached to a request.
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

/* An outgoing notification; the data is a copy right after the struct. */
struct core_note {
	struct core_job job;
	struct core_xfer *xfer; /* the request that waits for it, or NULL */
	uint64_t number;
	uint64_t bytes;
	uint32_t refs; /* frames that are being sent and use its bytes */
	bool standalone;
	/* its frame was cut right after the only frame of its WRITE, and is in a channel's ring */
	bool piggybacked;
	bool paid;		 /* it has cover: its cost is counted in cover.sent */
	struct list_node node;	 /* in link->notify.notes */
	struct list_node unpaid; /* in cover.unpaid while it waits for cover */
	const void *data;
};

/* An arriving notification, allocated by ops->note_alloc(). It belongs to the core until it is
 * published, then to the engine. */
struct core_notify_in {
	struct list_node node;	      /* in incoming.list or piggyback.waiting, or the engine's */
	struct core_notify_in *chain; /* next one in the same bucket (incoming.c) */
	uint64_t number;	      /* of a piggybacked one: the sequence of its WRITE's frame */
	uint64_t bytes;		      /* whole length */
	uint64_t got;		      /* bytes of parts that are in place */
	uint64_t begun;		      /* bytes of parts that are in place or arriving */
	uint64_t seams; /* keyed sum that shows whether its parts leave a gap: note_seam() */
	uint64_t there; /* bytes of memory that are charged to the account */
	void *from;	/* the engine's, after ops->notify() */
	bool standalone;
	bool whole; /* standalone and complete: waits for those with lower numbers */
	unsigned char data[];
};

/* Notifications of the peer that are arriving, or complete and waiting for lower numbers. */
struct core_incoming {
	struct list_node list; /* core_notify_in */
	/* hash table by number: the chains of its 2^bits buckets; `few` while it is small */
	struct core_notify_in **heads, *few[1u << CORE_INCOMING_BITS];
	uint32_t bits, count;	    /* count: notifications in the table */
	uint64_t multiplier;	    /* secret; of the hash function */
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
	struct list_node notes; /* core_note: those that the peer has not taken */
	/* the last numbers that were given to standalone and to attached notifications */
	uint64_t alone_last, attached_last;
	/* number of the peer's standalone notification that is published next */
	uint64_t alone_due;
	/* set by core_link_ask(): every notification asks for an acknowledgement until the peer has
	 * taken all */
	bool flush;
};

void core_notify_init(struct core_notify *notify, const struct core_config *cfg);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications of a link: those that leave, and those that arrive and are not published yet. Each
 * has a number, of one sequence for those sent alone, which are published in order, and of another
 * for those attached to a request.
 */
#ifndef CORE_NOTIFY_H
#define CORE_NOTIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "core/job.h"

#define CORE_INCOMING_BITS 4 /* log2 of the buckets that a link always has */

struct core_config;
struct core_ops;
struct core_xfer;

/* An outgoing notification; the data is a copy right after the struct. */
struct core_note {
	struct core_job job;
	struct core_xfer *xfer; /* the request that waits for it, or NULL */
	uint64_t number;
	uint64_t bytes;
	uint32_t refs; /* frames of it under way */
	bool standalone;
	bool piggybacked;	 /* its frame left right after its WRITE's only one */
	bool paid;		 /* counts in cover.sent */
	struct list_node node;	 /* link->notify.notes */
	struct list_node unpaid; /* cover.unpaid */
	const void *data;
};

/* A notification that arrives, by ops->note_alloc. It belongs to the core until it is published,
 * then to the engine. */
struct core_notify_in {
	struct list_node node;
	struct core_notify_in *chain; /* incoming.c */
	uint64_t number;	      /* piggybacked: the sequence of its WRITE */
	uint64_t bytes;		      /* whole length */
	uint64_t got;		      /* bytes of parts that are in place */
	uint64_t begun;		      /* the same with parts that are arriving, <= bytes */
	uint64_t seams;		      /* keyed sum over the ends of its parts */
	uint64_t there;		      /* bytes of memory that are charged to the account */
	void *from;		      /* the engine's, after ops->notify */
	bool standalone;
	bool whole; /* standalone: waits for those before it */
	unsigned char data[];
};

/* Notifications that arrive, or that are whole and wait for the ones before them. */
struct core_incoming {
	struct list_node list; /* core_notify_in */
	struct core_notify_in **heads, *few[1u << CORE_INCOMING_BITS];
	uint32_t bits, count;
	uint64_t multiplier;
	const struct core_ops *ops; /* note_alloc and note_free */
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
	struct list_node notes;		    /* core_note: not taken by the peer yet */
	uint64_t alone_last, attached_last; /* the last numbers given */
	uint64_t alone_due;		    /* the next one of the peer's to publish */
	bool flush; /* every note asks for an acknowledgement until all are taken */
};

void core_notify_init(struct core_notify *notify, const struct core_config *cfg);

#endif

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

/* An outgoing notification; the data is a copy behind the struct. */
struct core_note {
	struct core_job job;
	struct core_xfer *xfer; /* who waits for it, or NULL */
	uint64_t number;
	uint64_t bytes;
	uint32_t refs; /* frames of it under way */
	bool standalone;
	bool piggybacked;	 /* its frame left right after its WRITE's only one */
	bool paid;		 /* of what the peer granted */
	struct list_node node;	 /* link->notify.notes */
	struct list_node unpaid; /* cover.unpaid */
	const void *data;
};

/* A notification that arrives, by ops->note_alloc: until it is published the core's, then the
 * engine's. */
struct core_notify_in {
	struct list_node node;
	struct core_notify_in *chain; /* incoming.c */
	uint64_t number;	      /* its own; of one behind a WRITE: the WRITE's sequence */
	uint64_t bytes;		      /* whole length */
	uint64_t got;		      /* bytes of parts that are in place */
	uint64_t begun;		      /* bytes of parts that came or are coming, <= bytes */
	uint64_t seams;		      /* keyed sum over the ends of its parts */
	uint64_t there;		      /* bytes of memory that are charged */
	void *from;		      /* the engine's, after ops->notify */
	bool standalone;
	bool whole; /* waits for those before it */
	unsigned char data[];
};

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

/* The notifications of a link. */
struct core_notify {
	struct core_incoming incoming;
	struct list_node notes;		    /* core_note: not taken by the peer yet */
	uint64_t alone_last, attached_last; /* the last numbers given */
	uint64_t alone_due;		    /* the next one of the peer's to publish */
	bool flush;			    /* notes ask for acknowledgements until all are taken */
};

void core_notify_init(struct core_notify *notify, const struct core_config *cfg);

#endif

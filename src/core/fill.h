/* SPDX-License-Identifier: Apache-2.0 */
/* Sources that sockets cannot read: what is brought into staging next. */
#ifndef CORE_FILL_H
#define CORE_FILL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/prog.h"
#include <tcpx/types.h>

struct core_job;
struct core_link;

/* How far the source of a job is filled. */
struct core_fill_state {
	struct list_node node;	 /* in a core_fillq while more is to be filled */
	struct list_node slices; /* the engine's: what is filled, or being filled */
	void *block;		 /* the engine's */
	struct core_cursor at;	 /* of begun */
	uint64_t begun, ready;	 /* bytes up to there are being filled; are in staging */
	uint64_t quantum;
	bool unpulled; /* what was filled was taken back, and nothing of it was cut since */
};

/* Jobs of which more is to be filled, by priority. */
struct core_fillq {
	struct list_node jobs;
	struct list_node ahead; /* filled as far as is worth others' room: they come last */
};

/* Filling staged sources ahead of what is cut (fill.c). */
struct core_fill {
	struct core_job *job;
	struct core_cursor at;
	uint64_t linear;
	uint32_t bytes, pieces;
	/* It would wait, for the peer's staging or for a channel that pulls: no reason to take
	 * others' room. It may wait for room; ops->fill tells when it is worth more. */
	bool ahead;
};
/* What is to be filled next; false: nothing. Asked again it says the same. */
bool core_fill_next(struct core_link *link, struct core_fill *out_fill);
/* It is under way; core_fill_end follows once, and the job lives until then. */
void core_fill_begin(struct core_link *link, const struct core_fill *fill);
/* ready: up to where all is there now; less than before says nothing. An error ends the request, or
 * the reader's with ERR_REMOTE. */
void core_fill_end(struct core_link *link, struct core_job *job, uint64_t ready,
		   tcpx_status status);
/* Takes back what is filled and not cut, for somebody else's use; it is asked for again. An engine
 * that is short of room for what core_fill_next says must do so, small jobs included: their bytes
 * may wait for grants that depend on others. False: nothing is there, or it leaves without the
 * peer. */
bool core_fill_back(struct core_link *link, struct core_job *job);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources that sockets cannot read are copied to staging ("filled") ahead of what is cut. The core
 * says what is filled next; the engine has the staging memory and says when the bytes are there.
 *
 * linear <= ready <= begun <= end for the bytes of one job that are cut for the first time. A
 * chunk that is cut again after a lost channel is not in staging any more: its channel copies it.
 */
#ifndef CORE_FILL_H
#define CORE_FILL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/segs.h"
#include <tcpx/types.h>

struct core_job;
struct core_link;

/* How far the source of a job is filled. */
struct core_fill_state {
	struct list_node node; /* in a core_fillq while more of the job must be filled */
	/* the engine's: the pieces of staging that are filled or being filled */
	struct list_node slices;
	/* the engine's: the block that the job's next slices go into; NULL: none */
	void *block;
	struct core_cursor at; /* cursor at `begun` */
	/* bytes before `begun` are in staging or being copied to it; those before `ready` are in
	 * it */
	uint64_t begun, ready;
	uint64_t quantum; /* bytes begun in the job's present turn */
	/* filled bytes were taken back unused, and nothing of the job was cut since */
	bool unpulled;
};

/* Jobs of which more must be filled. */
struct core_fillq {
	struct list_node jobs; /* by priority */
	/* jobs whose further bytes would only wait (core_fill_is_ahead); they come after `jobs` */
	struct list_node ahead;
};

/* The bytes to fill next. */
struct core_fill {
	struct core_job *job;
	struct core_cursor at;
	uint64_t linear;
	uint32_t bytes, pieces;
	/* Once filled these bytes would wait for the peer's grants or for a channel, so no other
	 * job gives up its staging for them. They may wait for free staging; ops->fill is called
	 * when this changes. */
	bool ahead;
};

/* What to fill next; false if there is nothing. Further calls return the same until a fill
 * begins or a job is queued. */
bool core_fill_next(struct core_link *link, struct core_fill *out_fill);

/* The copy of these bytes begins. core_fill_end() follows once, and the job exists until then. */
void core_fill_begin(struct core_link *link, const struct core_fill *fill);

/* A copy has ended. ready: all bytes of the job before it are in staging; a value below the last
 * one changes nothing. status: an error ends the request; the peer's READ ends with ERR_REMOTE. */
void core_fill_end(struct core_link *link, struct core_job *job, uint64_t ready,
		   tcpx_status status);

/* Takes back what is filled and not cut of the job, because other jobs need the staging; these
 * bytes are filled again later. An engine that has no staging for what core_fill_next() says must
 * call this, for small jobs too: their bytes may wait for grants that depend on other jobs. False,
 * with nothing done: nothing is filled, the bytes will be sent without waiting for the peer, or the
 * job has stopped. */
bool core_fill_back(struct core_link *link, struct core_job *job);

/* The bulk channel that gets the i-th kick (from 0) when core_kick_bulk() is called next, if all
 * are idle. */
uint32_t core_fill_sender(const struct core_link *link, uint32_t i);

#endif

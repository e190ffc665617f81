/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources that sockets cannot read are copied to staging ("filled") before their bytes are cut into
 * frames. The core decides what is filled next. The engine has the staging memory and reports when
 * bytes are filled.
 *
 * For bytes of a job that are cut for the first time, linear <= ready <= begun <= end. This is not
 * so while a SEND waits for its CTS. A chunk that is sent again after a lost channel is no longer
 * in staging: its new channel copies it from the source.
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
	struct list_node node; /* in a list of core_fillq while more of the job must be filled */
	/* for the engine: list of the staging slices that are filled or being filled */
	struct list_node slices;
	/* for the engine: the block of staging that the job's next slices go into, or NULL */
	void *block;
	struct core_cursor at; /* the place of `begun` in the segment list */
	/* bytes before `ready` have been copied to staging; those from `ready` to `begun` are being
	 * copied to it */
	uint64_t begun, ready;
	uint64_t quantum; /* bytes begun in the job's present turn in the queue */
	/* filled bytes were taken back (core_fill_back), and no new bytes of the job were cut
	 * since */
	bool unpulled;
};

/* Jobs of which more must be filled. */
struct core_fillq {
	/* a job is inserted by priority (core_fill_want), and goes to the end when it has had its
	 * turn; a job from `ahead` goes to the front */
	struct list_node jobs;
	/* jobs whose filled bytes would only wait (core_fill_is_ahead); filled after those in
	 * `jobs` */
	struct list_node ahead;
};

/* The bytes to fill next. */
struct core_fill {
	struct core_job *job;
	struct core_cursor at;
	uint64_t linear;
	uint32_t bytes, pieces;
	/* Set if these bytes, once filled, would wait for the peer's grants or for a channel. So
	 * they may wait for free staging, and no other job has to give up its staging for them.
	 * ops->fill is called when this changes. */
	bool ahead;
};

/* Sets *out_fill to the bytes to fill next. Returns false if there are none. Further calls return
 * the same bytes until a fill begins or the queue changes. */
bool core_fill_next(struct core_link *link, struct core_fill *out_fill);

/* Called when the copy of the bytes in *fill begins. core_fill_end() must follow once; the job
 * exists until then. */
void core_fill_begin(struct core_link *link, const struct core_fill *fill);

/* Called when a copy has ended. All bytes of the job before `ready` have been copied; a value below
 * the last one changes nothing. An error in `status` ends the job's transfer. If the job serves a
 * READ of the peer instead, that READ ends with ERR_REMOTE. */
void core_fill_end(struct core_link *link, struct core_job *job, uint64_t ready,
		   tcpx_status status);

/* Takes back the bytes of the job that are filled and not cut, because other jobs need the staging.
 * They are filled again later. If the engine has no staging for the bytes that core_fill_next()
 * names, it must call this function for jobs whose filled bytes have not been sent for a long time,
 * also for small jobs: the bytes may wait for grants that depend on other jobs. Returns false and
 * does nothing if no filled byte is uncut, if the job is an eager SEND, which does not wait for the
 * peer, or if the job has stopped. */
bool core_fill_back(struct core_link *link, struct core_job *job);

/* Returns the index of the bulk channel that the next core_kick_bulk() will kick as its i-th (from
 * 0), if all bulk channels for streams are up and idle. */
uint32_t core_fill_chan(const struct core_link *link, uint32_t i);

#endif

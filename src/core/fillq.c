/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of jobs whose sources are still to be filled. */
#include "core/queue_priv.h"

/* Whether the job is a SEND whose bytes will leave in its first frame (send.eager), and this frame
 * is not cut yet. */
bool core_fill_leaves_eagerly(struct core_job *job)
{
	return job->kind == CORE_JOB_SEND && !job->announced && core_job_xfer(job)->send.eager;
}

/* Whether more of the job must be filled. A SEND is filled only if it leaves eagerly or its RECV is
 * known. Otherwise it would occupy staging while it waits for the peer's application. */
bool core_fill_wants_more(struct core_job *job)
{
	if (!job->fills || job->stopped || job->fill.begun >= job->end)
		return false;
	return job->kind != CORE_JOB_SEND || job->cleared || core_fill_leaves_eagerly(job);
}

/* Whether `job` is filled before `other`, which was queued earlier. This is so if `job` has the
 * higher priority, except that two eager SENDs keep their order, since they leave by their
 * numbers. */
static bool fill_goes_before(struct core_job *job, struct core_job *other)
{
	return other->priority < job->priority &&
	       !(core_fill_leaves_eagerly(job) && core_fill_leaves_eagerly(other));
}

void core_fill_init(struct core_job *job)
{
	list_init(&job->fill.node);
	list_init(&job->fill.slices);
	job->fill.block = NULL;
	job->fill.begun = job->fill.ready = job->fill.quantum = 0;
	job->fill.unpulled = false;
	job->fill.at = (struct core_cursor){0};
}

/* Queues the job to be filled, if more of it must be filled and it is not queued yet. */
void core_fill_want(struct core_link *link, struct core_job *job)
{
	struct list_node *pos = link->fillq.jobs.prev;

	if (!core_fill_wants_more(job) || !list_empty(&job->fill.node))
		return;
	while (pos != &link->fillq.jobs &&
	       fill_goes_before(job, LIST_ENTRY(pos, struct core_job, fill.node)))
		pos = pos->prev;
	list_insert_before(pos->next, &job->fill.node);
	link->cfg.ops->fill(link->cfg.arg);
}

/* Called when the job ends: nothing more of it is filled, and its filled bytes are dropped. */
void core_fill_stop(struct core_link *link, struct core_job *job)
{
	if (!job->fills)
		return;
	list_remove(&job->fill.node);
	link->cfg.ops->fill_drop(link->cfg.arg, job);
}

/* Whether more filled bytes of the job would only wait. True if the destination is staged, and the
 * bytes that are filled or being filled already need all grants that are left. Also true if filled
 * bytes were taken back because no channel sent them (`unpulled`), and some are filled again. */
bool core_fill_is_ahead(const struct core_link *link, const struct core_job *job)
{
	uint64_t filled = job->fill.begun - job->linear;

	return (job->staged && filled >= core_stage_out_left(&link->stage_out)) ||
	       (job->fill.unpulled && filled);
}

/* Called when the peer has granted more staging, or when bytes of a job marked `unpulled` were cut.
 * Moves all jobs of `ahead` to the front of `jobs`, so that core_fill_next() judges them again. */
void core_fill_retry(struct core_link *link)
{
	if (list_empty(&link->fillq.ahead))
		return;
	list_splice(&link->fillq.ahead, &link->fillq.jobs);
	list_splice(&link->fillq.jobs, &link->fillq.ahead);
	link->cfg.ops->fill(link->cfg.arg);
}

/* Called when new bytes of the job were cut. If `unpulled` is set, clears it and has
 * core_fill_next() judge the jobs in `ahead` again. */
void core_fill_pulled(struct core_link *link, struct core_job *job)
{
	if (!job->fill.unpulled)
		return;
	job->fill.unpulled = false;
	core_fill_retry(link);
}

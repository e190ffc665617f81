/* SPDX-License-Identifier: Apache-2.0 */
/* Fills staging from sources that sockets cannot read: decides which bytes come next, and keeps
 * track of those that are being copied or were taken back. */
#include "core/link_priv.h"

/* Returns the reference count of the job's transfer or read response. Each copy under way counts 1
 * in it. */
static uint32_t *fill_refs(struct core_job *job)
{
	return job->kind == CORE_JOB_RESP ? &core_job_resp(job)->refs : &core_job_xfer(job)->refs;
}

static void fill_job_check(struct core_link *link, struct core_job *job)
{
	if (job->kind == CORE_JOB_RESP)
		core_resp_check(link, core_job_resp(job));
	else
		core_xfer_check(link, core_job_xfer(job));
}

/* Returns the job to be filled next, or NULL. Jobs whose filled bytes would only wait
 * (core_fill_is_ahead) come last, whatever their priority. Otherwise two sides could block each
 * other. Each side's WRITEs would occupy all its staging for sources and wait for grants. Each
 * side's staging for destinations would be reserved for its READs, and the responses to these would
 * wait for staging for sources at the other side. */
static struct core_job *fill_first(struct core_link *link)
{
	struct list_node *node;

	while ((node = link->fillq.jobs.next) != &link->fillq.jobs) {
		struct core_job *job = LIST_ENTRY(node, struct core_job, fill.node);

		if (!core_fill_is_ahead(link, job))
			return job;
		list_remove(node);
		list_push_back(&link->fillq.ahead, node);
	}
	if (list_empty(&link->fillq.ahead))
		return NULL;
	return LIST_ENTRY(link->fillq.ahead.next, struct core_job, fill.node);
}

bool core_fill_next(struct core_link *link, struct core_fill *out_fill)
{
	struct core_job *job = link->dead ? NULL : fill_first(link);
	struct core_cursor at;
	uint64_t bytes;

	if (!job)
		return false;
	bytes = job->end - job->fill.begun;
	if (job->end > CORE_SMALL_BYTES)
		bytes = core_chunk_limit(link, job, job->fill.begun, bytes);
	if (bytes > CORE_FILL_BYTES)
		bytes = CORE_FILL_BYTES;
	at = job->fill.at;
	*out_fill = (struct core_fill){.job = job,
				       .at = at,
				       .linear = job->fill.begun,
				       .ahead = core_fill_is_ahead(link, job)};
	out_fill->bytes = (uint32_t)core_cursor_advance(job->segs, &at, bytes, CORE_PIECES_MAX,
							&out_fill->pieces);
	return true;
}

void core_fill_begin(struct core_link *link, const struct core_fill *fill)
{
	struct core_job *job = fill->job;
	uint32_t pieces;

	core_cursor_advance(job->segs, &job->fill.at, fill->bytes, CORE_PIECES_MAX, &pieces);
	job->fill.begun += fill->bytes;
	job->fill.quantum += fill->bytes;
	++*fill_refs(job);
	if (!core_fill_wants_more(job)) {
		list_remove(&job->fill.node);
	} else if (job->fill.quantum >= CORE_QUANTUM_BYTES) {
		job->fill.quantum = 0;
		list_remove(&job->fill.node);
		list_push_back(&link->fillq.jobs, &job->fill.node);
	}
}

/* Ends the transfer or read response whose source could not be copied. */
static void fill_job_fail(struct core_link *link, struct core_job *job, tcpx_status status)
{
	if (job->kind == CORE_JOB_RESP)
		core_resp_stop(link, core_job_resp(job), TCPX_ERR_REMOTE);
	else
		core_xfer_end(link, core_job_xfer(job), status);
}

void core_fill_end(struct core_link *link, struct core_job *job, uint64_t ready, tcpx_status status)
{
	--*fill_refs(job);
	if (job->stopped) {
		fill_job_check(link, job);
		return;
	}
	if (status != TCPX_OK) {
		fill_job_fail(link, job, status);
		return;
	}
	if (ready > job->fill.ready) {
		uint64_t more = ready - job->fill.ready;

		job->fill.ready = ready;
		if (!job->queued)
			core_job_queue(link, job);
		else if (job->small || core_fill_leaves_eagerly(job))
			core_kick_small(link);
		else
			core_kick_bulk(link, more);
	}
	fill_job_check(link, job);
}

uint32_t core_fill_chan(const struct core_link *link, uint32_t i)
{
	return 1 + (link->sendq.rotor + 1 + i) % core_stream_channels(link);
}

bool core_fill_back(struct core_link *link, struct core_job *job)
{
	if (job->stopped || job->fill.ready <= job->linear || core_fill_leaves_eagerly(job))
		return false;
	job->fill.unpulled = true;
	job->fill.begun = job->fill.ready = job->linear;
	job->fill.at = job->at;
	if (job->queued && !job->retransmit)
		core_job_unqueue(job);
	link->cfg.ops->fill_drop(link->cfg.arg, job);
	list_remove(&job->fill.node);
	core_fill_want(link, job);
	return true;
}

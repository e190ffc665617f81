/* SPDX-License-Identifier: Apache-2.0 */
/* Serves READs of the peer. A push sends one requested piece, and ends when the peer has
 * acknowledged all of it. */
#include "core/link_priv.h"

/* Ends the push: returns its READ credit, and the engine frees it. */
static void push_finish(struct core_link *link, struct core_push *push)
{
	if (push->ended)
		return;
	push->ended = true;
	if (push->job.inflight)
		core_chunks_detach(link, &push->job);
	core_retransmit_free(link, &push->job);
	core_job_unqueue(&push->job);
	core_fill_stop(link, &push->job);
	list_remove(&push->node);
	link->npushes--;
	core_link_return(link, FRAME_CREDIT_READ, 1, link->npushes == 0);
	link->cfg.ops->push_ended(link->cfg.arg, push);
}

/* Ends the push if it is sent and acknowledged, or stopped, and nothing uses its source any more.
 * Called after each change that can be the last one missing. */
void core_push_check(struct core_link *link, struct core_push *push)
{
	struct core_job *job = &push->job;

	if (push->refs)
		return;
	if ((job->inflight && !job->stopped) || core_job_source_read(link, job))
		return;
	if (job->stopped || !core_job_has_more(job))
		push_finish(link, push);
}

void core_push_start(struct core_link *link, struct core_push *push)
{
	struct core_job *job = &push->job;

	job->kind = CORE_JOB_PUSH;
	job->prog = &push->prog;
	job->end = push->prog.total;
	job->small = core_job_is_small(link, job);
	list_init(&job->node);
	core_fill_init(job);
	push->refs = 0;
	push->ended = false;
	list_push_back(&link->pushes, &push->node);
	link->npushes++;
	core_fill_want(link, job);
	core_job_queue(link, job);
}

void core_push_refuse(struct core_link *link, uint64_t xfer_id, tcpx_status status)
{
	struct frame final = {
		.type = FRAME_FINAL, .xfer = xfer_id, .linear = core_status_pack(status)};

	link->count.refused++;
	core_ctl_queue(link, &final);
	core_link_return(link, FRAME_CREDIT_READ, 1, link->npushes == 0);
}

/* Stops the push: cuts nothing more of it, and takes its source away from frames that are being
 * sent. It ends now, or when nothing uses its source any more. */
static void push_abort(struct core_link *link, struct core_push *push)
{
	uint32_t i;

	push->job.stopped = true;
	core_retransmit_free(link, &push->job);
	core_job_unqueue(&push->job);
	core_fill_stop(link, &push->job);
	push->refs++;
	for (i = 0; i < link->nchan; i++)
		if (link->chan[i].tx.push == push)
			core_tx_abort(link, &link->chan[i]);
	push->refs--;
	if (push->job.reading && !link->dead)
		/* idle channels then ask for the acknowledgements after which the peer no longer
		 * reads the source */
		core_kick_all(link);
	core_push_check(link, push);
}

void core_push_stop(struct core_link *link, struct core_push *push, tcpx_status status)
{
	struct frame final = {.type = FRAME_FINAL,
			      .xfer = push->job.peer_xfer,
			      .linear = core_status_pack(status)};

	if (push->job.stopped)
		return;
	if (!link->dead)
		core_ctl_queue(link, &final);
	push_abort(link, push);
}

void core_push_cancel(struct core_link *link, uint64_t xfer_id)
{
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, &link->pushes) {
		struct core_push *push = LIST_ENTRY(pos, struct core_push, node);

		if (push->job.peer_xfer == xfer_id)
			push_abort(link, push);
	}
}

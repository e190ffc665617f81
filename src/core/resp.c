/* SPDX-License-Identifier: Apache-2.0 */
/* Serves READs of the peer. A read response sends one requested piece, and ends when the peer has
 * acknowledged all of it. */
#include "core/link_priv.h"

/* Ends the read response: returns its READ credit to the peer. The engine then frees it. */
static void resp_finish(struct core_link *link, struct core_resp *resp)
{
	if (resp->ended)
		return;
	resp->ended = true;
	if (resp->job.inflight)
		core_chunks_detach(link, &resp->job);
	core_retransmit_free(link, &resp->job);
	core_job_unqueue(&resp->job);
	core_fill_stop(link, &resp->job);
	list_remove(&resp->node);
	link->nresps--;
	core_link_return(link, FRAME_CREDIT_READ, 1, link->nresps == 0);
	link->cfg.ops->resp_ended(link->cfg.arg, resp);
}

/* Called after each change that may complete the read response. Ends it if nothing uses its source
 * any more, and if all of it is sent and acknowledged or it was stopped. */
void core_resp_check(struct core_link *link, struct core_resp *resp)
{
	struct core_job *job = &resp->job;

	if (resp->refs)
		return;
	if ((job->inflight && !job->stopped) || core_job_source_read(link, job))
		return;
	if (job->stopped || !core_job_has_more(job))
		resp_finish(link, resp);
}

void core_resp_start(struct core_link *link, struct core_resp *resp)
{
	struct core_job *job = &resp->job;

	job->kind = CORE_JOB_RESP;
	job->segs = &resp->segs;
	job->end = resp->segs.total;
	job->small = core_job_is_small(link, job);
	list_init(&job->node);
	core_fill_init(job);
	resp->refs = 0;
	resp->ended = false;
	list_push_back(&link->resps, &resp->node);
	link->nresps++;
	core_job_begin(link, job);
	core_fill_want(link, job);
	core_job_queue(link, job);
}

void core_resp_refuse(struct core_link *link, uint64_t xfer_id, tcpx_status status)
{
	struct frame final = {
		.type = FRAME_FINAL, .xfer = xfer_id, .linear = core_status_pack(status)};

	link->count.refused++;
	core_ctl_queue(link, &final);
	core_link_return(link, FRAME_CREDIT_READ, 1, link->nresps == 0);
}

/* Stops the read response: cuts nothing more of it, and takes its source away from frames that are
 * being sent. The read response ends now, or when nothing uses its source any more. */
static void resp_abort(struct core_link *link, struct core_resp *resp)
{
	uint32_t i;

	resp->job.stopped = true;
	core_retransmit_free(link, &resp->job);
	core_job_unqueue(&resp->job);
	core_fill_stop(link, &resp->job);
	resp->refs++;
	for (i = 0; i < link->nchan; i++)
		if (link->chan[i].tx.resp == resp)
			core_tx_abort(link, &link->chan[i]);
	resp->refs--;
	if (resp->job.reading && !link->dead)
		/* makes idle channels ask for acknowledgements, after which the peer no longer
		 * reads the source */
		core_kick_all(link);
	core_resp_check(link, resp);
}

void core_resp_stop(struct core_link *link, struct core_resp *resp, tcpx_status status)
{
	struct frame final = {.type = FRAME_FINAL,
			      .xfer = resp->job.peer_xfer,
			      .linear = core_status_pack(status)};

	if (resp->job.stopped)
		return;
	if (!link->dead)
		core_ctl_queue(link, &final);
	resp_abort(link, resp);
}

void core_resp_cancel(struct core_link *link, uint64_t xfer_id)
{
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, &link->resps) {
		struct core_resp *resp = LIST_ENTRY(pos, struct core_resp, node);

		if (resp->job.peer_xfer == xfer_id)
			resp_abort(link, resp);
	}
}

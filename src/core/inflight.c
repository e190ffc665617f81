/* SPDX-License-Identifier: Apache-2.0 */
/* Frames in flight on a channel, and the chunks of a job that must be sent again. */
#include "core/queue_priv.h"

/* Appends the chunk to those that its job must send again. Returns 0, or -1 if there is no
 * memory. */
int core_retransmit_add(struct core_link *link, const struct core_chunk *chunk)
{
	struct core_retransmit *retx = link->retransmit_pool, **tail = &chunk->job->retransmit;

	if (retx)
		link->retransmit_pool = retx->next;
	else
		retx = link->cfg.ops->alloc(link->cfg.arg, sizeof(*retx));
	if (!retx)
		return -1;
	*retx = (struct core_retransmit){
		.at = chunk->at, .linear = chunk->linear, .bytes = chunk->bytes};
	while (*tail)
		tail = &(*tail)->next;
	*tail = retx;
	return 0;
}

/* Removes the first chunk from those that the job must send again. */
void core_retransmit_pop(struct core_link *link, struct core_job *job)
{
	struct core_retransmit *retx = job->retransmit;

	job->retransmit = retx->next;
	retx->next = link->retransmit_pool;
	link->retransmit_pool = retx;
}

void core_retransmit_free(struct core_link *link, struct core_job *job)
{
	while (job->retransmit) {
		struct core_retransmit *retx = job->retransmit;

		job->retransmit = retx->next;
		retx->next = link->retransmit_pool;
		link->retransmit_pool = retx;
	}
}

/* Called when the job ends: its chunks in the channels' rings no longer refer to it. */
void core_chunks_detach(struct core_link *link, struct core_job *job)
{
	uint32_t i;

	for (i = 0; i < link->nchan && job->inflight > 0; i++) {
		struct core_chan *chan = &link->chan[i];
		uint64_t seq;

		if (!chan->inflight.chunks)
			continue;
		for (seq = chan->inflight.acked_seq + 1; seq < chan->inflight.next_seq; seq++) {
			struct core_chunk *chunk = core_inflight_at(&chan->inflight, seq);

			if (chunk->job != job)
				continue;
			chunk->job = NULL;
			job->inflight--;
		}
	}
}

void core_inflight_open(struct core_inflight *inflight)
{
	*inflight = (struct core_inflight){.next_seq = 1, .chunks = inflight->chunks};
}

void core_inflight_taken(struct core_inflight *inflight, uint64_t seq)
{
	while (inflight->taken_seq < seq) {
		struct core_chunk *chunk = core_inflight_at(inflight, ++inflight->taken_seq);

		if (chunk->filled)
			inflight->filled_bytes -= chunk->bytes;
		chunk->filled = false;
	}
}

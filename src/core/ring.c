/* SPDX-License-Identifier: Apache-2.0 */
/* A channel's ring and the list of what is to be cut again, as far as no request needs to be looked
 * at: what an acknowledgement or a loss means to requests is in chunk.c. */
#include "core/queue_priv.h"

int core_redo_add(struct core_link *link, const struct core_chunk *chunk)
{
	struct core_redo *redo = link->redo_pool, **tail = &chunk->job->redo;

	if (redo)
		link->redo_pool = redo->next;
	else
		redo = link->cfg.ops->alloc(link->cfg.arg, sizeof(*redo));
	if (!redo)
		return -1;
	*redo = (struct core_redo){.at = chunk->at,
				   .linear = chunk->linear,
				   .bytes = chunk->bytes,
				   .pieces = chunk->pieces,
				   .type = chunk->type};
	while (*tail)
		tail = &(*tail)->next;
	*tail = redo;
	return 0;
}

void core_redo_pop(struct core_link *link, struct core_job *job)
{
	struct core_redo *redo = job->redo;

	job->redo = redo->next;
	redo->next = link->redo_pool;
	link->redo_pool = redo;
}

void core_redo_free(struct core_link *link, struct core_job *job)
{
	while (job->redo) {
		struct core_redo *redo = job->redo;

		job->redo = redo->next;
		redo->next = link->redo_pool;
		link->redo_pool = redo;
	}
}

void core_chunks_detach(struct core_link *link, struct core_job *job)
{
	uint32_t i;

	for (i = 0; i < link->nchan && job->inflight > 0; i++) {
		struct core_chan *chan = &link->chan[i];
		uint64_t seq;

		if (!chan->ring)
			continue;
		for (seq = chan->acked_seq + 1; seq < chan->next_seq; seq++) {
			struct core_chunk *chunk = core_ring_at(chan, seq);

			if (chunk->job != job)
				continue;
			chunk->job = NULL;
			job->inflight--;
		}
	}
}

/* What the peer took out of the transport makes room there for more. */
void core_chunks_got(struct core_chan *chan, uint64_t seq)
{
	while (chan->got_seq < seq) {
		struct core_chunk *chunk = core_ring_at(chan, ++chan->got_seq);

		if (chunk->filled)
			chan->filled_bytes -= chunk->bytes;
		chunk->filled = false;
	}
}

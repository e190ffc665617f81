/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the files of the core share and that end no request: frames in flight, queues,
 * kicks. Most comments are at their definitions. */
#ifndef CORE_QUEUE_PRIV_H
#define CORE_QUEUE_PRIV_H

#include "core/job_cut.h"
#include "core/link.h"

/* How many places of a channel's ring of unacknowledged frames only NACKs may use. An ACK may not
 * pass an unsent NACK, so a ring without a place for a NACK would hold back ACKs as well. */
#define CORE_RING_SPARE 16

/* inflight.c: chunks to send again, and the chunks of a job that ends */
int core_retransmit_add(struct core_link *link, const struct core_chunk *chunk);
void core_retransmit_pop(struct core_link *link, struct core_job *job);
void core_retransmit_free(struct core_link *link, struct core_job *job);
void core_chunks_detach(struct core_link *link, struct core_job *job);

/* sendq.c */
void core_job_begin(const struct core_link *link, struct core_job *job);
void core_job_queue(struct core_link *link, struct core_job *job);
void core_job_unqueue(struct core_job *job);
bool core_job_has_more(const struct core_job *job);
bool core_job_cuttable(const struct core_job *job);
bool core_carries_small(const struct core_link *link, uint32_t channel);
bool core_carries_bulk(const struct core_link *link, uint32_t channel);
void core_kick(struct core_link *link, struct core_chan *chan);
void core_kick_small(struct core_link *link);
void core_kick_bulk(struct core_link *link, uint64_t bytes);
void core_kick_all(struct core_link *link);
void core_ctl_queue(struct core_link *link, const struct frame *frame);
void core_cancelled_queue(struct core_link *link, const struct frame *frame);

/* fillq.c */
void core_fill_init(struct core_job *job);
void core_fill_want(struct core_link *link, struct core_job *job);
void core_fill_stop(struct core_link *link, struct core_job *job);
void core_fill_retry(struct core_link *link);
bool core_fill_leaves_eagerly(struct core_job *job);
bool core_fill_wants_more(struct core_job *job);
bool core_fill_is_ahead(const struct core_link *link, const struct core_job *job);
void core_fill_pulled(struct core_link *link, struct core_job *job);

/* sendq.c: credits and staging of a link, with the kicks that they cause */
bool core_link_charge(struct core_link *link, enum frame_credit kind, uint64_t amount);
void core_link_return(struct core_link *link, enum frame_credit kind, uint64_t amount, bool empty);
void core_stage_request(struct core_link *link, uint64_t bytes);
void core_stage_withdraw(struct core_link *link, uint64_t bytes);
uint64_t core_stage_take(struct core_link *link, uint64_t want, uint64_t left);
void core_stage_free(struct core_link *link, uint64_t bytes);

/* Whether the peer or a plugin may still read the job's source, because chunks of the job are in
 * flight by another path than the stream. Always false after the link has failed, unless the peer
 * has a lease (core_link_lease). */
static inline bool core_job_source_read(const struct core_link *link, const struct core_job *job)
{
	return job->reading && (!link->dead || link->leased);
}

static inline struct core_xfer *core_job_xfer(struct core_job *job)
{
	return LIST_ENTRY(job, struct core_xfer, job);
}

static inline struct core_resp *core_job_resp(struct core_job *job)
{
	return LIST_ENTRY(job, struct core_resp, job);
}

static inline struct core_note *core_job_note(struct core_job *job)
{
	return LIST_ENTRY(job, struct core_note, job);
}

#endif

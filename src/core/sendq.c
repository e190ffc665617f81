/* SPDX-License-Identifier: Apache-2.0 */
/* The send queues of a link: which jobs wait, and which channels are kicked for them. Also credits
 * and staging, as far as they kick channels. */
#include "core/queue_priv.h"

void core_sendq_init(struct core_sendq *sendq)
{
	list_init(&sendq->ctl);
	list_init(&sendq->small);
	list_init(&sendq->bulk);
	list_init(&sendq->sends);
	list_init(&sendq->cancelled);
	sendq->nctl = sendq->ncancelled = sendq->rotor = 0;
	sendq->sends_first = false;
}

/* Whether frames of the job are still to be cut. A SEND that waits for its CTS has none. */
bool core_job_has_more(const struct core_job *job)
{
	if (job->retransmit)
		return true;
	if (job->stopped)
		return false;
	if (job->kind == CORE_JOB_NOTE || job->kind == CORE_JOB_SEND)
		return !job->announced || job->linear < job->end;
	return job->linear < job->end;
}

/* Whether the job has a frame that can be cut now, as far as its source is concerned. The next byte
 * of a staged source must be filled, except for a chunk that is sent again, and for the first frame
 * of a SEND. */
bool core_job_cuttable(const struct core_job *job)
{
	if (!core_job_has_more(job) || job->retransmit || !job->fills)
		return core_job_has_more(job);
	return (job->kind == CORE_JOB_SEND && !job->announced) || job->linear < job->fill.ready;
}

/* Inserts the job before jobs of a lower priority and after those of an equal one. */
static void job_insert_by_priority(struct list_node *head, struct core_job *job)
{
	struct list_node *pos = head->prev;

	while (pos != head && LIST_ENTRY(pos, struct core_job, node)->priority < job->priority)
		pos = pos->prev;
	list_insert_before(pos->next, &job->node);
}

/* Kicks as many idle channels of plugin messages as the job has messages. Leaves out channels whose
 * window is full, since they are kicked when one of their messages is acknowledged. */
static void kick_message_channels(struct core_link *link, const struct core_job *job)
{
	uint64_t bytes = job->retransmit ? UINT64_MAX : job->end - job->linear, sent = 0;
	uint32_t i, n = link->cfg.message_channels;

	link->sendq.rotor++;
	for (i = 0; i < n && sent < bytes; i++) {
		struct core_chan *chan = &link->chan[link->nchan - n + (link->sendq.rotor + i) % n];

		if (chan->state != CORE_CHAN_UP || !chan->idle ||
		    chan->inflight.messages >= link->cfg.message_window)
			continue;
		core_kick(link, chan);
		sent += link->cfg.message_bytes;
	}
}

/* Whether no bulk channel for streams has anything to send. */
static bool bulk_rests(const struct core_link *link)
{
	uint32_t i;

	if (!list_empty(&link->sendq.bulk))
		return false;
	for (i = 1; i <= core_stream_channels(link); i++)
		if (link->chan[i].state == CORE_CHAN_UP && !link->chan[i].idle)
			return false;
	return true;
}

/* Called when the job begins: finds out whether it is alone. The bytes of a staged source are not
 * queued before they are filled, so of such jobs only a read response knows that there is no
 * other. */
void core_job_begin(const struct core_link *link, struct core_job *job)
{
	job->alone = !job->small && bulk_rests(link) &&
		     (job->kind == CORE_JOB_RESP ? link->nresps == 1 : !job->fills);
}

/* Queues the job if a frame of it can be cut now, and kicks channels for it. Otherwise does
 * nothing: code that makes a frame cuttable must call this function again. */
void core_job_queue(struct core_link *link, struct core_job *job)
{
	if (job->queued || !core_job_cuttable(job))
		return;
	job->queued = true;
	if (job->kind == CORE_JOB_SEND && !job->announced && !job->retransmit) {
		list_push_back(&link->sendq.sends, &job->node);
		core_kick_small(link);
		return;
	}
	job_insert_by_priority(job->small ? &link->sendq.small : &link->sendq.bulk, job);
	if (job->small)
		core_kick_small(link);
	else if (core_job_messages(job))
		kick_message_channels(link, job);
	else
		core_kick_bulk(link, job->path == CORE_PATH_REFERENCE
					     ? 1 /* one channel can carry all its chunks */
				     : job->retransmit ? UINT64_MAX
						       : core_job_cut_end(job) - job->linear);
}

void core_job_unqueue(struct core_job *job)
{
	if (!job->queued)
		return;
	job->queued = false;
	list_remove(&job->node);
}

/* Whether the channel carries control frames, SENDs and small jobs. Only the priority channel does;
 * while that is not up, each channel for streams does. */
bool core_carries_small(const struct core_link *link, uint32_t channel)
{
	return channel == CORE_PRIO || (link->chan[CORE_PRIO].state != CORE_CHAN_UP &&
					!core_carries_messages(link, channel));
}

/* Whether the channel carries bulk jobs that are not sent as messages of a plugin. The priority
 * channel does so only while no bulk channel for streams is up. */
bool core_carries_bulk(const struct core_link *link, uint32_t channel)
{
	uint32_t i;

	if (channel != CORE_PRIO)
		return !core_carries_messages(link, channel);
	for (i = 1; i <= core_stream_channels(link); i++)
		if (link->chan[i].state == CORE_CHAN_UP)
			return false;
	return true;
}

/* Wakes the channel's sender if the channel is up and idle. */
void core_kick(struct core_link *link, struct core_chan *chan)
{
	if (chan->state != CORE_CHAN_UP || !chan->idle)
		return;
	chan->idle = false;
	link->cfg.ops->kick(link->cfg.arg, chan->index);
}

/* Kicks the channels that carry control frames and small jobs (core_carries_small). */
void core_kick_small(struct core_link *link)
{
	uint32_t i;

	if (link->chan[CORE_PRIO].state == CORE_CHAN_UP) {
		core_kick(link, &link->chan[CORE_PRIO]);
		return;
	}
	for (i = 1; i <= core_stream_channels(link); i++)
		core_kick(link, &link->chan[i]);
}

/* Kicks as many idle bulk channels for streams as there are chunks in `bytes` bytes. If no such
 * channel is up, kicks the priority channel. */
void core_kick_bulk(struct core_link *link, uint64_t bytes)
{
	uint32_t i, bulk = core_stream_channels(link);
	uint64_t chunk = link->cfg.chunk_bytes, chunks;
	const struct core_job *job =
		list_empty(&link->sendq.bulk)
			? NULL
			: LIST_ENTRY(link->sendq.bulk.next, struct core_job, node);

	if (job && (job->fills || job->alone))
		chunk = core_chunk_bytes(link, job, job->linear);
	chunks = bytes / chunk + (bytes % chunk > 0);
	if (core_carries_bulk(link, CORE_PRIO)) {
		core_kick(link, &link->chan[CORE_PRIO]);
		return;
	}
	/* The search begins at another channel each time, so that transfers of one chunk use all
	 * channels in turn. */
	link->sendq.rotor++;
	for (i = 0; i < bulk && chunks > 0; i++) {
		struct core_chan *chan = &link->chan[1 + (link->sendq.rotor + i) % bulk];

		if (chan->state != CORE_CHAN_UP || !chan->idle)
			continue;
		core_kick(link, chan);
		chunks--;
	}
}

void core_kick_all(struct core_link *link)
{
	uint32_t i;

	for (i = 0; i < link->nchan; i++)
		core_kick(link, &link->chan[i]);
}

static struct core_ctl *ctl_new(struct core_link *link, const struct frame *frame)
{
	struct core_ctl *ctl = link->cfg.ops->alloc(link->cfg.arg, sizeof(*ctl));

	if (!ctl) {
		link->cfg.ops->fail(link->cfg.arg, TCPX_ERR_NO_MEMORY);
		return NULL;
	}
	ctl->frame = *frame;
	return ctl;
}

/* Queues a copy of a control frame. If there is no memory, or too many wait, the link fails. */
void core_ctl_queue(struct core_link *link, const struct frame *frame)
{
	struct core_ctl *ctl;

	if (link->dead)
		return;
	if (link->sendq.nctl >= CORE_CTL_MAX) {
		/* a correct peer runs out of credit long before it causes so many control frames */
		link->cfg.ops->fail(link->cfg.arg, TCPX_ERR_PROTOCOL);
		return;
	}
	ctl = ctl_new(link, frame);
	if (!ctl)
		return;
	list_push_back(&link->sendq.ctl, &ctl->node);
	link->sendq.nctl++;
	core_kick_small(link);
}

/* Called when a SEND has ended before it had eager credit. Its number is used up, so the peer must
 * be told: a CANCEL takes the SEND's place in the order of numbers. Eager credit is acquired in
 * this order, since the peer returns it in this order. */
void core_cancelled_queue(struct core_link *link, const struct frame *frame)
{
	struct list_node *pos = link->sendq.cancelled.prev;
	struct core_ctl *ctl = ctl_new(link, frame);

	if (!ctl)
		return;
	while (pos != &link->sendq.cancelled &&
	       LIST_ENTRY(pos, struct core_ctl, node)->frame.linear > frame->linear)
		pos = pos->prev;
	list_insert_before(pos->next, &ctl->node);
	link->sendq.ncancelled++;
	core_kick_small(link);
}

/* --- credits and staging, and the channels that they kick --- */

/* Charges the peer's credit for a frame that has arrived or is arriving and occupies memory on this
 * side until it is consumed. Returns false if the peer has no credit for it. */
bool core_link_charge(struct core_link *link, enum frame_credit kind, uint64_t amount)
{
	bool due;

	if (!core_credit_charge(&link->credit[kind], amount, &due))
		return false;
	if (due)
		core_kick_small(link);
	return true;
}

/* Gives credit back to the peer. `empty`: nothing else that the credit was used for waits on this
 * side. */
void core_link_return(struct core_link *link, enum frame_credit kind, uint64_t amount, bool empty)
{
	if (core_credit_return(&link->credit[kind], amount, empty))
		core_kick_small(link);
}

void core_stage_request(struct core_link *link, uint64_t bytes)
{
	if (core_stage_out_request(&link->stage_out, bytes))
		core_kick_small(link);
}

void core_stage_withdraw(struct core_link *link, uint64_t bytes)
{
	if (!bytes)
		return;
	core_stage_out_withdraw(&link->stage_out, bytes);
	core_kick_small(link);
}

/* Takes up to `want` bytes of staging from the pool, and returns how many. `left` is how many bytes
 * the taker (the peer or a READ) has and can still use. While `left` is a chunk or more, nothing is
 * taken if fewer than CORE_GRANT_BYTES (or `want`, if that is less) are free, since they are not
 * worth a frame. */
uint64_t core_stage_take(struct core_link *link, uint64_t want, uint64_t left)
{
	uint64_t least = left >= link->cfg.chunk_bytes ? CORE_GRANT_BYTES : 1, got;

	if (least > want)
		least = want;
	got = link->cfg.ops->stage_take(link->cfg.arg, want, least);
	link->stage_in.waiting |= got < want;
	return got;
}

/* Gives staging memory back to the pool. If this link waits for staging, it takes some at once. The
 * engine notifies other links later. */
void core_stage_free(struct core_link *link, uint64_t bytes)
{
	link->cfg.ops->stage_give(link->cfg.arg, bytes);
	if (link->stage_in.waiting && !link->dead)
		core_stage_more(link);
}

/* Called when the peer requests staging, or when the pool may have some for this link. Grants
 * the peer what it requested, as far as the pool has it, and up to a chunk more if the pool allows
 * that. */
void core_stage_more(struct core_link *link)
{
	struct core_stage_in *in = &link->stage_in;
	uint64_t missing, got;

	if (in->waiting)
		/* READs into staged memory may now get staging, so their READ_REQ frames may
		 * leave */
		core_kick_small(link);
	in->waiting = false;
	if (in->requested && !in->asked) {
		in->asked = true;
		in->ahead = link->cfg.ops->stage_ahead(link->cfg.arg, link->cfg.chunk_bytes);
	}
	missing = core_stage_in_missing(in);
	got = missing ? core_stage_take(link, missing, core_stage_in_left(in)) : 0;
	if (!got)
		return;
	core_stage_in_grant(in, got);
	core_kick_small(link);
}

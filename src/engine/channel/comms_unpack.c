/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks messages that arrive as fragments: copies them from the plugin's bounce pages to their
 * destinations, and gives the messages back to the plugin. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/channel/comms_gpu.h"

bool comms_in_pieces(const struct engine_chan *chan)
{
	const struct frame *frame = &chan->rx.frame;

	return chan->comms && chan->comms->gpu && frame->flags & FRAME_F_MSG &&
	       frame->payload_bytes;
}

static void unpack_job_free(struct comms_job *job)
{
	free(job->to);
	free(job->frags);
	free(job->jobs);
	free(job);
}

static void unpack_job_release(struct engine_stage *stage, bool last)
{
	if (last)
		unpack_job_free(stage->job);
}

/* Lists in `to` the local pieces of `bytes` bytes of a segment list, from `at` on, and returns
 * their number. If `to` is NULL, only counts them. */
static uint32_t unpack_job_pieces(const struct core_segs *segs, struct core_cursor at,
				  uint64_t bytes, struct iovec *to)
{
	struct core_piece piece;
	uint32_t n = 0;

	for (; core_piece_next(segs, &at, &bytes, &piece); n++) {
		const struct mem_region *region = segs->local[piece.seg->local];

		if (to)
			to[n] = (struct iovec){region->base + piece.seg->local_off + piece.off,
					       piece.length};
	}
	return n;
}

tcpx_status comms_receive(struct engine_chan *chan, const struct core_segs *segs)
{
	struct chan_rx *rx = &chan->rx;
	uint64_t bytes = rx->frame.payload_bytes;
	struct core_cursor at =
		segs ? core_cursor_at(segs, rx->core.linear) : (struct core_cursor){0};
	struct comms_job *job = calloc(1, sizeof(*job));
	struct engine_stage *stage = job ? stage_open(chan->peer, NULL, bytes) : NULL;

	if (!stage) {
		free(job);
		return TCPX_ERR_NO_MEMORY;
	}
	stage->job = job;
	stage->release = unpack_job_release;
	(void)copies_init(&stage->copies, NULL, 0, stage_commit_done);
	list_init(&job->node);
	job->comms = chan->comms;
	job->stage = stage;
	job->seq = rx->frame.seq;
	job->nto = segs ? unpack_job_pieces(segs, at, bytes, NULL) : rx->niov;
	job->to = malloc(job->nto * sizeof(*job->to));
	job->jobs = calloc(job->nto, sizeof(*job->jobs));
	if (!job->to || !job->jobs) {
		stage_close(stage);
		return TCPX_ERR_NO_MEMORY;
	}
	if (segs)
		(void)unpack_job_pieces(segs, at, bytes, job->to);
	else
		memcpy(job->to, rx->iov, job->nto * sizeof(*job->to));
	rx->stage = stage;
	return TCPX_OK;
}

void comms_message_drop(struct engine_chan *chan)
{
	chan->net->ops->message->give(chan->net, chan->rx.frame.seq);
}

/* Lists in `out` the parts of fragments that lie in the bytes [from, from + bytes) of the message,
 * at most `room` parts. Returns the number of parts, or room + 1 if there are more. More than
 * `room` parts are possible only if fragments overlap. */
static uint64_t frags_cut(const struct base_frag *frags, uint64_t n, uint64_t from, uint64_t bytes,
			  struct base_frag *out, uint64_t room)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t begin = frags[i].dst, end = begin + frags[i].len, skip;

		if (end <= from || begin >= from + bytes)
			continue;
		if (count == room)
			return room + 1;
		skip = begin < from ? from - begin : 0;
		if (end > from + bytes)
			end = from + bytes;
		out[count++] = (struct base_frag){.src = frags[i].src + (uint32_t)skip,
						  .len = (uint32_t)(end - begin - skip),
						  .dst = begin + skip - from};
	}
	return count;
}

/* Whether each fragment lies inside the message. The unpacker checks later, for each destination,
 * that the fragments fill it completely. */
static bool frags_inside(const struct base_frag *frags, uint64_t n, uint64_t bytes)
{
	for (uint64_t i = 0; i < n; i++)
		if (frags[i].dst > bytes || frags[i].len > bytes - frags[i].dst ||
		    frags[i].len > UINT32_MAX - frags[i].src)
			return false;
	return true;
}

/* For a job with several destinations: gives each destination its part of the fragments, from a
 * copy that the plugin cannot change. Returns ERR_CORRUPT if the fragments contradict each other or
 * the message's length, ERR_LIMIT if there are too many, or ERR_NO_MEMORY. */
static tcpx_status unpack_job_split(struct comms_job *job, const struct net_message *message)
{
	uint64_t n = message->nfrags, room = n + job->nto, from = 0;
	struct base_frag *all, *parts;

	if (n > NCCLNET_QUEUE_PIECES)
		return error_set(TCPX_ERR_LIMIT, 0,
				 "a message has %llu fragments, at most %u are possible",
				 (unsigned long long)n, NCCLNET_QUEUE_PIECES);
	all = job->frags = malloc((n + room) * sizeof(*all));
	if (!all)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "fragments of a message");
	memcpy(all, message->frags, n * sizeof(*all));
	if (!frags_inside(all, n, job->stage->bytes))
		return error_set(TCPX_ERR_CORRUPT, 0, "a fragment reaches beyond its message");
	parts = all + n;
	for (uint32_t i = 0; i < job->nto; i++) {
		uint64_t bytes = job->to[i].iov_len;
		uint64_t count = frags_cut(all, n, from, bytes, parts, room);

		if (count > room)
			return error_set(TCPX_ERR_CORRUPT, 0, "fragments of a message overlap");
		job->jobs[i].frags = parts;
		job->jobs[i].nfrags = count;
		parts += count;
		room -= count;
		from += bytes;
	}
	return TCPX_OK;
}

/* Marks the job as failed and keeps the last error. */
static void unpack_job_failed(struct comms_job *job, tcpx_status status)
{
	job->status = status;
	job->error = *error_last();
}

/* Takes the message from the plugin and describes its copies, one for each destination. On an
 * error, marks the job as failed. */
static void unpack_job_prepare(struct comms_job *job, struct engine_chan *chan)
{
	struct net_message message;
	tcpx_status status = chan->net->ops->message->take(chan->net, job->seq, &message);

	if (status == TCPX_OK && job->nto > 1)
		status = unpack_job_split(job, &message);
	if (status != TCPX_OK) {
		unpack_job_failed(job, status);
		return;
	}
	for (uint32_t i = 0; i < job->nto; i++) {
		struct mem_unpack_job *one = &job->jobs[i];

		if (job->nto == 1) {
			one->frags = message.frags;
			one->nfrags = message.nfrags;
		}
		one->src = message.pool;
		one->src_bytes = message.pool_bytes;
		one->dst = (uint64_t)(uintptr_t)job->to[i].iov_base;
		one->dst_bytes = one->expect = job->to[i].iov_len;
	}
}

/* Gives the job's copies to the unpacker. Returns false if the unpacker takes no more at the
 * moment; a later call goes on. */
static bool unpack_job_push(struct comms_job *job)
{
	struct mem_unpack *unpack = job->comms->gpu->unpack;

	while (job->pushed < job->nto && job->status == TCPX_OK) {
		tcpx_status status = mem_unpack_push(unpack, &job->jobs[job->pushed]);

		if (status == TCPX_ERR_AGAIN)
			return false;
		if (status != TCPX_OK)
			unpack_job_failed(job, status);
		else
			job->pushed++;
	}
	return true;
}

/* Whether the job has ended: all copies that were started have ended, and either the job has failed
 * or no copy is left to start. Marks the job as failed if a copy failed. */
static bool unpack_job_over(struct comms_job *job)
{
	struct mem_unpack *unpack = job->comms->gpu->unpack;

	while (job->ended < job->pushed) {
		tcpx_status status = mem_unpack_test(unpack, &job->jobs[job->ended]);

		if (status == TCPX_IN_PROGRESS)
			return false;
		job->ended++;
		if (status != TCPX_OK && job->status == TCPX_OK)
			unpack_job_failed(job, status);
	}
	return job->status != TCPX_OK || job->ended == job->nto;
}

void comms_unpack_start(struct engine_chan *chan, struct engine_stage *stage)
{
	struct comms_job *job = stage->job;

	list_push_back(&job->comms->jobs, &job->node);
	unpack_job_prepare(job, chan);
}

/* Ends the channel because the plugin reported wrong fragments. Nothing else that the comm reports
 * can be trusted. */
static void comm_distrust(struct engine_chan *chan, const struct comms_job *job)
{
	(void)error_set(TCPX_ERR_CHANNEL_LOST, 0, "%s", job->error.what);
	chan_fail(chan, TCPX_ERR_CHANNEL_LOST, 0);
}

bool comms_unpack_run(struct engine_comms *comms, struct engine_chan *chan)
{
	struct list_node *pos, *tmp;

	LIST_FOREACH(pos, &comms->jobs)
		if (!unpack_job_push(LIST_ENTRY(pos, struct comms_job, node)))
			break;
	if (!list_empty(&comms->jobs))
		mem_unpack_flush(comms->gpu->unpack);
	LIST_FOREACH_SAFE(pos, tmp, &comms->jobs) {
		struct comms_job *job = LIST_ENTRY(pos, struct comms_job, node);
		tcpx_status status;

		if (!unpack_job_over(job))
			break;
		status = job->status;
		list_remove(&job->node);
		if (chan && (status == TCPX_ERR_CORRUPT || status == TCPX_ERR_LIMIT))
			comm_distrust(chan, job);
		else if (chan)
			chan->net->ops->message->give(chan->net, job->seq);
		copies_start(&job->stage->copies, false, status); /* frees the job */
	}
	return !list_empty(&comms->jobs);
}

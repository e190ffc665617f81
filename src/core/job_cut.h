/* SPDX-License-Identifier: Apache-2.0 */
/* How a job is cut into chunks, and which channels may carry them, depending on the job's path. */
#ifndef CORE_JOB_CUT_H
#define CORE_JOB_CUT_H

#include "core/link.h"

/* Returns the number of bulk channels that carry streams. The channels with higher indices carry
 * messages of a plugin. */
static inline uint32_t core_stream_channels(const struct core_link *link)
{
	return link->cfg.bulk_channels - link->cfg.message_channels;
}

/* Whether the channel carries messages of a plugin instead of streams. */
static inline bool core_carries_messages(const struct core_link *link, uint32_t channel)
{
	return channel > core_stream_channels(link);
}

/* Whether the job is for the priority channel: it is marked by_prio, or it is short and not sent as
 * messages of a plugin, which have channels of their own. */
static inline bool core_job_is_small(const struct core_link *link, const struct core_job *job)
{
	return job->by_prio ||
	       (job->end <= link->cfg.small_bytes && job->path != CORE_PATH_MESSAGE);
}

/* Whether chunks of the job are sent as messages of a plugin. Never true for the request of a READ:
 * its `path` is the path of the data that the peer sends back. */
static inline bool core_job_messages(const struct core_job *job)
{
	return job->path == CORE_PATH_MESSAGE && job->kind != CORE_JOB_REQUEST;
}

/* Returns the size of the chunks that are smaller because the job begins with them, or `chunk` at
 * any other place. A job that is alone begins with one chunk of a quarter and one of half the size
 * for each channel. Another job with a staged source begins with one of half the size for each
 * channel. A WRITE that fits in one chunk is not divided, so that its notification can follow at
 * once. */
static inline uint64_t core_first_chunk(const struct core_link *link, const struct core_job *job,
					uint64_t linear, uint64_t chunk)
{
	uint64_t size = job->alone ? chunk / 4 : chunk / 2, end = 0;

	if (!job->fills && job->kind == CORE_JOB_WRITE && job->end <= chunk)
		return chunk;
	while (size < CORE_FIRST_CHUNK)
		size *= 2;
	for (; size < chunk; size *= 2) {
		end += core_stream_channels(link) * size;
		if (job->linear_base + linear < end)
			return size;
	}
	return chunk;
}

/* Returns the chunk size of the job at `linear`. It is fixed for each path, with three exceptions:
 * - A job that is marked by_prio is one chunk, so that the notification of a WRITE can follow at
 *   once.
 * - The first chunks are smaller (core_first_chunk) while no other bulk job waits, so that all
 *   channels and both ends start early. A job that does not have a staged source begins in this way
 *   only if it is `alone`; otherwise many short jobs would be sent in smaller chunks.
 * - Chunks of a staged source, which goes by the stream, are larger while two or more bulk jobs
 *   wait, or while every channel can still get two of the larger ones. This means fewer frames, and
 *   larger copies at the peer. */
static inline uint64_t core_chunk_bytes(const struct core_link *link, const struct core_job *job,
					uint64_t linear)
{
	uint64_t chunk = link->cfg.chunk_bytes, left = job->end - linear;
	bool others = link->sendq.bulk.next != link->sendq.bulk.prev;

	if (job->path == CORE_PATH_REFERENCE)
		return link->ref_chunk;
	if (job->path == CORE_PATH_MESSAGE)
		return link->cfg.message_bytes;
	if (job->by_prio && !job->fills)
		return job->end > chunk ? job->end : chunk;
	if (!others && (job->fills || job->alone)) {
		uint64_t first = core_first_chunk(link, job, linear, chunk);

		if (first < chunk)
			return first;
	}
	while (job->fills && 2 * chunk <= link->cfg.filled_chunk_bytes &&
	       (others || left / (2 * chunk) >= 2 * core_stream_channels(link)))
		chunk *= 2;
	return chunk;
}

/* Returns how many of `bytes` a chunk that begins at `linear` may have: up to the next multiple of
 * the chunk size, counted from the transfer's start. Neighbouring chunks then lie side by side in
 * staging. */
static inline uint64_t core_chunk_limit(const struct core_link *link, const struct core_job *job,
					uint64_t linear, uint64_t bytes)
{
	uint64_t chunk = core_chunk_bytes(link, job, linear);
	uint64_t most = chunk - (job->linear_base + linear) % chunk;

	return bytes < most ? bytes : most;
}

/* Returns the window for staged sources on one channel: while this many bytes of them are sent and
 * not taken by the peer, the channel cuts no more of them. CORE_FILLED_CHUNKS chunks of the usual
 * size fit in. While one chunk of the largest size is sent and not taken, another may be cut. */
static inline uint64_t core_filled_window(const struct core_config *cfg)
{
	uint64_t few = CORE_FILLED_CHUNKS * (uint64_t)cfg->chunk_bytes;
	uint64_t large = (uint64_t)cfg->filled_chunk_bytes + cfg->chunk_bytes;

	return few > large ? few : large;
}

/* Returns how many bytes are cut of the job before the next job has its turn. By reference this is
 * several chunks of cfg.ref_chunk bytes, so that the peer finds neighbouring ones, which it copies
 * as one. */
static inline uint64_t core_job_quantum(const struct core_link *link, const struct core_job *job)
{
	return job->path == CORE_PATH_REFERENCE ? CORE_REF_QUANTUM * (uint64_t)link->cfg.ref_chunk
						: CORE_QUANTUM_BYTES;
}

/* Returns up to which byte the job may be cut for the first time. A staged source may be cut only
 * as far as it is filled. */
static inline uint64_t core_job_cut_end(const struct core_job *job)
{
	return job->fills && job->fill.ready < job->end ? job->fill.ready : job->end;
}

#endif

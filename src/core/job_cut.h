/* SPDX-License-Identifier: Apache-2.0 */
/* Into which chunks a job is cut, and for which channels: what depends on its path. */
#ifndef CORE_JOB_CUT_H
#define CORE_JOB_CUT_H

#include "core/link.h"

/* Bulk channels 1 to this one carry their payloads behind the headers, those behind it messages. */
static inline uint32_t core_stream_channels(const struct core_link *link)
{
	return link->cfg.bulk_channels - link->cfg.message_channels;
}

static inline bool core_carries_messages(const struct core_link *link, uint32_t channel)
{
	return channel > core_stream_channels(link);
}

/* Small jobs go by the lane; messages have channels of their own. */
static inline bool core_job_is_small(const struct core_link *link, const struct core_job *job)
{
	return job->by_lane ||
	       (job->end <= link->cfg.small_bytes && job->path != CORE_PATH_MESSAGE);
}

/* What is cut of the job now are messages; a READ's requests are not. */
static inline bool core_job_messages(const struct core_job *job)
{
	return job->path == CORE_PATH_MESSAGE && job->kind != CORE_JOB_REQUEST;
}

/* Of a staged source chunks are larger while there is enough for every channel: fewer frames, and
 * larger copies at the far side. */
static inline uint64_t core_chunk_bytes(const struct core_link *link, const struct core_job *job,
					uint64_t linear)
{
	uint64_t chunk = link->cfg.chunk_bytes, left = job->end - linear;
	bool others = link->sendq.bulk.next != link->sendq.bulk.prev;

	if (job->path == CORE_PATH_REFERENCE)
		return link->ref_chunk;
	if (job->path == CORE_PATH_MESSAGE)
		return link->cfg.message_bytes;
	while (job->fills && 2 * chunk <= link->cfg.filled_chunk_bytes &&
	       (others || left / (2 * chunk) >= 2 * core_stream_channels(link)))
		chunk *= 2;
	return chunk;
}

/* A chunk ends where a multiple of the chunk size lies in the transfer, so that neighbours in
 * staging fit together. */
static inline uint64_t core_chunk_limit(const struct core_link *link, const struct core_job *job,
					uint64_t linear, uint64_t bytes)
{
	uint64_t chunk = core_chunk_bytes(link, job, linear);
	uint64_t most = chunk - (job->linear_base + linear) % chunk;

	return bytes < most ? bytes : most;
}

/* Bytes of staged sources that are on their way on a channel before it takes no more: four chunks,
 * of large ones two. */
static inline uint64_t core_filled_window(const struct core_config *cfg)
{
	uint64_t few = CORE_FILLED_CHUNKS * (uint64_t)cfg->chunk_bytes;
	uint64_t large = (uint64_t)cfg->filled_chunk_bytes + cfg->chunk_bytes;

	return few > large ? few : large;
}

/* What is cut of it before the next one's turn. By reference so much that the peer finds neighbours
 * to copy as one. */
static inline uint64_t core_job_quantum(const struct core_link *link, const struct core_job *job)
{
	return job->path == CORE_PATH_REFERENCE ? CORE_REF_QUANTUM * (uint64_t)link->cfg.ref_chunk
						: CORE_QUANTUM_BYTES;
}

/* Up to where its bytes may be cut for the first time. */
static inline uint64_t core_job_cut_end(const struct core_job *job)
{
	return job->fills && job->fill.ready < job->end ? job->fill.ready : job->end;
}

#endif

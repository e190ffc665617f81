/* SPDX-License-Identifier: Apache-2.0 */
/* The unpack engine: makes launches of the pushed jobs, and ends a job when its launch has
 * ended. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "mem/unpack_priv.h"

#define LOOKS 1024u /* unpack_ask reads the clock at every LOOKS-th call */
/* if no word of a lane changes for this long, the driver is asked whether the lanes are empty */
#define ASK_NS (100 * CLOCK_MS_NS)

enum unpack_job_state { JOB_QUEUED = 1, JOB_LAUNCHED, JOB_OVER };

/* Returns the slot that is being filled for the next launch. */
static struct unpack_slot *slot_open(struct mem_unpack *u)
{
	return &u->slots[(u->launched + 1) % UNPACK_SLOTS];
}

static void slot_reset(struct unpack_slot *slot)
{
	slot->first = NULL;
	slot->last = &slot->first;
	slot->count = 0;
	slot->bytes = 0;
}

tcpx_status mem_unpack_open(const struct mem_unpack_opts *opts, struct mem_unpack **out_unpack)
{
	struct mem_unpack *u;
	tcpx_status status;

	if (opts->mode > MEM_UNPACK_NONE)
		return error_set(TCPX_ERR_INVALID, 0, "unknown unpack mode %d", (int)opts->mode);
	if (!opts->job_bytes || opts->job_bytes > MEM_UNPACK_JOB_MAX)
		return error_set(TCPX_ERR_INVALID, 0,
				 "messages of %llu bytes to unpack, not 1 .. %llu",
				 (unsigned long long)opts->job_bytes, MEM_UNPACK_JOB_MAX);
	u = calloc(1, sizeof(*u));
	if (u)
		u->order = calloc(2 * MEM_UNPACK_PIECES, sizeof(*u->order));
	if (!u || !u->order) {
		free(u);
		return error_set(TCPX_ERR_NO_MEMORY, 0, "an unpacker");
	}
	u->opts = *opts;
	u->stage_bytes = UINT64_MAX;
	for (int i = 0; i < UNPACK_SLOTS; i++)
		slot_reset(&u->slots[i]);
	if (opts->mode == MEM_UNPACK_CPU || opts->mode == MEM_UNPACK_NONE)
		status = mem_unpack_cpu_open(u);
	else
		status = mem_unpack_cuda_open(u);
	if (status != TCPX_OK) {
		free(u->order);
		free(u);
		return status;
	}
	*out_unpack = u;
	return TCPX_OK;
}

void mem_unpack_close(struct mem_unpack *u)
{
	if (!u)
		return;
	u->backend->close(u);
	free(u->order);
	free(u);
}

tcpx_status mem_unpack_reach(struct mem_unpack *u, uint32_t device)
{
	return u->backend->reach(u, device);
}

void mem_unpack_break(struct mem_unpack *u, int loud)
{
	if (u->broken)
		return;
	u->error = *error_last();
	u->broken = u->error.status;
	if (loud)
		LOG_ERROR("GPU %u: %s", u->opts.device, u->error.what);
}

static struct unpack_lane *lane_of(struct mem_unpack *u, uint64_t serial)
{
	return &u->lanes[serial % UNPACK_LANES];
}

/* Updates lane->known from the lane's word. The word has the low 32 bits of the number of a launch.
 * They suffice, because this launch is one of the last few. */
static void lane_look(struct mem_unpack *u, struct unpack_lane *lane)
{
	uint32_t word = atomic_load_explicit(lane->word, memory_order_acquire);
	uint32_t more = word - (uint32_t)lane->known;

	if (!more || more > lane->last - lane->known)
		return;
	lane->known += more;
	u->moved_ns = 0;
}

/* Removes the jobs from a slot. Each job gets `state`, `serial` (the number of its launch, or 0 if
 * it is not launched), and `status` (TCPX_OK, or the reason why the job fails). */
static void slot_leave(struct unpack_slot *slot, tcpx_status status, uint64_t serial, int state)
{
	struct mem_unpack_job *job, *next;

	for (job = slot->first; job; job = next) {
		next = job->next;
		job->status = status;
		job->serial = serial;
		job->state = state;
	}
	slot->first = NULL;
	slot->last = &slot->first;
}

/* Launches the slot that is being filled. If the launch fails and no part of it is in the lane, its
 * jobs end at once. If it fails and a part is in the lane, its jobs end when the lane has passed
 * that part. */
static void unpack_launch(struct mem_unpack *u)
{
	struct unpack_slot *slot = slot_open(u);
	uint64_t serial = u->launched + 1;
	int put = 0;
	tcpx_status status = u->backend->launch(u, slot, serial, &put);

	if (status != TCPX_OK)
		u->error = *error_last();
	if (status != TCPX_OK && !put) {
		slot_leave(slot, status, 0, JOB_OVER);
		slot_reset(slot);
		return;
	}
	u->launched = lane_of(u, serial)->last = serial;
	u->counts.launches++;
	slot_leave(slot, status, serial, JOB_LAUNCHED);
	/* The previous launch of the next slot was in the same lane as the launch just made. That
	 * lane had to be free, so the previous launch has ended, and the slot can be reset. */
	slot_reset(slot_open(u));
}

void mem_unpack_flush(struct mem_unpack *u)
{
	struct unpack_lane *lane = lane_of(u, u->launched + 1);
	struct unpack_slot *slot = slot_open(u);

	if (!slot->first)
		return;
	if (u->broken) {
		slot_leave(slot, u->broken, 0, JOB_OVER);
		slot_reset(slot);
		return;
	}
	if (lane->known != lane->last)
		lane_look(u, lane);
	if (lane->known == lane->last)
		unpack_launch(u);
}

static tcpx_status job_end(struct mem_unpack *u, struct mem_unpack_job *job, tcpx_status status)
{
	job->state = JOB_OVER;
	job->status = status;
	job->moved = status == TCPX_OK && u->opts.mode != MEM_UNPACK_NONE;
	return status;
}

static tcpx_status check_job(const struct mem_unpack *u, const struct mem_unpack_job *job)
{
	if (job->src % 16 || job->src > UINT64_MAX - job->src_bytes ||
	    job->dst > UINT64_MAX - job->dst_bytes || (job->nfrags && !job->frags))
		return error_set(TCPX_ERR_INVALID, 0,
				 "pool of %llu bytes at %#llx, %llu bytes posted at %#llx",
				 (unsigned long long)job->src_bytes, (unsigned long long)job->src,
				 (unsigned long long)job->dst_bytes, (unsigned long long)job->dst);
	if (job->nfrags > MEM_UNPACK_FRAGS)
		return error_set(TCPX_ERR_LIMIT, 0, "%llu fragments of a message, at most %u",
				 (unsigned long long)job->nfrags, MEM_UNPACK_FRAGS);
	if (job->expect > u->opts.job_bytes)
		return error_set(TCPX_ERR_LIMIT, 0, "a message of %llu bytes, at most %llu",
				 (unsigned long long)job->expect,
				 (unsigned long long)u->opts.job_bytes);
	return TCPX_OK;
}

/* Whether the job can join the jobs in the slot: its fragments are in the same bounce pool, and
 * there is room for its pieces and bytes. The job has at most one piece per fragment, plus one per
 * full step of a warp. */
static int slot_room(const struct mem_unpack *u, const struct unpack_slot *slot,
		     const struct mem_unpack_job *job)
{
	uint64_t most = job->nfrags + job->expect / (MEM_UNPACK_WORDS * 16u);

	if (!slot->first)
		return 1; /* an empty slot has room for every job */
	return slot->src == job->src && most <= MEM_UNPACK_PIECES - slot->count &&
	       slot->bytes <= u->stage_bytes && job->expect <= u->stage_bytes - slot->bytes;
}

tcpx_status mem_unpack_push(struct mem_unpack *u, struct mem_unpack_job *job)
{
	struct unpack_slot *slot = slot_open(u);
	tcpx_status status;

	if (u->broken)
		return error_raise(&u->error);
	status = check_job(u, job);
	if (status != TCPX_OK)
		return status;
	if (!slot_room(u, slot, job)) {
		mem_unpack_flush(u);
		slot = slot_open(u);
		if (slot->first)
			return error_set(TCPX_ERR_AGAIN, 0, "%u launches of unpacking under way",
					 UNPACK_LANES);
	}
	status = mem_unpack_add(u, slot, job);
	if (status != TCPX_OK)
		return status;
	u->counts.jobs++;
	u->counts.bytes += job->expect;
	job->moved = 0;
	job->next = NULL;
	if (!job->expect) {
		(void)job_end(u, job, TCPX_OK);
		return TCPX_OK;
	}
	slot->src = job->src;
	job->state = JOB_QUEUED;
	*slot->last = job;
	slot->last = &job->next;
	return TCPX_OK;
}

/* Asks the backend whether the lanes are empty, but only if the words are not written, if they have
 * not changed for ASK_NS, or if the unpacker is broken. An error of a lane breaks the unpacker.
 * Jobs under way are given up only when a lane reports an error after the unpacker was broken,
 * because the first error may come from a call that had no effect on the lanes. */
static void unpack_ask(struct mem_unpack *u)
{
	int was_broken = u->broken != TCPX_OK;
	tcpx_status status;
	int64_t now_ns;

	if (!u->wordless && !u->broken) {
		if (++u->looks % LOOKS)
			return;
		now_ns = clock_now_ns();
		if (!u->moved_ns)
			u->moved_ns = now_ns;
		if (now_ns - u->moved_ns < ASK_NS)
			return;
		u->moved_ns = now_ns;
	}
	status = u->backend->ask(u);
	for (int i = 0; i < UNPACK_LANES && status == TCPX_OK; i++)
		u->lanes[i].known = u->lanes[i].last;
	if (status < 0 && was_broken)
		u->lost = 1;
}

/* Ends a launched job if its launch has ended. Also ends it if the unpacker is lost, because no
 * more bytes move then (see mem_unpack.lost). */
static void launched_look(struct mem_unpack *u, struct mem_unpack_job *job)
{
	struct unpack_lane *lane = lane_of(u, job->serial);

	if (job->serial > lane->known)
		lane_look(u, lane);
	if (job->serial > lane->known)
		unpack_ask(u);
	if (job->serial <= lane->known)
		(void)job_end(u, job, job->status);
	else if (u->lost)
		(void)job_end(u, job, u->broken);
}

tcpx_status mem_unpack_test(struct mem_unpack *u, struct mem_unpack_job *job)
{
	if (job->state == JOB_QUEUED)
		mem_unpack_flush(u);
	if (job->state == JOB_LAUNCHED)
		launched_look(u, job);
	if (job->state != JOB_OVER)
		return TCPX_IN_PROGRESS;
	if (job->status != TCPX_OK)
		(void)error_raise(&u->error);
	return job->status;
}

void mem_unpack_counts(const struct mem_unpack *u, struct mem_unpack_counts *out_counts)
{
	*out_counts = u->counts;
}

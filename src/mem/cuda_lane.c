/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of copies in one direction: issues them to the copy engine or to a kernel, aborts launches
 * that do not begin, and ends groups in order. */
#include "mem/cuda_lane.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "mem/cuda_issue.h"

/* most pieces of a group if no launch is possible, so that the copy engine must copy the group. Not
 * fewer, because after each group the stream writes the group's number, which costs as much as half
 * a small copy. */
#define GROUP_CALLS 32u
#define ENGINE_CALLS 8u		 /* up to this many copy-engine calls cost less than a launch */
#define GROUP_BYTES (4ull << 20) /* most bytes of a group; the bus needs 80 us for them */
/* most bytes of a group that is issued while no other group is under way; few, so that it ends
 * early */
#define FIRST_BYTES (1ull << 20)
#define MOVE_CALLS 2u		  /* like ENGINE_CALLS, for moves */
#define MOVE_BYTES (128ull << 20) /* like GROUP_BYTES, for moves */
/* like FIRST_BYTES, and most pieces, for moves: the GPU works on this group while the list of the
 * next one is written */
#define MOVE_FIRST_BYTES (16ull << 20)
#define MOVE_FIRST_PIECES 512u
/* if nothing has happened in a lane for this long, the driver is asked whether a group has ended */
#define ASK_NS (100 * CLOCK_MS_NS)

int64_t mem_lane_patience_ns = 2 * CLOCK_MS_NS;

static tcpx_status way_open(struct lane_stream *way, const struct sys_cuda *api, void *word,
			    cuda_ptr word_at, int priority)
{
	cuda_result result;

	*way = (struct lane_stream){.word = word, .word_at = word_at};
	atomic_store_explicit(way->word, 0, memory_order_relaxed);
	result = api->stream_create(&way->stream, CUDA_STREAM_NON_BLOCKING, priority);
	if (result == CUDA_OK)
		return TCPX_OK;
	way->stream = NULL;
	return sys_cuda_error(result, "stream of the staging copies");
}

static void way_close(struct lane_stream *way, const struct sys_cuda *api)
{
	if (way->stream)
		(void)api->stream_destroy(way->stream);
	way->stream = NULL;
}

tcpx_status mem_lane_open(struct cuda_lane *lane, const struct sys_cuda *api,
			  const struct mem_cuda_kernels *kernels, void *memory, cuda_ptr memory_at,
			  _Atomic uint32_t *pending, int priority)
{
	uint8_t *at = memory;
	tcpx_status status;

	memset(lane, 0, sizeof(*lane));
	lane->api = api;
	lane->pending = pending;
	lane->copies = (enum config_copies)config_u64(CONFIG_GPU_COPY);
	lane->engine_calls = ENGINE_CALLS;
	lane->group_bytes = GROUP_BYTES;
	lane->first_bytes = FIRST_BYTES;
	lane->first_pieces = MEM_LAUNCH_PIECES;
	status = way_open(&lane->engine, api, at, memory_at, priority);
	if (status != TCPX_OK || !kernels)
		return status;
	status = way_open(&lane->kernel, api, at + MEM_LANE_WORDS / 2,
			  memory_at + MEM_LANE_WORDS / 2, priority);
	if (status == TCPX_OK)
		status = mem_launcher_open(&lane->launcher, kernels, lane->kernel.stream,
					   at + MEM_LANE_WORDS, memory_at + MEM_LANE_WORDS);
	if (status != TCPX_OK) /* not returned: if the device is broken, the next call reports it */
		LOG_INFO("no copy kernels: %s", error_last()->what);
	return TCPX_OK;
}

int mem_lane_moves(struct cuda_lane *lane, void *bounce)
{
	lane->bounce = lane->launcher.kernels ? bounce : NULL;
	lane->engine_calls = MOVE_CALLS;
	lane->group_bytes = MOVE_BYTES;
	lane->first_bytes = MOVE_FIRST_BYTES;
	lane->first_pieces = MOVE_FIRST_PIECES;
	lane->queue.in_order = 1;
	lane->launcher.move_blocks = (uint32_t)config_u64(CONFIG_GPU_SMS);
	return lane->launcher.kernels != NULL;
}

void mem_lane_close(struct cuda_lane *lane)
{
	mem_launcher_close(&lane->launcher);
	way_close(&lane->kernel, lane->api);
	way_close(&lane->engine, lane->api);
}

/* Gives the group its number, and makes the stream write the number when all copies issued to the
 * stream so far have ended. Sets group->flagged to 1 if the stream will write the number. Sets it
 * to 0 if the driver call failed, if the device is broken, or if its streams cannot write words. */
static void group_flag(struct cuda_lane *lane, struct cuda_group *group, struct lane_stream *way)
{
	cuda_result result = CUDA_ERR_NOT_SUPPORTED;

	group->way = way;
	group->number = ++way->number;
	group->flagged = 0;
	if (lane->fatal)
		return;
	if (!lane->flagless && lane->api->stream_write)
		result = lane->api->stream_write(way->stream, way->word_at, group->number, 0);
	if (result == CUDA_ERR_NOT_SUPPORTED)
		lane->flagless = 1;
	if (result != CUDA_OK && sys_cuda_fatal(result))
		lane->fatal = result;
	group->flagged = result == CUDA_OK;
}

/* Makes the kernel's stream work: a launch that copies nothing becomes a group without copies. */
static void kernel_warm(struct cuda_lane *lane)
{
	struct cuda_group *group = &lane->under[lane->oldest];
	struct cuda_launch *launch = mem_launcher_slot(&lane->launcher);

	if (!launch || mem_launch_put_nothing(&lane->launcher, launch) != MEM_LAUNCH_ALL)
		return;
	*group = (struct cuda_group){.launch = launch, .since_ns = clock_now_ns()};
	group_flag(lane, group, &lane->kernel);
	lane->nunder = 1;
}

/* Makes the engine's stream write to its word the number that the word holds already. Nothing may
 * be under way in the stream; then the write changes nothing. */
static void engine_warm(const struct cuda_lane *lane)
{
	(void)lane->api->stream_write(lane->engine.stream, lane->engine.word_at,
				      lane->engine.number, 0);
}

void mem_lane_warm(struct cuda_lane *lane)
{
	if (lane->nunder || lane->naborted || lane->flagless || lane->fatal ||
	    !lane->api->stream_write || lane->queue.first || mem_queue_pushed(&lane->queue))
		return;
	kernel_warm(lane);
	if (!lane->fatal && !mem_queue_pushed(&lane->queue))
		engine_warm(lane);
}

/* Whether a copy of the group may be within the GPU's own memory, in a lane with a bounce buffer.
 * The driver's own copy is not used then: it is a kernel that needs room on an SM, is not started
 * before kernels of the same or a higher priority that wait for room, and cannot be aborted. */
static bool group_is_within(const struct cuda_lane *lane, const struct cuda_group *group)
{
	for (const struct mem_copy *copy = group->first; copy; copy = copy->next)
		if (copy->within)
			return lane->bounce != NULL;
	return false;
}

/* Issues the group's copies to the copy engine in the stream of `way`, and after them the write of
 * the group's number. Copies within the GPU's memory go through lane->bounce, unless it is NULL. */
static void group_engine(struct cuda_lane *lane, struct cuda_group *group, struct lane_stream *way)
{
	cuda_result result = mem_issue_copies(lane->api, way->stream, lane->bounce, group->first);

	if (result != CUDA_OK)
		lane->fatal = result;
	group_flag(lane, group, way);
}

/* Returns memory for the pieces of a launch, or NULL if the copy engine must be used: there are no
 * kernels, all such memory is in use, or aborted launches are in the stream. A new launch would
 * wait for these. */
static struct cuda_launch *lane_launch(struct cuda_lane *lane)
{
	return lane->naborted ? NULL : mem_launcher_slot(&lane->launcher);
}

/* Removes the next group of copies from the queue and issues it. Uses a kernel, if one can be
 * launched, where the copy engine would need many calls or the bounce buffer, or if
 * TCPX_GPU_COPY=kernel. */
static void group_issue(struct cuda_lane *lane, int64_t now_ns)
{
	struct cuda_group *group = &lane->under[(lane->oldest + lane->nunder) % CUDA_LANE_GROUPS];
	struct cuda_launch *launch = lane_launch(lane);
	enum mem_launch_result how = MEM_LAUNCH_NONE;
	uint32_t calls = UINT32_MAX;
	uint32_t pieces = lane->nunder ? MEM_LAUNCH_PIECES : lane->first_pieces;

	*group = (struct cuda_group){.since_ns = now_ns};
	group->first =
		mem_queue_group(&lane->queue, lane->nunder ? lane->group_bytes : lane->first_bytes,
				launch ? pieces : GROUP_CALLS);
	if (lane->copies != CONFIG_COPIES_KERNEL && !group_is_within(lane, group))
		calls = mem_issue_calls(group->first, lane->launcher.move_blocks
							      ? lane->engine_calls + 1
							      : UINT32_MAX);
	if (launch && calls > lane->engine_calls)
		how = mem_launch_put(&lane->launcher, launch, group->first, calls);
	if (how == MEM_LAUNCH_NONE) {
		group_engine(lane, group, &lane->engine);
	} else {
		group->launch = launch;
		group->mixed = how == MEM_LAUNCH_PART;
		if (group->mixed)
			group_engine(lane, group, &lane->kernel);
		else
			group_flag(lane, group, &lane->kernel);
	}
	lane->nunder++;
}

/* Calls `done` of each copy in the list. `done` may free the copy, and may push other copies. */
static void lane_copies_end(struct cuda_lane *lane, struct mem_copy *copy, tcpx_status status)
{
	while (copy) {
		struct mem_copy *next = copy->next;

		copy->more = next != NULL;
		copy->done(copy, copy->result ? copy->result : status);
		atomic_fetch_sub(lane->pending, 1);
		copy = next;
	}
}

static int group_has_ended(const struct cuda_group *group)
{
	const struct lane_stream *way = group->way;
	uint32_t reached = atomic_load_explicit(way->word, memory_order_acquire);

	return (int32_t)(reached - group->number) >= 0 ||
	       (int32_t)(way->known - group->number) >= 0;
}

/* Asks the driver whether the stream is empty. Returns CUDA_OK if it is: every group issued to the
 * stream has ended. */
static cuda_result way_query(const struct cuda_lane *lane, struct lane_stream *way)
{
	cuda_result result = lane->api->stream_query(way->stream);

	if (result == CUDA_OK)
		way->known = way->number;
	return result;
}

/* Returns 1 if the group has ended. If the stream will not write the group's number, or if nothing
 * has happened in the lane for ASK_NS, asks the driver, too. */
static int group_poll(struct cuda_lane *lane, struct cuda_group *group, int64_t now_ns)
{
	cuda_result result;

	if (group_has_ended(group))
		return 1;
	if (group->flagged && now_ns - lane->moved_ns < ASK_NS)
		return 0;
	result = way_query(lane, group->way);
	lane->moved_ns = now_ns;
	if (result != CUDA_OK && result != CUDA_ERR_NOT_READY && sys_cuda_fatal(result))
		lane->fatal = result;
	return result == CUDA_OK;
}

/* Removes the oldest group, which must have ended or be in a dead stream, and returns its copies.
 * The caller must then call `done` of each copy. */
static struct mem_copy *group_take(struct cuda_lane *lane, int64_t now_ns)
{
	struct cuda_group *group = &lane->under[lane->oldest];
	struct mem_copy *copies = group->first;

	if (group->launch)
		group->launch->busy = 0;
	lane->oldest = (lane->oldest + 1) % CUDA_LANE_GROUPS;
	lane->under[lane->oldest].since_ns = now_ns;
	lane->nunder--;
	return copies;
}

/* Returns 1 if the group's kernel was aborted and copied nothing. Returns 0 for a mixed group (only
 * some of its launches succeeded), which the copy engine copies in any case. */
static int group_was_stopped(const struct cuda_group *group)
{
	return group->launch && !group->mixed && mem_launch_stopped(group->launch);
}

/*
 * Aborts the launch of the oldest group if the launch has not begun after mem_lane_patience_ns, or
 * at once if earlier aborted launches are still in the stream. (A kernel of the application may
 * occupy the GPU for any length of time.) Returns 1 if the aborted launch is certain to touch no
 * memory; the copy engine then copies the group. The launch's mark and pieces stay in use until the
 * stream has passed the launch, and until then the launch counts in *lane->pending. Otherwise
 * returns 0. Does nothing for a mixed group, for which only some launches succeeded.
 */
static unsigned abort_oldest_launch(struct cuda_lane *lane, int64_t now_ns)
{
	struct cuda_group *group = &lane->under[lane->oldest];

	if (!lane->nunder || !group->launch || group->mixed ||
	    (!lane->naborted && now_ns - group->since_ns < mem_lane_patience_ns) ||
	    mem_launch_started(group->launch) || !mem_launch_abort(group->launch))
		return 0;
	atomic_fetch_add(lane->pending, 1);
	lane->late[lane->naborted++] = *group;
	group->launch = NULL;
	group_engine(lane, group, &lane->engine);
	return 1;
}

/* Removes element `i` of lane->late, an aborted launch that the stream has passed. */
static void late_remove(struct cuda_lane *lane, unsigned i)
{
	lane->late[i].launch->busy = 0;
	lane->late[i] = lane->late[--lane->naborted];
	atomic_fetch_sub(lane->pending, 1);
}

/* First ends groups, oldest first; if the kernel of a group was aborted, the copy engine copies the
 * group instead. Then aborts the oldest launch if it does not begin, and issues new groups. Finally
 * calls `done` of the copies that have ended. */
unsigned mem_lane_round(struct cuda_lane *lane, int64_t now_ns)
{
	struct mem_copy *over = NULL, **tail = &over;
	unsigned moved = 0;

	for (unsigned i = lane->naborted; i-- > 0;)
		if (group_poll(lane, &lane->late[i], now_ns))
			late_remove(lane, i);
	while (lane->nunder && group_poll(lane, &lane->under[lane->oldest], now_ns)) {
		struct cuda_group *group = &lane->under[lane->oldest];

		moved++;
		if (!group_was_stopped(group)) {
			*tail = group_take(lane, now_ns);
			while (*tail)
				tail = &(*tail)->next;
			continue;
		}
		group->launch->busy = 0;
		group->launch = NULL;
		group_engine(lane, group, &lane->engine);
	}
	if (!lane->fatal) {
		moved += abort_oldest_launch(lane, now_ns);
		mem_queue_take(&lane->queue);
		for (; lane->queue.first && lane->nunder < CUDA_LANE_GROUPS && !lane->fatal;
		     moved++)
			group_issue(lane, now_ns);
		if (moved)
			lane->moved_ns = now_ns;
	}
	/* called last, because `done` takes time, in which the GPU works on the new groups */
	lane_copies_end(lane, over, TCPX_OK);
	return moved;
}

/* Returns 1 if the group will copy no more bytes, because it has ended or its stream is dead.
 * *out_status is the status for the group's copies: TCPX_OK if the group ended normally, else
 * `status`. Called when the device is broken. */
static int group_ended_or_dead(struct cuda_lane *lane, struct cuda_group *group, tcpx_status status,
			       tcpx_status *out_status)
{
	cuda_result result = group_has_ended(group) ? CUDA_OK : way_query(lane, group->way);

	*out_status = result == CUDA_OK && !group_was_stopped(group) ? TCPX_OK : status;
	return result == CUDA_OK || sys_cuda_fatal(result);
}

unsigned mem_lane_fail(struct cuda_lane *lane, tcpx_status status)
{
	struct mem_copy *queued;
	unsigned moved = 0;
	tcpx_status end;

	for (unsigned i = lane->naborted; i-- > 0;)
		if (group_ended_or_dead(lane, &lane->late[i], status, &end))
			late_remove(lane, i);
	for (; lane->nunder && group_ended_or_dead(lane, &lane->under[lane->oldest], status, &end);
	     moved++)
		lane_copies_end(lane, group_take(lane, 0), end);
	mem_queue_take(&lane->queue);
	queued = lane->queue.first;
	lane->queue.first = lane->queue.last = NULL;
	lane_copies_end(lane, queued, status);
	return moved + (queued != NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One transfer at a time waits for wake-ups more than for bytes. The threads of the lanes are those
 * that are awake or lead, so what is alone in its session, as those of its link before it were,
 * goes by the lane up to a greater size; and who posts a WRITE sends the first of it himself. One
 * thread serves all lanes of a process, and must not do the workers' work: one that is posted and
 * one that is answered at a time, whatever the number of sessions and peers. What goes by reference
 * has frames without bytes, and no such turn.
 */
#include "engine/path/lone.h"

#define LONE_BYTES (256u << 10)
#define WATCHED_BYTES (1u << 20) /* while the lanes' worker stays awake beside who looks */
#define REF_BYTES (256ull << 20) /* by reference: what is behind it waits for its end */
#define SENT_BYTES (1u << 20)	 /* by who posts it, a channel's share at most */
#define STREAK 3 /* so many without company before it, or a burst's first one would go astray */

static bool take_turn(_Atomic uint32_t *turn)
{
	uint32_t none = 0;

	return atomic_compare_exchange_strong(turn, &none, 1);
}

/* Between memories that a socket call takes, by a socket: what is staged, fetched or lent, and
 * messages, have windows and wake-ups of their own. */
static bool plain(const struct engine_request *request)
{
	const struct core_xfer *xfer = &request->xfer;
	const struct engine_chan *lane = request->peer->link.chan[CORE_LANE];

	return xfer->path == CORE_PATH_STREAM && !xfer->local_staged && !xfer->remote_staged &&
	       lane && !lane->net->ops->loan;
}

static uint64_t lane_bytes(const struct engine_request *request)
{
	if (request->xfer.path == CORE_PATH_REFERENCE)
		return REF_BYTES;
	if (!plain(request))
		return 0;
	return worker_watched() ? WATCHED_BYTES : LONE_BYTES;
}

/* Nothing else is under way, and nothing was when the last ones were posted. */
static bool is_alone(const struct engine_request *request)
{
	struct engine_peer *peer = request->peer;

	if (atomic_load(&request->session->counters.active) > 1) {
		peer->link.lone_streak = 0;
		return false;
	}
	if (peer->link.lone_streak == STREAK)
		return true;
	peer->link.lone_streak++;
	return false;
}

void lone_choose(struct engine_request *request)
{
	struct core_xfer *xfer = &request->xfer;
	uint64_t total = request->prog.total, most = lane_bytes(request);
	bool moves = xfer->op == TCPX_OP_WRITE || xfer->op == TCPX_OP_READ;
	bool lone = is_alone(request) && moves && total > CORE_SMALL_BYTES && most;
	bool ref = xfer->path == CORE_PATH_REFERENCE;

	xfer->by_lane = lone && total <= most && (ref || take_turn(&engine_runtime.lone_posted));
	request->sends =
		lone && xfer->op == TCPX_OP_WRITE && (ref ? xfer->by_lane : total <= SENT_BYTES);
	atomic_store(&request->leads, total <= CORE_SMALL_BYTES || xfer->by_lane);
}

void lone_over(struct engine_request *request)
{
	if (request->xfer.by_lane && request->xfer.path != CORE_PATH_REFERENCE)
		atomic_store(&engine_runtime.lone_posted, 0);
	request->xfer.by_lane = false;
}

void lone_serve(struct core_push *push, const struct frame *request)
{
	struct core_job *job = &push->job;
	uint64_t total = push->prog.total;

	if (request->key != FRAME_READ_BY_LANE || job->fills || job->path == CORE_PATH_MESSAGE)
		return;
	job->by_lane = job->path == CORE_PATH_REFERENCE
			       ? total <= REF_BYTES
			       : total <= WATCHED_BYTES && take_turn(&engine_runtime.lone_answered);
}

void lone_served(const struct core_push *push)
{
	if (push->job.by_lane && push->job.path != CORE_PATH_REFERENCE)
		atomic_store(&engine_runtime.lone_answered, 0);
}

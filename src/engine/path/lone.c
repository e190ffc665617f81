/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transfer with no other under way waits for wake-ups more than for bytes. The threads that serve
 * lanes are awake, or lead. So a transfer that is alone in its session, as the last ones of its
 * link were, goes by the lane up to a larger size, and the thread that posts a WRITE sends its
 * first part itself. One worker serves all lanes of the process and must not do the other workers'
 * work: only one such transfer that is posted and one that is answered has the turn at a time,
 * whatever the number of sessions and peers. Transfers by reference need no turn, since their
 * frames carry no bytes.
 */
#include "engine/path/lone.h"

#define LONE_BYTES (256u << 10)
#define WATCHED_BYTES (1u << 20) /* while an application polls and the lanes' worker is awake */
#define REF_BYTES (256ull << 20) /* by reference: later frames of the lane wait for its end */
#define SENT_BYTES (1u << 20)	 /* sent by the thread that posts, a channel's part at most */
#define STREAK 3 /* posts alone before it, or the first one of a burst would be misrouted */

static bool lone_take_turn(_Atomic uint32_t *turn)
{
	uint32_t none = 0;

	return atomic_compare_exchange_strong(turn, &none, 1);
}

/* By a socket, between memories that a socket call can use. Staged memory, references, loans and
 * messages have windows and wake-ups of their own. */
static bool is_plain_stream(const struct engine_request *request)
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
	if (!is_plain_stream(request))
		return 0;
	return worker_watched() ? WATCHED_BYTES : LONE_BYTES;
}

/* No other transfer is under way, nor was one at the last STREAK posts. */
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
	bool lone = is_alone(request) && moves && total > CORE_SMALL_BYTES && most && !xfer->direct;
	bool ref = xfer->path == CORE_PATH_REFERENCE;

	xfer->by_lane =
		lone && total <= most && (ref || lone_take_turn(&engine_runtime.lone_posted));
	request->way.sends =
		lone && xfer->op == TCPX_OP_WRITE && (ref ? xfer->by_lane : total <= SENT_BYTES);
	atomic_store(&request->leads,
		     (total <= CORE_SMALL_BYTES || xfer->by_lane) && !xfer->direct);
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
	job->by_lane =
		job->path == CORE_PATH_REFERENCE
			? total <= REF_BYTES
			: total <= WATCHED_BYTES && lone_take_turn(&engine_runtime.lone_answered);
}

void lone_served(const struct core_push *push)
{
	if (push->job.by_lane && push->job.path != CORE_PATH_REFERENCE)
		atomic_store(&engine_runtime.lone_answered, 0);
}

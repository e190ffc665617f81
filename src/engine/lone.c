/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One transfer at a time waits for wake-ups more than for bytes. The threads of the lanes are those
 * that are awake or lead, so what is alone in its session, as those of its link before it were,
 * goes by the lane up to a greater size; and who posts a WRITE sends the first of it himself. One
 * thread serves all lanes of a process, and must not do the workers' work: one that is posted and
 * one that is answered at a time, whatever the number of sessions and peers.
 */
#include "engine/lone.h"

#define LONE_BYTES (256u << 10)
#define SENT_BYTES (1u << 20) /* by who posts it, a channel's share at most */
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
	const struct engine_chan *lane = request->peer->chan[CORE_LANE];

	return !xfer->by_ref && !xfer->by_msg && !xfer->local_staged && !xfer->remote_staged &&
	       lane && !lane->net->ops->lend;
}

/* Nothing else is under way, and nothing was when the last ones were posted. */
static bool is_alone(const struct engine_request *request)
{
	struct engine_peer *peer = request->peer;

	if (atomic_load(&request->session->active) > 1) {
		peer->lone_streak = 0;
		return false;
	}
	if (peer->lone_streak == STREAK)
		return true;
	peer->lone_streak++;
	return false;
}

void lone_route(struct engine_request *request)
{
	struct core_xfer *xfer = &request->xfer;
	uint64_t total = request->prog.total;
	bool moves = xfer->op == TCPX_OP_WRITE || xfer->op == TCPX_OP_READ;
	bool lone = is_alone(request) && moves && total > CORE_SMALL_BYTES && plain(request);

	xfer->by_lane = lone && total <= LONE_BYTES && take_turn(&engine_runtime.lone_posted);
	request->sends = lone && xfer->op == TCPX_OP_WRITE && total <= SENT_BYTES;
	atomic_store(&request->leads, total <= CORE_SMALL_BYTES || xfer->by_lane);
}

void lone_over(struct engine_request *request)
{
	if (request->xfer.by_lane)
		atomic_store(&engine_runtime.lone_posted, 0);
	request->xfer.by_lane = false;
}

void lone_serve(struct core_push *push, const struct frame *request)
{
	struct core_job *job = &push->job;

	job->by_lane = request->key == FRAME_READ_BY_LANE && !job->fills && !job->by_ref &&
		       !job->by_msg && push->prog.total <= LONE_BYTES &&
		       take_turn(&engine_runtime.lone_answered);
}

void lone_served(const struct core_push *push)
{
	if (push->job.by_lane)
		atomic_store(&engine_runtime.lone_answered, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One transfer at a time waits for wake-ups more than for bytes. The threads of the lanes are those
 * that are awake or lead, and who posts may send there himself: so what is alone on its link, as
 * those before it were, goes by the lane up to a greater size. One thread serves all lanes of a
 * process, and must not do the workers' work: one that is posted and one that is answered at a
 * time, whatever the number of peers.
 */
#include "engine/lone.h"

#define LONE_BYTES (256u << 10)
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

void lone_route(struct engine_request *request)
{
	struct engine_peer *peer = request->peer;
	struct core_xfer *xfer = &request->xfer;
	uint64_t total = request->prog.total;
	bool moves = xfer->op == TCPX_OP_WRITE || xfer->op == TCPX_OP_READ;

	xfer->by_lane = false;
	if (!list_empty(&peer->core.active)) {
		peer->lone_streak = 0;
	} else if (peer->lone_streak < STREAK) {
		peer->lone_streak++;
	} else if (moves && total > CORE_SMALL_BYTES && total <= LONE_BYTES && plain(request)) {
		xfer->by_lane = take_turn(&engine_runtime.lone_posted);
	}
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Solo transfers. A transfer with no other under way spends more time on wake-ups than on its
 * bytes. The threads that serve priority channels are often awake, or are the very threads that
 * wait for the transfer. So a transfer that is alone in its session, as were the last transfers of
 * its link, may use the priority channel up to a larger size than other transfers. The thread that
 * posts such a WRITE sends it itself; on other channels it sends the share of one of them.
 *
 * One worker serves all priority channels of the process, and it must not do the work of the other
 * workers. So the process has two turns (rights to use a priority channel): one for the transfers
 * that it posts, one for its answers to READs. Each turn belongs to at most one transfer at a time,
 * and a solo transfer uses the priority channel only while it has its turn. Transfers by reference
 * need no turn, because their frames carry no payload.
 */
#include "engine/path/solo.h"

#define SOLO_BYTES (256u << 10)	 /* largest solo transfer on the priority channel */
#define WATCHED_BYTES (1u << 20) /* the same while an application polls, and for READ answers */
#define REF_BYTES (256ull << 20) /* the same by reference; later frames wait until it is copied */
/* largest WRITE, not by reference, that the posting thread sends or helps to send */
#define SENT_BYTES (1u << 20)
/* Number of posts with no other transfer under way that precede a solo transfer. Without this rule
 * the first transfer of a burst would be solo. */
#define STREAK 3

/* Takes `turn`, one of the process's two turns. Returns false if another transfer has it. */
static bool solo_take_turn(_Atomic uint32_t *turn)
{
	uint32_t none = 0;

	return atomic_compare_exchange_strong(turn, &none, 1);
}

/* Whether the request's bytes are copied into a stream, between memories that the CPU can access.
 * Staged memory, references, loans and messages are excluded, because they have windows and
 * wake-ups of their own. */
static bool is_plain_stream(const struct engine_request *request)
{
	const struct core_xfer *xfer = &request->xfer;
	const struct engine_chan *prio = request->peer->link.chan[CORE_PRIO];

	return xfer->path == CORE_PATH_STREAM && !xfer->local_staged && !xfer->remote_staged &&
	       prio && !(prio->net->ops->loan && prio->net->ops->loan->lends(prio->net));
}

/* Returns the size of the largest transfer on the request's path that may use the priority channel,
 * or 0 if none may. A large READ within the host is faster by the rings of several channels where
 * there are cores for their workers. */
static uint64_t prio_bytes(const struct engine_request *request)
{
	bool ring;

	if (request->xfer.path == CORE_PATH_REFERENCE)
		return REF_BYTES;
	if (!is_plain_stream(request))
		return 0;
	ring = request->peer->link.chan[CORE_PRIO]->net->ops->loan != NULL;
	if (ring && request->xfer.op == TCPX_OP_READ && worker_cores_suffice())
		return SOLO_BYTES;
	return worker_app_polls() ? WATCHED_BYTES : SOLO_BYTES;
}

/* Whether no other transfer of the session is under way, and none was at the last STREAK posts to
 * this peer. Updates the count of such posts. */
static bool is_alone(const struct engine_request *request)
{
	struct engine_peer *peer = request->peer;

	if (atomic_load(&request->session->counters.active) > 1) {
		peer->link.solo_streak = 0;
		return false;
	}
	if (peer->link.solo_streak == STREAK)
		return true;
	peer->link.solo_streak++;
	return false;
}

void solo_choose(struct engine_request *request)
{
	struct core_xfer *xfer = &request->xfer;
	uint64_t total = request->segs.total, most = prio_bytes(request);
	bool moves = xfer->op == TCPX_OP_WRITE || xfer->op == TCPX_OP_READ;
	bool solo = is_alone(request) && moves && most && !xfer->direct;
	bool ref = xfer->path == CORE_PATH_REFERENCE;

	xfer->by_prio = solo && total > CORE_SMALL_BYTES && total <= most &&
			(ref || solo_take_turn(&engine_runtime.solo_posted));
	request->way.sends =
		solo && xfer->op == TCPX_OP_WRITE && (ref ? xfer->by_prio : total <= SENT_BYTES);
	atomic_store(&request->leads,
		     (total <= CORE_SMALL_BYTES || xfer->by_prio) && !xfer->direct);
}

void solo_over(struct engine_request *request)
{
	if (request->xfer.by_prio && request->xfer.path != CORE_PATH_REFERENCE)
		atomic_store(&engine_runtime.solo_posted, 0);
	request->xfer.by_prio = false;
}

void solo_serve(struct core_resp *resp, const struct frame *request)
{
	struct core_job *job = &resp->job;
	uint64_t total = resp->segs.total;

	if (request->key != FRAME_READ_BY_PRIO || job->fills || job->path == CORE_PATH_MESSAGE)
		return;
	job->by_prio =
		job->path == CORE_PATH_REFERENCE
			? total <= REF_BYTES
			: total <= WATCHED_BYTES && solo_take_turn(&engine_runtime.solo_answered);
}

void solo_served(const struct core_resp *resp)
{
	if (resp->job.by_prio && resp->job.path != CORE_PATH_REFERENCE)
		atomic_store(&engine_runtime.solo_answered, 0);
}

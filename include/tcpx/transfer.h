/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: WRITE, READ, SEND, RECV and their life cycle; the transfer object. */
#ifndef TCPX_TRANSFER_H
#define TCPX_TRANSFER_H

#include <tcpx/log.h>
#include <tcpx/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One piece of a request; offsets and length in bytes. SEND and RECV do not use remote and
 * remote_offset. A piece of 0 bytes moves nothing, but its regions and its local offset are
 * checked. It has no sz, because its layout never changes. */
typedef struct tcpx_segment {
	tcpx_region local;
	uint64_t local_offset;
	tcpx_region remote;
	uint64_t remote_offset;
	uint64_t length;
} tcpx_segment;

/** How a request ended: from tcpx_request_test(), tcpx_request_wait(), tcpx_session_poll(). */
typedef struct tcpx_completion {
	size_t sz;		/**< set by the caller; in an array, that of the first counts */
	tcpx_status status;	/**< TCPX_OK, or why it failed */
	uint64_t bytes;		/**< bytes applied; for RECV the bytes received */
	uint64_t message_bytes; /**< RECV: length of the peer's SEND; > bytes if truncated */
	tcpx_request request;
	void *user;	     /**< tcpx_request_opts.user */
	uint64_t elapsed_ns; /**< from the post to the end */
} tcpx_completion;

typedef struct tcpx_request_opts {
	size_t sz;
	const void *notify; /**< notification that follows a WRITE or READ, or that OP_NOTIFY sends;
			       copied by prepare */
	size_t notify_bytes; /**< 0 .. TCPX_NOTIFY_MAX */
	uint32_t has_notify; /**< 1: a notification follows even if notify_bytes is 0 */
	/** longest time from each post; the request then ends with ERR_TIMED_OUT; 0: no limit */
	int64_t deadline_ns;
	int32_t priority; /**< hint: > 0 before, < 0 after the other requests to this peer */
	uint32_t queue;	  /**< 1: each end enters the completion queue, tcpx_session_poll() */
	void *user;	  /**< comes back in tcpx_completion.user */
} tcpx_request_opts;

/**
 * Checks and encodes a request once; it can then be posted many times.
 * @param op        enum tcpx_op
 * @param segments  1 or more pieces; 0 are allowed for SEND and RECV and required for OP_NOTIFY.
 *                  Read during the call only. Until the release, a list takes 32 bytes of the
 *                  session's memory budget for each piece; pieces that continue one another count
 *                  as one. If the memory to be written overlaps itself or the memory to be read,
 *                  the bytes of the overlap may be a mixture
 * @return TCPX_OK; ERR_INVALID (which segment and why is in the last error); ERR_RANGE (outside
 *         the local region, or the remote offset wraps around); ERR_STALE (region or peer; GPU
 *         memory that was freed since it was registered); ERR_LIMIT (memory budget for the
 *         segments, total or notification size); ERR_NO_MEMORY. @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_request_prepare(
	tcpx_session *session, tcpx_peer peer, enum tcpx_op op, const tcpx_segment *segments,
	size_t count, const tcpx_request_opts *opts, tcpx_request *out_request);

/** Changes the notification that follows the next posts of a WRITE or READ, or that the next posts
 * of an OP_NOTIFY send. The segments stay as they were prepared.
 * @param data  copied by the call
 * @param has   with 0 bytes: true for an empty notification, false for none; OP_NOTIFY ignores it
 * @return TCPX_OK; ERR_STATE (active); ERR_STALE; ERR_INVALID (SEND or RECV; NULL with bytes);
 *         ERR_LIMIT; ERR_NO_MEMORY. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_request_notify(tcpx_session *session,
							 tcpx_request request, const void *data,
							 size_t bytes, bool has);

/**
 * Starts a request that was never posted or whose last post has ended. Does not block. If the call
 * fails, nothing was started, and the result of the last post stays. A request that is posted while
 * the peer connects waits for the link. It ends with the connect's error if the connect fails, and
 * with ERR_AGAIN if the peer's budget then has no room for its notification.
 * @return TCPX_OK (under way or already done); ERR_STATE (active, or its last completion is still
 *         in the completion queue); ERR_STALE; ERR_DEREGISTERED (a local region); ERR_AGAIN (the
 *         peer's budget has no room for the notification, or 65536 cancelled SENDs wait for a peer
 *         that does not receive them); ERR_LIMIT (the notification is larger than the peer's
 *         budget); ERR_NO_MEMORY; a peer error. @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_request_post(tcpx_session *session, tcpx_request request);

/**
 * Posts many requests, in their order. Those that follow one another and have the same peer share
 * one lock and one wake-up, which costs less than a call for each. A failure does not stop the
 * requests after it.
 * @param requests  array of `count` requests
 * @param statuses  array of `count`; each becomes what tcpx_request_post() would return
 * @return TCPX_OK if all were posted, else the first failure, whose detail is the last error;
 *         ERR_INVALID (NULL). @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_request_post_many(tcpx_session *session,
							    const tcpx_request *requests,
							    uint32_t count, tcpx_status *statuses);

/** tcpx_request_prepare() and tcpx_request_post() in one. On failure the request is released. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_request_start(tcpx_session *session, tcpx_peer peer,
							enum tcpx_op op,
							const tcpx_segment *segments, size_t count,
							const tcpx_request_opts *opts,
							tcpx_request *out_request);

/** Tells without waiting whether a request has ended. Its completion stays in the
 * completion queue.
 * @param out_completion written if the request has ended; may be NULL
 * @return TCPX_IN_PROGRESS while it is active; then its final status, until it is posted again (if
 *         it failed, the detail is the thread's last error); ERR_STALE; ERR_STATE (never posted);
 *         ERR_INVALID (out_completion->sz). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_request_test(tcpx_session *session, tcpx_request request,
						       tcpx_completion *out_completion);

/** Waits until a request has ended. The thread may do the library's polling meanwhile. The
 * completion stays in the completion queue.
 * @param timeout_ns how long; 0: does not wait; TCPX_WAIT_FOREVER
 * @return as tcpx_request_test(); TCPX_IN_PROGRESS at the timeout. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_request_wait(tcpx_session *session, tcpx_request request,
						       int64_t timeout_ns,
						       tcpx_completion *out_completion);

/**
 * Takes completions from the completion queue, in the order in which the requests ended. A request
 * whose tcpx_request_opts.queue is 1 has exactly one completion there for each successful post,
 * however it ends, unless it is released before. Each completion is given to one thread only. A
 * thread that polls in a loop without result may do the library's polling, see tcpx_session(3).
 * @param completions array of `max`; sz of the first one is the size of each, and is kept
 * @param max   at most so many are taken; 0: none
 * @return how many were written, 0 if the queue is empty; a negative tcpx_status: ERR_INVALID
 *         (NULL, sz, a closed session), ERR_FORKED. @threads any.
 */
TCPX_API TCPX_MUST_CHECK int tcpx_session_poll(tcpx_session *session, tcpx_completion *completions,
					       uint32_t max);

/** Asks an active request to end, and returns at once. After its end, which tcpx_request_test()
 * reports, the library neither reads nor writes the local memory for it. The final status may be
 * TCPX_OK if the work was done already.
 * @return TCPX_OK; ERR_STALE; ERR_STATE (not active). @threads any. */
TCPX_API tcpx_status tcpx_request_cancel(tcpx_session *session, tcpx_request request);

/** Cancels a request like tcpx_request_cancel() and waits until it has ended.
 * @param timeout_ns how long to wait; TCPX_WAIT_FOREVER
 * @return the final status, also of a request that had ended before; TCPX_IN_PROGRESS at the
 *         timeout; ERR_STALE; ERR_STATE (never posted). @threads any. */
TCPX_API tcpx_status tcpx_request_cancel_wait(tcpx_session *session, tcpx_request request,
					      int64_t timeout_ns);

/** Frees the handle and discards the request's queued completion. An active request is cancelled;
 * the library may use its local memory after the return, until the request is quiesced (see
 * tcpx_region_deregister()).
 * @return TCPX_OK; ERR_STALE. @threads any. */
TCPX_API tcpx_status tcpx_request_release(tcpx_session *session, tcpx_request request);

/** Gives the detail of a request's end, until the request is released or posted again.
 * @return TCPX_OK; ERR_STALE; TCPX_IN_PROGRESS (active); ERR_STATE (never posted); ERR_INVALID
 *         (out_error->sz). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_request_error(tcpx_session *session, tcpx_request request,
							tcpx_error *out_error);

/** A transfer object: many posts to one peer, one wait, one release; see tcpx_transfer(3). Only one
 * thread at a time may use it. */
typedef struct tcpx_transfer tcpx_transfer;

/** Makes a transfer object. @return TCPX_OK; ERR_STALE (peer); ERR_NO_MEMORY. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_transfer_create(tcpx_session *session, tcpx_peer peer,
							  tcpx_transfer **out_transfer);

/** Posts one piece as a request of its own. OP_SEND and OP_RECV do not use its remote fields.
 * @return as tcpx_request_start(). @threads one at a time. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_transfer_post(tcpx_transfer *transfer, enum tcpx_op op,
							const tcpx_segment *segment);

/** Returns whether every post has ended; false for NULL. @threads one at a time. */
TCPX_API bool tcpx_transfer_is_complete(tcpx_transfer *transfer);

/** Return how many posts have ended, and how many there were in all; 0 for NULL.
 * @threads one at a time. */
TCPX_API uint64_t tcpx_transfer_completed(tcpx_transfer *transfer);
TCPX_API uint64_t tcpx_transfer_total(const tcpx_transfer *transfer);

/** Waits until every post has ended.
 * @return TCPX_OK; the status of the first post seen to fail; TCPX_IN_PROGRESS (timeout).
 *         @threads one at a time. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_transfer_wait(tcpx_transfer *transfer,
							int64_t timeout_ns);

/** Releases all requests (tcpx_request_release()) and frees the object. NULL is allowed.
 * @threads one at a time. */
TCPX_API void tcpx_transfer_release(tcpx_transfer *transfer);

#ifdef __cplusplus
}
#endif
#endif

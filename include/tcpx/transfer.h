/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: WRITE, READ, SEND, RECV and their life cycle; the transfer object. */
#ifndef TCPX_TRANSFER_H
#define TCPX_TRANSFER_H

#include <tcpx/log.h>
#include <tcpx/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One piece. SEND and RECV use the local half only. Offsets and length in bytes. A piece of 0
 * bytes moves nothing; its regions and its place in the local one are checked all the same. It has
 * no sz: a list has many, and the layout never changes. */
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
	uint64_t message_bytes; /**< RECV: length of the peer's message, > bytes when truncated */
	tcpx_request request;
	void *user;	     /**< tcpx_request_opts.user */
	uint64_t elapsed_ns; /**< from the post to the end */
} tcpx_completion;

typedef struct tcpx_request_opts {
	size_t sz;
	const void *notify; /**< notification attached to WRITE or READ, or the OP_NOTIFY's bytes */
	size_t notify_bytes; /**< 0 .. TCPX_NOTIFY_MAX; copied by prepare */
	uint32_t has_notify; /**< 1: attach it even when it has 0 bytes */
	int64_t deadline_ns; /**< from each post; 0: none. Ends with ERR_TIMED_OUT */
	int32_t priority;    /**< hint: > 0 before, < 0 after the others of this peer */
	uint32_t queue;	     /**< 1: each end enters the completion queue, tcpx_session_poll() */
	void *user;	     /**< comes back in tcpx_completion.user */
} tcpx_request_opts;

/**
 * Validates and encodes a request once; it can be posted many times.
 * @param op        enum tcpx_op
 * @param segments  1 or more pieces, read during the call only; kept in 32 bytes each of the
 *                  session's memory budget until the release, neighbours as one. 0 pieces are
 *                  legal for SEND and RECV (an empty message) and required for OP_NOTIFY. Where
 *                  what is written overlaps what is read, or itself, those bytes may be a mixture
 * @return TCPX_OK; ERR_INVALID (which segment and why is in the last error); ERR_RANGE (local
 *         range); ERR_STALE (region or peer; GPU memory that was freed since it was registered);
 *         ERR_LIMIT (memory budget for the segments, total or notification size); ERR_NO_MEMORY.
 *         @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_request_prepare(
	tcpx_session *session, tcpx_peer peer, enum tcpx_op op, const tcpx_segment *segments,
	size_t count, const tcpx_request_opts *opts, tcpx_request *out_request);

/** Another notification, or none, goes with the next posts of a WRITE or READ, or is what an
 * OP_NOTIFY sends. The segments stay as they were prepared.
 * @param data  copied by the call
 * @param has   true: attach it even when it has 0 bytes; false with 0 bytes: none
 * @return TCPX_OK; ERR_STATE (active); ERR_STALE; ERR_INVALID (SEND or RECV; NULL with bytes);
 *         ERR_LIMIT; ERR_NO_MEMORY. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_request_notify(tcpx_session *session,
							 tcpx_request request, const void *data,
							 size_t bytes, bool has);

/**
 * Starts it. Never blocks, never waits. Legal when prepared or final. When it fails, the last end
 * stays. What is posted while the peer connects goes with the link; it ends with the connect's
 * error if there will be none, and with ERR_AGAIN where the peer's notification budget has no room
 * for it.
 * @return TCPX_OK (under way or already done); ERR_STATE (active, or its last completion is still
 *         in the completion queue); ERR_STALE; ERR_AGAIN (the
 *         notification budget of the peer is used up, or it receives nothing while SENDs are
 *         cancelled by the ten thousand; nothing started); a peer error.
 *         @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_request_post(tcpx_session *session, tcpx_request request);

/**
 * Posts many requests, in their order. Neighbours of one peer share one lock and one wake-up, which
 * costs less than a post each. A failure does not stop the others.
 * @param requests  count of them
 * @param statuses  count of them; each is written with what tcpx_request_post() would return
 * @return TCPX_OK when all were posted, else the first failure, whose detail is the last error;
 *         ERR_INVALID (NULL). @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_request_post_many(tcpx_session *session,
							    const tcpx_request *requests,
							    uint32_t count, tcpx_status *statuses);

/** tcpx_request_prepare() and tcpx_request_post() in one; nothing is left on failure. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_request_start(tcpx_session *session, tcpx_peer peer,
							enum tcpx_op op,
							const tcpx_segment *segments, size_t count,
							const tcpx_request_opts *opts,
							tcpx_request *out_request);

/** Looks, and leaves the completion of a queued request in the queue.
 * @param out_completion written when it ended; may be NULL.
 * @return TCPX_IN_PROGRESS; else the final status, sticky until posted again, whose detail is then
 * the thread's last error; ERR_STALE; ERR_STATE (never posted); ERR_INVALID (out_completion->sz).
 * @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_request_test(tcpx_session *session, tcpx_request request,
						       tcpx_completion *out_completion);

/** Waits for the end. The thread may do the library's polling meanwhile. The completion of a
 * queued request stays in the queue.
 * @param timeout_ns how long; TCPX_WAIT_FOREVER
 * @return as tcpx_request_test(); TCPX_IN_PROGRESS when the time is over. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_request_wait(tcpx_session *session, tcpx_request request,
						       int64_t timeout_ns,
						       tcpx_completion *out_completion);

/**
 * Takes ended requests from the completion queue, in the order of their ends. A request enters it
 * where tcpx_request_opts.queue is 1, exactly once for each accepted post, whatever the end is. Of
 * several threads one gets a completion. Costs no lock of a peer, and a system call only where
 * tcpx_session_fd() is in use.
 * @param completions room for max; sz of the first one is the size of each, and stays
 * @param max   at most so many are taken; 0: none
 * @return how many were written, 0 when there is none; a negative tcpx_status: ERR_INVALID (NULL,
 *         sz, a closed session), ERR_FORKED. @threads any.
 */
TCPX_API TCPX_MUST_CHECK int tcpx_session_poll(tcpx_session *session, tcpx_completion *completions,
					       uint32_t max);

/** Asks for the end and returns at once. When tcpx_request_test() says final, the local memory is
 * neither read nor written any more; the final status may be TCPX_OK when it was done already.
 * @return TCPX_OK; ERR_STALE; ERR_STATE (not active). @threads any. */
TCPX_API tcpx_status tcpx_request_cancel(tcpx_session *session, tcpx_request request);

/** The same, and waits for the end, at most timeout_ns. @return the final status; TCPX_IN_PROGRESS
 * when the time is over. @threads any. */
TCPX_API tcpx_status tcpx_request_cancel_wait(tcpx_session *session, tcpx_request request,
					      int64_t timeout_ns);

/** Gives the handle back. An active request is cancelled first and its memory is released by the
 * library when quiesced. A completion in the completion queue is discarded.
 * @return TCPX_OK; ERR_STALE. @threads any. */
TCPX_API tcpx_status tcpx_request_release(tcpx_session *session, tcpx_request request);

/** Stored detail of a failed request, until it is released or posted again.
 * @return TCPX_OK; ERR_STALE; TCPX_IN_PROGRESS; ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_request_error(tcpx_session *session, tcpx_request request,
							tcpx_error *out_error);

/** A transfer object: many posts on one peer, one wait, one release (the predecessor's habit; see
 * tcpx_transfer(3) for the mapping). Not thread safe: one thread at a time. */
typedef struct tcpx_transfer tcpx_transfer;

/** @return TCPX_OK; ERR_STALE (peer); ERR_NO_MEMORY. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_transfer_create(tcpx_session *session, tcpx_peer peer,
							  tcpx_transfer **out_transfer);

/** Posts one piece: OP_SEND and OP_RECV use local only, OP_WRITE and OP_READ both.
 * @return as tcpx_request_start(). @threads one at a time. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_transfer_post(tcpx_transfer *transfer, enum tcpx_op op,
							const tcpx_segment *segment);

/** @return true when every post ended; false before, and for NULL. @threads one at a time. */
TCPX_API bool tcpx_transfer_is_complete(tcpx_transfer *transfer);

/** Counts of posts that ended and of all posts; 0 for NULL. @threads one at a time. */
TCPX_API uint64_t tcpx_transfer_completed(tcpx_transfer *transfer);
TCPX_API uint64_t tcpx_transfer_total(const tcpx_transfer *transfer);

/** Waits for all. @return TCPX_OK; the first failure; TCPX_IN_PROGRESS (time is over).
 * @threads one at a time. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_transfer_wait(tcpx_transfer *transfer,
							int64_t timeout_ns);

/** Cancels what is active, frees the object. NULL is allowed. @threads one at a time. */
TCPX_API void tcpx_transfer_release(tcpx_transfer *transfer);

#ifdef __cplusplus
}
#endif
#endif

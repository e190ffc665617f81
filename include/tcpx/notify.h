/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications: messages a peer's application takes from a queue. */
#ifndef TCPX_NOTIFY_H
#define TCPX_NOTIFY_H

#include <tcpx/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A notification that was taken. */
typedef struct tcpx_notification {
	size_t sz;	  /**< set by the caller */
	tcpx_peer peer;	  /**< the sender; stale once it is gone */
	const char *name; /**< its session's name; the library's, as data is */
	const char *key;  /**< the public key that it proved to have, 64 hex digits; "": it proved
			       none. The library's, too */
	const void *data; /**< owned by the library until tcpx_notification_release() */
	size_t bytes;
	void *opaque; /**< the library's */
} tcpx_notification;

/** Sends a notification alone and forgets it: first in, first out per peer. The bytes are copied.
 * For one whose end matters use a request with OP_NOTIFY. While the peer connects it waits, and
 * goes with the link.
 * @param bytes 0 .. TCPX_NOTIFY_MAX
 * @return TCPX_OK; ERR_AGAIN (the peer's budget is used up); ERR_LIMIT (too large); ERR_STALE; a
 *         peer error; ERR_NO_MEMORY. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_notify_send(tcpx_session *session, tcpx_peer peer,
						      const void *data, size_t bytes);

/** Takes the oldest notification of any peer. Its budget goes back to the sender with the release.
 * @param timeout_ns 0: only look; TCPX_WAIT_FOREVER
 * @return TCPX_OK; TCPX_IN_PROGRESS (none within the time); ERR_INVALID (sz). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_notify_take(tcpx_session *session, int64_t timeout_ns,
						      tcpx_notification *out_notification);

/** Gives back what tcpx_notify_take() filled; data is invalid afterwards. What is not released goes
 * with the session's close. @threads any. */
TCPX_API void tcpx_notification_release(tcpx_session *session, tcpx_notification *notification);

#ifdef __cplusplus
}
#endif
#endif

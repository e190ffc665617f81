/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications: bytes that the peer's application takes from a queue. */
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
	const char *name; /**< name of the sender's session */
	const char *key;  /**< public key that the sender has proven, 64 hex digits; "": none */
	const void *data; /**< data, name and key are valid until tcpx_notification_release() */
	size_t bytes;	  /**< length of data */
	void *opaque;	  /**< for the library only */
} tcpx_notification;

/** Copies a notification and sends it alone. Notifications of this call reach the peer in order.
 * TCPX_OK does not mean that it has arrived; to learn how a notification ends, use a request with
 * TCPX_OP_NOTIFY. While the peer connects, the notification waits for the link.
 * @param bytes 0 .. TCPX_NOTIFY_MAX
 * @return TCPX_OK; ERR_AGAIN (the peer's budget is used up); ERR_LIMIT (larger than TCPX_NOTIFY_MAX
 *         or the peer's budget); ERR_STALE; a peer error; ERR_NO_MEMORY. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_notify_send(tcpx_session *session, tcpx_peer peer,
						      const void *data, size_t bytes);

/** Takes the oldest notification of any peer. Until it is released, its bytes count against the
 * budget of its sender.
 * @param timeout_ns how long to wait for one; 0: does not wait; TCPX_WAIT_FOREVER
 * @return TCPX_OK; TCPX_IN_PROGRESS (none within the time); ERR_INVALID (sz). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_notify_take(tcpx_session *session, int64_t timeout_ns,
						      tcpx_notification *out_notification);

/** Frees a notification from tcpx_notify_take(); its data, name and key are then invalid. Closing
 * the session frees those that were not released. @threads any. */
TCPX_API void tcpx_notification_release(tcpx_session *session, tcpx_notification *notification);

#ifdef __cplusplus
}
#endif
#endif

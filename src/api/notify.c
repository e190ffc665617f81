/* SPDX-License-Identifier: Apache-2.0 */
/* Public calls of include/tcpx/notify.h. */
#include "api/checks.h"

tcpx_status tcpx_notify_send(tcpx_session *session, tcpx_peer peer, const void *data, size_t bytes)
{
	API_ENTER(session);
	if (bytes && !data)
		return api_null("data");
	if (bytes > TCPX_NOTIFY_MAX)
		return error_set(TCPX_ERR_LIMIT, 0,
				 "notification has %zu bytes, at most %u are allowed", bytes,
				 TCPX_NOTIFY_MAX);
	return engine_notify_send(api_session(session), peer.id, data, bytes);
}

tcpx_status tcpx_notify_take(tcpx_session *session, int64_t timeout_ns,
			     tcpx_notification *out_notification)
{
	tcpx_notification taken;
	tcpx_status status;

	API_ENTER(session);
	API_OUT(tcpx_notification, out_notification, opaque);
	status = engine_notify_take(api_session(session), timeout_ns, &taken);
	if (status == TCPX_OK)
		api_out_write(out_notification, &taken, sizeof(taken));
	return status;
}

void tcpx_notification_release(tcpx_session *session, tcpx_notification *notification)
{
	if (notification && engine_session_check(api_session(session)) == TCPX_OK)
		engine_note_release(api_session(session), notification);
}

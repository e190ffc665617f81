/* SPDX-License-Identifier: Apache-2.0 */
/* Listens for peers: at a TCP port on each rail, and at a socket for peers on this host. */
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "engine/session/calls.h"
#include "engine/path/share.h"
#include "engine/peer/peer_route.h"
#include "sys/addr.h"
#include "sys/crypto.h"

bool session_local_open(struct engine_session *session)
{
	static const struct transport_listen_ops ops = {
		.expected = peer_local_expected,
		.arrived = peer_local_arrived,
		.asked = share_fd_asked,
	};

	if (session->listen.local)
		return true;
	if (net_transport_of_offers()->listen(&engine_runtime.loop, &ops, session,
					      session->listen.local_name,
					      &session->listen.local) != TCPX_OK)
		session->listen.local = NULL;
	return session->listen.local != NULL;
}

void session_listen_close(struct engine_session *session)
{
	struct session_listen *listen = &session->listen;

	while (listen->count)
		ctl_listener_close(listen->at[--listen->count]);
	if (listen->local)
		listen->local->ops->unlisten(listen->local);
	listen->local = NULL;
}

/* Checks that the session may listen on all its rails. Returns ERR_AUTH if a rail is not loopback
 * and nothing would prove who connects, unless the session allows that (TCPX_SESSION_INSECURE). */
static tcpx_status listen_check_trust(const struct engine_session *session)
{
	char text[SYS_ADDR_TEXT];

	for (uint32_t i = 0; i < session->rails.count; i++) {
		if (sys_addr_is_loopback(&session->rails.at[i]) ||
		    (session->flags & TCPX_SESSION_INSECURE))
			continue;
		if (session->flags & TCPX_SESSION_INFO_ONLY ? sys_crypto_available()
							    : session->keys.count > 0)
			continue;
		error_set(TCPX_ERR_AUTH, 0, "listening on %s needs a key file",
			  sys_addr_host_text(&session->rails.at[i], text));
		return error_next(ENGINE_NEXT_KEY);
	}
	return TCPX_OK;
}

/* Arguments of listen_run(), and its result. */
struct listen_call {
	struct engine_session *session;
	uint32_t port, retries;
	tcpx_status status;
	tcpx_error error;
};

/* Listens on all rails at the same port. If `port` is 0, chooses a port that is free on the first
 * rail. On an error, listens on none. */
static tcpx_status listen_on(struct engine_session *session, uint16_t port)
{
	tcpx_status status = TCPX_OK;
	uint32_t i;

	for (i = 0; i < session->rails.count && status == TCPX_OK; i++) {
		/* If `port` is 0, the first listener sets it to a free port, which the others use
		 * as well. */
		status = ctl_listener_open(&engine_runtime.loop, &session->rails.at[i],
					   config_text(CONFIG_BIND_DEVICE), &port, &peer_accept_ops,
					   session, &session->counters.ctl, &session->listen.at[i]);
		if (status == TCPX_OK)
			session->listen.count = i + 1;
	}
	if (status == TCPX_OK) {
		session->listen.port = port;
		return TCPX_OK;
	}
	while (session->listen.count)
		ctl_listener_close(session->listen.at[--session->listen.count]);
	return status;
}

static void listen_run(void *arg)
{
	struct listen_call *call = arg;
	uint32_t more = 65535 - call->port;
	uint32_t tries = call->session->rails.count > 1 ? 16 : 1;

	if (call->port)
		tries = 1 + (call->retries < more ? call->retries : more);
	for (uint32_t i = 0; i < tries; i++) {
		uint32_t port = call->port ? call->port + i : 0;

		call->status = listen_on(call->session, (uint16_t)port);
		if (call->status != TCPX_ERR_ADDRESS)
			break;
	}
	if (call->status == TCPX_OK && !(call->session->flags & TCPX_SESSION_NO_LOCAL))
		(void)session_local_open(call->session); /* if it fails, channels use TCP */
	call->error = *error_last();
}

tcpx_status engine_listen(struct engine_session *session, uint32_t port, uint32_t retries,
			  uint16_t *out_port)
{
	struct listen_call call = {.session = session, .port = port, .retries = retries};
	struct wire_address advertised[WIRE_ADDR_MAX];
	uint32_t count = 0;
	tcpx_status status = session_advertised_find(session, advertised, &count);

	if (status != TCPX_OK)
		return status;
	session_lock(session);
	if (session->listen.begun)
		status = error_set(TCPX_ERR_STATE, 0, "session already listens on port %u",
				   session->listen.port);
	else if (port > 65535)
		status = error_set(TCPX_ERR_INVALID, 0, "port %u is outside 0..65535", port);
	else
		status = listen_check_trust(session);
	if (status == TCPX_OK)
		status = session_published_check();
	if (status == TCPX_OK && count) {
		memcpy(session->advertised.addrs, advertised, count * sizeof(*advertised));
		session->advertised.count = count;
	}
	session->listen.begun |= status == TCPX_OK;
	session_unlock(session);
	if (status != TCPX_OK)
		return status;
	runtime_call(listen_run, &call);
	if (call.status != TCPX_OK) {
		session_lock(session);
		session->listen.begun = false;
		session_unlock(session);
		return error_raise(&call.error);
	}
	*out_port = session->listen.port;
	return TCPX_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Public calls of include/tcpx/session.h, and those of query.h that need a session. */
#include <limits.h>
#include <string.h>

#include "api/checks.h"

#include "wire/hello.h"

tcpx_status tcpx_session_open(const tcpx_session_opts *opts, tcpx_session **out_session)
{
	tcpx_session_opts copy;
	tcpx_status status;

	API_NOT_NULL(out_session);
	status = api_opts("tcpx_session_opts", opts, sizeof(size_t), &copy, sizeof(copy));
	if (status != TCPX_OK)
		return status;
	api_options_warn();
	return engine_session_open(&copy, (struct engine_session **)out_session);
}

void tcpx_session_close(tcpx_session *session)
{
	if (session)
		engine_session_close(api_session(session));
}

tcpx_status tcpx_session_listen(tcpx_session *session, const tcpx_listen_opts *opts,
				uint16_t *out_port)
{
	tcpx_listen_opts copy;
	uint16_t port;
	tcpx_status status;

	API_ENTER(session);
	status = api_opts("tcpx_listen_opts", opts, sizeof(size_t), &copy, sizeof(copy));
	if (status == TCPX_OK)
		status = engine_listen(api_session(session), copy.port, copy.retries, &port);
	if (status == TCPX_OK && out_port)
		*out_port = port;
	return status;
}

tcpx_status tcpx_session_info(tcpx_session *session, void *buf, size_t cap, size_t *out_len)
{
	API_ENTER(session);
	API_NOT_NULL(buf);
	API_NOT_NULL(out_len);
	return engine_info(api_session(session), buf, cap, out_len);
}

tcpx_status tcpx_session_key(tcpx_session *session, char out_key[65])
{
	API_ENTER(session);
	API_NOT_NULL(out_key);
	engine_key(api_session(session), out_key);
	return TCPX_OK;
}

/* Connects by `info` or by `address`; the other one is NULL. */
static tcpx_status session_connect_any(tcpx_session *session, const struct wire_info *info,
				       const char *address, const tcpx_connect_opts *opts,
				       tcpx_peer *out_peer)
{
	tcpx_connect_opts copy;
	tcpx_status status;

	status = api_opts("tcpx_connect_opts", opts, sizeof(size_t), &copy, sizeof(copy));
	if (status != TCPX_OK)
		return status;
	if (copy.timeout_ns < 0)
		return error_set(TCPX_ERR_INVALID, 0, "timeout_ns = %lld is negative",
				 (long long)copy.timeout_ns);
	return engine_connect(api_session(session), info, address, &copy, out_peer);
}

tcpx_status tcpx_session_connect(tcpx_session *session, const void *info, size_t len,
				 const tcpx_connect_opts *opts, tcpx_peer *out_peer)
{
	struct wire_info parts;
	tcpx_status status;

	API_ENTER(session);
	API_NOT_NULL(info);
	API_NOT_NULL(out_peer);
	status = wire_info_decode(info, len, &parts);
	if (status != TCPX_OK)
		return error_set(status, 0, "connection info of %zu bytes is not usable", len);
	status = session_connect_any(session, &parts, NULL, opts, out_peer);
	explicit_bzero(parts.secret, sizeof(parts.secret));
	return status;
}

tcpx_status tcpx_info_name(const void *info, size_t len, char *name, size_t cap)
{
	struct wire_info parts;
	tcpx_status status;

	API_NOT_NULL(info);
	API_NOT_NULL(name);
	status = wire_info_decode(info, len, &parts);
	if (status != TCPX_OK)
		return error_set(status, 0, "connection info of %zu bytes is not usable", len);
	explicit_bzero(parts.secret, sizeof(parts.secret));
	if (strlen(parts.name) >= cap)
		return error_set(TCPX_ERR_RANGE, 0, "a name of %zu bytes does not fit into %zu",
				 strlen(parts.name), cap);
	memcpy(name, parts.name, strlen(parts.name) + 1);
	return TCPX_OK;
}

tcpx_status tcpx_info_key(const void *info, size_t len, char out_key[65])
{
	struct wire_info parts;
	tcpx_status status;

	API_NOT_NULL(info);
	API_NOT_NULL(out_key);
	status = wire_info_decode(info, len, &parts);
	if (status != TCPX_OK)
		return error_set(status, 0, "connection info of %zu bytes is not usable", len);
	explicit_bzero(parts.secret, sizeof(parts.secret));
	out_key[0] = '\0';
	if (parts.has_key)
		ctl_key_text(parts.key, out_key);
	return TCPX_OK;
}

tcpx_status tcpx_session_connect_to(tcpx_session *session, const char *address,
				    const tcpx_connect_opts *opts, tcpx_peer *out_peer)
{
	API_ENTER(session);
	API_NOT_NULL(address);
	API_NOT_NULL(out_peer);
	return session_connect_any(session, NULL, address, opts, out_peer);
}

tcpx_status tcpx_session_accept(tcpx_session *session, int64_t timeout_ns, tcpx_peer *out_peer)
{
	API_ENTER(session);
	API_NOT_NULL(out_peer);
	if (!api_session(session)->listen.port) {
		error_set(TCPX_ERR_STATE, 0, "session does not listen");
		return error_next("call tcpx_session_listen() first");
	}
	return engine_accept(api_session(session), timeout_ns, out_peer);
}

tcpx_status tcpx_peer_disconnect(tcpx_session *session, tcpx_peer peer)
{
	API_ENTER(session);
	return engine_disconnect(api_session(session), peer.id);
}

tcpx_status tcpx_peer_flush(tcpx_session *session, tcpx_peer peer, int64_t timeout_ns)
{
	API_ENTER(session);
	return engine_flush(api_session(session), peer.id, timeout_ns);
}

tcpx_status tcpx_peer_find(tcpx_session *session, const char *name, tcpx_peer *out_peer)
{
	API_ENTER(session);
	API_NOT_NULL(name);
	API_NOT_NULL(out_peer);
	return engine_peer_find(api_session(session), name, out_peer);
}

tcpx_status tcpx_session_event(tcpx_session *session, tcpx_event *out_event)
{
	tcpx_event event;
	tcpx_status status;

	API_ENTER(session);
	API_OUT(tcpx_event, out_event, channel);
	status = engine_event_take(api_session(session), &event);
	if (status == TCPX_OK)
		api_out_write(out_event, &event, sizeof(event));
	return status;
}

int tcpx_session_fd(tcpx_session *session)
{
	return engine_session_check(api_session(session)) == TCPX_OK
		       ? engine_session_fd(api_session(session))
		       : -1;
}

/* Polls for a caller that was built for another version, where tcpx_completion has another size. */
static uint32_t session_poll_sized(tcpx_session *session, tcpx_completion *completions,
				   uint32_t max)
{
	size_t sz = completions->sz;
	tcpx_completion some[16];
	uint32_t taken = 0, got;

	do {
		uint32_t room = max - taken < 16 ? max - taken : 16;

		got = engine_poll(api_session(session), some, room);
		for (uint32_t i = 0; i < got; i++)
			api_out_element(completions, taken++, sz, &some[i], sizeof(some[i]));
	} while (got == 16 && taken < max);
	return taken;
}

int tcpx_session_poll(tcpx_session *session, tcpx_completion *completions, uint32_t max)
{
	API_ENTER(session);
	if (!max)
		return 0;
	if (max > INT_MAX)
		max = INT_MAX;
	API_OUT(tcpx_completion, completions, elapsed_ns);
	return (int)(completions->sz == sizeof(*completions)
			     ? engine_poll(api_session(session), completions, max)
			     : session_poll_sized(session, completions, max));
}

tcpx_status tcpx_session_wait(tcpx_session *session, int64_t timeout_ns)
{
	API_ENTER(session);
	return engine_wait(api_session(session), timeout_ns);
}

tcpx_status tcpx_peer_error(tcpx_session *session, tcpx_peer peer, tcpx_error *out_error)
{
	tcpx_error error;
	tcpx_status status;

	API_ENTER(session);
	API_OUT(tcpx_error, out_error, next);
	status = engine_peer_error(api_session(session), peer.id, &error);
	if (status == TCPX_OK)
		api_out_write(out_error, &error, sizeof(error));
	return status;
}

tcpx_status tcpx_peer_query(tcpx_session *session, tcpx_peer peer, tcpx_peer_info *out_info)
{
	tcpx_peer_info info = {.sz = sizeof(info)};
	tcpx_status status;

	API_ENTER(session);
	API_OUT(tcpx_peer_info, out_info, key);
	status = engine_peer_query(api_session(session), peer.id, &info);
	if (status == TCPX_OK)
		api_out_write(out_info, &info, sizeof(info));
	return status;
}

tcpx_status tcpx_channel_query(tcpx_session *session, tcpx_peer peer, uint32_t index,
			       tcpx_channel_info *out_info)
{
	tcpx_channel_info info = {.sz = sizeof(info)};
	tcpx_status status;

	API_ENTER(session);
	API_OUT(tcpx_channel_info, out_info, unpack);
	status = engine_channel_query(api_session(session), peer.id, index, &info);
	if (status == TCPX_OK)
		api_out_write(out_info, &info, sizeof(info));
	return status;
}

tcpx_status tcpx_session_counters(tcpx_session *session, tcpx_counters *out_counters)
{
	tcpx_counters counters = {.sz = sizeof(counters)};

	API_ENTER(session);
	API_OUT(tcpx_counters, out_counters, carrier_losses);
	engine_counters(api_session(session), &counters);
	api_out_write(out_counters, &counters, sizeof(counters));
	return TCPX_OK;
}

const char *tcpx_session_trust(tcpx_session *session)
{
	return engine_session_check(api_session(session)) == TCPX_OK
		       ? engine_trust(api_session(session))
		       : "closed";
}

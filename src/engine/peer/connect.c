/* SPDX-License-Identifier: Apache-2.0 */
/* Connects to a peer, given its connection info or its address, and disconnects from it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "engine/request/reconnect.h"
#include "engine/peer/peer_calls.h"
#include "engine/peer/peer_route.h"
#include "sys/addr.h"
#include "sys/cpu.h"
#include "sys/crypto.h"
#include "sys/futex.h"

/* time limit of a connect whose caller sets none */
#define CONNECT_NS (10 * CLOCK_S_NS)

/* Begins the dial, on the control thread. If the connection info names a session other than this
 * one, and another live peer has the uuid of that session, ends `peer` with ERR_EXISTS instead, and
 * stores the other peer's handle in dialling.duplicate_of. No link can be accepted between the
 * check and the dial, because the control thread accepts links, too. */
static void connect_dial_run(void *arg)
{
	struct engine_peer *peer = arg, *other = NULL;
	static const uint8_t anyone[WIRE_UUID_BYTES];

	if (memcmp(peer->who.uuid, anyone, sizeof(anyone)) &&
	    memcmp(peer->who.uuid, peer->link.session->uuid, sizeof(peer->who.uuid)))
		other = peer_by_uuid(peer->link.session, peer->who.uuid, peer->who.keyed, peer);
	if (!other) {
		peer_dial_start(peer);
		return;
	}
	peer->exposed = false; /* the application does not get this peer's handle */
	peer->dialling.duplicate_of = other->app_handle;
	peer_put(other);
	peer_die(peer, TCPX_ERR_EXISTS, 0, "already linked");
}

/* Chooses how the dial authenticates: by the secret of the connection info, by the first key of the
 * session's key file, or not at all. */
static void connect_choose_auth(struct engine_peer *peer, const struct wire_info *info)
{
	struct engine_session *session = peer->link.session;
	struct wire_hello *hello = &peer->dialling.hello;

	*hello = (struct wire_hello){.role = WIRE_ROLE_CONTROL, .auth = WIRE_AUTH_NONE};
	peer_fill_hello(session, hello);
	if (info) {
		hello->auth = identity_is_keyed(info) ? WIRE_AUTH_SECRET : WIRE_AUTH_BARE;
		memcpy(hello->want_uuid, info->uuid, sizeof(hello->want_uuid));
		memcpy(peer->dialling.key, info->secret, sizeof(peer->dialling.key));
	} else if (session->keys.count) {
		hello->auth = WIRE_AUTH_KEY;
		hello->key_id = session->keys.id[0];
		memcpy(peer->dialling.key, session->keys.key[0], sizeof(peer->dialling.key));
	}
}

/* Checks link-local addresses. Such an address is valid on one interface only. If an address names
 * no interface, adds the interface of a link-local rail to it, or returns ERR_INVALID if no rail is
 * link-local. */
static tcpx_status connect_check_scopes(struct engine_peer *peer)
{
	const struct engine_session *session = peer->link.session;
	char text[SYS_ADDR_TEXT];

	for (uint32_t i = 0; i < peer->address.count; i++) {
		struct sockaddr_in6 *addr = (struct sockaddr_in6 *)&peer->address.known[i];

		if (!sys_addr_is_link_local(&peer->address.known[i]))
			continue;
		for (uint32_t k = 0; k < session->rails.count && !addr->sin6_scope_id; k++)
			if (sys_addr_is_link_local(&session->rails.at[k]))
				addr->sin6_scope_id =
					((const struct sockaddr_in6 *)&session->rails.at[k])
						->sin6_scope_id;
		if (addr->sin6_scope_id)
			continue;
		sys_addr_host_text(&peer->address.known[i], text);
		error_set(TCPX_ERR_INVALID, 0, "%s is link-local, and no interface is named", text);
		return error_next("write %s%%IF with the interface's name for IF", text);
	}
	return TCPX_OK;
}

/* Checks that the targets may be dialled with the chosen authentication. With WIRE_AUTH_NONE only
 * loopback addresses may be dialled, unless the session is INSECURE. Returns ERR_AUTH if a target
 * may not be dialled. */
static tcpx_status connect_check_target(struct engine_peer *peer)
{
	if (peer->dialling.hello.auth == WIRE_AUTH_NONE &&
	    !(peer->link.session->flags & TCPX_SESSION_INSECURE)) {
		char text[SYS_ADDR_TEXT];

		for (uint32_t i = 0; i < peer->address.count; i++) {
			if (sys_addr_is_loopback(&peer->address.known[i]))
				continue;
			error_set(TCPX_ERR_AUTH, 0, "connecting to %s needs a key file",
				  sys_addr_host_text(&peer->address.known[i], text));
			return error_next(ENGINE_NEXT_KEY);
		}
	}
	return TCPX_OK;
}

static tcpx_status connect_resolve(struct engine_peer *peer, const char *address,
				   struct sockaddr_storage *out_addrs, unsigned *out_count)
{
	return ctl_resolve(address, (uint16_t)config_u64(CONFIG_PORT_BASE),
			   peer->dialling.deadline_ns, out_addrs, WIRE_ADDR_MAX, out_count);
}

/* Sets the addresses to dial and the authentication, from either `info` or `address` (the other is
 * NULL). Blocks while a name in `address` is looked up. */
static tcpx_status connect_take_target(struct engine_peer *peer, const struct wire_info *info,
				       const char *address)
{
	unsigned count = 0;
	tcpx_status status;

	connect_choose_auth(peer, info);
	if (info) {
		status = identity_check_info(info);
		if (status != TCPX_OK)
			return status;
		peer->who.keyed = identity_is_keyed(info);
		memcpy(peer->who.uuid, info->uuid, sizeof(peer->who.uuid));
		memcpy(peer->who.name, info->name, sizeof(peer->who.name));
		peer_route_targets(peer, info);
	} else {
		status = connect_resolve(peer, address, peer->address.known, &count);
		if (status != TCPX_OK)
			return status;
		snprintf(peer->who.name, sizeof(peer->who.name), "%s", address);
		peer->address.count = count;
		status = connect_check_scopes(peer);
		if (status != TCPX_OK)
			return status;
	}
	return connect_check_target(peer);
}

/* A name look-up that runs on its own thread, for a nonblocking connect. */
struct look_up {
	struct engine_peer *peer; /* with a reference, which also keeps the session */
	tcpx_status status;
	tcpx_error error;
	struct sockaddr_storage addrs[WIRE_ADDR_MAX];
	unsigned count;
	char address[];
};

/* Called on the control thread when the look-up has ended: begins the dial, or ends the peer if the
 * look-up failed or the addresses may not be dialled. */
static void connect_looked_up(void *arg)
{
	struct look_up *call = arg;
	struct engine_peer *peer = call->peer;

	if (peer->died)
		return;
	if (call->status == TCPX_OK) {
		memcpy(peer->address.known, call->addrs, sizeof(peer->address.known));
		peer->address.count = call->count;
		call->status = connect_check_scopes(peer);
		if (call->status == TCPX_OK)
			call->status = connect_check_target(peer);
		reconnect_addresses(peer);
	} else {
		error_raise(&call->error);
	}
	if (call->status == TCPX_OK)
		peer_dial_start(peer);
	else
		peer_die_last(peer);
}

static void *connect_look_up_main(void *arg)
{
	struct look_up *call = arg;

	call->status = connect_resolve(call->peer, call->address, call->addrs, &call->count);
	call->error = *error_last();
	runtime_call(connect_looked_up, call);
	peer_put(call->peer);
	free(call);
	return NULL;
}

static tcpx_status connect_look_up_start(struct engine_peer *peer, const char *address)
{
	size_t len = strlen(address);
	struct look_up *call = calloc(1, sizeof(*call) + len + 1);
	pthread_t thread;
	tcpx_status status;

	if (!call)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory to look up %.80s", address);
	snprintf(peer->who.name, sizeof(peer->who.name), "%s", address);
	memcpy(call->address, address, len);
	call->peer = peer;
	peer->exposed = true;
	peer_get(peer);
	peer_enlist(peer);
	status = sys_thread_start(&thread, "tcpx-connect", connect_look_up_main, call);
	if (status == TCPX_OK) {
		pthread_detach(thread);
		return TCPX_OK;
	}
	peer->exposed = false;
	peer_put(peer);
	free(call);
	return status;
}

/* Waits until the peer is up. Returns ERR_TIMED_OUT if the peer still connects at the deadline. If
 * the peer died, returns the error with which it died. */
static tcpx_status connect_wait(struct engine_peer *peer, int64_t deadline_ns)
{
	tcpx_status status = TCPX_OK;

	for (;;) {
		uint32_t state = atomic_load(&peer->state);

		if (state == TCPX_PEER_UP || state == TCPX_PEER_SUSPECT)
			return TCPX_OK;
		if (state == TCPX_PEER_DEAD)
			break;
		if (sys_futex_wait(&peer->state, state, deadline_ns) < 0)
			return error_set(TCPX_ERR_TIMED_OUT, 0, "peer '%s' is not connected yet",
					 peer->who.name);
	}
	link_lock(&peer->link);
	status = error_raise(&peer->error);
	link_unlock(&peer->link);
	return status;
}

/* The options of one call of engine_connect(). */
struct connect_call {
	int nonblocking, reconnect;
	bool expects; /* only a session with the key `expected` is accepted */
	uint8_t expected[WIRE_KEY_BYTES];
	int64_t timeout_ns, deadline_ns;
};

/* Arguments of connect_forget_run(). */
struct forget_call {
	struct engine_peer *peer;
	bool goodbye;
};

/* Ends the link that the peer's handle leads to, and makes the handle stale. Control thread. Hides
 * the handle first, so that no other thread can use it to dial the peer again. */
static void connect_forget_run(void *arg)
{
	struct forget_call *call = arg;
	struct engine_peer *peer = call->peer, *link;

	session_lock(peer->link.session);
	handle_hide(peer);
	link = peer->reconnect.now ? peer->reconnect.now : peer;
	peer_get(link);
	session_unlock(peer->link.session);
	if (call->goodbye)
		peer_send_goodbye(link);
	peer_die(link, TCPX_ERR_DISCONNECTED, 0, "disconnected by this side");
	peer_forget(link);
	peer_forget(peer);
	peer_put(link);
}

/* Marks the peer as exposed: the application gets its handle, so the end of the peer must raise an
 * event. Returns false if the peer has ended already. */
static bool peer_expose(struct engine_peer *peer)
{
	struct engine_session *session = peer->link.session;
	bool lives;

	session_lock(session);
	lives = !peer->died;
	peer->exposed |= lives;
	session_unlock(session);
	return lives;
}

/* Waits until `peer`, which was not made by this call, is up, and returns its handle. A nonblocking
 * call does not wait. A timeout does not end the peer, because other callers may wait for it as
 * well. */
static tcpx_status connect_known(struct engine_peer *peer, int64_t deadline_ns, int nonblocking,
				 tcpx_peer *out_peer)
{
	tcpx_status status =
		nonblocking && peer_expose(peer) ? TCPX_OK : connect_wait(peer, deadline_ns);

	if (status == TCPX_OK) {
		/* the application gets the handle, so an event must tell when the peer ends */
		(void)peer_expose(peer);
		out_peer->id = peer->app_handle;
	}
	return status;
}

/* Returns, with a reference, a peer that is up, that this session dialled, and whose control
 * connection leads to one of the addresses of `fresh`. If `fresh` expects a key, the peer must have
 * proved that key. Returns NULL if there is no such peer. */
static struct engine_peer *peer_by_address(const struct engine_peer *fresh)
{
	struct engine_session *session = fresh->link.session;
	struct engine_peer *found = NULL;
	struct list_node *pos;

	session_lock(session);
	LIST_FOREACH(pos, &session->peer_list) {
		struct engine_peer *peer = LIST_ENTRY(pos, struct engine_peer, node);
		uint32_t state = atomic_load(&peer->state);

		if (peer == fresh || !peer->dialler || !peer_is_expected(peer, fresh) ||
		    (state != TCPX_PEER_UP && state != TCPX_PEER_SUSPECT))
			continue;
		for (uint32_t i = 0; i < fresh->address.count && !found; i++)
			if (sys_addr_same_host(&peer->address.remote, &fresh->address.known[i]) &&
			    sys_addr_port(&peer->address.remote) ==
				    sys_addr_port(&fresh->address.known[i]))
				found = peer;
	}
	if (found)
		peer_get(found);
	session_unlock(session);
	return found;
}

/* Returns, with a reference, the link with the session that `info` names, if that link exists or
 * may be dialled again. Returns NULL if a new peer is needed. */
static struct engine_peer *peer_of_info(struct engine_session *session,
					const struct wire_info *info, int nonblocking)
{
	struct engine_peer *peer;
	uint64_t id;

	if (!memcmp(info->uuid, session->uuid, sizeof(info->uuid)))
		return NULL; /* a session that dials itself needs a second link */
	peer = peer_by_uuid(session, info->uuid, identity_is_keyed(info), NULL);
	id = peer ? peer->app_handle : reconnect_find(session, info->uuid, identity_is_keyed(info));
	if (peer)
		peer_put(peer);
	peer = id ? reconnect_use(session, id, true) : NULL; /* dials again if the link has ended */
	/* Since the look-up, the handle may have got a link with another session, or the link may
	 * have ended. A nonblocking call must not return a link that has ended. */
	if (peer && (!peer_is(peer, info->uuid) || (nonblocking && !peer_expose(peer)))) {
		peer_put(peer);
		peer = NULL;
	}
	return peer;
}

/* Ends a peer that was made for a dial but is not needed, because the session has a link already.
 * Drops the caller's reference to it. */
static void connect_drop(struct engine_peer *peer)
{
	struct forget_call forget = {.peer = peer};

	runtime_call(connect_forget_run, &forget);
	peer_put(peer);
}

/* Dials `peer`, or sets *out_known to a link to use instead. With `info` the caller has set
 * *out_known, to NULL if there is no link. Without `info` this function looks for a link with the
 * same address, except in a nonblocking call with a host name, which always dials. If the link in
 * use has no option `reconnect`, it takes over that of `peer`. If the result is OK and *out_known
 * is NULL, `peer` is up, or still connects if the call is nonblocking. Returns ERR_EXISTS if the
 * control thread found another peer for the same remote session; dialling.duplicate_of is that
 * peer's handle. */
static tcpx_status connect_dial(struct engine_peer *peer, const struct wire_info *info,
				const char *address, const struct connect_call *call,
				struct engine_peer **out_known)
{
	bool aside = call->nonblocking && !info && ctl_resolve_is_name(address);
	tcpx_status status = aside ? TCPX_OK : connect_take_target(peer, info, address);

	if (aside)
		connect_choose_auth(peer, NULL);
	if (status == TCPX_OK && call->reconnect)
		status = reconnect_keep(peer, call->timeout_ns);
	if (status != TCPX_OK)
		return status;
	if (aside)
		return connect_look_up_start(peer, address);
	if (!info)
		*out_known = peer_by_address(peer);
	if (*out_known) {
		reconnect_pass(peer, *out_known);
		return TCPX_OK;
	}
	peer->exposed = call->nonblocking;
	peer_enlist(peer);
	runtime_call(connect_dial_run, peer);
	if (call->nonblocking)
		return peer->exposed ? TCPX_OK : TCPX_ERR_EXISTS;
	/* wait longer than the connect timer, whose error is more precise than a timeout here */
	return connect_wait(peer, call->deadline_ns + 200 * CLOCK_MS_NS);
}

/* Parses the option expect_key, if it is set. Returns ERR_INVALID if the text is not a key, or
 * ERR_UNSUPPORTED if there is no crypto library to check keys. Returns ERR_AUTH if `info` does not
 * have that key. */
static tcpx_status connect_take_expected(struct connect_call *call, const struct wire_info *info,
					 const char *text)
{
	if (!text || !*text)
		return TCPX_OK;
	call->expects = true;
	if (!ctl_key_parse(text, strlen(text), call->expected))
		return error_set(TCPX_ERR_INVALID, 0, "expect_key '%.70s' is not 64 hex digits",
				 text);
	if (!sys_crypto_available())
		return error_set(TCPX_ERR_UNSUPPORTED, 0, "expect_key needs a crypto library: %s",
				 sys_crypto_reason());
	if (info && (!info->has_key || memcmp(info->key, call->expected, sizeof(info->key)) != 0))
		return error_set(TCPX_ERR_AUTH, 0,
				 "the connection info has another key than expect_key");
	return TCPX_OK;
}

/* Uses an existing link with the session of `info`, or one that was dialled at `address`, if there
 * is one. Otherwise makes a peer and dials it. If the dial finds that the two sessions already have
 * a link, uses that link and drops the new peer. */
tcpx_status engine_connect(struct engine_session *session, const struct wire_info *info,
			   const char *address, const tcpx_connect_opts *opts, tcpx_peer *out_peer)
{
	struct connect_call call = {.nonblocking = opts->nonblocking, .reconnect = opts->reconnect};
	struct engine_peer *peer = NULL, *known;
	struct forget_call forget;
	tcpx_status status = connect_take_expected(&call, info, opts->expect_key);

	if (status != TCPX_OK)
		return status;
	call.timeout_ns = opts->timeout_ns > 0 ? opts->timeout_ns : CONNECT_NS;
	call.deadline_ns = clock_after(call.timeout_ns);
	known = info ? peer_of_info(session, info, call.nonblocking) : NULL;
	if (!known || (call.reconnect && !reconnect_kept(known))) {
		peer = peer_create(session);
		if (!peer) {
			if (known)
				peer_put(known);
			return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a peer");
		}
		peer_get(peer);
		peer->dialler = true;
		peer->who.expects = call.expects;
		memcpy(peer->who.expected, call.expected, sizeof(peer->who.expected));
		peer->dialling.deadline_ns = call.deadline_ns;
		status = connect_dial(peer, info, address, &call, &known);
	}
	if (known) {
		if (peer) /* the peer that was created for the dial is not needed */
			connect_drop(peer);
		status = connect_known(known, call.deadline_ns, call.nonblocking, out_peer);
		peer_put(known);
		return status;
	}
	if (status == TCPX_ERR_EXISTS && peer->dialling.duplicate_of) {
		struct engine_peer *other = engine_peer_get(session, peer->dialling.duplicate_of);

		forget = (struct forget_call){.peer = peer};
		runtime_call(connect_forget_run, &forget);
		if (other && !peer_is(other, peer->who.uuid)) {
			error_set(TCPX_ERR_STALE, 0, "peer '%s' ended while it was dialled",
				  other->who.name);
			error_next("connect again");
			peer_put(other);
			other = NULL;
		}
		if (other)
			reconnect_pass(peer, other);
		status = other ? connect_known(other, call.deadline_ns, call.nonblocking, out_peer)
			       : TCPX_ERR_STALE;
		if (other)
			peer_put(other);
	} else if (status == TCPX_OK) {
		out_peer->id = peer->app_handle;
	} else {
		tcpx_error error = *error_last();

		forget = (struct forget_call){.peer = peer};
		runtime_call(connect_forget_run, &forget);
		error_raise(&error);
	}
	peer_put(peer);
	return status;
}

tcpx_status engine_disconnect(struct engine_session *session, uint64_t peer_id)
{
	struct forget_call call = {.goodbye = true};
	struct engine_peer *link = NULL;

	session_lock(session);
	/* The peer for which the handle was made. If the link was dialled again since, the current
	 * link belongs to another peer. */
	call.peer = handle_find(&session->peers, peer_id);
	if (call.peer) {
		link = call.peer->reconnect.now ? call.peer->reconnect.now : call.peer;
		peer_get(call.peer);
		peer_get(link);
	}
	session_unlock(session);
	if (!call.peer)
		return error_set(TCPX_ERR_STALE, 0, "peer handle %llx is no longer valid",
				 (unsigned long long)peer_id);
	peer_notes_await(link, clock_after(ENGINE_LINGER_NS));
	peer_put(link);
	runtime_call(connect_forget_run, &call);
	peer_put(call.peer);
	return TCPX_OK;
}

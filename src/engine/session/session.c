/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: options, opening, listening, connection info, closing. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "engine/calls.h"
#include "engine/channel/comms.h"
#include "engine/request/early.h"
#include "engine/import.h"
#include "engine/channel/lead.h"
#include "engine/peer/peer_route.h"
#include "engine/path/share.h"
#include "sys/addr.h"
#include "sys/cpu.h"
#include "sys/crypto.h"
#include "sys/fd.h"
#include "sys/fork.h"
#include "sys/iface.h"

#define SESSION_MAGIC 0x74637078u
#define CLOSE_WAIT_NS CLOCK_S_NS
#define LATE_LOOK_US 10000

static void deadline_run(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_session *session = LIST_ENTRY(timer, struct engine_session, deadline_timer);
	struct engine_peer *peer;
	int64_t next = 0;

	for (peer = session_next_peer(session, NULL); peer;
	     peer = session_next_peer(session, peer)) {
		int64_t due = 0;

		link_lock(&peer->link);
		if (peer->link.core_ready && !peer->link.core.dead)
			due = core_link_expire(&peer->link.core, now_ns);
		else
			due = early_expire(peer, now_ns);
		link_unlock(&peer->link);
		if (due && (!next || due < next))
			next = due;
	}
	if (next)
		sys_timer_set(&engine_runtime.loop, &session->deadline_timer, next);
}

static void deadline_posted(struct sys_post *post)
{
	struct engine_session *session = LIST_ENTRY(post, struct engine_session, deadline_post);

	atomic_store(&session->deadline_posted, 0);
	deadline_run(&session->deadline_timer, clock_now_ns());
}

static void session_init(struct engine_session *session)
{
	pthread_mutex_init(&session->lock, NULL);
	sys_mutex_init_short(&session->queue_lock);
	handles_init(&session->peers, sizeof(struct engine_peer), 1ull << 61, NULL);
	handles_init(&session->requests, sizeof(struct engine_request), 1ull << 62, request_free);
	handles_init(&session->imports, sizeof(struct engine_import), 1ull << 63, import_free);
	list_init(&session->peer_list);
	inbound_init(&session->inbound);
	account_init(session);
	list_init(&session->notes);
	list_init(&session->taken);
	list_init(&session->events);
	list_init(&session->accepts);
	list_init(&session->completions);
	list_init(&session->node);
	list_init(&session->deadline_timer.node);
	list_init(&session->deadline_post.node);
	session->deadline_timer.fn = deadline_run;
	session->deadline_post.fn = deadline_posted;
	session->stage_pool = session->stage_free = config_u64(CONFIG_STAGING_BYTES);
	session->eventfd = -1;
}

static void session_destroy(struct engine_session *session)
{
	notes_drop_all(session);
	leads_free(session);
	if (session->regions)
		mem_regions_destroy(session->regions);
	handles_fini(&session->imports);
	handles_fini(&session->requests);
	handles_fini(&session->peers);
	if (session->eventfd >= 0)
		sys_fd_close(session->eventfd);
	free(session->filters);
	free(session->told.advertise);
	comms_session_close(session);
	pthread_mutex_destroy(&session->lock);
	pthread_mutex_destroy(&session->queue_lock);
	account_fini(session);
	atomic_store(&session->magic, 0);
	explicit_bzero(session->secret, sizeof(session->secret));
	explicit_bzero(&session->keys, sizeof(session->keys));
	explicit_bzero(&session->identity, sizeof(session->identity));
	free(session);
}

/* Those that ended; one whose staged memory is still in a copy's hands comes later. */
static void free_requests(struct engine_session *session)
{
	for (uint32_t i = 0; i < session->requests.count; i++) {
		struct engine_request *request = handle_at(&session->requests, i);

		if (!request || atomic_load(&request->state) == REQUEST_ACTIVE)
			continue;
		handle_hide(request);
		request_put(request);
	}
}

/* Sessions that closed while a copy had memory of theirs in its hands, which has it no more. */
static void free_late_ones(void)
{
	for (;;) {
		struct engine_session *late = NULL;
		struct list_node *pos;

		pthread_mutex_lock(&engine_runtime.lock);
		LIST_FOREACH(pos, &engine_runtime.late) {
			struct engine_session *one = LIST_ENTRY(pos, struct engine_session, node);

			free_requests(one);
			if (atomic_load(&one->peers.live))
				continue;
			late = one;
			list_remove(&one->node);
			break;
		}
		pthread_mutex_unlock(&engine_runtime.lock);
		if (!late)
			return;
		runtime_put();
		session_destroy(late);
	}
}

/* For as long as it takes: nobody else may ever open or close a session. */
static void *late_main(void *arg)
{
	struct engine_runtime *runtime = arg;
	bool left;

	do {
		usleep(LATE_LOOK_US);
		free_late_ones();
		pthread_mutex_lock(&runtime->lock);
		left = runtime->late_looked = !list_empty(&runtime->late);
		pthread_mutex_unlock(&runtime->lock);
	} while (left);
	return NULL;
}

/* Without a thread the next open or close frees it. */
static void be_late(struct engine_session *session)
{
	struct engine_runtime *runtime = &engine_runtime;
	pthread_t thread;

	pthread_mutex_lock(&runtime->lock);
	list_push_back(&runtime->late, &session->node);
	if (!runtime->late_looked &&
	    sys_thread_start(&thread, "tcpx-late", late_main, runtime) == TCPX_OK) {
		runtime->late_looked = true;
		pthread_detach(thread);
	}
	pthread_mutex_unlock(&runtime->lock);
}

static void enlist(void *arg)
{
	struct engine_session *session = arg;

	list_push_back(&engine_runtime.sessions, &session->node);
	if (session->flags & TCPX_SESSION_BUSY_POLL)
		atomic_fetch_add(&mem_busy_sessions, 1);
}

bool session_local_open(struct engine_session *session)
{
	static const struct transport_listen_ops ops = {
		.expected = peer_local_expected,
		.arrived = peer_local_arrived,
		.asked = share_fd_asked,
	};

	if (session->local)
		return true;
	if (net_transport_of_offers()->listen(&engine_runtime.loop, &ops, session,
					      session->local_name, &session->local) != TCPX_OK)
		session->local = NULL;
	return session->local != NULL;
}

tcpx_status engine_session_open(const tcpx_session_opts *opts, struct engine_session **out_session)
{
	tcpx_session_opts none = {.sz = sizeof(none)};
	struct engine_session *session = calloc(1, sizeof(*session));
	tcpx_status status;

	if (!session)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "session");
	session_init(session);
	status = session_options(session, opts ? opts : &none);
	if (status == TCPX_OK)
		status = identity_of_session(session);
	if (status == TCPX_OK)
		status = sys_random(session->secret, sizeof(session->secret));
	if (status == TCPX_OK)
		status = mem_regions_create(&session->regions);
	if (status == TCPX_OK) {
		session->eventfd = SYS_FD_OPEN(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
		if (session->eventfd < 0)
			status = error_set(errno == EMFILE || errno == ENFILE
						   ? TCPX_ERR_NO_DESCRIPTORS
						   : TCPX_ERR_SYSTEM,
					   errno, "eventfd of the session");
	}
	if (status == TCPX_OK)
		status = comms_session_open(session, opts ? opts : &none);
	if (status == TCPX_OK)
		status = runtime_get(opts ? opts->workers : 0);
	if (status != TCPX_OK) {
		session_destroy(session);
		return status;
	}
	config_fix();
	free_late_ones();
	session->fork_generation = sys_fork_generation();
	runtime_call(enlist, session);
	atomic_store(&session->magic, SESSION_MAGIC);
	*out_session = session;
	return TCPX_OK;
}

tcpx_status engine_session_check(struct engine_session *session)
{
	if (!session || atomic_load(&session->magic) != SESSION_MAGIC)
		return error_set(TCPX_ERR_INVALID, 0, "session is NULL or closed");
	if (session->fork_generation != sys_fork_generation())
		return error_set(TCPX_ERR_FORKED, 0, "session was opened before fork()");
	return TCPX_OK;
}

static void close_run(void *arg)
{
	struct engine_session *session = arg;

	session->closing = true;
	list_remove(&session->node);
	if (session->flags & TCPX_SESSION_BUSY_POLL)
		atomic_fetch_sub(&mem_busy_sessions, 1);
	for (uint32_t i = 0; i < session->nlisteners; i++)
		ctl_listener_close(session->listeners[i]);
	session->nlisteners = 0;
	if (session->local)
		session->local->ops->unlisten(session->local);
	session->local = NULL;
	sys_timer_del(&engine_runtime.loop, &session->deadline_timer);
	for (;;) {
		struct engine_peer *peer = NULL;

		session_lock(session);
		if (!list_empty(&session->peer_list))
			peer = LIST_ENTRY(session->peer_list.next, struct engine_peer, node);
		session_unlock(session);
		if (!peer)
			break;
		peer_get(peer);
		peer_send_goodbye(peer);
		peer_die(peer, TCPX_ERR_SESSION_CLOSED, 0, "session closed");
		peer_forget(peer);
		peer_put(peer);
	}
	/* Nothing waits for notifications any more. */
	pthread_mutex_lock(&session->queue_lock);
	atomic_fetch_add(&session->note_word, 1);
	atomic_fetch_add(&session->accept_word, 1);
	pthread_mutex_unlock(&session->queue_lock);
}

static void nothing(void *arg)
{
	(void)arg;
}

void engine_session_close(struct engine_session *session)
{
	int64_t deadline;
	uint32_t i;

	if (session->fork_generation != sys_fork_generation()) {
		atomic_store(&session->magic, 0);
		return; /* a forked child has no threads of ours: it only forgets */
	}
	runtime_call(close_run, session);
	/* What the control thread was still asked to do is behind this. */
	runtime_call(nothing, NULL);
	notes_drop_all(session);
	for (i = 0; i < session->imports.count; i++) {
		struct engine_import *import = handle_at(&session->imports, i);

		if (!import)
			continue;
		handle_hide(import);
		handle_put(&session->imports, import);
	}
	/* Commits of staged memory and channels in a worker's hands hold their peer a while. */
	deadline = clock_after(CLOSE_WAIT_NS);
	free_requests(session);
	while (atomic_load(&session->peers.live) && clock_now_ns() < deadline) {
		usleep(1000);
		free_requests(session);
	}
	runtime_call(nothing, NULL);
	free_late_ones();
	if (!atomic_load(&session->peers.live)) {
		runtime_put();
		session_destroy(session);
		return;
	}
	/* The copy's end comes to a worker: the runtime lives on with it. */
	LOG_WARN("session '%s': memory of %u peers is still in use and stays until its copies and "
		 "look-ups end",
		 session->name, atomic_load(&session->peers.live));
	atomic_store(&session->magic, 0);
	be_late(session);
}

static tcpx_status check_trust(const struct engine_session *session)
{
	char text[SYS_ADDR_TEXT];

	for (uint32_t i = 0; i < session->nrails; i++) {
		if (sys_addr_is_loopback(&session->rails[i]) ||
		    (session->flags & TCPX_SESSION_INSECURE))
			continue;
		if (session->flags & TCPX_SESSION_INFO_ONLY ? sys_crypto_available()
							    : session->keys.count > 0)
			continue;
		error_set(TCPX_ERR_AUTH, 0, "listening on %s needs a key file",
			  sys_addr_host_text(&session->rails[i], text));
		return error_next(ENGINE_NEXT_KEY);
	}
	return TCPX_OK;
}

struct listen_call {
	struct engine_session *session;
	uint32_t port, retries;
	tcpx_status status;
	tcpx_error error;
};

static tcpx_status listen_on(struct engine_session *session, uint16_t port)
{
	tcpx_status status = TCPX_OK;
	uint32_t i;

	for (i = 0; i < session->nrails && status == TCPX_OK; i++) {
		/* The first address finds a free port, the others take the same one. */
		status = ctl_listener_open(&engine_runtime.loop, &session->rails[i],
					   config_text(CONFIG_BIND_DEVICE), &port, &peer_accept_ops,
					   session, &session->ctl_counters, &session->listeners[i]);
		if (status == TCPX_OK)
			session->nlisteners = i + 1;
	}
	if (status == TCPX_OK) {
		session->port = port;
		return TCPX_OK;
	}
	while (session->nlisteners)
		ctl_listener_close(session->listeners[--session->nlisteners]);
	return status;
}

static void listen_run(void *arg)
{
	struct listen_call *call = arg;
	uint32_t more = 65535 - call->port;
	uint32_t tries = call->session->nrails > 1 ? 16 : 1;

	if (call->port)
		tries = 1 + (call->retries < more ? call->retries : more);
	for (uint32_t i = 0; i < tries; i++) {
		uint32_t port = call->port ? call->port + i : 0;

		call->status = listen_on(call->session, (uint16_t)port);
		if (call->status != TCPX_ERR_ADDRESS)
			break;
	}
	if (call->status == TCPX_OK && !(call->session->flags & TCPX_SESSION_NO_LOCAL))
		(void)session_local_open(call->session); /* without it channels go over tcp */
	call->error = *error_last();
}

tcpx_status engine_listen(struct engine_session *session, uint32_t port, uint32_t retries,
			  uint16_t *out_port)
{
	struct listen_call call = {.session = session, .port = port, .retries = retries};
	struct wire_address advertised[WIRE_ADDR_MAX];
	uint32_t count = 0;
	tcpx_status status = session_told_find(session, advertised, &count);

	if (status != TCPX_OK)
		return status;
	session_lock(session);
	if (session->listening)
		status = error_set(TCPX_ERR_STATE, 0, "session listens already, on port %u",
				   session->port);
	else if (port > 65535)
		status = error_set(TCPX_ERR_INVALID, 0, "port %u is outside 0..65535", port);
	else
		status = check_trust(session);
	if (status == TCPX_OK)
		status = session_published_check();
	if (status == TCPX_OK && count) {
		memcpy(session->told.addrs, advertised, count * sizeof(*advertised));
		session->told.count = count;
	}
	session->listening |= status == TCPX_OK;
	session_unlock(session);
	if (status != TCPX_OK)
		return status;
	runtime_call(listen_run, &call);
	if (call.status != TCPX_OK) {
		session_lock(session);
		session->listening = false;
		session_unlock(session);
		return error_raise(&call.error);
	}
	*out_port = session->port;
	return TCPX_OK;
}

const char *engine_trust(struct engine_session *session)
{
	if (session->flags & TCPX_SESSION_INSECURE)
		return "insecure";
	if (session->keys.count)
		return "key";
	for (uint32_t i = 0; i < session->nrails; i++)
		if (!sys_addr_is_loopback(&session->rails[i]))
			return "secret";
	return "loopback";
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes sessions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "engine/session/calls.h"
#include "engine/channel/comms.h"
#include "engine/link/import.h"
#include "engine/channel/lead.h"
#include "sys/addr.h"
#include "sys/cpu.h"
#include "sys/crypto.h"
#include "sys/fd.h"
#include "sys/fork.h"
#include "sys/futex.h"

#define SESSION_MAGIC 0x74637078u
/* how long a close waits until the session's peers are freed */
#define CLOSE_WAIT_NS CLOCK_S_NS

static void session_init(struct engine_session *session)
{
	pthread_mutex_init(&session->lock, NULL);
	sys_mutex_init_short(&session->queue.lock);
	handles_init(&session->peers, sizeof(struct engine_peer), 1ull << 61, NULL);
	handles_init(&session->requests, sizeof(struct engine_request), 1ull << 62, request_free);
	handles_init(&session->imports, sizeof(struct engine_import), 1ull << 63, import_free);
	list_init(&session->peer_list);
	inbound_init(&session->inbound);
	account_init(session);
	list_init(&session->queue.notes);
	list_init(&session->queue.taken);
	list_init(&session->queue.events);
	list_init(&session->queue.accepts);
	list_init(&session->queue.completions);
	list_init(&session->node);
	session_deadline_init(&session->deadline);
	session->staging.pool = session->staging.free = config_u64(CONFIG_STAGING_BYTES);
	session->queue.eventfd = -1;
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
	if (session->queue.eventfd >= 0)
		sys_fd_close(session->queue.eventfd);
	free(session->filters);
	free(session->advertised.option);
	comms_session_close(session);
	pthread_mutex_destroy(&session->lock);
	pthread_mutex_destroy(&session->queue.lock);
	account_fini(session);
	atomic_store(&session->magic, 0);
	explicit_bzero(session->secret, sizeof(session->secret));
	explicit_bzero(&session->keys, sizeof(session->keys));
	explicit_bzero(&session->identity, sizeof(session->identity));
	free(session);
}

/* Releases all requests. A request whose memory a copy still uses is freed when the copy has
 * ended. */
static void session_requests_release(struct engine_session *session)
{
	for (uint32_t i = 0; i < session->requests.count; i++) {
		struct engine_request *request = handle_at(&session->requests, i);

		if (request)
			(void)engine_request_release(session, request->slot.id);
	}
}

/* Sleeps until the session's last peer is freed, or the deadline has passed. */
static void session_peers_await(struct engine_session *session, int64_t deadline_ns)
{
	_Atomic uint32_t *freed = &engine_runtime.peers_freed;
	uint32_t seen;

	do {
		seen = atomic_load(freed);
		if (!atomic_load(&session->peers.live))
			return;
	} while (sys_futex_wait(freed, seen, deadline_ns) == 0);
}

/* Frees the sessions in engine_runtime.late that no longer have a peer. That list contains the
 * closed sessions whose peers were still in use, for example by a copy. */
static void sessions_free_late(void)
{
	for (;;) {
		struct engine_session *late = NULL;
		struct list_node *pos;

		pthread_mutex_lock(&engine_runtime.lock);
		LIST_FOREACH(pos, &engine_runtime.late) {
			struct engine_session *one = LIST_ENTRY(pos, struct engine_session, node);

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

/* Runs on a thread of its own, which waits until all sessions in engine_runtime.late can be
 * freed, however long that takes. This is needed because the application may never open or close
 * another session, and the control thread cannot wait: closing the last session joins it. */
static void *sessions_late_main(void *arg)
{
	struct engine_runtime *runtime = arg;

	for (;;) {
		uint32_t seen = atomic_load(&runtime->peers_freed);
		bool left;

		sessions_free_late();
		pthread_mutex_lock(&runtime->lock);
		left = runtime->late_looked = !list_empty(&runtime->late);
		pthread_mutex_unlock(&runtime->lock);
		if (!left)
			return NULL;
		sys_futex_wait(&runtime->peers_freed, seen, -1);
	}
}

/* Arranges that a closed session is freed when its peers are no longer in use. If no thread can be
 * started for that, a later open or close of a session frees it. */
static void session_free_later(struct engine_session *session)
{
	struct engine_runtime *runtime = &engine_runtime;
	pthread_t thread;

	pthread_mutex_lock(&runtime->lock);
	list_push_back(&runtime->late, &session->node);
	if (!runtime->late_looked &&
	    sys_thread_start(&thread, "tcpx-late", sessions_late_main, runtime) == TCPX_OK) {
		runtime->late_looked = true;
		pthread_detach(thread);
	}
	pthread_mutex_unlock(&runtime->lock);
	/* the last peer may have been freed before the session was in the list, so the list is
	 * checked again */
	runtime_peer_freed();
}

static void session_enlist(void *arg)
{
	struct engine_session *session = arg;

	list_push_back(&engine_runtime.sessions, &session->node);
	if (session->flags & TCPX_SESSION_BUSY_POLL)
		atomic_fetch_add(&mem_busy_sessions, 1);
}

tcpx_status engine_session_open(const tcpx_session_opts *opts, struct engine_session **out_session)
{
	tcpx_session_opts none = {.sz = sizeof(none)};
	struct engine_session *session = calloc(1, sizeof(*session));
	tcpx_status status;

	if (!session)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a session");
	session_init(session);
	status = session_options(session, opts ? opts : &none);
	if (status == TCPX_OK)
		status = identity_of_session(session);
	if (status == TCPX_OK)
		status = sys_random(session->secret, sizeof(session->secret));
	if (status == TCPX_OK)
		status = mem_regions_create(&session->regions);
	if (status == TCPX_OK) {
		session->queue.eventfd = SYS_FD_OPEN(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
		if (session->queue.eventfd < 0)
			status = error_set(errno == EMFILE || errno == ENFILE
						   ? TCPX_ERR_NO_DESCRIPTORS
						   : TCPX_ERR_SYSTEM,
					   errno, "cannot create the eventfd of the session");
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
	sessions_free_late();
	session->fork_generation = sys_fork_generation();
	runtime_call(session_enlist, session);
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

/* Ends the session's listeners and peers. Control thread. */
static void session_close_run(void *arg)
{
	struct engine_session *session = arg;

	atomic_store(&session->closing, true);
	list_remove(&session->node);
	if (session->flags & TCPX_SESSION_BUSY_POLL)
		atomic_fetch_sub(&mem_busy_sessions, 1);
	session_listen_close(session);
	session_deadline_stop(&session->deadline);
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
	/* After this, a caller that is about to wait for notifications or peers does not sleep. */
	pthread_mutex_lock(&session->queue.lock);
	atomic_fetch_add(&session->queue.note_word, 1);
	atomic_fetch_add(&session->queue.accept_word, 1);
	pthread_mutex_unlock(&session->queue.lock);
}

/* Gives notifications that were sent just before the close a chance to arrive. */
static void session_notes_await(struct engine_session *session)
{
	int64_t deadline = clock_after(ENGINE_LINGER_NS);
	struct engine_peer *peer = NULL;

	while ((peer = session_next_peer(session, peer)))
		peer_notes_await(peer, deadline);
}

static void session_close_barrier(void *arg)
{
	(void)arg;
}

/* Ends the peers and then the requests, and waits up to CLOSE_WAIT_NS until the peers are freed. If
 * a peer is still in use after that, the session is freed later. */
void engine_session_close(struct engine_session *session)
{
	uint32_t i;

	if (session->fork_generation != sys_fork_generation()) {
		atomic_store(&session->magic, 0);
		return; /* a forked child has none of the threads, so it only forgets the session */
	}
	session_notes_await(session);
	runtime_call(session_close_run, session);
	/* When this call returns, the control thread has done all that it was asked to do
	 * before. */
	runtime_call(session_close_barrier, NULL);
	notes_drop_all(session);
	for (i = 0; i < session->imports.count; i++) {
		struct engine_import *import = handle_at(&session->imports, i);

		if (!import)
			continue;
		handle_hide(import);
		handle_put(&session->imports, import);
	}
	session_requests_release(session);
	/* Copies of staged memory, channels that a worker still serves, and name look-ups hold
	 * references to peers. */
	session_peers_await(session, clock_after(CLOSE_WAIT_NS));
	runtime_call(session_close_barrier, NULL);
	sessions_free_late();
	if (!atomic_load(&session->peers.live)) {
		runtime_put();
		session_destroy(session);
		return;
	}
	/* The runtime's threads must still end what uses the peers, so the reference to the runtime
	 * is kept. */
	LOG_WARN("session '%s': memory of %u peers is still in use and stays until its copies and "
		 "look-ups end",
		 session->name, atomic_load(&session->peers.live));
	atomic_store(&session->magic, 0);
	session_free_later(session);
}

const char *engine_trust(struct engine_session *session)
{
	if (session->flags & TCPX_SESSION_INFO_ONLY)
		return "secret"; /* accept_key() takes no other proof */
	if (session->flags & TCPX_SESSION_INSECURE)
		return "insecure";
	if (session->keys.count)
		return "key";
	for (uint32_t i = 0; i < session->rails.count; i++)
		if (!sys_addr_is_loopback(&session->rails.at[i]))
			return "secret";
	return "loopback";
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Queues to the application: notifications, events, peers to accept. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/request/request_calls.h"
#include "engine/channel/lead.h"
#include "engine/channel/app_poll.h"
#include "engine/request/ready.h"
#include "sys/futex.h"

struct engine_event {
	struct list_node node;
	tcpx_event event;
};

/* Returns the peer that a published notification came from. */
static struct engine_peer *note_peer(const struct core_notify_in *msg)
{
	return msg->from;
}

/* Puts an arrived notification into the application's queue. The caller holds link.lock. */
void note_published(struct engine_peer *peer, struct core_notify_in *msg)
{
	struct engine_session *session = peer->link.session;
	struct engine_lead *lead;

	msg->from = peer;
	peer_get(peer);
	atomic_fetch_add(&session->counters.notes_in, 1);
	pthread_mutex_lock(&session->queue.lock);
	ready_add(session, &session->queue.notes, &msg->node);
	peer->unread++;
	lead = session->queue.note_lead;
	if (lead)
		lead_wake(lead);
	atomic_fetch_add(&session->queue.note_word, 1);
	pthread_mutex_unlock(&session->queue.lock);
	if (atomic_load(&session->queue.note_waiters))
		sys_futex_wake(&session->queue.note_word, 1);
}

static bool note_there(void *arg)
{
	struct engine_session *session = arg;
	bool there;

	pthread_mutex_lock(&session->queue.lock);
	there = !list_empty(&session->queue.notes) || atomic_load(&session->closing);
	pthread_mutex_unlock(&session->queue.lock);
	return there;
}

/* Takes the oldest notification for the application, which must release it later. Returns false if
 * there is none. */
static bool note_take(struct engine_session *session, tcpx_notification *out)
{
	struct list_node *node;
	struct core_notify_in *msg;

	pthread_mutex_lock(&session->queue.lock);
	node = list_pop_front(&session->queue.notes);
	if (node)
		list_push_back(&session->queue.taken, node);
	ready_taken(session);
	pthread_mutex_unlock(&session->queue.lock);
	if (!node)
		return false;
	msg = LIST_ENTRY(node, struct core_notify_in, node);
	out->peer.id = note_peer(msg)->app_handle;
	out->name = note_peer(msg)->who.name;
	out->key = note_peer(msg)->who.text;
	out->data = msg->data;
	out->bytes = msg->bytes;
	out->opaque = msg;
	return true;
}

tcpx_status engine_notify_take(struct engine_session *session, int64_t timeout_ns,
			       tcpx_notification *out)
{
	int64_t deadline = timeout_ns < 0 ? -1 : clock_after(timeout_ns);

	for (;;) {
		uint32_t word = atomic_load(&session->queue.note_word);

		if (note_take(session, out) ||
		    (timeout_ns == 0 && app_poll_missed(session, NULL, true) &&
		     note_take(session, out))) {
			app_poll_found(session);
			return TCPX_OK;
		}
		if (timeout_ns == 0)
			return TCPX_IN_PROGRESS;
		if (deadline >= 0 && clock_now_ns() >= deadline)
			return TCPX_IN_PROGRESS;
		if (lead_wait(session, NULL, &session->queue.note_lead, &session->queue.lock,
			      note_there, session, deadline))
			continue;
		app_poll_ends(session);
		atomic_fetch_add(&session->queue.note_waiters, 1);
		sys_futex_wait(&session->queue.note_word, word, deadline);
		atomic_fetch_sub(&session->queue.note_waiters, 1);
	}
}

/* Frees a notification that the application took, tells the core that it was read (or, if the core
 * is dead, gives its bytes back to the account), and drops the notification's reference to the
 * peer. */
static void note_release(struct engine_session *session, struct core_notify_in *msg)
{
	struct engine_peer *peer = note_peer(msg);
	uint64_t bytes = msg->bytes;
	bool empty;

	pthread_mutex_lock(&session->queue.lock);
	list_remove(&msg->node);
	empty = --peer->unread == 0;
	pthread_mutex_unlock(&session->queue.lock);
	account_note_free(session, msg, msg->there);
	link_lock(&peer->link);
	if (peer->link.core_ready && !peer->link.core.dead)
		core_note_consumed(&peer->link.core, bytes, empty);
	else
		account_give(peer, bytes + CORE_NOTE_COST);
	link_unlock(&peer->link);
	peer_put(peer);
}

void engine_note_release(struct engine_session *session, tcpx_notification *notification)
{
	struct core_notify_in *msg = notification->opaque;

	if (!msg)
		return;
	notification->opaque = NULL;
	notification->data = NULL;
	notification->name = notification->key = NULL;
	note_release(session, msg);
}

/* Frees all notifications, including those that were taken and never released, and all events.
 * Drops the references to peers that wait to be accepted. */
void notes_drop_all(struct engine_session *session)
{
	tcpx_notification note;
	struct list_node *node;

	while (note_take(session, &note))
		;
	while (!list_empty(&session->queue.taken))
		note_release(session,
			     LIST_ENTRY(session->queue.taken.next, struct core_notify_in, node));
	while ((node = list_pop_front(&session->queue.events)))
		free(LIST_ENTRY(node, struct engine_event, node));
	while ((node = list_pop_front(&session->queue.accepts)))
		peer_put(LIST_ENTRY(node, struct engine_peer, accept_node));
}

static struct engine_event *event_new(enum tcpx_event_type type, tcpx_status status,
				      uint64_t peer_id, uint32_t channel)
{
	struct engine_event *event = malloc(sizeof(*event));

	if (event)
		event->event = (tcpx_event){
			.type = type, .status = status, .peer = {peer_id}, .channel = channel};
	return event;
}

void peer_event(struct engine_peer *peer, enum tcpx_event_type type, tcpx_status status,
		uint32_t channel)
{
	struct engine_session *session = peer->link.session;
	struct engine_event *event = event_new(type, status, peer->app_handle, channel);

	if (!event)
		return;
	pthread_mutex_lock(&session->queue.lock);
	ready_add(session, &session->queue.events, &event->node);
	/* the application may never read events, so at most 4096 are kept */
	if (++session->queue.nevents > 4096) {
		free(LIST_ENTRY(list_pop_front(&session->queue.events), struct engine_event, node));
		session->queue.nevents--;
	}
	pthread_mutex_unlock(&session->queue.lock);
}

tcpx_status engine_event_take(struct engine_session *session, tcpx_event *out)
{
	struct list_node *node;

	pthread_mutex_lock(&session->queue.lock);
	node = list_pop_front(&session->queue.events);
	session->queue.nevents -= node != NULL;
	ready_taken(session);
	pthread_mutex_unlock(&session->queue.lock);
	if (!node)
		return TCPX_IN_PROGRESS;
	*out = LIST_ENTRY(node, struct engine_event, node)->event;
	free(LIST_ENTRY(node, struct engine_event, node));
	return TCPX_OK;
}

/* Queues a peer that dialled this session and is up, for tcpx_session_accept(). */
void session_accepted(struct engine_session *session, struct engine_peer *peer)
{
	peer_get(peer);
	pthread_mutex_lock(&session->queue.lock);
	list_push_back(&session->queue.accepts, &peer->accept_node);
	atomic_fetch_add(&session->queue.accept_word, 1);
	pthread_mutex_unlock(&session->queue.lock);
	sys_futex_wake(&session->queue.accept_word, INT_MAX);
}

tcpx_status engine_accept(struct engine_session *session, int64_t timeout_ns, tcpx_peer *out_peer)
{
	int64_t deadline = timeout_ns < 0 ? -1 : clock_after(timeout_ns);

	for (;;) {
		uint32_t word = atomic_load(&session->queue.accept_word);
		struct list_node *node;

		pthread_mutex_lock(&session->queue.lock);
		node = list_pop_front(&session->queue.accepts);
		pthread_mutex_unlock(&session->queue.lock);
		if (node) {
			struct engine_peer *peer =
				LIST_ENTRY(node, struct engine_peer, accept_node);

			out_peer->id = peer->app_handle;
			peer_put(peer);
			return TCPX_OK;
		}
		if (timeout_ns == 0 ||
		    sys_futex_wait(&session->queue.accept_word, word, deadline) < 0)
			return TCPX_IN_PROGRESS;
	}
}

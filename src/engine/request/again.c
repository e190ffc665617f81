/* SPDX-License-Identifier: Apache-2.0 */
/* Links that ended and are dialled again: by whom, when, and what moves to the new one. */
#include "engine/engine.h"
#include "engine/request/again.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

#define REST_NS (100 * CLOCK_MS_NS) /* between two attempts at first, twice as long each time */
#define REST_MAX_NS CLOCK_S_NS

/* How a session is dialled. Shared by the links of one handle; session.lock. */
struct engine_again {
	uint32_t refs;
	uint32_t tries; /* since the last link was up */
	int64_t due_ns; /* no attempt before */
	int64_t timeout_ns;
	struct wire_hello hello;
	uint8_t key[CTL_KEY_BYTES];
	struct sockaddr_storage addrs[WIRE_ADDR_MAX];
	uint32_t naddrs;
};

static bool same(const uint8_t *a, const uint8_t *b)
{
	return !memcmp(a, b, WIRE_UUID_BYTES);
}

static void take_addresses(struct engine_again *again, const struct engine_peer *peer)
{
	memcpy(again->addrs, peer->address.known, sizeof(again->addrs));
	again->naddrs = peer->address.count;
}

tcpx_status again_keep(struct engine_peer *peer, int64_t timeout_ns)
{
	struct engine_again *again = calloc(1, sizeof(*again));

	if (!again)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "how peer '%s' is dialled again",
				 peer->who.name);
	again->refs = 1;
	again->timeout_ns = timeout_ns;
	again->hello = peer->dialling.hello;
	memcpy(again->key, peer->dialling.key, sizeof(again->key));
	take_addresses(again, peer);
	peer->reconnect.kept = again;
	return TCPX_OK;
}

bool again_kept(struct engine_peer *peer)
{
	bool kept;

	session_lock(peer->link.session);
	kept = peer->reconnect.kept != NULL;
	session_unlock(peer->link.session);
	return kept;
}

void again_addresses(struct engine_peer *peer)
{
	struct engine_session *session = peer->link.session;

	session_lock(session);
	if (peer->reconnect.kept)
		take_addresses(peer->reconnect.kept, peer);
	session_unlock(session);
}

void again_pass(struct engine_peer *from, struct engine_peer *to)
{
	struct engine_session *session = from->link.session;

	session_lock(session);
	if (!to->reconnect.kept) {
		to->reconnect.kept = from->reconnect.kept;
		from->reconnect.kept = NULL;
	}
	session_unlock(session);
}

void again_put(struct engine_peer *peer)
{
	struct engine_session *session = peer->link.session;
	struct engine_again *again = peer->reconnect.kept;
	bool last = false;

	if (!again)
		return;
	peer->reconnect.kept = NULL;
	session_lock(session);
	last = !--again->refs;
	session_unlock(session);
	if (!last)
		return;
	explicit_bzero(again->key, sizeof(again->key));
	free(again);
}

/* session.lock: the link of a handle. */
static struct engine_peer *link_of(struct engine_peer *peer)
{
	return peer && peer->reconnect.now ? peer->reconnect.now : peer;
}

/* session.lock: it ended, and not for good. */
static bool may_return(struct engine_peer *peer)
{
	tcpx_status status = TCPX_OK;

	link_lock(&peer->link);
	if (peer->link.core_done)
		status = peer->error.status;
	link_unlock_only(&peer->link);
	switch (status) {
	case TCPX_OK:
	case TCPX_ERR_PEER_RESTARTED: /* another session */
	case TCPX_ERR_VERSION:
	case TCPX_ERR_DISCONNECTED: /* by the application */
	case TCPX_ERR_SESSION_CLOSED:
		return false;
	default:
		return true;
	}
}

/* session.lock. A session that is its own peer has two links of its uuid, and needs both. */
static struct engine_peer *linked(struct engine_session *session, const uint8_t *uuid, bool keyed)
{
	static const uint8_t anyone[WIRE_UUID_BYTES];

	if (same(uuid, anyone) || same(uuid, session->uuid))
		return NULL;
	return peer_linked(session, uuid, keyed, NULL);
}

uint64_t again_find(struct engine_session *session, const uint8_t *uuid, bool keyed)
{
	struct list_node *pos;
	uint64_t id = 0;

	session_lock(session);
	LIST_FOREACH(pos, &session->peer_list) {
		struct engine_peer *peer = LIST_ENTRY(pos, struct engine_peer, node);

		if (!peer->reconnect.kept || peer->reconnect.lent ||
		    !same(link_of(peer)->who.uuid, uuid) || link_of(peer)->who.keyed != keyed ||
		    !may_return(link_of(peer)))
			continue;
		id = peer->slot_id;
		peer->reconnect.kept->due_ns = 0;
	}
	session_unlock(session);
	return id;
}

/* session.lock: a link for the handle of `root`, whose last one was `old`. The control thread dials
 * it. Until it does, the other side's own dial is welcome. */
static struct engine_peer *dial(struct engine_peer *root, struct engine_peer *old)
{
	struct engine_session *session = root->link.session;
	struct engine_again *again = root->reconnect.kept;
	struct engine_peer *peer = peer_create(session);
	int64_t now = clock_now_ns();

	if (!peer)
		return NULL;
	peer->slot_id = root->slot_id;
	peer->reconnect.lent = peer->in_view = peer->dialler = peer->reconnect.awaiting = true;
	peer->reconnect.kept = again;
	again->refs++;
	peer->reconnect.at_ns = again->due_ns > now ? again->due_ns : now;
	peer->dialling.deadline_ns = peer->reconnect.at_ns + again->timeout_ns;
	memcpy(peer->who.name, old->who.name, sizeof(peer->who.name));
	memcpy(peer->who.uuid, old->who.uuid, sizeof(peer->who.uuid));
	peer->who.keyed = old->who.keyed;
	peer->dialling.hello = again->hello;
	/* what answers may be another session by now */
	memcpy(peer->dialling.hello.want_uuid, old->who.uuid,
	       sizeof(peer->dialling.hello.want_uuid));
	memcpy(peer->dialling.key, again->key, sizeof(peer->dialling.key));
	memcpy(peer->address.known, again->addrs, sizeof(peer->address.known));
	peer->address.count = again->naddrs;
	peer->who.expects = old->who.expects;
	memcpy(peer->who.expected, old->who.expected, sizeof(peer->who.expected));
	link_lock(&old->link);
	peer->error = old->error; /* why there is none, until it is up */
	link_unlock_only(&old->link);
	list_push_back(&session->peer_list, &peer->node);
	return peer;
}

struct engine_peer *again_use(struct engine_session *session, uint64_t peer_id, bool rest)
{
	struct engine_peer *root, *peer, *next = NULL, *old = NULL;

	session_lock(session);
	root = handle_find(&session->peers, peer_id);
	peer = link_of(root);
	if (peer && root->reconnect.kept && root->reconnect.kept->naddrs && may_return(peer)) {
		next = linked(session, peer->who.uuid, peer->who.keyed);
		if (!next && (rest || !root->reconnect.kept->tries ||
			      root->reconnect.kept->due_ns <= clock_now_ns()))
			next = dial(root, peer);
	}
	if (next) {
		old = root->reconnect.now;
		root->reconnect.now = peer = next;
		peer_get(next);
	}
	if (peer)
		peer_get(peer);
	session_unlock(session);
	if (!peer)
		error_set(TCPX_ERR_STALE, 0, "peer handle is not valid any more");
	else if (next && next->reconnect.at_ns)
		link_wake(&next->link);
	if (old)
		peer_put(old);
	return peer;
}

/* Only attempts count: links that the other side makes while one waits for its time would add up
 * the rests between them. */
void again_attempted(struct engine_peer *peer)
{
	struct engine_again *again = peer->reconnect.kept;
	int64_t rest;

	session_lock(peer->link.session);
	rest = REST_NS << (again->tries < 4 ? again->tries : 4);
	again->due_ns = clock_now_ns() + (rest < REST_MAX_NS ? rest : REST_MAX_NS);
	again->tries++;
	session_unlock(peer->link.session);
}

void again_up(struct engine_peer *peer)
{
	struct engine_session *session = peer->link.session;

	session_lock(session);
	if (peer->reconnect.kept)
		peer->reconnect.kept->tries = 0;
	session_unlock(session);
	link_lock(&peer->link);
	memset(&peer->error, 0, sizeof(peer->error));
	link_unlock(&peer->link);
}

/* peer.lock of its peer: nobody has anything of it but its handle. */
static bool movable(struct engine_request *request, uint64_t id, const struct engine_peer *from)
{
	return request->slot.id == id && atomic_load(&request->peer) == from &&
	       from->link.core_done && atomic_load(&request->state) != REQUEST_ACTIVE &&
	       !request->lead;
}

bool again_request(struct engine_request *request, uint64_t id)
{
	struct engine_peer *from = request_lock(request), *to = NULL;
	bool moved = movable(request, id, from);

	link_unlock(&from->link);
	if (moved)
		to = again_use(request->session, request->peer_id, true);
	moved = to && to != from;
	if (moved) {
		link_lock(&from->link);
		moved = movable(request, id, from);
		if (moved)
			atomic_store(&request->peer, to); /* the reference goes along */
		link_unlock(&from->link);
	}
	if (moved)
		peer_put(from); /* the request's */
	else if (to)
		peer_put(to);
	peer_put(from);
	return moved;
}

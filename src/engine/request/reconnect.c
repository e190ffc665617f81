/* SPDX-License-Identifier: Apache-2.0 */
/* Decides when a link that has ended is dialled again, for which handle, and which requests move to
 * the new link. */
#include "engine/request/request_calls.h"
#include "engine/request/reconnect.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

/* pause after the first attempt; each further attempt doubles it, up to PAUSE_MAX_NS */
#define PAUSE_NS (100 * CLOCK_MS_NS)
#define PAUSE_MAX_NS CLOCK_S_NS
/* least time between two log lines about lost notifications */
#define LOST_SAID_NS (10 * CLOCK_S_NS)

/* What is needed to dial a session again. All links of one handle share one target, which
 * session.lock guards. */
struct reconnect_target {
	uint32_t refs;
	uint32_t tries;	      /* attempts since a link was last up */
	int64_t due_ns;	      /* earliest time of the next attempt */
	int64_t timeout_ns;   /* time limit of an attempt */
	tcpx_status failed;   /* error of the last attempt; OK: none since a link was up */
	uint32_t lost_notes;  /* lost notifications that are not logged yet */
	int64_t lost_said_ns; /* when lost notifications were last logged; 0 if never */
	struct wire_hello hello;
	uint8_t key[CTL_KEY_BYTES];
	struct sockaddr_storage addrs[WIRE_ADDR_MAX];
	uint32_t naddrs;
};

static bool reconnect_same_uuid(const uint8_t *a, const uint8_t *b)
{
	return !memcmp(a, b, WIRE_UUID_BYTES);
}

static void reconnect_take_addresses(struct reconnect_target *target,
				     const struct engine_peer *peer)
{
	memcpy(target->addrs, peer->address.known, sizeof(target->addrs));
	target->naddrs = peer->address.count;
}

tcpx_status reconnect_keep(struct engine_peer *peer, int64_t timeout_ns)
{
	struct reconnect_target *target = calloc(1, sizeof(*target));

	if (!target)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory to dial peer '%s' again",
				 peer->who.name);
	target->refs = 1;
	target->timeout_ns = timeout_ns;
	target->hello = peer->dialling.hello;
	memcpy(target->key, peer->dialling.key, sizeof(target->key));
	reconnect_take_addresses(target, peer);
	peer->reconnect.target = target;
	return TCPX_OK;
}

bool reconnect_kept(struct engine_peer *peer)
{
	bool kept;

	session_lock(peer->link.session);
	kept = peer->reconnect.target != NULL;
	session_unlock(peer->link.session);
	return kept;
}

void reconnect_addresses(struct engine_peer *peer)
{
	struct engine_session *session = peer->link.session;

	session_lock(session);
	if (peer->reconnect.target)
		reconnect_take_addresses(peer->reconnect.target, peer);
	session_unlock(session);
}

void reconnect_pass(struct engine_peer *from, struct engine_peer *to)
{
	struct engine_session *session = from->link.session;

	session_lock(session);
	if (!to->reconnect.target) {
		to->reconnect.target = from->reconnect.target;
		from->reconnect.target = NULL;
	}
	session_unlock(session);
}

void reconnect_put(struct engine_peer *peer)
{
	struct engine_session *session = peer->link.session;
	struct reconnect_target *target = peer->reconnect.target;
	bool last = false;
	uint32_t lost;

	if (!target)
		return;
	peer->reconnect.target = NULL;
	session_lock(session);
	last = !--target->refs;
	lost = target->lost_notes;
	session_unlock(session);
	if (!last)
		return;
	if (lost)
		LOG_WARN("peer '%s': %u more notifications that were sent while it connected are "
			 "lost",
			 peer->who.name, lost);
	explicit_bzero(target->key, sizeof(target->key));
	free(target);
}

/* Returns the peer that the handle of `peer` leads to at present. The caller holds session.lock. */
static struct engine_peer *reconnect_current_peer(struct engine_peer *peer)
{
	return peer && peer->reconnect.now ? peer->reconnect.now : peer;
}

/* Whether the link has ended for a reason that allows dialling it again. The caller holds
 * session.lock. */
static bool reconnect_allowed(struct engine_peer *peer)
{
	tcpx_status status = TCPX_OK;

	link_lock(&peer->link);
	if (peer->link.core_done)
		status = peer->error.status;
	link_unlock_only(&peer->link);
	switch (status) {
	case TCPX_OK:
	case TCPX_ERR_PEER_RESTARTED: /* a new link would be with another session */
	case TCPX_ERR_VERSION:
	case TCPX_ERR_DISCONNECTED: /* the application asked for it */
	case TCPX_ERR_SESSION_CLOSED:
		return false;
	default:
		return true;
	}
}

/* Returns a live peer with this uuid, or NULL if there is none; `keyed` as for peer_linked().
 * Always returns NULL for the uuid of all zeros, which stands for any session, and for this
 * session's own uuid: a session that is linked with itself has two peers with that uuid, and needs
 * both. The caller holds session.lock. */
static struct engine_peer *reconnect_linked(struct engine_session *session, const uint8_t *uuid,
					    bool keyed)
{
	static const uint8_t anyone[WIRE_UUID_BYTES];

	if (reconnect_same_uuid(uuid, anyone) || reconnect_same_uuid(uuid, session->uuid))
		return NULL;
	return peer_linked(session, uuid, keyed, NULL);
}

uint64_t reconnect_find(struct engine_session *session, const uint8_t *uuid, bool keyed)
{
	struct list_node *pos;
	uint64_t id = 0;

	session_lock(session);
	LIST_FOREACH(pos, &session->peer_list) {
		struct engine_peer *peer = LIST_ENTRY(pos, struct engine_peer, node);

		if (!peer->reconnect.target || peer->reconnect.successor ||
		    !reconnect_same_uuid(reconnect_current_peer(peer)->who.uuid, uuid) ||
		    reconnect_current_peer(peer)->who.keyed != keyed ||
		    !reconnect_allowed(reconnect_current_peer(peer)))
			continue;
		id = peer->app_handle;
		peer->reconnect.target->due_ns = 0;
	}
	session_unlock(session);
	return id;
}

/* Makes a new link, with a new peer, for the handle of `root`; `old` is the peer of the handle's
 * last link. The control thread dials later; if the peer dials first, its dial becomes the link.
 * Returns NULL if memory is missing. The caller holds session.lock. */
static struct engine_peer *reconnect_link_new(struct engine_peer *root, struct engine_peer *old)
{
	struct engine_session *session = root->link.session;
	struct reconnect_target *target = root->reconnect.target;
	struct engine_peer *peer = peer_create(session);
	int64_t now = clock_now_ns();

	if (!peer)
		return NULL;
	peer->app_handle = root->app_handle;
	peer->reconnect.successor = peer->exposed = peer->dialler = peer->reconnect.awaiting = true;
	peer->reconnect.target = target;
	target->refs++;
	peer->reconnect.at_ns = target->due_ns > now ? target->due_ns : now;
	peer->dialling.deadline_ns = peer->reconnect.at_ns + target->timeout_ns;
	memcpy(peer->who.name, old->who.name, sizeof(peer->who.name));
	memcpy(peer->who.uuid, old->who.uuid, sizeof(peer->who.uuid));
	peer->who.keyed = old->who.keyed;
	peer->dialling.hello = target->hello;
	/* accept only the old session, because another session may have got the old one's
	 * address */
	memcpy(peer->dialling.hello.want_uuid, old->who.uuid,
	       sizeof(peer->dialling.hello.want_uuid));
	memcpy(peer->dialling.key, target->key, sizeof(peer->dialling.key));
	memcpy(peer->address.known, target->addrs, sizeof(peer->address.known));
	peer->address.count = target->naddrs;
	peer->who.expects = old->who.expects;
	memcpy(peer->who.expected, old->who.expected, sizeof(peer->who.expected));
	link_lock(&old->link);
	peer->error = old->error; /* why there is no link, until the new one is up */
	link_unlock_only(&old->link);
	list_push_back(&session->peer_list, &peer->node);
	return peer;
}

struct engine_peer *reconnect_use(struct engine_session *session, uint64_t peer_id, bool wait)
{
	struct engine_peer *root, *peer, *next = NULL, *old = NULL;

	session_lock(session);
	root = handle_find(&session->peers, peer_id);
	peer = reconnect_current_peer(root);
	if (peer && root->reconnect.target && root->reconnect.target->naddrs &&
	    reconnect_allowed(peer)) {
		next = reconnect_linked(session, peer->who.uuid, peer->who.keyed);
		if (!next && (wait || !root->reconnect.target->tries ||
			      root->reconnect.target->due_ns <= clock_now_ns()))
			next = reconnect_link_new(root, peer);
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
		error_set(TCPX_ERR_STALE, 0, "peer handle %llx is no longer valid",
			  (unsigned long long)peer_id);
	else if (next && next->reconnect.at_ns)
		link_wake(&next->link);
	if (old)
		peer_put(old);
	return peer;
}

/* Counts an attempt of this side and sets the pause after it. A link that the peer dials during the
 * pause is not counted and does not make the pause longer. */
void reconnect_attempted(struct engine_peer *peer)
{
	struct reconnect_target *target = peer->reconnect.target;
	int64_t pause_ns;

	session_lock(peer->link.session);
	pause_ns = PAUSE_NS << (target->tries < 4 ? target->tries : 4);
	target->due_ns = clock_now_ns() + (pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS);
	target->tries++;
	session_unlock(peer->link.session);
}

bool reconnect_failed_anew(struct engine_peer *peer, tcpx_status status)
{
	struct reconnect_target *target = peer->reconnect.target;
	bool anew = true;

	session_lock(peer->link.session);
	if (target) {
		anew = target->failed != status;
		target->failed = status;
	}
	session_unlock(peer->link.session);
	return anew;
}

uint32_t reconnect_count_lost(struct engine_peer *peer, uint32_t notes)
{
	struct reconnect_target *target = peer->reconnect.target;
	int64_t now_ns = clock_now_ns();

	if (!target)
		return notes;
	session_lock(peer->link.session);
	target->lost_notes += notes;
	notes = 0;
	if (!target->lost_said_ns || now_ns - target->lost_said_ns >= LOST_SAID_NS) {
		notes = target->lost_notes;
		target->lost_notes = 0;
		if (notes)
			target->lost_said_ns = now_ns;
	}
	session_unlock(peer->link.session);
	return notes;
}

void reconnect_up(struct engine_peer *peer)
{
	struct engine_session *session = peer->link.session;
	uint32_t lost = 0;

	session_lock(session);
	if (peer->reconnect.target) {
		peer->reconnect.target->tries = 0;
		peer->reconnect.target->failed = TCPX_OK;
		lost = peer->reconnect.target->lost_notes;
		peer->reconnect.target->lost_notes = 0;
	}
	session_unlock(session);
	if (lost)
		LOG_WARN("peer '%s': %u more notifications that were sent while it connected are "
			 "lost",
			 peer->who.name, lost);
	link_lock(&peer->link);
	memset(&peer->error, 0, sizeof(peer->error));
	link_unlock(&peer->link);
}

/* Whether the request may be moved to another link. It may if its handle is still `id`, its peer is
 * still `from`, the link of `from` has ended, the request is not active, and no thread receives for
 * it (`lead`). The caller holds link.lock of the request's peer. */
static bool reconnect_movable(struct engine_request *request, uint64_t id,
			      const struct engine_peer *from)
{
	return request->slot.id == id && atomic_load(&request->peer) == from &&
	       from->link.core_done && atomic_load(&request->state) != REQUEST_ACTIVE &&
	       !request->lead;
}

bool reconnect_request(struct engine_request *request, uint64_t id)
{
	struct engine_peer *from = request_lock(request), *to = NULL;
	bool moved = reconnect_movable(request, id, from);

	link_unlock(&from->link);
	if (moved)
		to = reconnect_use(request->session, request->peer_id, true);
	moved = to && to != from;
	if (moved) {
		link_lock(&from->link);
		moved = reconnect_movable(request, id, from);
		if (moved)
			atomic_store(&request->peer, to); /* the request takes the reference over */
		link_unlock(&from->link);
	}
	if (moved)
		peer_put(from); /* the reference that the request held */
	else if (to)
		peer_put(to);
	peer_put(from);
	return moved;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up the live peer of a session. */
#include <string.h>

#include "engine/engine.h"

struct engine_peer *peer_linked(struct engine_session *session, const uint8_t *uuid, bool keyed,
				const struct engine_peer *except)
{
	struct list_node *pos;

	LIST_FOREACH(pos, &session->peer_list) {
		struct engine_peer *peer = LIST_ENTRY(pos, struct engine_peer, node);

		if (peer != except && !peer->died && peer->who.keyed == keyed &&
		    !memcmp(peer->uuid, uuid, WIRE_UUID_BYTES))
			return peer;
	}
	return NULL;
}

struct engine_peer *peer_by_uuid(struct engine_session *session, const uint8_t *uuid, bool keyed,
				 const struct engine_peer *except)
{
	struct engine_peer *found;

	pthread_mutex_lock(&session->lock);
	found = peer_linked(session, uuid, keyed, except);
	if (found)
		atomic_fetch_add(&found->slot.refs, 1);
	pthread_mutex_unlock(&session->lock);
	return found;
}

bool peer_is(struct engine_peer *peer, const uint8_t *uuid)
{
	bool is;

	pthread_mutex_lock(&peer->session->lock);
	is = !memcmp(peer->uuid, uuid, WIRE_UUID_BYTES);
	pthread_mutex_unlock(&peer->session->lock);
	return is;
}

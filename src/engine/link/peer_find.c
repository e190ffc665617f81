/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a live peer of a session by its uuid. */
#include <string.h>

#include "engine/link/engine.h"

struct engine_peer *peer_linked(struct engine_session *session, const uint8_t *uuid, bool keyed,
				const struct engine_peer *except)
{
	struct list_node *pos;

	LIST_FOREACH(pos, &session->peer_list) {
		struct engine_peer *peer = LIST_ENTRY(pos, struct engine_peer, node);

		if (peer != except && !peer->died && peer->who.keyed == keyed &&
		    !memcmp(peer->who.uuid, uuid, WIRE_UUID_BYTES))
			return peer;
	}
	return NULL;
}

struct engine_peer *peer_by_uuid(struct engine_session *session, const uint8_t *uuid, bool keyed,
				 const struct engine_peer *except)
{
	struct engine_peer *found;

	session_lock(session);
	found = peer_linked(session, uuid, keyed, except);
	if (found)
		peer_get(found);
	session_unlock(session);
	return found;
}

bool peer_is(struct engine_peer *peer, const uint8_t *uuid)
{
	bool is;

	session_lock(peer->link.session);
	is = !memcmp(peer->who.uuid, uuid, WIRE_UUID_BYTES);
	session_unlock(peer->link.session);
	return is;
}

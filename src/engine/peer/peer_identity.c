/* SPDX-License-Identifier: Apache-2.0 */
/* The identities of a session and of its peers. A key proves an identity; a mere claim never
 * does. */
#include "engine/peer/peer_identity.h"

#include <string.h>

#include "engine/peer/peer_calls.h"
#include "sys/addr.h"
#include "sys/crypto.h"

/* ---- this session ---- */

tcpx_status identity_of_session(struct engine_session *session)
{
	struct ctl_identity *identity = &session->identity.own;
	tcpx_status status = sys_random(session->incarnation, sizeof(session->incarnation));

	if (status == TCPX_OK && !identity->there)
		status = ctl_identity_make(identity);
	if (status != TCPX_OK)
		return status;
	return identity->there ? ctl_identity_uuid(identity->public_key, session->incarnation,
						   session->uuid)
			       : sys_random(session->uuid, sizeof(session->uuid));
}

void engine_key(struct engine_session *session, char out_key[65])
{
	out_key[0] = '\0';
	if (session->identity.own.there)
		ctl_key_text(session->identity.own.public_key, out_key);
}

/* ---- peers ---- */

bool identity_is_keyed(const struct wire_info *info)
{
	return info->has_key && sys_crypto_available();
}

tcpx_status identity_check_info(const struct wire_info *info)
{
	uint8_t uuid[WIRE_UUID_BYTES];
	tcpx_status status;

	if (!identity_is_keyed(info))
		return TCPX_OK;
	status = ctl_identity_uuid(info->key, info->incarnation, uuid);
	if (status == TCPX_OK && memcmp(uuid, info->uuid, sizeof(uuid)) != 0)
		status = error_set(TCPX_ERR_INVALID, 0,
				   "the key of the connection info does not match its session");
	return status;
}

bool peer_is_expected(const struct engine_peer *peer, const struct engine_peer *dial)
{
	return !dial->who.expects || (peer->who.proven && !memcmp(peer->who.key, dial->who.expected,
								  sizeof(dial->who.expected)));
}

static bool identity_same_uuid(const uint8_t *a, const uint8_t *b)
{
	return !memcmp(a, b, WIRE_UUID_BYTES);
}

/* Ends the links with earlier runs of the peer's session, which have the same proven key and
 * another uuid. Names are not compared, because any session can use any name. */
static void identity_end_earlier(struct engine_session *session, const struct engine_peer *peer)
{
	for (;;) {
		struct engine_peer *old = NULL;
		struct list_node *pos;

		session_lock(session);
		LIST_FOREACH(pos, &session->peer_list) {
			struct engine_peer *each = LIST_ENTRY(pos, struct engine_peer, node);

			if (each != peer && !each->died && each->who.proven &&
			    !memcmp(each->who.key, peer->who.key, sizeof(peer->who.key)) &&
			    !identity_same_uuid(each->who.uuid, peer->who.uuid))
				old = each;
		}
		session_unlock(session);
		if (!old)
			return;
		peer_die(old, TCPX_ERR_PEER_RESTARTED, 0, "the peer with this key restarted");
	}
}

void identity_count_impostor(struct engine_session *session, const struct sockaddr_storage *addr)
{
	char text[SYS_ADDR_TEXT];

	atomic_fetch_add(&session->identity.impostors, 1);
	if (log_allow(&session->identity.impostor_log, 1))
		LOG_WARN(
			"%s claimed to be a session whose key it does not have: its link is closed",
			sys_addr_text(addr, text));
}

bool identity_is_impostor(struct engine_session *session, const struct ctl_conn *conn)
{
	const uint8_t *uuid = conn->remote.uuid;
	struct engine_peer *other;

	if (conn->proven)
		return false;
	if (session->identity.own.there && identity_same_uuid(uuid, session->uuid))
		return true;
	other = peer_by_uuid(session, uuid, true, NULL);
	if (other)
		peer_put(other);
	return other != NULL;
}

void identity_end_others(struct engine_session *session, struct engine_peer *peer)
{
	struct engine_peer *other;

	if (identity_same_uuid(peer->who.uuid, session->uuid))
		return;
	while ((other = peer_by_uuid(session, peer->who.uuid, false, NULL))) {
		identity_count_impostor(session, &other->address.remote);
		peer_die(other, TCPX_ERR_AUTH, 0,
			 "another session proved that it is the one that this peer claimed to be");
		peer_put(other);
	}
	identity_end_earlier(session, peer);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Who a session is and who its peers are: by their keys, never by what they only say.
 * docs/design/trust.md. */
#ifndef ENGINE_PEER_PEER_IDENTITY_H
#define ENGINE_PEER_PEER_IDENTITY_H

#include "base/error.h"
#include "ctl/conn.h"
#include "engine/link/identity_state.h"
#include "wire/hello.h"

struct engine_peer;
struct engine_session;

struct session_identity {
	struct ctl_identity own; /* constant */
	_Atomic uint64_t impostors;
	struct log_limit impostor_log; /* control thread */
};

/* At open, after the options, which may have named a file that its key is in: key, incarnation and
 * uuid. */
tcpx_status identity_of_session(struct engine_session *session);

/* The session of an info will prove itself by its key, since both ends have crypto. */
bool identity_is_keyed(const struct wire_info *info);
/* ERR_INVALID: its key is not that of its uuid. */
tcpx_status identity_check_info(const struct wire_info *info);

/* The peer is whom that dial wants. */
bool peer_is_expected(const struct engine_peer *peer, const struct engine_peer *dial);

/* peer_find.c, any thread: a live peer of that uuid, with a reference. keyed: one that proved the
 * key of the uuid or is dialled by it; else one that only says so. peer_linked: without one, so
 * session.lock is held as long as the peer is used: its slot may be another one's next. */
struct engine_peer *peer_by_uuid(struct engine_session *session, const uint8_t *uuid, bool keyed,
				 const struct engine_peer *except);
struct engine_peer *peer_linked(struct engine_session *session, const uint8_t *uuid, bool keyed,
				const struct engine_peer *except);
bool peer_is(struct engine_peer *peer, const uint8_t *uuid); /* the link of that session */

/* The control thread's part, when a control link stands. */

/* It only says to be a session that has proven itself, or that we dial by its key, or ourselves. */
bool identity_is_impostor(struct engine_session *session, const struct ctl_conn *conn);
/* Counts one whose link is ended, and says so now and then. */
void identity_count_impostor(struct engine_session *session, const struct sockaddr_storage *addr);
/* The peer has proven itself: the links of those who said to be it end, and those of its earlier
 * incarnations. */
void identity_end_others(struct engine_session *session, struct engine_peer *peer);

#endif

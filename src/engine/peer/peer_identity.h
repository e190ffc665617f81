/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a session and of its peers: by their keys, never by a mere claim.
 * docs/design/trust.md. */
#ifndef ENGINE_PEER_PEER_IDENTITY_H
#define ENGINE_PEER_PEER_IDENTITY_H

#include "ctl/conn.h"
#include "engine/link/engine.h"
#include "wire/hello.h"

/* Called when a session opens, after its options, which may name an identity file: makes its key,
 * incarnation and uuid. */
tcpx_status identity_of_session(struct engine_session *session);

/* Whether the session of this info proves its key. It does if both ends have a crypto library. */
bool identity_is_keyed(const struct wire_info *info);
/* ERR_INVALID: the info's key does not match its uuid. */
tcpx_status identity_check_info(const struct wire_info *info);

/* Whether the peer has the key that the dial expects. */
bool peer_is_expected(const struct engine_peer *peer, const struct engine_peer *dial);

/* On the control thread, when a control connection is up: */

/* Whether the peer claims, without proof, the uuid of a session that has proven itself, of one
 * that is being dialled by its key, or of this session. */
bool identity_is_impostor(struct engine_session *session, const struct ctl_conn *conn);
/* Counts an impostor, whose link is ended, and logs it at times. */
void identity_count_impostor(struct engine_session *session, const struct sockaddr_storage *addr);
/* The peer has proven itself: ends the links of impostors that claimed its uuid, and those of
 * earlier runs of its session. */
void identity_end_others(struct engine_session *session, struct engine_peer *peer);

#endif

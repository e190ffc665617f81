/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a session and of its peers: by their keys, never by a mere claim.
 * docs/design/trust.md. */
#ifndef ENGINE_PEER_PEER_IDENTITY_H
#define ENGINE_PEER_PEER_IDENTITY_H

#include "ctl/conn.h"
#include "engine/link/engine.h"
#include "wire/hello.h"

/* At open, after the options, which may name an identity file: makes key, incarnation and uuid. */
tcpx_status identity_of_session(struct engine_session *session);

/* Whether the session of an info proves its key: both ends have a crypto library. */
bool identity_is_keyed(const struct wire_info *info);
/* ERR_INVALID: its key does not match its uuid. */
tcpx_status identity_check_info(const struct wire_info *info);

/* Whether the peer has the key that the dial expects. */
bool peer_is_expected(const struct engine_peer *peer, const struct engine_peer *dial);

/* Control thread, when a control link is up: */

/* It claims, without proof, the uuid of a session that has proven itself, of one that is dialled by
 * its key, or of this session. */
bool identity_is_impostor(struct engine_session *session, const struct ctl_conn *conn);
/* Counts an impostor, whose link ends, and logs it now and then. */
void identity_count_impostor(struct engine_session *session, const struct sockaddr_storage *addr);
/* The peer has proven itself: ends the links of impostors that claimed its uuid, and those of its
 * earlier incarnations. */
void identity_end_others(struct engine_session *session, struct engine_peer *peer);

#endif

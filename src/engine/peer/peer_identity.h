/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a session and of its peers: who they are is proved by keys, never by a mere
 * claim (docs/design/trust.md). */
#ifndef ENGINE_PEER_PEER_IDENTITY_H
#define ENGINE_PEER_PEER_IDENTITY_H

#include "ctl/conn.h"
#include "engine/link/engine.h"
#include "wire/hello.h"

/* Called when a session opens, after its options were read, since they may name an identity file:
 * makes its key, incarnation and uuid. */
tcpx_status identity_of_session(struct engine_session *session);

/* Whether the session of this info will prove its key: the info has one, and this process has a
 * crypto library. */
bool identity_is_keyed(const struct wire_info *info);
/* Checks that the info's key matches its uuid, if identity_is_keyed(). ERR_INVALID: it does not. */
tcpx_status identity_check_info(const struct wire_info *info);

/* Whether the peer has proved the key that the dial expects. True if the dial expects none. */
bool peer_is_expected(const struct engine_peer *peer, const struct engine_peer *dial);

/* The functions below are called on the control thread, when a control connection is up. */

/* Whether the peer is an impostor: it claims without proof the uuid of this session, of a peer
 * that has proved itself, or of one that is dialled by its key. */
bool identity_is_impostor(struct engine_session *session, const struct ctl_conn *conn);
/* Counts an impostor, and logs it at times. The caller ends its link. */
void identity_count_impostor(struct engine_session *session, const struct sockaddr_storage *addr);
/* Called when the peer has proved itself: ends the links of impostors that claimed its uuid, and
 * those of earlier runs of its session. */
void identity_end_others(struct engine_session *session, struct engine_peer *peer);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The identities of a session and of its peers. A key proves an identity; a mere claim never does
 * (docs/design/trust.md). */
#ifndef ENGINE_PEER_PEER_IDENTITY_H
#define ENGINE_PEER_PEER_IDENTITY_H

#include "ctl/conn.h"
#include "engine/link/engine.h"
#include "wire/hello.h"

/* Called when a session opens: makes its incarnation and its uuid, and also its key if no identity
 * file contains the key. Called after the options were read, because they may name that file. */
tcpx_status identity_of_session(struct engine_session *session);

/* Whether the session of `info` will prove its key: `info` has a key, and this process has a crypto
 * library. */
bool identity_is_keyed(const struct wire_info *info);
/* Checks that the key of `info` matches its uuid, if identity_is_keyed(). Returns ERR_INVALID if
 * not. */
tcpx_status identity_check_info(const struct wire_info *info);

/* Whether the peer has proved the key that the dial expects. True if the dial expects none. */
bool peer_is_expected(const struct engine_peer *peer, const struct engine_peer *dial);

/* The functions below are called on the control thread, when a control connection is up. */

/* Whether the remote end is an impostor: without proof, it claims the uuid of this session, of a
 * peer that has proved its key, or of a peer that is dialled by its key. */
bool identity_is_impostor(struct engine_session *session, const struct ctl_conn *conn);
/* Counts an impostor and logs it, at a limited rate. The caller must close the impostor's link. */
void identity_count_impostor(struct engine_session *session, const struct sockaddr_storage *addr);
/* Called when the peer has proved itself: ends the links of impostors that claimed its uuid, and
 * those of earlier runs of its session. */
void identity_end_others(struct engine_session *session, struct engine_peer *peer);

#endif

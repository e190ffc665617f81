/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a peer: what it claims and what it has proved. */
#ifndef ENGINE_LINK_IDENTITY_STATE_H
#define ENGINE_LINK_IDENTITY_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/keys.h"
#include "wire/hello.h"

struct peer_identity {
	char name[TCPX_NAME_MAX + 1]; /* a label, no proof of identity */
	uint8_t uuid[WIRE_UUID_BYTES], incarnation[WIRE_UUID_BYTES];
	const char *auth; /* why the peer was admitted, as text for queries */
	/* under session.lock: the uuid belongs to a key that the peer has proved or must prove */
	bool keyed;
	bool proven; /* under link.lock: the peer has proved `key`; set before the peer is up */
	uint8_t key[WIRE_KEY_BYTES];
	char text[CTL_KEY_TEXT]; /* `key` as text; "" if the key is not proved */
	/* constant: the peer is accepted only if it proves the key `expected` */
	bool expects;
	uint8_t expected[WIRE_KEY_BYTES];
};

/* Returns the public key that the peer has proved, or NULL. The caller holds link.lock, or owns a
 * direction of one of the peer's channels: the key is set before the first channel exists. */
static inline const uint8_t *identity_proven(const struct peer_identity *who)
{
	return who->proven ? who->key : NULL;
}

#endif

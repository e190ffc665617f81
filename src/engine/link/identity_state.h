/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a peer: what it claims and what it has proved. */
#ifndef ENGINE_LINK_IDENTITY_STATE_H
#define ENGINE_LINK_IDENTITY_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/keys.h"
#include "wire/hello.h"

struct peer_identity {
	char name[TCPX_NAME_MAX + 1]; /* a label */
	uint8_t uuid[WIRE_UUID_BYTES], incarnation[WIRE_UUID_BYTES];
	const char *auth; /* why it was admitted, as text for queries */
	bool keyed; /* under session.lock: the uuid belongs to a key that it proves or must prove */
	bool proven; /* under lock: it has proved `key`; set before the peer is up */
	uint8_t key[WIRE_KEY_BYTES];
	char text[CTL_KEY_TEXT]; /* `key` as text; "": not proven */
	/* constant: only a session that proves the key `expected` is accepted */
	bool expects;
	uint8_t expected[WIRE_KEY_BYTES];
};

/* The public key that the peer proved, or NULL. Called under link.lock, or by the owner of a
 * direction of one of its channels: the key is set before the first channel exists. */
static inline const uint8_t *identity_proven(const struct peer_identity *who)
{
	return who->proven ? who->key : NULL;
}

#endif

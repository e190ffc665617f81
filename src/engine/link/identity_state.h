/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a peer, as far as it has stated and proved it. */
#ifndef ENGINE_LINK_IDENTITY_STATE_H
#define ENGINE_LINK_IDENTITY_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/keys.h"
#include "wire/hello.h"

struct peer_identity {
	char name[TCPX_NAME_MAX + 1]; /* a label */
	uint8_t uuid[WIRE_UUID_BYTES], incarnation[WIRE_UUID_BYTES];
	const char *auth; /* why it was admitted, for queries */
	bool keyed;  /* session.lock: its uuid belongs to a key that it proved or has to prove */
	bool proven; /* lock: it has proved key; set before it is up */
	uint8_t key[WIRE_KEY_BYTES];
	char text[CTL_KEY_TEXT]; /* of key; "": not proven */
	bool expects;		 /* constant: only the session of the key expected is accepted */
	uint8_t expected[WIRE_KEY_BYTES];
};

/* The public key that the peer proved, or NULL. link.lock, or the owner of one of its channels: it
 * is set before the first channel exists. */
static inline const uint8_t *identity_proven(const struct peer_identity *who)
{
	return who->proven ? who->key : NULL;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Who a peer is, as far as it said and proved it. */
#ifndef ENGINE_LINK_IDENTITY_STATE_H
#define ENGINE_LINK_IDENTITY_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/keys.h"
#include "wire/hello.h"

struct peer_identity {
	char name[TCPX_NAME_MAX + 1]; /* a label */
	uint8_t uuid[WIRE_UUID_BYTES], incarnation[WIRE_UUID_BYTES];
	const char *auth; /* what let it in, for queries */
	bool keyed;	  /* session.lock: its uuid is of a key, which it proved or will have to */
	bool proven;	  /* lock: key is its own, once it is up */
	uint8_t key[WIRE_KEY_BYTES];
	char text[CTL_KEY_TEXT]; /* of key; "": not proven */
	bool expects;		 /* constant: only the session of that key will do */
	uint8_t expected[WIRE_KEY_BYTES];
};

/* The public key that the peer proved, or NULL. lock, or the owner of one of its channels: it
 * stands before there is any. */
static inline const uint8_t *identity_proven(const struct peer_identity *who)
{
	return who->proven ? who->key : NULL;
}

#endif

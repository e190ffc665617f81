/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: the pair of a session, and the files that hold keys. Any thread. */
#ifndef CTL_KEYS_H
#define CTL_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/hello.h"

#define CTL_KEY_BYTES 32

/* The key pair of a session (Ed25519). */
struct ctl_identity {
	bool there; /* false without a crypto library: nothing is proven */
	uint8_t secret[CTL_KEY_BYTES], public_key[CTL_KEY_BYTES];
};
/* Makes a fresh key pair. Without a crypto library, sets `there` of *out_identity to false and
 * returns OK. */
tcpx_status ctl_identity_make(struct ctl_identity *out_identity);
/* Computes the uuid of a session with that key and incarnation: the first bytes of a hash of
 * both. */
tcpx_status ctl_identity_uuid(const uint8_t public_key[CTL_KEY_BYTES],
			      const uint8_t incarnation[WIRE_UUID_BYTES],
			      uint8_t out_uuid[WIRE_UUID_BYTES]);

/* The keys of a key file. The file has one or two lines of 64 hex digits, and may have '#'
 * comments. Its mode gives no rights to group and others, and it belongs to this user or root. The
 * id of a key is the first 8 bytes of HMAC(key, "tcpx key id"). */
struct ctl_keys {
	unsigned count;
	uint64_t id[2];
	uint8_t key[2][CTL_KEY_BYTES];
};
#define CTL_KEY_TEXT (2 * CTL_KEY_BYTES + 1)
void ctl_key_text(const uint8_t key[CTL_KEY_BYTES], char out_text[CTL_KEY_TEXT]);
/* Parses a text of 64 hex digits. Returns 1, or 0 if the text is something else. */
int ctl_key_parse(const char *text, size_t len, uint8_t out_key[CTL_KEY_BYTES]);
/* Reads a key file. Returns ERR_AUTH if the file's content, mode or owner is wrong; the error says
 * how to correct it. Returns ERR_NOT_FOUND if there is no such file, or ERR_UNSUPPORTED if there is
 * no crypto library. */
tcpx_status ctl_keys_load(const char *path, struct ctl_keys *out_keys);
/* Writes a fresh key to a new file; returns ERR_EXISTS if the file exists already. With `append`,
 * adds the key at the end of an existing file; returns ERR_NOT_FOUND if there is no such file,
 * ERR_LIMIT if the file has two keys already, or ERR_AUTH as ctl_keys_load() does. A dialler uses
 * the first key of a file, an acceptor accepts both. */
tcpx_status ctl_keys_create(const char *path, int append);
/* An identity file has one line, "identity " and the 64 hex digits of the secret key. Mode, owner
 * and errors are those of a key file (ctl_keys_load; ctl_keys_create without append). */
tcpx_status ctl_identity_load(const char *path, struct ctl_identity *out_identity);
tcpx_status ctl_identity_create(const char *path);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA256, SHA-256, Ed25519 and X25519 by OpenSSL 3 if it is installed; random bytes of the
 * kernel. */
#ifndef SYS_CRYPTO_H
#define SYS_CRYPTO_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

/* One of several pieces of memory that are hashed as if they were one. */
struct sys_span {
	const void *data;
	size_t len;
};

#define SYS_KEY_BYTES 32
#define SYS_SIGNATURE_BYTES 64
#define SYS_HASH_BYTES 32

/* 1: every function below works in this process. A library that refuses one of the algorithms, as
 * in FIPS mode, counts as missing. Loads the library at the first call. */
int sys_crypto_available(void);
const char *sys_crypto_reason(void); /* which library provides it, or why it is missing; static */
/* Computes the HMAC of the concatenated spans. ERR_UNSUPPORTED without crypto, ERR_INTERNAL if the
 * library fails. */
tcpx_status sys_hmac_sha256(const uint8_t key[32], const struct sys_span *spans, unsigned count,
			    uint8_t out[32]);
/* Computes the hash of the concatenated spans, at most 4 KiB. Errors of this and the functions
 * below: ERR_UNSUPPORTED without crypto, ERR_INTERNAL if the library fails. */
tcpx_status sys_sha256(const struct sys_span *spans, unsigned count, uint8_t out[SYS_HASH_BYTES]);
/* Ed25519 (RFC 8032). The secret key is 32 random bytes. sys_sign_public computes the public key of
 * a secret key. sys_sign_verify: ERR_AUTH if the signature is not by that key, or the key is
 * invalid. */
tcpx_status sys_sign_public(const uint8_t secret[SYS_KEY_BYTES], uint8_t out_public[SYS_KEY_BYTES]);
tcpx_status sys_sign(const uint8_t secret[SYS_KEY_BYTES], const uint8_t digest[SYS_HASH_BYTES],
		     uint8_t out_signature[SYS_SIGNATURE_BYTES]);
tcpx_status sys_sign_verify(const uint8_t public_key[SYS_KEY_BYTES],
			    const uint8_t digest[SYS_HASH_BYTES],
			    const uint8_t signature[SYS_SIGNATURE_BYTES]);
/* X25519 (RFC 7748). The secret key is 32 random bytes. sys_exchange_shared computes the value that
 * both ends get from their own secret and the other's public key: ERR_AUTH if that public key gives
 * the same value for every secret. */
tcpx_status sys_exchange_public(const uint8_t secret[SYS_KEY_BYTES],
				uint8_t out_public[SYS_KEY_BYTES]);
tcpx_status sys_exchange_shared(const uint8_t secret[SYS_KEY_BYTES],
				const uint8_t public_key[SYS_KEY_BYTES],
				uint8_t out_shared[SYS_KEY_BYTES]);
int sys_equal_secret(const void *a, const void *b, size_t len); /* constant time */
/* Fills `out` with random bytes of the kernel. ERR_SYSTEM. */
tcpx_status sys_random(void *out, size_t len);

#endif

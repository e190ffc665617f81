/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA256, SHA-256, Ed25519 and X25519 by OpenSSL 3, if it is installed; comparison in constant
 * time; random bytes from the kernel. */
#ifndef SYS_CRYPTO_H
#define SYS_CRYPTO_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

/* One of several pieces of memory that are hashed as if they were contiguous. */
struct sys_span {
	const void *data;
	size_t len;
};

#define SYS_KEY_BYTES 32
#define SYS_SIGNATURE_BYTES 64
#define SYS_HASH_BYTES 32

/* Returns 1 if every function below works in this process. A library that refuses one of the
 * algorithms, for example in FIPS mode, is treated as missing. The first call loads the library. */
int sys_crypto_available(void);
/* Names the library in use, or says why no library is used. The text is never freed. */
const char *sys_crypto_reason(void);
/* Computes the HMAC of the concatenated spans. Returns ERR_UNSUPPORTED without a usable library,
 * ERR_INTERNAL if the library fails. */
tcpx_status sys_hmac_sha256(const uint8_t key[32], const struct sys_span *spans, unsigned count,
			    uint8_t out[32]);
/* Computes the hash of the concatenated spans. Returns ERR_INTERNAL if they have more than 4 KiB
 * together. This function and those below down to sys_exchange_shared return ERR_UNSUPPORTED
 * without a usable library, ERR_INTERNAL if the library fails. */
tcpx_status sys_sha256(const struct sys_span *spans, unsigned count, uint8_t out[SYS_HASH_BYTES]);
/* Signatures by Ed25519 (RFC 8032). A secret key is 32 random bytes. sys_sign_public computes the
 * public key of a secret key. sys_sign_verify returns ERR_AUTH if the public key is invalid, or if
 * the signature was not made with the secret key that belongs to it. */
tcpx_status sys_sign_public(const uint8_t secret[SYS_KEY_BYTES], uint8_t out_public[SYS_KEY_BYTES]);
tcpx_status sys_sign(const uint8_t secret[SYS_KEY_BYTES], const uint8_t digest[SYS_HASH_BYTES],
		     uint8_t out_signature[SYS_SIGNATURE_BYTES]);
tcpx_status sys_sign_verify(const uint8_t public_key[SYS_KEY_BYTES],
			    const uint8_t digest[SYS_HASH_BYTES],
			    const uint8_t signature[SYS_SIGNATURE_BYTES]);
/* Key exchange by X25519 (RFC 7748). A secret key is 32 random bytes. sys_exchange_shared computes
 * a value from the caller's secret key and the other end's public key; both ends get the same
 * value. sys_exchange_shared returns ERR_AUTH if the other end's public key gives the same value
 * with every secret key. */
tcpx_status sys_exchange_public(const uint8_t secret[SYS_KEY_BYTES],
				uint8_t out_public[SYS_KEY_BYTES]);
tcpx_status sys_exchange_shared(const uint8_t secret[SYS_KEY_BYTES],
				const uint8_t public_key[SYS_KEY_BYTES],
				uint8_t out_shared[SYS_KEY_BYTES]);
int sys_equal_secret(const void *a, const void *b, size_t len); /* compares in constant time */
/* Fills `out` with random bytes from the kernel. Returns ERR_SYSTEM if the kernel gives none. */
tcpx_status sys_random(void *out, size_t len);

#endif

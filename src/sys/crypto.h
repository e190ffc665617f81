/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA256 through OpenSSL where there is one, randomness from getrandom. */
#ifndef SYS_CRYPTO_H
#define SYS_CRYPTO_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

struct sys_span {
	const void *data;
	size_t len;
};

int sys_crypto_available(void);	     /* 1: HMAC works in this process */
const char *sys_crypto_reason(void); /* by what, or why not; static */
/* Over the concatenation of spans. ERR_UNSUPPORTED without crypto. */
tcpx_status sys_hmac_sha256(const uint8_t key[32], const struct sys_span *spans, unsigned count,
			    uint8_t out[32]);
int sys_equal_secret(const void *a, const void *b, size_t len); /* constant time */
tcpx_status sys_random(void *out, size_t len);

#endif

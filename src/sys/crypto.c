/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA256 by OpenSSL 3, constant-time comparison, and randomness of the kernel. */
#include "sys/crypto.h"

#include <errno.h>
#include <sys/random.h>

#include "base/error.h"

#ifdef TCPX_WITH_CRYPTO
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

int sys_crypto_available(void)
{
	return 1;
}

tcpx_status sys_hmac_sha256(const uint8_t key[32], const struct sys_span *spans, unsigned count,
			    uint8_t out[32])
{
	char digest[] = "SHA256";
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};
	/* Fetched each time: handshakes are rare, and nothing of OpenSSL's is kept to exit. */
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	EVP_MAC_CTX *ctx = mac ? EVP_MAC_CTX_new(mac) : NULL;
	size_t len = 0;
	int ok = ctx && EVP_MAC_init(ctx, key, 32, params);

	for (unsigned i = 0; ok && i < count; i++)
		if (spans[i].len)
			ok = EVP_MAC_update(ctx, spans[i].data, spans[i].len);
	ok = ok && EVP_MAC_final(ctx, out, &len, 32) && len == 32;
	EVP_MAC_CTX_free(ctx);
	EVP_MAC_free(mac);
	if (!ok)
		return error_set(TCPX_ERR_INTERNAL, 0, "OpenSSL computes no HMAC-SHA256");
	return TCPX_OK;
}

#else

int sys_crypto_available(void)
{
	return 0;
}

tcpx_status sys_hmac_sha256(const uint8_t key[32], const struct sys_span *spans, unsigned count,
			    uint8_t out[32])
{
	(void)key;
	(void)spans;
	(void)count;
	(void)out;
	return error_set(TCPX_ERR_UNSUPPORTED, 0, "built without OpenSSL: no keys, loopback only");
}

#endif

int sys_equal_secret(const void *a, const void *b, size_t len)
{
	const volatile uint8_t *x = a, *y = b;
	uint8_t differ = 0;

	for (size_t i = 0; i < len; i++)
		differ |= x[i] ^ y[i];
	return differ == 0;
}

tcpx_status sys_random(void *out, size_t len)
{
	uint8_t *pos = out;

	while (len) {
		ssize_t got = getrandom(pos, len, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return error_set(TCPX_ERR_SYSTEM, errno, "getrandom gives no random bytes");
		pos += got;
		len -= (size_t)got;
	}
	return TCPX_OK;
}

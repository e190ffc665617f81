/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA256 by OpenSSL 3, loaded when it is first needed; constant-time comparison; the kernel's
 * randomness. */
#include "sys/crypto.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "abi/libcrypto.h"
#include "base/config.h"
#include "base/error.h"
#include "base/text.h"

#ifdef TCPX_WITH_CRYPTO

struct libcrypto {
#define CRYPTO_MEMBER(name, symbol, result, params) result(*name) params;
	LIBCRYPTO_LIST(CRYPTO_MEMBER)
#undef CRYPTO_MEMBER
};

static const struct {
	const char *symbol;
	size_t offset; /* of the pointer in struct libcrypto */
} entries[] = {
#define CRYPTO_ENTRY(name, symbol, result, params) {symbol, offsetof(struct libcrypto, name)},
	LIBCRYPTO_LIST(CRYPTO_ENTRY)
#undef CRYPTO_ENTRY
};

static struct libcrypto crypto; /* stays loaded */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool there;
static char reason[256]; /* lock, until it is there */

/* lock held. */
static void load(void)
{
	const char *path = config_text(CONFIG_CRYPTO_LIBRARY), *why;
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		why = dlerror();
		text_format(reason, sizeof(reason), "no libcrypto (%s): peers on loopback only",
			    why ? why : path);
		return;
	}
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		void *symbol = dlsym(handle, entries[i].symbol);

		if (!symbol) {
			text_format(reason, sizeof(reason),
				    "%.100s has no %s, which OpenSSL 3 has: peers on loopback only",
				    path, entries[i].symbol);
			dlclose(handle);
			return;
		}
		memcpy((char *)&crypto + entries[i].offset, &symbol, sizeof(symbol));
	}
	text_format(reason, sizeof(reason), "HMAC-SHA256 by OpenSSL (%.100s)", path);
	atomic_store_explicit(&there, true, memory_order_release);
}

/* A process that had no descriptor left when it asked may have one later. */
int sys_crypto_available(void)
{
	if (!atomic_load_explicit(&there, memory_order_acquire)) {
		pthread_mutex_lock(&lock);
		if (!there)
			load();
		pthread_mutex_unlock(&lock);
	}
	return there;
}

const char *sys_crypto_reason(void)
{
	(void)sys_crypto_available();
	return reason;
}

tcpx_status sys_hmac_sha256(const uint8_t key[32], const struct sys_span *spans, unsigned count,
			    uint8_t out[32])
{
	char digest[] = "SHA256";
	libcrypto_param params[] = {
		{LIBCRYPTO_MAC_DIGEST, LIBCRYPTO_PARAM_UTF8_STRING, digest, strlen(digest), 0},
		{0},
	};
	libcrypto_mac *mac;
	libcrypto_mac_ctx *ctx;
	size_t len = 0;
	int ok;

	if (!sys_crypto_available())
		return error_set(TCPX_ERR_UNSUPPORTED, 0, "%s", reason);
	/* Fetched each time: handshakes are rare, and nothing of OpenSSL's is kept to exit. */
	mac = crypto.mac_fetch(NULL, "HMAC", NULL);
	ctx = mac ? crypto.ctx_new(mac) : NULL;
	ok = ctx && crypto.init(ctx, key, 32, params);
	for (unsigned i = 0; ok && i < count; i++)
		if (spans[i].len)
			ok = crypto.update(ctx, spans[i].data, spans[i].len);
	ok = ok && crypto.final(ctx, out, &len, 32) && len == 32;
	if (ctx)
		crypto.ctx_free(ctx);
	if (mac)
		crypto.mac_free(mac);
	if (!ok)
		return error_set(TCPX_ERR_INTERNAL, 0, "OpenSSL computes no HMAC-SHA256");
	return TCPX_OK;
}

#else

int sys_crypto_available(void)
{
	return 0;
}

const char *sys_crypto_reason(void)
{
	return "built without crypto: peers on loopback only";
}

tcpx_status sys_hmac_sha256(const uint8_t key[32], const struct sys_span *spans, unsigned count,
			    uint8_t out[32])
{
	(void)key;
	(void)spans;
	(void)count;
	(void)out;
	return error_set(TCPX_ERR_UNSUPPORTED, 0, "%s", sys_crypto_reason());
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

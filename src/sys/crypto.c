/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes, signatures and key exchange by OpenSSL 3, which is loaded at first use; comparison in
 * constant time; random bytes from the kernel. */
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

#define HASH_MAX 4096

struct libcrypto {
#define CRYPTO_MEMBER(name, symbol, result, params) result(*name) params;
	LIBCRYPTO_LIST(CRYPTO_MEMBER)
#undef CRYPTO_MEMBER
};

static const struct {
	const char *symbol;
	size_t offset; /* of the function pointer in struct libcrypto */
} entries[] = {
#define CRYPTO_ENTRY(name, symbol, result, params) {symbol, offsetof(struct libcrypto, name)},
	LIBCRYPTO_LIST(CRYPTO_ENTRY)
#undef CRYPTO_ENTRY
};

static struct libcrypto crypto; /* never unloaded once `there` is set */
static libcrypto_mac *hmac;	/* never freed */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool there;
static char attempt[256]; /* under `lock`: the result of the last attempt to load libcrypto */
/* The last texts of `attempt` that differed from the one before. `reason` points to the newest, for
 * readers without the lock. A text stays until REASONS newer ones have been stored. */
#define REASONS 8u
static char reasons[REASONS][sizeof(attempt)];
static unsigned nreasons;
static _Atomic(const char *) reason = "";

static tcpx_status openssl_failed(const char *what)
{
	/* Otherwise the application would find this error in the thread's queue. */
	crypto.clear_errors();
	return error_set(TCPX_ERR_INTERNAL, 0, "OpenSSL failed to compute %s", what);
}

static tcpx_status derive_public(const char *type, const uint8_t *secret, uint8_t *out_public)
{
	libcrypto_key *key = crypto.private_key(NULL, type, NULL, secret, SYS_KEY_BYTES);
	size_t len = SYS_KEY_BYTES;
	int ok = key && crypto.get_public(key, out_public, &len) == 1 && len == SYS_KEY_BYTES;

	if (key)
		crypto.key_free(key);
	return ok ? TCPX_OK : openssl_failed(type);
}

static tcpx_status ed25519_sign(const uint8_t *secret, const uint8_t *digest,
				uint8_t *out_signature)
{
	libcrypto_key *key = crypto.private_key(NULL, "ED25519", NULL, secret, SYS_KEY_BYTES);
	libcrypto_md_ctx *ctx = key ? crypto.md_new() : NULL;
	size_t len = SYS_SIGNATURE_BYTES;
	int ok = ctx && crypto.sign_init(ctx, NULL, NULL, NULL, NULL, key, NULL) == 1 &&
		 crypto.sign(ctx, out_signature, &len, digest, SYS_HASH_BYTES) == 1 &&
		 len == SYS_SIGNATURE_BYTES;

	if (ctx)
		crypto.md_free(ctx);
	if (key)
		crypto.key_free(key);
	return ok ? TCPX_OK : openssl_failed("Ed25519 signature");
}

static tcpx_status ed25519_verify(const uint8_t *public_key, const uint8_t *digest,
				  const uint8_t *signature)
{
	libcrypto_key *key = crypto.public_key(NULL, "ED25519", NULL, public_key, SYS_KEY_BYTES);
	libcrypto_md_ctx *ctx = key ? crypto.md_new() : NULL;
	int ready = ctx && crypto.verify_init(ctx, NULL, NULL, NULL, NULL, key, NULL) == 1;
	int ok = ready &&
		 crypto.verify(ctx, signature, SYS_SIGNATURE_BYTES, digest, SYS_HASH_BYTES) == 1;

	if (ctx)
		crypto.md_free(ctx);
	if (key)
		crypto.key_free(key);
	if (key && !ready)
		return openssl_failed("Ed25519 verification");
	crypto.clear_errors();
	return ok ? TCPX_OK : TCPX_ERR_AUTH;
}

static tcpx_status x25519_shared(const uint8_t *secret, const uint8_t *public_key,
				 uint8_t *out_shared)
{
	libcrypto_key *ours = crypto.private_key(NULL, "X25519", NULL, secret, SYS_KEY_BYTES);
	libcrypto_key *theirs = crypto.public_key(NULL, "X25519", NULL, public_key, SYS_KEY_BYTES);
	libcrypto_key_ctx *ctx = ours && theirs ? crypto.derive_new(NULL, ours, NULL) : NULL;
	size_t len = SYS_KEY_BYTES;
	int ready = ctx && crypto.derive_init(ctx) == 1;
	int ok = ready && crypto.derive_peer(ctx, theirs) == 1 &&
		 crypto.derive(ctx, out_shared, &len) == 1 && len == SYS_KEY_BYTES;

	if (ctx)
		crypto.derive_free(ctx);
	if (theirs)
		crypto.key_free(theirs);
	if (ours)
		crypto.key_free(ours);
	if (!ready)
		return openssl_failed("X25519 exchange");
	crypto.clear_errors();
	return ok ? TCPX_OK : TCPX_ERR_AUTH;
}

static tcpx_status sha256(const void *data, size_t len, uint8_t *out)
{
	size_t bytes = 0;

	if (crypto.digest(NULL, "SHA256", NULL, data, len, out, &bytes) == 1 &&
	    bytes == SYS_HASH_BYTES)
		return TCPX_OK;
	return openssl_failed("SHA-256");
}

/* Tries every algorithm except HMAC. Returns the name of the first one that the library refuses,
 * for example in FIPS mode, or NULL if it refuses none. The caller holds `lock`. */
static const char *refused_algorithm(void)
{
	uint8_t secret[SYS_KEY_BYTES] = {1}, key[SYS_KEY_BYTES], digest[SYS_HASH_BYTES];
	uint8_t signature[SYS_SIGNATURE_BYTES];

	if (sha256(secret, sizeof(secret), digest) != TCPX_OK)
		return "SHA-256";
	if (derive_public("ED25519", secret, key) != TCPX_OK ||
	    ed25519_sign(secret, digest, signature) != TCPX_OK ||
	    ed25519_verify(key, digest, signature) != TCPX_OK)
		return "Ed25519";
	if (derive_public("X25519", secret, key) != TCPX_OK ||
	    x25519_shared(secret, key, digest) != TCPX_OK)
		return "X25519";
	return NULL;
}

/* Loads libcrypto. Sets `there` to true if all needed functions and algorithms work. Writes to
 * `attempt` which library was loaded, or why none can be used. The caller holds `lock`. */
static void load_libcrypto(void)
{
	const char *path = config_text(CONFIG_CRYPTO_LIBRARY), *why;
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		why = dlerror();
		text_format(attempt, sizeof(attempt), "no libcrypto (%s): peers on loopback only",
			    why ? why : path);
		return;
	}
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		void *symbol = dlsym(handle, entries[i].symbol);

		if (!symbol) {
			text_format(
				attempt, sizeof(attempt),
				"%.100s has no %s, so it is not OpenSSL 3: peers on loopback only",
				path, entries[i].symbol);
			dlclose(handle);
			return;
		}
		memcpy((char *)&crypto + entries[i].offset, &symbol, sizeof(symbol));
	}
	why = refused_algorithm();
	hmac = why ? NULL : crypto.mac_fetch(NULL, "HMAC", NULL);
	if (!why && !hmac)
		why = "HMAC";
	if (why) {
		text_format(attempt, sizeof(attempt),
			    "%.100s refuses %s (FIPS mode?): peers on loopback only", path, why);
		dlclose(handle);
		return;
	}
	text_format(attempt, sizeof(attempt), "HMAC-SHA256, Ed25519, X25519 by OpenSSL (%.100s)",
		    path);
	atomic_store_explicit(&there, true, memory_order_release);
}

/* Makes `attempt` the text that sys_crypto_reason() returns. The caller holds `lock`. */
static void publish_reason(void)
{
	char *text = reasons[nreasons % REASONS];

	if (!strcmp(atomic_load(&reason), attempt))
		return;
	memcpy(text, attempt, sizeof(attempt));
	nreasons++;
	atomic_store(&reason, text);
}

/* Loads the library unless it is loaded. After a failure the next call tries again: dlopen may have
 * failed only because the process had no free descriptor. */
int sys_crypto_available(void)
{
	if (!atomic_load_explicit(&there, memory_order_acquire)) {
		pthread_mutex_lock(&lock);
		if (!there) {
			load_libcrypto();
			publish_reason();
		}
		pthread_mutex_unlock(&lock);
	}
	return there;
}

const char *sys_crypto_reason(void)
{
	(void)sys_crypto_available();
	return atomic_load(&reason);
}

static tcpx_status crypto_unavailable(void)
{
	return error_set(TCPX_ERR_UNSUPPORTED, 0, "%s", sys_crypto_reason());
}

tcpx_status sys_hmac_sha256(const uint8_t key[32], const struct sys_span *spans, unsigned count,
			    uint8_t out[32])
{
	char digest[] = "SHA256";
	libcrypto_param params[] = {
		{LIBCRYPTO_MAC_DIGEST, LIBCRYPTO_PARAM_UTF8_STRING, digest, strlen(digest), 0},
		{0},
	};
	libcrypto_mac_ctx *ctx;
	size_t len = 0;
	int ok;

	if (!sys_crypto_available())
		return crypto_unavailable();
	ctx = crypto.ctx_new(hmac);
	ok = ctx && crypto.init(ctx, key, 32, params);
	for (unsigned i = 0; ok && i < count; i++)
		if (spans[i].len)
			ok = crypto.update(ctx, spans[i].data, spans[i].len);
	ok = ok && crypto.final(ctx, out, &len, 32) && len == 32;
	if (ctx)
		crypto.ctx_free(ctx);
	return ok ? TCPX_OK : openssl_failed("HMAC-SHA256");
}

tcpx_status sys_sha256(const struct sys_span *spans, unsigned count, uint8_t out[SYS_HASH_BYTES])
{
	uint8_t all[HASH_MAX];
	size_t len = 0;

	if (!sys_crypto_available())
		return crypto_unavailable();
	for (unsigned i = 0; i < count; i++) {
		if (spans[i].len > sizeof(all) - len)
			return error_set(TCPX_ERR_INTERNAL, 0, "more than %d bytes to hash",
					 HASH_MAX);
		if (spans[i].len)
			memcpy(all + len, spans[i].data, spans[i].len);
		len += spans[i].len;
	}
	return sha256(all, len, out);
}

tcpx_status sys_sign_public(const uint8_t secret[SYS_KEY_BYTES], uint8_t out_public[SYS_KEY_BYTES])
{
	return sys_crypto_available() ? derive_public("ED25519", secret, out_public)
				      : crypto_unavailable();
}

tcpx_status sys_sign(const uint8_t secret[SYS_KEY_BYTES], const uint8_t digest[SYS_HASH_BYTES],
		     uint8_t out_signature[SYS_SIGNATURE_BYTES])
{
	return sys_crypto_available() ? ed25519_sign(secret, digest, out_signature)
				      : crypto_unavailable();
}

tcpx_status sys_sign_verify(const uint8_t public_key[SYS_KEY_BYTES],
			    const uint8_t digest[SYS_HASH_BYTES],
			    const uint8_t signature[SYS_SIGNATURE_BYTES])
{
	return sys_crypto_available() ? ed25519_verify(public_key, digest, signature)
				      : crypto_unavailable();
}

tcpx_status sys_exchange_public(const uint8_t secret[SYS_KEY_BYTES],
				uint8_t out_public[SYS_KEY_BYTES])
{
	return sys_crypto_available() ? derive_public("X25519", secret, out_public)
				      : crypto_unavailable();
}

tcpx_status sys_exchange_shared(const uint8_t secret[SYS_KEY_BYTES],
				const uint8_t public_key[SYS_KEY_BYTES],
				uint8_t out_shared[SYS_KEY_BYTES])
{
	return sys_crypto_available() ? x25519_shared(secret, public_key, out_shared)
				      : crypto_unavailable();
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

static tcpx_status crypto_unavailable(void)
{
	return error_set(TCPX_ERR_UNSUPPORTED, 0, "%s", sys_crypto_reason());
}

tcpx_status sys_hmac_sha256(const uint8_t key[32], const struct sys_span *spans, unsigned count,
			    uint8_t out[32])
{
	(void)key;
	(void)spans;
	(void)count;
	(void)out;
	return crypto_unavailable();
}

tcpx_status sys_sha256(const struct sys_span *spans, unsigned count, uint8_t out[SYS_HASH_BYTES])
{
	(void)spans;
	(void)count;
	(void)out;
	return crypto_unavailable();
}

tcpx_status sys_sign_public(const uint8_t secret[SYS_KEY_BYTES], uint8_t out_public[SYS_KEY_BYTES])
{
	(void)secret;
	(void)out_public;
	return crypto_unavailable();
}

tcpx_status sys_sign(const uint8_t secret[SYS_KEY_BYTES], const uint8_t digest[SYS_HASH_BYTES],
		     uint8_t out_signature[SYS_SIGNATURE_BYTES])
{
	(void)secret;
	(void)digest;
	(void)out_signature;
	return crypto_unavailable();
}

tcpx_status sys_sign_verify(const uint8_t public_key[SYS_KEY_BYTES],
			    const uint8_t digest[SYS_HASH_BYTES],
			    const uint8_t signature[SYS_SIGNATURE_BYTES])
{
	(void)public_key;
	(void)digest;
	(void)signature;
	return crypto_unavailable();
}

tcpx_status sys_exchange_public(const uint8_t secret[SYS_KEY_BYTES],
				uint8_t out_public[SYS_KEY_BYTES])
{
	return sys_sign_public(secret, out_public);
}

tcpx_status sys_exchange_shared(const uint8_t secret[SYS_KEY_BYTES],
				const uint8_t public_key[SYS_KEY_BYTES],
				uint8_t out_shared[SYS_KEY_BYTES])
{
	(void)secret;
	(void)public_key;
	(void)out_shared;
	return crypto_unavailable();
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
			return error_set(TCPX_ERR_SYSTEM, errno, "getrandom failed");
		pos += got;
		len -= (size_t)got;
	}
	return TCPX_OK;
}

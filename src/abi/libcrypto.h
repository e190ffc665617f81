/* SPDX-License-Identifier: Apache-2.0 */
/* What is called of OpenSSL 3's libcrypto. Source: EVP_MAC(3) and OSSL_PARAM(3) of OpenSSL 3.0;
 * tests/abi/libcrypto_abi.c holds it against the real headers where they are installed. */
#ifndef ABI_LIBCRYPTO_H
#define ABI_LIBCRYPTO_H

#include <stddef.h>

typedef struct libcrypto_param { /* OSSL_PARAM */
	const char *key;
	unsigned int data_type;
	void *data;
	size_t data_size;
	size_t return_size;
} libcrypto_param;

#define LIBCRYPTO_PARAM_UTF8_STRING 4 /* OSSL_PARAM_UTF8_STRING */
#define LIBCRYPTO_MAC_DIGEST "digest" /* OSSL_MAC_PARAM_DIGEST */

typedef struct libcrypto_context libcrypto_context; /* OSSL_LIB_CTX */
typedef struct libcrypto_mac libcrypto_mac;	    /* EVP_MAC */
typedef struct libcrypto_mac_ctx libcrypto_mac_ctx; /* EVP_MAC_CTX */

/* X(name, symbol, result, parameters) */
#define LIBCRYPTO_LIST(X)                                                                          \
	X(mac_fetch, "EVP_MAC_fetch", libcrypto_mac *,                                             \
	  (libcrypto_context * context, const char *algorithm, const char *properties))            \
	X(mac_free, "EVP_MAC_free", void, (libcrypto_mac * mac))                                   \
	X(ctx_new, "EVP_MAC_CTX_new", libcrypto_mac_ctx *, (libcrypto_mac * mac))                  \
	X(ctx_free, "EVP_MAC_CTX_free", void, (libcrypto_mac_ctx * ctx))                           \
	X(init, "EVP_MAC_init", int,                                                               \
	  (libcrypto_mac_ctx * ctx, const unsigned char *key, size_t key_bytes,                    \
	   const libcrypto_param *params))                                                         \
	X(update, "EVP_MAC_update", int,                                                           \
	  (libcrypto_mac_ctx * ctx, const unsigned char *data, size_t bytes))                      \
	X(final, "EVP_MAC_final", int,                                                             \
	  (libcrypto_mac_ctx * ctx, unsigned char *out, size_t *out_bytes, size_t cap))

#endif

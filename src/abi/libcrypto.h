/* SPDX-License-Identifier: Apache-2.0 */
/* The part of OpenSSL 3's libcrypto that the library calls. Comments give OpenSSL's names. Source:
 * EVP_MAC(3), OSSL_PARAM(3), EVP_DigestInit(3), EVP_PKEY_new(3), EVP_DigestSignInit(3),
 * EVP_DigestVerifyInit(3) and EVP_PKEY_derive(3) of OpenSSL 3.0. tests/abi/libcrypto_abi.c compares
 * this file with the real headers where they are installed. */
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
typedef struct libcrypto_key libcrypto_key;	    /* EVP_PKEY */
typedef struct libcrypto_key_ctx libcrypto_key_ctx; /* EVP_PKEY_CTX */
typedef struct libcrypto_md_ctx libcrypto_md_ctx;   /* EVP_MD_CTX */

/* The functions that the library calls: X(name, symbol, result, parameters). */
#define LIBCRYPTO_LIST(X)                                                                          \
	X(mac_fetch, "EVP_MAC_fetch", libcrypto_mac *,                                             \
	  (libcrypto_context * context, const char *algorithm, const char *properties))            \
	X(ctx_new, "EVP_MAC_CTX_new", libcrypto_mac_ctx *, (libcrypto_mac * mac))                  \
	X(ctx_free, "EVP_MAC_CTX_free", void, (libcrypto_mac_ctx * ctx))                           \
	X(init, "EVP_MAC_init", int,                                                               \
	  (libcrypto_mac_ctx * ctx, const unsigned char *key, size_t key_bytes,                    \
	   const libcrypto_param *params))                                                         \
	X(update, "EVP_MAC_update", int,                                                           \
	  (libcrypto_mac_ctx * ctx, const unsigned char *data, size_t bytes))                      \
	X(final, "EVP_MAC_final", int,                                                             \
	  (libcrypto_mac_ctx * ctx, unsigned char *out, size_t *out_bytes, size_t cap))            \
	X(digest, "EVP_Q_digest", int,                                                             \
	  (libcrypto_context * context, const char *algorithm, const char *properties,             \
	   const void *data, size_t bytes, unsigned char *out, size_t *out_bytes))                 \
	X(private_key, "EVP_PKEY_new_raw_private_key_ex", libcrypto_key *,                         \
	  (libcrypto_context * context, const char *type, const char *properties,                  \
	   const unsigned char *key, size_t bytes))                                                \
	X(public_key, "EVP_PKEY_new_raw_public_key_ex", libcrypto_key *,                           \
	  (libcrypto_context * context, const char *type, const char *properties,                  \
	   const unsigned char *key, size_t bytes))                                                \
	X(get_public, "EVP_PKEY_get_raw_public_key", int,                                          \
	  (const libcrypto_key *key, unsigned char *out, size_t *inout_bytes))                     \
	X(key_free, "EVP_PKEY_free", void, (libcrypto_key * key))                                  \
	X(md_new, "EVP_MD_CTX_new", libcrypto_md_ctx *, (void))                                    \
	X(md_free, "EVP_MD_CTX_free", void, (libcrypto_md_ctx * ctx))                              \
	X(sign_init, "EVP_DigestSignInit_ex", int,                                                 \
	  (libcrypto_md_ctx * ctx, libcrypto_key_ctx * *out_key_ctx, const char *digest,           \
	   libcrypto_context *context, const char *properties, libcrypto_key *key,                 \
	   const libcrypto_param *params))                                                         \
	X(sign, "EVP_DigestSign", int,                                                             \
	  (libcrypto_md_ctx * ctx, unsigned char *out, size_t *inout_bytes,                        \
	   const unsigned char *data, size_t bytes))                                               \
	X(verify_init, "EVP_DigestVerifyInit_ex", int,                                             \
	  (libcrypto_md_ctx * ctx, libcrypto_key_ctx * *out_key_ctx, const char *digest,           \
	   libcrypto_context *context, const char *properties, libcrypto_key *key,                 \
	   const libcrypto_param *params))                                                         \
	X(verify, "EVP_DigestVerify", int,                                                         \
	  (libcrypto_md_ctx * ctx, const unsigned char *signature, size_t signature_bytes,         \
	   const unsigned char *data, size_t bytes))                                               \
	X(derive_new, "EVP_PKEY_CTX_new_from_pkey", libcrypto_key_ctx *,                           \
	  (libcrypto_context * context, libcrypto_key * key, const char *properties))              \
	X(derive_init, "EVP_PKEY_derive_init", int, (libcrypto_key_ctx * ctx))                     \
	X(derive_peer, "EVP_PKEY_derive_set_peer", int,                                            \
	  (libcrypto_key_ctx * ctx, libcrypto_key * peer))                                         \
	X(derive, "EVP_PKEY_derive", int,                                                          \
	  (libcrypto_key_ctx * ctx, unsigned char *out, size_t *inout_bytes))                      \
	X(derive_free, "EVP_PKEY_CTX_free", void, (libcrypto_key_ctx * ctx))                       \
	X(clear_errors, "ERR_clear_error", void, (void))

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Our declarations of libcrypto against OpenSSL's own; compiling this file is the check. */
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "abi/libcrypto.h"

#define SAME(member, theirs)                                                                       \
	_Static_assert(offsetof(libcrypto_param, member) == offsetof(OSSL_PARAM, theirs) &&        \
			       sizeof(((libcrypto_param *)0)->member) ==                           \
				       sizeof(((OSSL_PARAM *)0)->theirs),                          \
		       #member)

SAME(key, key);
SAME(data_type, data_type);
SAME(data, data);
SAME(data_size, data_size);
SAME(return_size, return_size);
_Static_assert(sizeof(libcrypto_param) == sizeof(OSSL_PARAM), "size");
_Static_assert(LIBCRYPTO_PARAM_UTF8_STRING == OSSL_PARAM_UTF8_STRING, "type");
_Static_assert(!__builtin_strcmp(LIBCRYPTO_MAC_DIGEST, OSSL_MAC_PARAM_DIGEST), "name");

#define libcrypto_context OSSL_LIB_CTX
#define libcrypto_mac EVP_MAC
#define libcrypto_mac_ctx EVP_MAC_CTX
#define libcrypto_param OSSL_PARAM
#define libcrypto_key EVP_PKEY
#define libcrypto_key_ctx EVP_PKEY_CTX
#define libcrypto_md_ctx EVP_MD_CTX
#define CALL(name, symbol, result, params) result(*name) params;
struct calls {
	LIBCRYPTO_LIST(CALL)
};

/* A call of another type does not compile. */
extern const struct calls calls;
const struct calls calls = {EVP_MAC_fetch,
			    EVP_MAC_CTX_new,
			    EVP_MAC_CTX_free,
			    EVP_MAC_init,
			    EVP_MAC_update,
			    EVP_MAC_final,
			    EVP_Q_digest,
			    EVP_PKEY_new_raw_private_key_ex,
			    EVP_PKEY_new_raw_public_key_ex,
			    EVP_PKEY_get_raw_public_key,
			    EVP_PKEY_free,
			    EVP_MD_CTX_new,
			    EVP_MD_CTX_free,
			    EVP_DigestSignInit_ex,
			    EVP_DigestSign,
			    EVP_DigestVerifyInit_ex,
			    EVP_DigestVerify,
			    EVP_PKEY_CTX_new_from_pkey,
			    EVP_PKEY_derive_init,
			    EVP_PKEY_derive_set_peer,
			    EVP_PKEY_derive,
			    EVP_PKEY_CTX_free,
			    ERR_clear_error};

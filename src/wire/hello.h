/* SPDX-License-Identifier: Apache-2.0 */
/* Handshake messages, connection infos and region tokens. Layout: docs/design/wire-frames.md. */
#ifndef WIRE_HELLO_H
#define WIRE_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

#define WIRE_UUID_BYTES 16
#define WIRE_NONCE_BYTES 32
#define WIRE_PROOF_BYTES 32
#define WIRE_SECRET_BYTES 32
#define WIRE_KEY_BYTES 32
#define WIRE_SIGNATURE_BYTES 64
#define WIRE_HELLO_MAX 1024 /* most bytes of an encoded hello with its fields */
#define WIRE_ADDR_MAX 16    /* most addresses in a connection info */
#define WIRE_PROTO_MIN 2
#define WIRE_PROTO_MAX 2

enum wire_role { WIRE_ROLE_CONTROL = 1, WIRE_ROLE_DATA = 2 };

enum wire_auth {
	WIRE_AUTH_NONE = 0,   /* no proof (all zero): loopback or --insecure */
	WIRE_AUTH_SECRET = 1, /* proof by the secret in the connection info */
	WIRE_AUTH_KEY = 2,    /* proof by a key file that both ends have */
	WIRE_AUTH_LINK = 3,   /* further connections of a link: proof by its session key */
	WIRE_AUTH_BARE = 4,   /* loopback, needs no crypto library: the proof is the key itself */
};

/* The three messages of a handshake: dialler's hello, acceptor's answer, dialler's proof. */
enum wire_hello_step { WIRE_HELLO_DIAL = 1, WIRE_HELLO_ANSWER = 2, WIRE_HELLO_PROOF = 3 };

/* Features that the sender of a hello supports. */
enum wire_feature {
	WIRE_FEATURE_LOCAL = 1u << 0,	 /* the same-host transport */
	WIRE_FEATURE_RESERVED = 1u << 1, /* sent as 0; a peer may set and require it */
	/* The sender answers the hello of a same-host channel before bytes are sent on the
	 * channel. */
	WIRE_FEATURE_LOCAL_ANSWER = 1u << 2,
	WIRE_FEATURE_SEGMENTS = 1u << 3, /* FENCE states the largest payload of a packet */
	WIRE_FEATURE_FIRST = 1u << 4,	 /* the first message of each comm is an empty one */
};

/* Plugin channels (docs/design/messages.md) that a DIAL wants or an ANSWER grants. Without plugin
 * channels all members are 0. */
struct wire_messages {
	uint32_t channels;
	uint32_t bytes, window; /* largest message; most messages not yet acknowledged */
	/* chunk size of the plugin, or 0 if it has none; if the ends differ, nothing is granted */
	uint32_t plugin_chunk;
};

/* The identity of the sender, and its part of the session key. A DIAL may have key and exchange, an
 * ANSWER all three, a PROOF the signature only. A message may also have none of them. */
struct wire_identity {
	bool there;				 /* key and exchange are present (DIAL, ANSWER) */
	bool is_signed;				 /* the signature is present */
	uint8_t key[WIRE_KEY_BYTES];		 /* Ed25519, public */
	uint8_t exchange[WIRE_KEY_BYTES];	 /* X25519, public, made for this handshake */
	uint8_t signature[WIRE_SIGNATURE_BYTES]; /* made with `key`; see docs/design/trust.md */
};

/* A decoded hello. A step or role before a colon says which messages use the field. */
struct wire_hello {
	uint8_t step, role, auth;
	uint8_t proto_min, proto_max; /* versions spoken; once chosen, both are the chosen one */
	uint8_t status;	      /* ANSWER: 0, or the negated status with which the handshake fails */
	uint16_t channel;     /* role data: index of the channel */
	uint32_t epoch;	      /* role data: epoch of the channel */
	uint32_t channels;    /* role control: bulk channels wanted (DIAL), granted (ANSWER) */
	uint32_t chunk_bytes; /* largest chunk that the sender wants, or 0 */
	uint64_t features, required; /* bits of enum wire_feature; bits 0 and 1 may be required */
	/* DIAL of a new link: id of the key file's key, or 0. Its ANSWER: the id that the acceptor
	 * gives the link. Both in further connections of the link: that id. */
	uint64_t key_id;
	uint64_t notify_budget, eager_budget, read_budget; /* credit for the peer */
	uint64_t notify_cover;	       /* part of notify_budget given from the start; 0: all */
	struct wire_messages messages; /* control connections only */
	struct wire_identity identity; /* control connections only */
	uint8_t uuid[WIRE_UUID_BYTES], incarnation[WIRE_UUID_BYTES];
	uint8_t want_uuid[WIRE_UUID_BYTES]; /* DIAL: the expected session; zero: any */
	uint8_t nonce[WIRE_NONCE_BYTES];
	uint8_t proof[WIRE_PROOF_BYTES];
	char name[TCPX_NAME_MAX + 1];
};

/* Bytes of a signature with its TLV head. The signature is the last field before the proof. */
#define WIRE_SIGNATURE_FIELD (4 + WIRE_SIGNATURE_BYTES)
/* Encodes a hello and returns its length in bytes. The first 8 bytes are the magic and the total
 * length, from which a reader knows how much to read. The last WIRE_PROOF_BYTES are the proof,
 * which covers all bytes before them. */
size_t wire_hello_encode(const struct wire_hello *hello, uint8_t out[WIRE_HELLO_MAX]);
/* Returns the length of a whole message from its first 8 bytes. Returns 0 if the magic is wrong, or
 * no message can have that length. */
size_t wire_hello_length(const uint8_t prefix[8]);
/* Decodes a hello. Returns ERR_PROTOCOL if it is malformed, ERR_VERSION if there is no common
 * version or an unknown feature or field is required. */
tcpx_status wire_hello_decode(const void *buf, size_t len, struct wire_hello *out_hello);

struct wire_address {
	uint8_t family; /* 4 or 6 */
	uint8_t bytes[16];
	uint16_t port;
	uint32_t scope; /* v6 link-local: index of the interface; else 0 */
};

/* A decoded connection info. */
struct wire_info {
	uint8_t uuid[WIRE_UUID_BYTES], incarnation[WIRE_UUID_BYTES], secret[WIRE_SECRET_BYTES];
	uint8_t reserved[WIRE_UUID_BYTES]; /* sent as 0, and ignored */
	bool has_key;
	uint8_t key[WIRE_KEY_BYTES]; /* Ed25519, public; valid if has_key */
	uint32_t naddrs;
	struct wire_address addrs[WIRE_ADDR_MAX];
	char name[TCPX_NAME_MAX + 1];
};

/* Encodes an info and returns its length in bytes (128 .. TCPX_INFO_MAX_BYTES). Returns 0 if `cap`
 * is too small or naddrs above WIRE_ADDR_MAX. */
size_t wire_info_encode(const struct wire_info *info, void *out, size_t cap);
/* Decodes an info. Returns ERR_INVALID if it is malformed, truncated or changed (a CRC detects
 * typing errors), ERR_VERSION for another version or an unknown required field. */
tcpx_status wire_info_decode(const void *buf, size_t len, struct wire_info *out_info);

/* Properties of a region that its token states. */
enum wire_token_flags {
	WIRE_TOKEN_STABLE = 1u << 0,
	WIRE_TOKEN_STAGED = 1u << 1,
	WIRE_TOKEN_MESSAGES = 1u << 2, /* plugin channels reach the region */
};

#define WIRE_TOKEN_KIND_MAX 2u /* highest kind of memory; 2 is only used by tests */

struct wire_token {
	uint8_t kind;	   /* enum tcpx_mem_kind */
	uint8_t rights;	   /* enum tcpx_rights */
	uint8_t flags;	   /* enum wire_token_flags */
	uint32_t reserved; /* sent as 0, and ignored */
	uint64_t key;
};

void wire_token_encode(const struct wire_token *token, uint8_t out[TCPX_TOKEN_BYTES]);
/* Decodes a token. Returns ERR_INVALID if it is no token, its last 8 bytes are not 0, or its kind,
 * a right or a flag is unknown; ERR_VERSION for another version. */
tcpx_status wire_token_decode(const void *buf, size_t len, struct wire_token *out_token);

#endif

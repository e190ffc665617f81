/* SPDX-License-Identifier: Apache-2.0 */
/* Handshake messages, connection info and region tokens. Layout: docs/design/wire-frames.md. */
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
#define WIRE_HELLO_MAX 1024 /* whole encoded hello, TLVs included */
#define WIRE_ADDR_MAX 16    /* addresses in one connection info */
#define WIRE_PROTO_MIN 2
#define WIRE_PROTO_MAX 2

enum wire_role { WIRE_ROLE_CONTROL = 1, WIRE_ROLE_DATA = 2 };

enum wire_auth {
	WIRE_AUTH_NONE = 0,   /* loopback or --insecure: proofs are zero */
	WIRE_AUTH_SECRET = 1, /* session secret of the connection info */
	WIRE_AUTH_KEY = 2,    /* shared key file */
	WIRE_AUTH_LINK = 3,   /* data connection: session key of the control link */
	WIRE_AUTH_BARE = 4,   /* no crypto library, loopback only: the proof is the secret itself */
};

/* The three messages: 1 dialler's hello, 2 acceptor's answer, 3 dialler's proof. */
enum wire_hello_step { WIRE_HELLO_DIAL = 1, WIRE_HELLO_ANSWER = 2, WIRE_HELLO_PROOF = 3 };

/* What the sender of a hello supports. */
enum wire_feature {
	WIRE_FEATURE_LOCAL = 1u << 0,	 /* the sender supports the same-host transport */
	WIRE_FEATURE_RESERVED = 1u << 1, /* sent as 0; a peer may set and require it */
	/* The sender answers whether it accepts a same-host channel, before bytes are sent on the
	 * channel. */
	WIRE_FEATURE_LOCAL_ANSWER = 1u << 2,
	WIRE_FEATURE_SEGMENTS = 1u << 3, /* FENCE states how large packets may be */
	WIRE_FEATURE_FIRST = 1u << 4, /* during setup the first message of a comm is an empty one */
};

/* Plugin channels (docs/design/messages.md) that a DIAL wants, or an ANSWER grants. All 0: none. */
struct wire_messages {
	uint32_t channels;
	uint32_t bytes, window; /* bytes: largest message; window: most unacknowledged messages */
	/* chunk size of the plugin, which must be equal at both ends; or 0 */
	uint32_t plugin_chunk;
};

/* The identity of the sender, and its part of the session key. A DIAL has key and exchange or
 * neither, and no signature; an ANSWER also has the signature; a PROOF has the signature only. */
struct wire_identity {
	bool there;				 /* DIAL, ANSWER: key and exchange are present */
	bool is_signed;				 /* the signature is present */
	uint8_t key[WIRE_KEY_BYTES];		 /* Ed25519, public */
	uint8_t exchange[WIRE_KEY_BYTES];	 /* X25519, public, for this handshake only */
	uint8_t signature[WIRE_SIGNATURE_BYTES]; /* by key; see docs/design/trust.md */
};

struct wire_hello {
	uint8_t step, role, auth;
	uint8_t proto_min, proto_max; /* answer: both = the chosen one */
	uint8_t status;	      /* answer: 0, or a negated tcpx_status that ends the handshake */
	uint16_t channel;     /* data: index of the channel */
	uint32_t epoch;	      /* data: epoch of the channel */
	uint32_t channels;    /* control: bulk channels that a dial wants, an answer grants */
	uint32_t chunk_bytes; /* most bytes of a chunk */
	uint64_t features, required; /* bit sets; an unknown required bit is refused */
	uint64_t key_id;	     /* id of the key; data: id of the link at the acceptor */
	uint64_t notify_budget, eager_budget, read_budget; /* credits given to the other side */
	uint64_t notify_cover;	       /* part of notify_budget granted from the start; 0: all */
	struct wire_messages messages; /* control connections only */
	struct wire_identity identity; /* control connections only */
	uint8_t uuid[WIRE_UUID_BYTES], incarnation[WIRE_UUID_BYTES];
	uint8_t want_uuid[WIRE_UUID_BYTES]; /* dialler: the expected session; zero: any */
	uint8_t nonce[WIRE_NONCE_BYTES];
	uint8_t proof[WIRE_PROOF_BYTES];
	char name[TCPX_NAME_MAX + 1];
};

/* Bytes of a signature with its TLV head. The signature is the last field, directly before the
 * proof. */
#define WIRE_SIGNATURE_FIELD (4 + WIRE_SIGNATURE_BYTES)
/* Encodes a hello. Returns the number of bytes written. The first 8 bytes are magic and total
 * length, so a reader knows how much to wait for. The last WIRE_PROOF_BYTES are the proof, which
 * covers all before it. */
size_t wire_hello_encode(const struct wire_hello *hello, uint8_t out[WIRE_HELLO_MAX]);
/* Returns the length of a whole message, which its first 8 bytes tell; 0: wrong magic, or a
 * length that no message can have. */
size_t wire_hello_length(const uint8_t prefix[8]);
/* Decodes a hello. ERR_PROTOCOL: malformed; ERR_VERSION: no common version, or an unknown required
 * feature or field. */
tcpx_status wire_hello_decode(const void *buf, size_t len, struct wire_hello *out_hello);

struct wire_address {
	uint8_t family; /* 4 or 6 */
	uint8_t bytes[16];
	uint16_t port;
	uint32_t scope; /* index of the interface, of a v6 link-local address */
};

/* A decoded connection info. A session hands out the encoded one so that a peer can reach it. */
struct wire_info {
	uint8_t uuid[WIRE_UUID_BYTES], incarnation[WIRE_UUID_BYTES], secret[WIRE_SECRET_BYTES];
	uint8_t reserved[WIRE_UUID_BYTES]; /* sent as 0, and ignored */
	bool has_key;
	uint8_t key[WIRE_KEY_BYTES]; /* Ed25519, public; absent if the session has no crypto */
	uint32_t naddrs;
	struct wire_address addrs[WIRE_ADDR_MAX];
	char name[TCPX_NAME_MAX + 1];
};

/* Encodes an info. Returns the number of bytes written (128 .. TCPX_INFO_MAX_BYTES), 0 if cap is
 * too small. */
size_t wire_info_encode(const struct wire_info *info, void *out, size_t cap);
/* Decodes an info. ERR_INVALID: not an info, truncated, or changed (a CRC detects typing errors);
 * ERR_VERSION: of another version, or an unknown required field. */
tcpx_status wire_info_decode(const void *buf, size_t len, struct wire_info *out_info);

/* What a token says about its region. */
enum wire_token_flags {
	WIRE_TOKEN_STABLE = 1u << 0,
	WIRE_TOKEN_STAGED = 1u << 1,
	WIRE_TOKEN_MESSAGES = 1u << 2, /* plugin channels reach the region */
};

#define WIRE_TOKEN_KIND_MAX 2u /* highest kind; 2 is the kind that only tests have */

struct wire_token {
	uint8_t kind;	   /* enum tcpx_mem_kind */
	uint8_t rights;	   /* enum tcpx_rights */
	uint8_t flags;	   /* enum wire_token_flags */
	uint32_t reserved; /* sent as 0, and ignored */
	uint64_t key;
};

void wire_token_encode(const struct wire_token *token, uint8_t out[TCPX_TOKEN_BYTES]);
/* Decodes a token. ERR_INVALID: not a token, or unknown or reserved bits are set;
 * ERR_VERSION. */
tcpx_status wire_token_decode(const void *buf, size_t len, struct wire_token *out_token);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Proofs and checks of the handshake. docs/design/trust.md describes what they protect. */
#include "ctl/handshake.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "sys/crypto.h"
#include "sys/sock.h"

/* Offsets in a message that are the same in all versions of the protocol, so that an end can refuse
 * another version in an orderly way. The proof is the last field in all versions. */
enum place { PLACE_STEP = 8, PLACE_ROLE, PLACE_AUTH, PLACE_STATUS, PLACE_LOWEST, PLACE_HIGHEST };
#define PLACE_KEY_ID 48

/* Spans of memory that are hashed. SPAN() is a label, WHOLE() a message, UNSIGNED() a message up to
 * its signature, UNPROVEN() a message up to its proof. SIGNATURE() is no span, but the address of
 * the signature in a message. */
#define SPAN(text)                                                                                 \
	{                                                                                          \
		(text), sizeof(text) - 1                                                           \
	}
#define WHOLE(msg)                                                                                 \
	{                                                                                          \
		(msg)->bytes, (msg)->len                                                           \
	}
#define UNSIGNED(msg)                                                                              \
	{                                                                                          \
		(msg)->bytes, (msg)->len - WIRE_PROOF_BYTES - WIRE_SIGNATURE_FIELD                 \
	}
#define SIGNATURE(msg) ((msg)->bytes + (msg)->len - WIRE_PROOF_BYTES - WIRE_SIGNATURE_BYTES)
#define UNPROVEN(msg)                                                                              \
	{                                                                                          \
		(msg)->bytes, (msg)->len - WIRE_PROOF_BYTES                                        \
	}

tcpx_status ctl_message_recv(int fd, struct ctl_message *msg, int *out_err)
{
	for (;;) {
		size_t want = msg->len ? msg->len : 8;
		ssize_t got;

		if (msg->done == want) {
			if (msg->len)
				return TCPX_OK;
			msg->len = wire_hello_length(msg->bytes);
			if (!msg->len)
				return TCPX_ERR_PROTOCOL;
			continue;
		}
		got = recv(fd, msg->bytes + msg->done, want - msg->done, 0);
		if (got > 0) {
			msg->done += (size_t)got;
		} else if (got == 0) {
			*out_err = 0;
			return TCPX_ERR_PEER_CLOSED;
		} else if (errno == EAGAIN) {
			return TCPX_IN_PROGRESS;
		} else if (errno != EINTR) {
			*out_err = errno;
			return sys_errno_status(errno);
		}
	}
}

tcpx_status ctl_message_send(int fd, struct ctl_message *msg, int *out_err)
{
	while (msg->done < msg->len) {
		ssize_t put = send(fd, msg->bytes + msg->done, msg->len - msg->done, MSG_NOSIGNAL);

		if (put >= 0) {
			msg->done += (size_t)put;
		} else if (errno == EAGAIN) {
			return TCPX_IN_PROGRESS;
		} else if (errno != EINTR) {
			*out_err = errno;
			return sys_errno_status(errno);
		}
	}
	return TCPX_OK;
}

static int auth_has_key(uint8_t auth)
{
	return auth == WIRE_AUTH_SECRET || auth == WIRE_AUTH_KEY || auth == WIRE_AUTH_LINK;
}

static uint8_t *proof_of(struct ctl_message *msg)
{
	return msg->bytes + msg->len - WIRE_PROOF_BYTES;
}

/* Computes the proof that a message must have. If the method has a key, the proof is the HMAC of
 * the spans. With BARE, the proof of a dial is the secret itself. In all other cases it is
 * zeros. */
static tcpx_status expected_proof(const struct ctl_handshake *hs, const struct sys_span *spans,
				  unsigned count, int is_dial, uint8_t out[WIRE_PROOF_BYTES])
{
	if (auth_has_key(hs->dial.auth))
		return sys_hmac_sha256(hs->key, spans, count, out);
	if (hs->dial.auth == WIRE_AUTH_BARE && is_dial)
		memcpy(out, hs->key, WIRE_PROOF_BYTES);
	else
		memset(out, 0, WIRE_PROOF_BYTES);
	return TCPX_OK;
}

/* Compares the proof of a message with the expected one. Returns ERR_AUTH if they differ. */
static tcpx_status check_hmac(const struct ctl_handshake *hs, const struct ctl_message *msg,
			      const struct sys_span *spans, unsigned count, int is_dial)
{
	uint8_t proof[WIRE_PROOF_BYTES];
	tcpx_status status = expected_proof(hs, spans, count, is_dial, proof);

	if (status == TCPX_OK &&
	    !sys_equal_secret(proof, msg->bytes + msg->len - WIRE_PROOF_BYTES, sizeof(proof)))
		status = TCPX_ERR_AUTH;
	explicit_bzero(proof, sizeof(proof));
	return status;
}

/* ---- identities ---- */

/* Adds our public key and a fresh exchange key to the fields of a message that we send. */
static tcpx_status add_identity(struct ctl_handshake *hs, struct wire_identity *out)
{
	tcpx_status status = sys_random(hs->exchange, sizeof(hs->exchange));

	if (status == TCPX_OK)
		status = sys_exchange_public(hs->exchange, out->exchange);
	memcpy(out->key, hs->identity.public_key, sizeof(out->key));
	out->there = status == TCPX_OK;
	return status;
}

/* Whether the method requires that both ends prove their public keys. Of the other methods, LINK is
 * for further connections of a link, and NONE and BARE work without a crypto library. */
static bool must_identify(uint8_t auth)
{
	return auth == WIRE_AUTH_SECRET || auth == WIRE_AUTH_KEY;
}

/* Checks that the uuid in a message of a control connection matches the public key in it.
 * Returns ERR_AUTH if not, and ERR_PROTOCOL if the method requires a key and the message has none.
 * Does not check data connections. Ignores the key if this end has no crypto library. */
static tcpx_status check_identity(const struct wire_hello *hello)
{
	uint8_t uuid[WIRE_UUID_BYTES];
	tcpx_status status;

	if (hello->role != WIRE_ROLE_CONTROL)
		return TCPX_OK;
	if (!hello->identity.there)
		return must_identify(hello->auth) ? TCPX_ERR_PROTOCOL : TCPX_OK;
	if (!sys_crypto_available())
		return TCPX_OK;
	status = ctl_identity_uuid(hello->identity.key, hello->incarnation, uuid);
	if (status == TCPX_OK && memcmp(uuid, hello->uuid, sizeof(uuid)) != 0)
		status = TCPX_ERR_AUTH;
	return status;
}

/* Hashes what the signature of `msg` covers: all earlier messages, and `msg` up to its
 * signature. */
static tcpx_status signed_hash(const struct ctl_handshake *hs, const struct ctl_message *msg,
			       uint8_t out_hash[SYS_HASH_BYTES])
{
	struct sys_span of_answer[] = {SPAN("tcpx answer identity"), WHOLE(&hs->dial_msg),
				       UNSIGNED(msg)};
	struct sys_span of_proof[] = {SPAN("tcpx proof identity"), WHOLE(&hs->dial_msg),
				      WHOLE(&hs->answer_msg), UNSIGNED(msg)};

	return msg == &hs->answer_msg ? sys_sha256(of_answer, 3, out_hash)
				      : sys_sha256(of_proof, 4, out_hash);
}

static tcpx_status put_signature(struct ctl_handshake *hs, struct ctl_message *msg)
{
	uint8_t hash[SYS_HASH_BYTES];
	tcpx_status status = signed_hash(hs, msg, hash);

	return status == TCPX_OK ? sys_sign(hs->identity.secret, hash, SIGNATURE(msg)) : status;
}

static tcpx_status check_signature(const struct ctl_handshake *hs, const struct ctl_message *msg,
				   const uint8_t key[WIRE_KEY_BYTES])
{
	uint8_t hash[SYS_HASH_BYTES];
	tcpx_status status = signed_hash(hs, msg, hash);

	return status == TCPX_OK ? sys_sign_verify(key, hash, SIGNATURE(msg)) : status;
}

bool ctl_handshake_proven(const struct ctl_handshake *hs)
{
	return hs->identity.there && hs->dial.identity.there && hs->answer.identity.there;
}

/* ---- messages ---- */

/* Decodes a message. Returns ERR_VERSION if there is no common version, or if the message requires
 * something unknown; *out then has only the fields that all versions share. */
static tcpx_status decode_message(const struct ctl_message *msg, struct wire_hello *out)
{
	const uint8_t *bytes = msg->bytes;
	tcpx_status status = wire_hello_decode(bytes, msg->len, out);

	if (status != TCPX_ERR_VERSION)
		return status;
	*out = (struct wire_hello){
		.step = bytes[PLACE_STEP],
		.role = bytes[PLACE_ROLE],
		.auth = bytes[PLACE_AUTH],
		.status = bytes[PLACE_STATUS],
		.proto_min = bytes[PLACE_LOWEST],
		.proto_max = bytes[PLACE_HIGHEST],
	};
	for (int i = 0; i < 8; i++)
		out->key_id |= (uint64_t)bytes[PLACE_KEY_ID + i] << (8 * i);
	return TCPX_ERR_VERSION;
}

tcpx_status ctl_handshake_dial(struct ctl_handshake *hs)
{
	struct ctl_message *msg = &hs->dial_msg;
	struct sys_span spans[] = {SPAN("tcpx dial"), {msg->bytes, 0}};
	tcpx_status status = sys_random(hs->dial.nonce, WIRE_NONCE_BYTES);

	if (status != TCPX_OK)
		return status;
	hs->dialler = true;
	hs->dial.step = WIRE_HELLO_DIAL;
	hs->dial.status = 0;
	if (hs->identity.there && hs->dial.role == WIRE_ROLE_CONTROL &&
	    hs->dial.auth != WIRE_AUTH_LINK && hs->dial.auth != WIRE_AUTH_BARE)
		status = add_identity(hs, &hs->dial.identity);
	if (status != TCPX_OK)
		return status;
	if (!hs->dial.proto_max) {
		hs->dial.proto_min = WIRE_PROTO_MIN;
		hs->dial.proto_max = WIRE_PROTO_MAX;
	}
	msg->len = wire_hello_encode(&hs->dial, msg->bytes);
	msg->done = 0;
	spans[1].len = msg->len - WIRE_PROOF_BYTES;
	return expected_proof(hs, spans, 2, 1, proof_of(msg));
}

tcpx_status ctl_handshake_read_dial(struct ctl_handshake *hs)
{
	tcpx_status status = decode_message(&hs->dial_msg, &hs->dial);

	hs->foreign = status == TCPX_ERR_VERSION;
	if (status != TCPX_OK && status != TCPX_ERR_VERSION)
		return TCPX_ERR_PROTOCOL;
	if (hs->dial.step != WIRE_HELLO_DIAL || hs->dial.auth > WIRE_AUTH_BARE)
		return TCPX_ERR_PROTOCOL;
	return status;
}

tcpx_status ctl_handshake_check_dial(const struct ctl_handshake *hs)
{
	const struct sys_span spans[] = {SPAN("tcpx dial"), UNPROVEN(&hs->dial_msg)};
	tcpx_status status = check_hmac(hs, &hs->dial_msg, spans, 2, 1);

	return status == TCPX_OK && !hs->foreign ? check_identity(&hs->dial) : status;
}

tcpx_status ctl_handshake_answer(struct ctl_handshake *hs)
{
	struct ctl_message *msg = &hs->answer_msg;
	struct sys_span spans[] = {SPAN("tcpx answer"), WHOLE(&hs->dial_msg), {msg->bytes, 0}};
	struct wire_hello *answer = &hs->answer;
	tcpx_status status = sys_random(answer->nonce, WIRE_NONCE_BYTES);

	if (status != TCPX_OK)
		return status;
	answer->step = WIRE_HELLO_ANSWER;
	answer->role = hs->dial.role;
	answer->auth = hs->dial.auth;
	answer->proto_min = WIRE_PROTO_MIN;
	answer->proto_max = WIRE_PROTO_MAX;
	if (answer->status != -TCPX_ERR_VERSION) {
		if (answer->proto_max > hs->dial.proto_max)
			answer->proto_max = hs->dial.proto_max;
		answer->proto_min = answer->proto_max;
		if (hs->dial.identity.there && hs->identity.there)
			status = add_identity(hs, &answer->identity);
		answer->identity.is_signed = answer->identity.there;
	}
	if (status != TCPX_OK)
		return status;
	msg->len = wire_hello_encode(answer, msg->bytes);
	msg->done = 0;
	if (answer->identity.there)
		status = put_signature(hs, msg);
	spans[2].len = msg->len - WIRE_PROOF_BYTES;
	return status == TCPX_OK ? expected_proof(hs, spans, 3, 0, proof_of(msg)) : status;
}

/* Returns the status of an answer; the answer stores it negated. An unknown or a positive status is
 * a protocol error, never a success. */
static tcpx_status answer_status(uint8_t negated)
{
	switch (-(int)negated) {
#define KNOWN(name, value, text, next)                                                             \
	case (value):                                                                              \
		return (value) > 0 ? TCPX_ERR_PROTOCOL : TCPX_##name;
		TCPX_STATUS_MAP(KNOWN)
#undef KNOWN
	default:
		return TCPX_ERR_PROTOCOL;
	}
}

/* Whether the answer is from the wanted session. A refusal is accepted from any session, unless its
 * status is ERR_EXISTS. */
static bool is_wanted_session(const struct ctl_handshake *hs)
{
	static const uint8_t anyone[WIRE_UUID_BYTES];
	const uint8_t *want = hs->dial.want_uuid;

	if (hs->answer.status && hs->answer.status != (uint8_t)-TCPX_ERR_EXISTS)
		return true;
	return !memcmp(want, anyone, sizeof(anyone)) ||
	       !memcmp(want, hs->answer.uuid, WIRE_UUID_BYTES);
}

tcpx_status ctl_handshake_check_answer(struct ctl_handshake *hs)
{
	const struct sys_span spans[] = {SPAN("tcpx answer"), WHOLE(&hs->dial_msg),
					 UNPROVEN(&hs->answer_msg)};
	tcpx_status version = decode_message(&hs->answer_msg, &hs->answer), status;

	if (version != TCPX_OK && version != TCPX_ERR_VERSION)
		return TCPX_ERR_PROTOCOL;
	if (hs->answer.step != WIRE_HELLO_ANSWER || hs->answer.role != hs->dial.role ||
	    hs->answer.auth != hs->dial.auth)
		return TCPX_ERR_PROTOCOL;
	status = check_hmac(hs, &hs->answer_msg, spans, 3, 0);
	if (status != TCPX_OK)
		return status;
	if (version != TCPX_OK || hs->answer.status == (uint8_t)-TCPX_ERR_VERSION)
		return TCPX_ERR_VERSION; /* the other fields of the answer are unknown */
	if (hs->answer.identity.there && !hs->dial.identity.there)
		return TCPX_ERR_PROTOCOL;
	if (!is_wanted_session(hs))
		return TCPX_ERR_AUTH;
	status = check_identity(&hs->answer);
	if (status == TCPX_OK && hs->answer.identity.there)
		status = check_signature(hs, &hs->answer_msg, hs->answer.identity.key);
	if (status != TCPX_OK)
		return status;
	if (hs->answer.status)
		return answer_status(hs->answer.status);
	if (hs->answer.proto_min != hs->answer.proto_max ||
	    hs->answer.proto_max < hs->dial.proto_min || hs->answer.proto_max > hs->dial.proto_max)
		return TCPX_ERR_VERSION;
	return TCPX_OK;
}

tcpx_status ctl_handshake_proof(struct ctl_handshake *hs)
{
	struct ctl_message *msg = &hs->proof_msg;
	struct sys_span spans[] = {
		SPAN("tcpx proof"), WHOLE(&hs->dial_msg), WHOLE(&hs->answer_msg), {msg->bytes, 0}};
	struct wire_hello proof = {
		.step = WIRE_HELLO_PROOF,
		.role = hs->dial.role,
		.auth = hs->dial.auth,
		.proto_min = hs->answer.proto_max,
		.proto_max = hs->answer.proto_max,
		.channel = hs->dial.channel,
		.epoch = hs->dial.epoch,
		.identity.is_signed = ctl_handshake_proven(hs),
	};
	tcpx_status status = TCPX_OK;

	msg->len = wire_hello_encode(&proof, msg->bytes);
	msg->done = 0;
	if (proof.identity.is_signed)
		status = put_signature(hs, msg);
	spans[3].len = msg->len - WIRE_PROOF_BYTES;
	return status == TCPX_OK ? expected_proof(hs, spans, 4, 0, proof_of(msg)) : status;
}

tcpx_status ctl_handshake_check_proof(const struct ctl_handshake *hs)
{
	const struct sys_span spans[] = {SPAN("tcpx proof"), WHOLE(&hs->dial_msg),
					 WHOLE(&hs->answer_msg), UNPROVEN(&hs->proof_msg)};
	struct wire_hello proof;
	tcpx_status status;

	if (wire_hello_decode(hs->proof_msg.bytes, hs->proof_msg.len, &proof) != TCPX_OK)
		return TCPX_ERR_PROTOCOL;
	if (proof.step != WIRE_HELLO_PROOF || proof.role != hs->dial.role ||
	    proof.auth != hs->dial.auth || proof.proto_min != hs->answer.proto_max ||
	    proof.proto_max != hs->answer.proto_max || proof.channel != hs->dial.channel ||
	    proof.epoch != hs->dial.epoch || proof.identity.is_signed != ctl_handshake_proven(hs))
		return TCPX_ERR_PROTOCOL;
	status = check_hmac(hs, &hs->proof_msg, spans, 4, 0);
	if (status == TCPX_OK && proof.identity.is_signed)
		status = check_signature(hs, &hs->proof_msg, hs->dial.identity.key);
	return status;
}

tcpx_status ctl_handshake_session_key(const struct ctl_handshake *hs,
				      uint8_t out_key[CTL_KEY_BYTES])
{
	static const uint8_t no_key[CTL_KEY_BYTES];
	const struct wire_hello *theirs = hs->dialler ? &hs->answer : &hs->dial;
	bool proven = ctl_handshake_proven(hs), with_key = auth_has_key(hs->dial.auth);
	uint8_t shared[CTL_KEY_BYTES] = {0};
	const struct sys_span spans[] = {SPAN("tcpx session"),
					 {shared, proven ? sizeof(shared) : 0},
					 WHOLE(&hs->dial_msg),
					 WHOLE(&hs->answer_msg)};
	tcpx_status status = TCPX_OK;

	if (proven)
		status = sys_exchange_shared(hs->exchange, theirs->identity.exchange, shared);
	if (status == TCPX_OK && (proven || with_key)) {
		status = sys_hmac_sha256(with_key ? hs->key : no_key, spans, 4, out_key);
	} else if (status == TCPX_OK) {
		for (int i = 0; i < CTL_KEY_BYTES; i++)
			out_key[i] = hs->dial.nonce[i] ^ hs->answer.nonce[i];
		if (hs->dial.auth == WIRE_AUTH_BARE)
			for (int i = 0; i < CTL_KEY_BYTES; i++)
				out_key[i] ^= hs->key[i];
	}
	explicit_bzero(shared, sizeof(shared));
	return status;
}

void ctl_handshake_wipe(struct ctl_handshake *hs)
{
	explicit_bzero(hs, sizeof(*hs));
}

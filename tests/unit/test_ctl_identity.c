/* SPDX-License-Identifier: Apache-2.0 */
/* What a handshake proves about the other end. A liar who has the shared key, all public keys and a
 * record of every earlier handshake still cannot pass for another session. */
#include "unit.h"

#include "ctl/handshake.h"
#include "sys/crypto.h"

/* Two ends of a control link. Each may say what it likes before it writes. */
struct pair {
	struct ctl_handshake dialler, acceptor;
};

static struct ctl_identity alice, bob, mallory;

static int make_all(void **state)
{
	(void)state;
	return ctl_identity_make(&alice) || ctl_identity_make(&bob) || ctl_identity_make(&mallory);
}

static void name_by(struct wire_hello *hello, const struct ctl_identity *identity)
{
	if (identity->there)
		assert_int_equal(
			ctl_identity_uuid(identity->public_key, hello->incarnation, hello->uuid),
			TCPX_OK);
}

static void pair_make(struct pair *p, uint8_t auth)
{
	memset(p, 0, sizeof(*p));
	memset(p->dialler.key, 3, CTL_KEY_BYTES);
	memset(p->acceptor.key, 3, CTL_KEY_BYTES);
	p->dialler.identity = alice;
	p->acceptor.identity = bob;
	p->dialler.dial = (struct wire_hello){.role = WIRE_ROLE_CONTROL, .auth = auth};
	name_by(&p->dialler.dial, &alice);
	name_by(&p->acceptor.answer, &bob);
}

static tcpx_status dial(struct pair *p)
{
	assert_int_equal(ctl_handshake_dial(&p->dialler), TCPX_OK);
	p->acceptor.dial_msg = p->dialler.dial_msg;
	assert_int_equal(ctl_handshake_read_dial(&p->acceptor), TCPX_OK);
	return ctl_handshake_check_dial(&p->acceptor);
}

static tcpx_status answer(struct pair *p)
{
	assert_int_equal(ctl_handshake_answer(&p->acceptor), TCPX_OK);
	p->dialler.answer_msg = p->acceptor.answer_msg;
	return ctl_handshake_check_answer(&p->dialler);
}

static tcpx_status prove(struct pair *p)
{
	assert_int_equal(ctl_handshake_proof(&p->dialler), TCPX_OK);
	p->acceptor.proof_msg = p->dialler.proof_msg;
	return ctl_handshake_check_proof(&p->acceptor);
}

/* What an attacker with the shared key does to a message of before: its last field made right. */
static void reseal(const struct ctl_handshake *hs, struct ctl_message *msg)
{
	static const char *const labels[] = {"tcpx dial", "tcpx answer", "tcpx proof"};
	unsigned step = msg->bytes[8] - 1u, count = 0;
	struct sys_span spans[4] = {{labels[step], strlen(labels[step])}};

	if (step > 0)
		spans[++count] = (struct sys_span){hs->dial_msg.bytes, hs->dial_msg.len};
	if (step > 1)
		spans[++count] = (struct sys_span){hs->answer_msg.bytes, hs->answer_msg.len};
	spans[++count] = (struct sys_span){msg->bytes, msg->len - WIRE_PROOF_BYTES};
	assert_int_equal(sys_hmac_sha256(hs->key, spans, count + 1,
					 msg->bytes + msg->len - WIRE_PROOF_BYTES),
			 TCPX_OK);
}

static void both_ends_are_proven(void **state)
{
	static const uint8_t methods[] = {WIRE_AUTH_NONE, WIRE_AUTH_SECRET, WIRE_AUTH_KEY};
	uint8_t a[CTL_KEY_BYTES], b[CTL_KEY_BYTES];

	(void)state;
	if (!sys_crypto_available())
		skip();
	for (size_t i = 0; i < sizeof(methods); i++) {
		struct pair p;

		pair_make(&p, methods[i]);
		assert_int_equal(dial(&p), TCPX_OK);
		assert_int_equal(answer(&p), TCPX_OK);
		assert_int_equal(prove(&p), TCPX_OK);
		assert_true(ctl_handshake_proven(&p.dialler) && ctl_handshake_proven(&p.acceptor));
		assert_memory_equal(p.dialler.answer.identity.key, bob.public_key, CTL_KEY_BYTES);
		assert_memory_equal(p.acceptor.dial.identity.key, alice.public_key, CTL_KEY_BYTES);
		assert_int_equal(ctl_handshake_session_key(&p.dialler, a), TCPX_OK);
		assert_int_equal(ctl_handshake_session_key(&p.acceptor, b), TCPX_OK);
		assert_memory_equal(a, b, sizeof(a));
		/* The shared key and all messages do not give it: a secret half is needed. */
		p.dialler.exchange[5] ^= 1;
		assert_int_equal(ctl_handshake_session_key(&p.dialler, b), TCPX_OK);
		assert_memory_not_equal(a, b, sizeof(a));
	}
}

/* What it signs is written down in docs/design/trust.md: another build must find the same. */
static void assert_signed(const uint8_t *key, const char *label, const struct pair *p,
			  const struct ctl_message *msg, bool proof)
{
	const struct ctl_message *dial = &p->dialler.dial_msg, *answer = &p->dialler.answer_msg;
	uint8_t hash[SYS_HASH_BYTES];
	struct sys_span spans[4] = {{label, strlen(label)}, {dial->bytes, dial->len}};
	unsigned count = 2;

	if (proof)
		spans[count++] = (struct sys_span){answer->bytes, answer->len};
	spans[count++] =
		(struct sys_span){msg->bytes, msg->len - WIRE_PROOF_BYTES - WIRE_SIGNATURE_FIELD};
	assert_int_equal(sys_sha256(spans, count, hash), TCPX_OK);
	assert_int_equal(
		sys_sign_verify(key, hash,
				msg->bytes + msg->len - WIRE_PROOF_BYTES - WIRE_SIGNATURE_BYTES),
		TCPX_OK);
}

static void signatures_are_of_role_and_transcript(void **state)
{
	struct pair p;

	(void)state;
	if (!sys_crypto_available())
		skip();
	pair_make(&p, WIRE_AUTH_KEY);
	assert_int_equal(dial(&p), TCPX_OK);
	assert_int_equal(answer(&p), TCPX_OK);
	assert_int_equal(prove(&p), TCPX_OK);
	assert_signed(bob.public_key, "tcpx answer identity", &p, &p.dialler.answer_msg, false);
	assert_signed(alice.public_key, "tcpx proof identity", &p, &p.dialler.proof_msg, true);
}

/* One end has no crypto: on loopback, where nothing need be proven, they connect all the same. */
static void nothing_is_proven_by_one_end_alone(void **state)
{
	static const struct ctl_identity nobody;
	uint8_t a[CTL_KEY_BYTES], b[CTL_KEY_BYTES];

	(void)state;
	for (int which = 0; which < 6; which++) {
		struct pair p;

		pair_make(&p, which % 2 ? WIRE_AUTH_BARE : WIRE_AUTH_NONE);
		if (which / 2 != 0)
			p.dialler.identity = nobody;
		if (which / 2 != 1)
			p.acceptor.identity = nobody;
		assert_int_equal(dial(&p), TCPX_OK);
		assert_int_equal(answer(&p), TCPX_OK);
		assert_int_equal(prove(&p), TCPX_OK);
		assert_false(ctl_handshake_proven(&p.dialler));
		assert_false(ctl_handshake_proven(&p.acceptor));
		assert_int_equal(ctl_handshake_session_key(&p.dialler, a), TCPX_OK);
		assert_int_equal(ctl_handshake_session_key(&p.acceptor, b), TCPX_OK);
		assert_memory_equal(a, b, sizeof(a));
	}
	for (uint8_t auth = WIRE_AUTH_SECRET; auth <= WIRE_AUTH_KEY && alice.there; auth++) {
		struct pair p;

		pair_make(&p, auth); /* with a key, each end must say who it is */
		p.dialler.identity = nobody;
		assert_int_equal(dial(&p), TCPX_ERR_PROTOCOL);
		pair_make(&p, auth);
		p.acceptor.identity = nobody;
		assert_int_equal(dial(&p), TCPX_OK);
		assert_int_equal(answer(&p), TCPX_ERR_PROTOCOL);
	}
}

/* Mallory has the shared key and Alice's public one. */
static void a_dialler_cannot_say_to_be_another(void **state)
{
	struct ctl_identity half = mallory;
	struct pair p;

	(void)state;
	if (!sys_crypto_available())
		skip();
	pair_make(&p, WIRE_AUTH_SECRET); /* Alice's uuid, Mallory's key */
	p.dialler.identity = mallory;
	assert_int_equal(dial(&p), TCPX_ERR_AUTH);

	pair_make(&p, WIRE_AUTH_SECRET); /* Alice's uuid and key, Mallory's signature */
	memcpy(half.public_key, alice.public_key, sizeof(half.public_key));
	p.dialler.identity = half;
	assert_int_equal(dial(&p), TCPX_OK);
	assert_int_equal(answer(&p), TCPX_OK);
	assert_int_equal(prove(&p), TCPX_ERR_AUTH);

	pair_make(&p, WIRE_AUTH_SECRET); /* Alice's uuid, of another incarnation of hers */
	p.dialler.dial.incarnation[0] ^= 1;
	assert_int_equal(dial(&p), TCPX_ERR_AUTH);
}

static void an_answerer_cannot_say_to_be_another(void **state)
{
	struct ctl_identity half = mallory;
	struct pair p;

	(void)state;
	if (!sys_crypto_available())
		skip();
	pair_make(&p, WIRE_AUTH_SECRET);
	p.acceptor.identity = mallory; /* Bob's uuid */
	assert_int_equal(dial(&p), TCPX_OK);
	assert_int_equal(answer(&p), TCPX_ERR_AUTH);

	pair_make(&p, WIRE_AUTH_SECRET);
	memcpy(half.public_key, bob.public_key, sizeof(half.public_key));
	p.acceptor.identity = half;
	assert_int_equal(dial(&p), TCPX_OK);
	assert_int_equal(answer(&p), TCPX_ERR_AUTH);

	/* As itself: not whom Alice dials. It may refuse her, which it could by silence, too. */
	for (int i = 0; i < 3; i++) {
		static const tcpx_status said[] = {TCPX_OK, TCPX_ERR_EXISTS,
						   TCPX_ERR_PEER_RESTARTED};

		pair_make(&p, WIRE_AUTH_SECRET);
		name_by(&p.acceptor.answer, &bob);
		memcpy(p.dialler.dial.want_uuid, p.acceptor.answer.uuid, WIRE_UUID_BYTES);
		p.acceptor.identity = mallory;
		name_by(&p.acceptor.answer, &mallory);
		p.acceptor.answer.status = (uint8_t)-said[i];
		assert_int_equal(dial(&p), TCPX_OK);
		assert_int_equal(answer(&p), i < 2 ? TCPX_ERR_AUTH : said[i]);
	}
}

/* A signature is of one handshake: what it covers cannot be changed, and it fits no other. */
static void signatures_fit_nowhere_else(void **state)
{
	struct pair p, q;

	(void)state;
	if (!sys_crypto_available())
		skip();
	pair_make(&p, WIRE_AUTH_KEY);
	assert_int_equal(dial(&p), TCPX_OK);
	assert_int_equal(answer(&p), TCPX_OK);
	assert_int_equal(prove(&p), TCPX_OK);
	for (size_t at = 16; at < p.dialler.answer_msg.len - WIRE_PROOF_BYTES; at++) {
		q = p;
		q.dialler.answer_msg.bytes[at] ^= 0x10;
		reseal(&q.dialler, &q.dialler.answer_msg);
		assert_true(ctl_handshake_check_answer(&q.dialler) < 0);
	}
	for (size_t at = 16; at < p.acceptor.proof_msg.len - WIRE_PROOF_BYTES; at++) {
		q = p;
		q.acceptor.proof_msg.bytes[at] ^= 0x10;
		reseal(&q.acceptor, &q.acceptor.proof_msg);
		assert_true(ctl_handshake_check_proof(&q.acceptor) < 0);
	}
	/* Alice's proof of before, in a handshake that somebody else began in her name */
	q = p;
	pair_make(&p, WIRE_AUTH_KEY);
	assert_int_equal(dial(&p), TCPX_OK);
	assert_int_equal(answer(&p), TCPX_OK);
	p.acceptor.proof_msg = q.acceptor.proof_msg;
	reseal(&p.acceptor, &p.acceptor.proof_msg);
	assert_int_equal(ctl_handshake_check_proof(&p.acceptor), TCPX_ERR_AUTH);
	/* Bob's answer of before, to a new dial */
	p.dialler.answer_msg = q.dialler.answer_msg;
	reseal(&p.dialler, &p.dialler.answer_msg);
	assert_int_equal(ctl_handshake_check_answer(&p.dialler), TCPX_ERR_AUTH);
}

/* Somebody in the middle who has the shared key puts its own half of the exchange in. */
static void an_exchange_cannot_be_replaced(void **state)
{
	struct pair p;
	uint8_t *at = NULL;

	(void)state;
	if (!sys_crypto_available())
		skip();
	pair_make(&p, WIRE_AUTH_KEY);
	assert_int_equal(dial(&p), TCPX_OK);
	for (size_t i = 0; i + CTL_KEY_BYTES < p.acceptor.dial_msg.len; i++)
		if (!memcmp(p.acceptor.dial_msg.bytes + i, p.dialler.dial.identity.exchange,
			    CTL_KEY_BYTES))
			at = p.acceptor.dial_msg.bytes + i;
	assert_non_null(at);
	memset(at, 0x42, CTL_KEY_BYTES);
	reseal(&p.acceptor, &p.acceptor.dial_msg);
	assert_int_equal(ctl_handshake_read_dial(&p.acceptor), TCPX_OK);
	assert_int_equal(ctl_handshake_check_dial(&p.acceptor), TCPX_OK);
	assert_int_equal(ctl_handshake_answer(&p.acceptor), TCPX_OK);
	p.dialler.answer_msg = p.acceptor.answer_msg;
	reseal(&p.dialler, &p.dialler.answer_msg); /* over the dial that Alice wrote */
	assert_int_equal(ctl_handshake_check_answer(&p.dialler), TCPX_ERR_AUTH);
}

static void a_uuid_is_of_one_key_and_incarnation(void **state)
{
	uint8_t incarnation[WIRE_UUID_BYTES] = {0}, one[WIRE_UUID_BYTES], two[WIRE_UUID_BYTES];

	(void)state;
	if (!sys_crypto_available()) {
		assert_false(alice.there);
		return;
	}
	assert_int_equal(ctl_identity_uuid(alice.public_key, incarnation, one), TCPX_OK);
	assert_int_equal(ctl_identity_uuid(alice.public_key, incarnation, two), TCPX_OK);
	assert_memory_equal(one, two, sizeof(one));
	assert_int_equal(ctl_identity_uuid(bob.public_key, incarnation, two), TCPX_OK);
	assert_memory_not_equal(one, two, sizeof(one));
	incarnation[15] = 1;
	assert_int_equal(ctl_identity_uuid(alice.public_key, incarnation, two), TCPX_OK);
	assert_memory_not_equal(one, two, sizeof(one));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ends_are_proven),
		cmocka_unit_test(signatures_are_of_role_and_transcript),
		cmocka_unit_test(nothing_is_proven_by_one_end_alone),
		cmocka_unit_test(a_dialler_cannot_say_to_be_another),
		cmocka_unit_test(an_answerer_cannot_say_to_be_another),
		cmocka_unit_test(signatures_fit_nowhere_else),
		cmocka_unit_test(an_exchange_cannot_be_replaced),
		cmocka_unit_test(a_uuid_is_of_one_key_and_incarnation),
	};

	return cmocka_run_group_tests(tests, make_all, NULL);
}

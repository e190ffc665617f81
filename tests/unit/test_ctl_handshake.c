/* SPDX-License-Identifier: Apache-2.0 */
/* Who gets through the handshake, who does not, and what each side learns. */
#include "ctl_rig.h"

#include "ctl/handshake.h"

static void assert_connected(struct rig *rig)
{
	RIG_UNTIL(rig, rig->nready == 1);
	assert_int_equal(rig->status, TCPX_OK);
	assert_string_equal(rig->accepted.remote.name, "dialler");
	assert_string_equal(rig->dialled.remote.name, "acceptor");
	assert_int_equal(rig->dialled.remote.key_id, 77);
	assert_int_equal(rig->accepted.remote.notify_budget, 1 << 20);
	assert_int_equal(rig->dialled.remote.proto_max, WIRE_PROTO_MAX);
	assert_int_equal(rig->accepted.proven, rig->dialled.proven);
	assert_int_equal(rig->dialled.proven, sys_crypto_available() &&
						      rig->auth != WIRE_AUTH_BARE &&
						      rig->auth != WIRE_AUTH_LINK);
	assert_memory_equal(rig->accepted.session_key, rig->dialled.session_key, CTL_KEY_BYTES);
	assert_true(sys_addr_same_host(&rig->accepted.remote_addr, &rig->dialled.local_addr));
	assert_int_equal(sys_addr_port(&rig->accepted.remote_addr),
			 sys_addr_port(&rig->dialled.local_addr));
	assert_int_equal(sys_addr_port(&rig->accepted.local_addr), rig->port);
	assert_int_equal(rig->counters.accepted, 1);
	assert_int_equal(rig->counters.preauth_rejects, 0);
	assert_int_equal(ctl_listener_preauths(rig->listener), 0);
	/* nothing was read beyond the handshake, and the sockets work both ways */
	assert_int_equal(write(rig->dialled.fd, "x", 1), 1);
	assert_int_equal(write(rig->accepted.fd, "y", 1), 1);
	assert_true(fcntl(rig->accepted.fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(rig->dialled.fd, F_GETFD) & FD_CLOEXEC);
}

static void connect_with(uint8_t auth, const char *host)
{
	struct rig rig;
	struct ctl_dial_opts opts;
	static const uint8_t zero[CTL_KEY_BYTES];

	rig_open(&rig, host);
	rig.auth = auth;
	opts = rig_opts(&rig);
	assert_int_equal(rig_dial(&rig, &opts), TCPX_OK);
	assert_connected(&rig);
	assert_memory_not_equal(rig.dialled.session_key, zero, CTL_KEY_BYTES);
	assert_memory_not_equal(rig.dialled.session_key, rig.key, CTL_KEY_BYTES);
	rig_close(&rig);
}

static void every_method_connects(void **state)
{
	(void)state;
	connect_with(WIRE_AUTH_NONE, "127.0.0.1");
	connect_with(WIRE_AUTH_BARE, "127.0.0.1");
	if (!sys_crypto_available())
		return;
	connect_with(WIRE_AUTH_SECRET, "127.0.0.1");
	connect_with(WIRE_AUTH_KEY, "127.0.0.1");
	connect_with(WIRE_AUTH_LINK, "127.0.0.1");
}

static void ipv6_connects(void **state)
{
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	struct sockaddr_in6 probe = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int there = fd >= 0 && bind(fd, (struct sockaddr *)&probe, sizeof(probe)) == 0;

	(void)state;
	if (fd >= 0)
		close(fd);
	if (!there)
		skip();
	connect_with(WIRE_AUTH_NONE, "::1");
	if (sys_crypto_available())
		connect_with(WIRE_AUTH_KEY, "::1");
}

static void a_wrong_key_is_refused_without_a_byte(void **state)
{
	static const uint8_t methods[] = {WIRE_AUTH_BARE, WIRE_AUTH_SECRET, WIRE_AUTH_KEY,
					  WIRE_AUTH_LINK};

	(void)state;
	for (size_t i = 0; i < (sys_crypto_available() ? sizeof(methods) : 1); i++) {
		struct rig rig;
		struct ctl_dial_opts opts;

		rig_open(&rig, "127.0.0.1");
		rig.auth = methods[i];
		opts = rig_opts(&rig);
		opts.key[31] ^= 1;
		assert_int_equal(rig_dial(&rig, &opts), TCPX_ERR_AUTH);
		assert_non_null(strstr(error_last()->what, "another key"));
		assert_int_equal(rig.counters.auth_failures, 1);
		assert_int_equal(rig.counters.preauth_rejects, 1);
		assert_int_equal(rig.nanswer, 0);
		assert_int_equal(rig.nready, 0);
		rig_close(&rig);
	}
}

/* A peer that is slow to notice the end of a link still dials its channels. */
static void a_channel_of_a_link_that_is_gone_is_no_wrong_key(void **state)
{
	struct rig rig;
	struct ctl_dial_opts opts;

	(void)state;
	rig_open(&rig, "127.0.0.1"); /* knows no link */
	opts = rig_opts(&rig);
	opts.hello.role = WIRE_ROLE_DATA;
	opts.hello.auth = sys_crypto_available() ? WIRE_AUTH_LINK : WIRE_AUTH_BARE;
	assert_int_equal(rig_dial(&rig, &opts), TCPX_ERR_AUTH);
	assert_int_equal(rig.counters.preauth_rejects, 1);
	assert_int_equal(rig.counters.auth_failures, 0);
	assert_int_equal(rig.nready, 0);
	rig_close(&rig);
}

static void another_method_is_refused(void **state)
{
	struct rig rig;
	struct ctl_dial_opts opts;

	(void)state;
	rig_open(&rig, "127.0.0.1"); /* wants a key */
	opts = rig_opts(&rig);
	opts.hello.auth = WIRE_AUTH_NONE;
	assert_int_equal(rig_dial(&rig, &opts), TCPX_ERR_AUTH);
	assert_int_equal(rig.nanswer, 0);
	rig_close(&rig);
}

static void another_version_is_named_on_the_dialler(void **state)
{
	struct rig rig;
	struct ctl_dial_opts opts;

	(void)state;
	rig_open(&rig, "127.0.0.1");
	rig.auth = sys_crypto_available() ? WIRE_AUTH_KEY : WIRE_AUTH_BARE;
	opts = rig_opts(&rig);
	opts.hello.proto_min = opts.hello.proto_max = WIRE_PROTO_MAX + 1;
	assert_int_equal(rig_dial(&rig, &opts), TCPX_ERR_VERSION);
	opts.hello.proto_min = WIRE_PROTO_MIN; /* up to a version we do not know: fine */
	assert_int_equal(rig_dial(&rig, &opts), TCPX_OK);
	assert_int_equal(rig.dialled.remote.proto_max, WIRE_PROTO_MAX);
	opts.hello.required = 1ull << 63;
	assert_int_equal(rig_dial(&rig, &opts), TCPX_ERR_VERSION);
	opts.hello.required = 0;
	opts.hello.proto_min = opts.hello.proto_max = WIRE_PROTO_MAX + 1;
	opts.key[0] ^= 1; /* strangers learn nothing about versions */
	assert_int_equal(rig_dial(&rig, &opts), TCPX_ERR_AUTH);
	rig_close(&rig);
}

static void the_answers_status_reaches_the_dialler(void **state)
{
	static const tcpx_status said[] = {TCPX_ERR_PEER_RESTARTED, TCPX_ERR_STALE,
					   TCPX_ERR_SESSION_CLOSED};
	struct rig rig;
	struct ctl_dial_opts opts;

	(void)state;
	rig_open(&rig, "127.0.0.1");
	rig.auth = WIRE_AUTH_NONE;
	opts = rig_opts(&rig);
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		rig.answer_status = (uint8_t)-said[i];
		assert_int_equal(rig_dial(&rig, &opts), said[i]);
	}
	rig.answer_status = 200; /* of a later version */
	assert_int_equal(rig_dial(&rig, &opts), TCPX_ERR_PROTOCOL);
	RIG_UNTIL(&rig, ctl_listener_preauths(rig.listener) == 0);
	assert_int_equal(rig.nready, 0);
	rig_close(&rig);
}

static void nobody_there_is_refused(void **state)
{
	struct rig rig;
	struct ctl_dial_opts opts;

	(void)state;
	rig_open(&rig, "127.0.0.1");
	rig.auth = WIRE_AUTH_NONE;
	opts = rig_opts(&rig);
	ctl_listener_close(rig.listener);
	rig.listener = NULL;
	assert_int_equal(rig_dial(&rig, &opts), TCPX_ERR_REFUSED);
	assert_int_equal(rig.err, ECONNREFUSED);
	rig_close(&rig);
}

static void a_dial_ends_at_its_deadline(void **state)
{
	struct rig rig;
	struct ctl_dial_opts opts;
	struct ctl_dial *dial;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(struct sockaddr_in);

	(void)state;
	rig_open(&rig, "127.0.0.1");
	rig.auth = WIRE_AUTH_NONE;
	opts = rig_opts(&rig);
	sys_addr_set_port(&opts.remote, 0); /* somebody who accepts and says nothing */
	assert_int_equal(bind(fd, (struct sockaddr *)&opts.remote, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&opts.remote, &len), 0);
	opts.deadline_ns = clock_now_ns() + 30 * CLOCK_MS_NS;
	assert_int_equal(rig_dial(&rig, &opts), TCPX_ERR_TIMED_OUT);
	assert_int_equal(ctl_dial_start(&rig.loop, &opts, rig_done, &rig, &dial), TCPX_OK);
	ctl_dial_cancel(dial);
	sys_loop_round(&rig.loop, 0);
	assert_int_equal(rig.ndone, 1); /* a cancelled dial says nothing */
	close(fd);
	rig_close(&rig);
}

/* A listener that is not tcpx: answers with text. */
static void other_services_are_a_protocol_error(void **state)
{
	struct rig rig;
	struct ctl_dial_opts opts;
	struct ctl_dial *dial;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), peer;
	socklen_t len = sizeof(struct sockaddr_in);

	(void)state;
	rig_open(&rig, "127.0.0.1");
	rig.auth = WIRE_AUTH_NONE;
	opts = rig_opts(&rig);
	sys_addr_set_port(&opts.remote, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&opts.remote, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&opts.remote, &len), 0);
	assert_int_equal(ctl_dial_start(&rig.loop, &opts, rig_done, &rig, &dial), TCPX_OK);
	peer = accept(fd, NULL, NULL);
	assert_int_equal(write(peer, "SSH-2.0-x\r\n", 11), 11);
	RIG_UNTIL(&rig, rig.ndone == 1);
	assert_int_equal(rig.status, TCPX_ERR_PROTOCOL);
	close(peer);
	close(fd);
	rig_close(&rig);
}

/* ---- bits and replays, on the messages themselves ---- */

struct pair {
	struct ctl_handshake dialler, acceptor;
};

static void pair_dial(struct pair *p, uint8_t auth)
{
	memset(p, 0, sizeof(*p));
	memset(p->dialler.key, 3, CTL_KEY_BYTES);
	memset(p->acceptor.key, 3, CTL_KEY_BYTES);
	p->dialler.dial = (struct wire_hello){.role = WIRE_ROLE_DATA,
					      .auth = auth,
					      .channel = 2,
					      .epoch = 9,
					      .eager_budget = 1 << 18,
					      .name = "dialler"};
	assert_int_equal(ctl_handshake_dial(&p->dialler), TCPX_OK);
	p->acceptor.dial_msg = p->dialler.dial_msg;
}

static tcpx_status take_dial(struct pair *p)
{
	struct ctl_handshake *hs = &p->acceptor;
	tcpx_status status;

	if (wire_hello_length(hs->dial_msg.bytes) != hs->dial_msg.len)
		return TCPX_ERR_PROTOCOL;
	status = ctl_handshake_read_dial(hs);
	if (status != TCPX_OK && status != TCPX_ERR_VERSION)
		return status;
	return ctl_handshake_check_dial(hs) ? TCPX_ERR_AUTH : status;
}

static void pair_answer(struct pair *p)
{
	assert_int_equal(take_dial(p), TCPX_OK);
	memset(&p->acceptor.answer, 0, sizeof(p->acceptor.answer));
	assert_int_equal(ctl_handshake_answer(&p->acceptor), TCPX_OK);
	p->dialler.answer_msg = p->acceptor.answer_msg;
}

static tcpx_status take_answer(struct pair *p)
{
	struct ctl_message *msg = &p->dialler.answer_msg;

	if (wire_hello_length(msg->bytes) != msg->len)
		return TCPX_ERR_PROTOCOL;
	return ctl_handshake_check_answer(&p->dialler);
}

static void pair_proof(struct pair *p)
{
	assert_int_equal(take_answer(p), TCPX_OK);
	assert_int_equal(ctl_handshake_proof(&p->dialler), TCPX_OK);
	p->acceptor.proof_msg = p->dialler.proof_msg;
}

static tcpx_status take_proof(struct pair *p)
{
	struct ctl_message *msg = &p->acceptor.proof_msg;

	if (wire_hello_length(msg->bytes) != msg->len)
		return TCPX_ERR_PROTOCOL;
	return ctl_handshake_check_proof(&p->acceptor);
}

/* Every bit of every byte of each message, one at a time. */
static void no_flipped_bit_authenticates(void **state)
{
	struct pair p, q;

	(void)state;
	if (!sys_crypto_available())
		skip();
	pair_dial(&p, WIRE_AUTH_LINK);
	for (size_t bit = 0; bit < p.dialler.dial_msg.len * 8; bit++) {
		q = p;
		q.acceptor.dial_msg.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_not_equal(take_dial(&q), TCPX_OK);
	}
	pair_answer(&p);
	for (size_t bit = 0; bit < p.acceptor.answer_msg.len * 8; bit++) {
		q = p;
		q.dialler.answer_msg.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_true(take_answer(&q) < 0);
	}
	pair_proof(&p);
	for (size_t bit = 0; bit < p.dialler.proof_msg.len * 8; bit++) {
		q = p;
		q.acceptor.proof_msg.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_true(take_proof(&q) < 0);
	}
	assert_int_equal(take_proof(&p), TCPX_OK);
}

static void replays_never_authenticate(void **state)
{
	struct pair old, now;

	(void)state;
	if (!sys_crypto_available())
		skip();
	pair_dial(&old, WIRE_AUTH_KEY);
	pair_answer(&old);
	pair_proof(&old);
	/* An old dial gets an answer, whose nonce is fresh: the old proof does not fit it. */
	now = old;
	pair_answer(&now);
	assert_memory_not_equal(now.acceptor.answer_msg.bytes, old.acceptor.answer_msg.bytes,
				old.acceptor.answer_msg.len);
	now.acceptor.proof_msg = old.dialler.proof_msg;
	assert_int_equal(take_proof(&now), TCPX_ERR_AUTH);
	/* An old answer does not fit a new dial. */
	pair_dial(&now, WIRE_AUTH_KEY);
	now.dialler.answer_msg = old.acceptor.answer_msg;
	assert_int_equal(take_answer(&now), TCPX_ERR_AUTH);
	/* Nor does a message reflected to its author. */
	now.dialler.answer_msg = now.dialler.dial_msg;
	assert_true(take_answer(&now) < 0);
	pair_answer(&now);
	now.acceptor.proof_msg = now.acceptor.answer_msg;
	assert_true(take_proof(&now) < 0);
	now.acceptor.proof_msg = now.dialler.dial_msg;
	assert_true(take_proof(&now) < 0);
}

static void session_keys_differ_between_connections(void **state)
{
	static const uint8_t methods[] = {WIRE_AUTH_NONE, WIRE_AUTH_BARE, WIRE_AUTH_KEY};
	uint8_t a[CTL_KEY_BYTES], b[CTL_KEY_BYTES];
	struct pair p;

	(void)state;
	for (size_t i = 0; i < (sys_crypto_available() ? 3 : 2); i++) {
		pair_dial(&p, methods[i]);
		pair_answer(&p);
		pair_proof(&p);
		assert_int_equal(take_proof(&p), TCPX_OK);
		assert_int_equal(ctl_handshake_session_key(&p.dialler, a), TCPX_OK);
		assert_int_equal(ctl_handshake_session_key(&p.acceptor, b), TCPX_OK);
		assert_memory_equal(a, b, sizeof(a));
		pair_dial(&p, methods[i]);
		pair_answer(&p);
		pair_proof(&p);
		assert_int_equal(ctl_handshake_session_key(&p.dialler, b), TCPX_OK);
		assert_memory_not_equal(a, b, sizeof(a));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_method_connects),
		cmocka_unit_test(ipv6_connects),
		cmocka_unit_test(a_wrong_key_is_refused_without_a_byte),
		cmocka_unit_test(a_channel_of_a_link_that_is_gone_is_no_wrong_key),
		cmocka_unit_test(another_method_is_refused),
		cmocka_unit_test(another_version_is_named_on_the_dialler),
		cmocka_unit_test(the_answers_status_reaches_the_dialler),
		cmocka_unit_test(nobody_there_is_refused),
		cmocka_unit_test(a_dial_ends_at_its_deadline),
		cmocka_unit_test(other_services_are_a_protocol_error),
		cmocka_unit_test(no_flipped_bit_authenticates),
		cmocka_unit_test(replays_never_authenticate),
		cmocka_unit_test(session_keys_differ_between_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

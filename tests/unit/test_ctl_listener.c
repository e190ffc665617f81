/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers: limits, deadlines, silence, replays over the wire, and life without descriptors. */
#include "ctl_rig.h"

#include <sys/resource.h>
#include <netinet/tcp.h>

#include "ctl/handshake.h"

static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/* A dial of the rig's own, as bytes. */
static void make_dial(const struct rig *rig, struct ctl_handshake *hs)
{
	struct ctl_dial_opts opts = rig_opts(rig);

	memset(hs, 0, sizeof(*hs));
	hs->dial = opts.hello;
	hs->identity = rig->dialler;
	memcpy(hs->key, opts.key, sizeof(hs->key));
	assert_int_equal(ctl_handshake_dial(hs), TCPX_OK);
}

static void open_keyed(struct rig *rig)
{
	rig_open(rig, "127.0.0.1");
	if (!sys_crypto_available())
		rig->auth = WIRE_AUTH_BARE;
}

static void assert_still_serves(struct rig *rig)
{
	struct ctl_dial_opts opts = rig_opts(rig);
	int before = rig->nready;

	assert_int_equal(rig_dial(rig, &opts), TCPX_OK);
	RIG_UNTIL(rig, rig->nready == before + 1);
}

static void garbage_gets_no_byte(void **state)
{
	static const uint8_t tls[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0};
	uint8_t oversize[8] = {0}, small[8], buf[64];
	struct ctl_handshake hs;
	struct rig rig;
	const struct {
		const void *data;
		size_t len;
	} cases[] = {{http, sizeof(http) - 1}, {tls, sizeof(tls)}, {oversize, 8}, {small, 8}};

	(void)state;
	open_keyed(&rig);
	make_dial(&rig, &hs);
	memcpy(oversize, hs.dial_msg.bytes, 8);
	oversize[6] = 1; /* 64 KiB more */
	memcpy(small, hs.dial_msg.bytes, 8);
	small[4] = 20;
	small[5] = 0;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd = rig_raw(&rig);

		assert_int_equal(send(fd, cases[i].data, cases[i].len, MSG_NOSIGNAL), cases[i].len);
		assert_true(rig_drain(&rig, fd, buf, sizeof(buf)) <= 0);
		close(fd);
	}
	assert_int_equal(rig.counters.preauth_rejects, 4);
	assert_int_equal(rig.counters.auth_failures, 0);
	assert_int_equal(rig.nkey, 0);
	assert_still_serves(&rig);
	rig_close(&rig);
}

/* Any byte of a dial changed: closed, and not one byte said. */
static void a_forged_dial_gets_no_byte(void **state)
{
	struct ctl_handshake hs;
	struct rig rig;
	uint8_t buf[64];

	(void)state;
	open_keyed(&rig);
	ctl_listener_set_preauth(rig.listener, 50 * CLOCK_MS_NS); /* longer lengths: it waits */
	make_dial(&rig, &hs);
	if (rig.auth != WIRE_AUTH_KEY)
		skip(); /* a bare secret does not cover the rest */
	for (size_t at = 0; at < hs.dial_msg.len; at++) {
		int fd = rig_raw(&rig);

		hs.dial_msg.bytes[at] ^= 0x10;
		assert_int_equal(send(fd, hs.dial_msg.bytes, hs.dial_msg.len, MSG_NOSIGNAL),
				 hs.dial_msg.len);
		assert_true(rig_drain(&rig, fd, buf, sizeof(buf)) <= 0);
		hs.dial_msg.bytes[at] ^= 0x10;
		close(fd);
	}
	assert_int_equal(rig.counters.preauth_rejects, hs.dial_msg.len);
	assert_int_equal(rig.nanswer, 0);
	rig_close(&rig);
}

static void half_a_hello_ends_at_the_deadline(void **state)
{
	struct ctl_handshake hs;
	struct rig rig;
	uint8_t buf[64];
	static const size_t lengths[] = {1, 7, 8, 100};

	(void)state;
	open_keyed(&rig);
	ctl_listener_set_preauth(rig.listener, 20 * CLOCK_MS_NS);
	make_dial(&rig, &hs);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		int fd = rig_raw(&rig);

		assert_int_equal(send(fd, hs.dial_msg.bytes, lengths[i], MSG_NOSIGNAL), lengths[i]);
		assert_true(rig_drain(&rig, fd, buf, sizeof(buf)) <= 0);
		close(fd);
	}
	assert_int_equal(rig.counters.preauth_rejects, 4);
	rig_close(&rig);
}

/* One byte every now and then does not keep a connection: the deadline counts from accept. */
static void a_slow_hello_ends_at_the_deadline(void **state)
{
	struct ctl_handshake hs;
	struct rig rig;
	size_t sent = 0;
	int fd;

	(void)state;
	open_keyed(&rig);
	ctl_listener_set_preauth(rig.listener, 60 * CLOCK_MS_NS);
	make_dial(&rig, &hs);
	fd = rig_raw(&rig);
	while (!rig.counters.preauth_rejects && sent < hs.dial_msg.len - 1) {
		int64_t until = clock_now_ns() + CLOCK_MS_NS;

		(void)!send(fd, hs.dial_msg.bytes + sent++, 1, MSG_NOSIGNAL);
		while (clock_now_ns() < until)
			sys_loop_round(&rig.loop, CLOCK_MS_NS);
	}
	assert_true(sent < hs.dial_msg.len - 1);
	assert_int_equal(rig.counters.preauth_rejects, 1);
	close(fd);
	rig_close(&rig);
}

/* The dialler is proven but never sends its proof. */
static void no_proof_ends_at_the_deadline(void **state)
{
	struct ctl_handshake hs;
	struct rig rig;
	uint8_t buf[WIRE_HELLO_MAX];
	int fd;

	(void)state;
	open_keyed(&rig);
	ctl_listener_set_preauth(rig.listener, 30 * CLOCK_MS_NS);
	make_dial(&rig, &hs);
	fd = rig_raw(&rig);
	assert_int_equal(send(fd, hs.dial_msg.bytes, hs.dial_msg.len, MSG_NOSIGNAL),
			 hs.dial_msg.len);
	assert_true(rig_drain(&rig, fd, buf, sizeof(buf)) > 0);
	assert_int_equal(rig.nanswer, 1);
	assert_int_equal(rig.nready, 0);
	assert_int_equal(rig.counters.preauth_rejects, 1);
	close(fd);
	rig_close(&rig);
}

static size_t read_message(struct rig *rig, int fd, uint8_t *buf)
{
	struct ctl_message msg = {0};
	int64_t end = clock_now_ns() + RIG_HANG_NS;
	int err;

	while (ctl_message_recv(fd, &msg, &err) != TCPX_OK) {
		assert_true(clock_now_ns() < end);
		sys_loop_round(&rig->loop, CLOCK_MS_NS);
	}
	memcpy(buf, msg.bytes, msg.len);
	return msg.len;
}

/* What an eavesdropper recorded of a good handshake, said again. */
static void a_recorded_handshake_does_not_work_again(void **state)
{
	struct ctl_handshake hs;
	struct rig rig;
	uint8_t buf[WIRE_HELLO_MAX];
	int fd;

	(void)state;
	open_keyed(&rig);
	if (rig.auth != WIRE_AUTH_KEY)
		skip();
	make_dial(&rig, &hs);
	for (int round = 0; round < 2; round++) {
		fd = rig_raw(&rig);
		assert_int_equal(send(fd, hs.dial_msg.bytes, hs.dial_msg.len, MSG_NOSIGNAL),
				 hs.dial_msg.len);
		hs.answer_msg.len = read_message(&rig, fd, buf);
		if (!round) {
			memcpy(hs.answer_msg.bytes, buf, hs.answer_msg.len);
			assert_int_equal(ctl_handshake_check_answer(&hs), TCPX_OK);
			assert_int_equal(ctl_handshake_proof(&hs), TCPX_OK);
		}
		assert_int_equal(send(fd, hs.proof_msg.bytes, hs.proof_msg.len, MSG_NOSIGNAL),
				 hs.proof_msg.len);
		if (!round)
			RIG_UNTIL(&rig, rig.nready == 1);
		else
			assert_int_equal(rig_drain(&rig, fd, buf, sizeof(buf)), 0);
		close(fd);
	}
	assert_int_equal(rig.nready, 1);
	assert_int_equal(rig.counters.auth_failures, 1);
	rig_close(&rig);
}

/* What belongs to the caller of ready stays in the socket, even when it came with the proof. */
static void nothing_is_read_beyond_the_proof(void **state)
{
	struct ctl_handshake hs;
	struct rig rig;
	uint8_t buf[WIRE_HELLO_MAX + 5];
	int fd;

	(void)state;
	open_keyed(&rig);
	make_dial(&rig, &hs);
	fd = rig_raw(&rig);
	assert_int_equal(send(fd, hs.dial_msg.bytes, hs.dial_msg.len, MSG_NOSIGNAL),
			 hs.dial_msg.len);
	hs.answer_msg.len = read_message(&rig, fd, hs.answer_msg.bytes);
	assert_int_equal(ctl_handshake_check_answer(&hs), TCPX_OK);
	assert_int_equal(ctl_handshake_proof(&hs), TCPX_OK);
	memcpy(buf, hs.proof_msg.bytes, hs.proof_msg.len);
	memcpy(buf + hs.proof_msg.len, "frame", 5);
	assert_int_equal(send(fd, buf, hs.proof_msg.len + 5, MSG_NOSIGNAL), hs.proof_msg.len + 5);
	RIG_UNTIL(&rig, rig.nready == 1);
	assert_int_equal(recv(rig.accepted.fd, buf, sizeof(buf), 0), 5);
	assert_memory_equal(buf, "frame", 5);
	close(fd);
	rig_close(&rig);
}

/* The dialler that is refused says more than it should and reads late: the answer is not lost. */
static void a_refusal_waits_to_be_read(void **state)
{
	struct ctl_handshake hs;
	struct rig rig;
	int fd;

	(void)state;
	open_keyed(&rig);
	rig.answer_status = -TCPX_ERR_PEER_RESTARTED;
	make_dial(&rig, &hs);
	fd = rig_raw(&rig);
	assert_int_equal(send(fd, hs.dial_msg.bytes, hs.dial_msg.len, MSG_NOSIGNAL),
			 hs.dial_msg.len);
	RIG_UNTIL(&rig, rig.nanswer == 1);
	assert_int_equal(send(fd, http, sizeof(http), MSG_NOSIGNAL), sizeof(http));
	for (int i = 0; i < 5; i++)
		sys_loop_round(&rig.loop, CLOCK_MS_NS);
	assert_int_equal(ctl_listener_preauths(rig.listener), 1);
	hs.answer_msg.len = read_message(&rig, fd, hs.answer_msg.bytes);
	assert_int_equal(ctl_handshake_check_answer(&hs), TCPX_ERR_PEER_RESTARTED);
	close(fd);
	RIG_UNTIL(&rig, ctl_listener_preauths(rig.listener) == 0);
	rig_close(&rig);
}

static void three_hundred_strangers_stay_within_the_limits(void **state)
{
	int fds[300];
	struct rig rig;
	unsigned base = open_descriptors(), most = 0;

	(void)state;
	open_keyed(&rig);
	for (int i = 0; i < 300; i++) {
		fds[i] = rig_raw(&rig);
		assert_int_equal(send(fds[i], "TCPH", 4, MSG_NOSIGNAL), 4);
		if (i % 10 == 0)
			sys_loop_round(&rig.loop, 0);
		if (ctl_listener_preauths(rig.listener) > most)
			most = ctl_listener_preauths(rig.listener);
	}
	RIG_UNTIL(&rig, rig.counters.preauth_rejects == 300 - 64);
	assert_true(most <= 64);
	assert_int_equal(ctl_listener_preauths(rig.listener), 64);
	assert_still_serves(&rig); /* a newcomer pushes out the oldest stranger */
	for (int i = 0; i < 300; i++)
		close(fds[i]);
	RIG_UNTIL(&rig, ctl_listener_preauths(rig.listener) == 0);
	assert_int_equal(rig.counters.preauth_rejects, 300);
	rig_close(&rig);
	assert_int_equal(open_descriptors(), base);
}

/* A silent connection that claims to come from elsewhere; returns the far end. */
static int stranger_from(struct rig *rig, const char *host)
{
	struct sockaddr_storage addr;
	int pair[2];

	assert_int_equal(sys_addr_parse(host, 1000, &addr), TCPX_OK);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	assert_true(ctl_listener_room(rig->listener));
	ctl_listener_take(rig->listener, pair[0], &addr);
	return pair[1];
}

static int is_closed(int fd)
{
	char byte;

	return recv(fd, &byte, 1, 0) == 0;
}

static void each_source_has_its_share(void **state)
{
	int v4[10], v6[10], all[128], late;
	char host[64];
	struct rig rig;

	(void)state;
	open_keyed(&rig);
	for (int i = 0; i < 10; i++) {
		snprintf(host, sizeof(host), "2001:db8::%d", i); /* one /64 is one source */
		v4[i] = stranger_from(&rig, "192.0.2.7");
		v6[i] = stranger_from(&rig, host);
	}
	assert_int_equal(ctl_listener_preauths(rig.listener), 16);
	for (int i = 0; i < 10; i++) { /* the oldest of each went */
		assert_int_equal(is_closed(v4[i]), i < 2);
		assert_int_equal(is_closed(v6[i]), i < 2);
	}
	for (int i = 0; i < 112; i++) {
		snprintf(host, sizeof(host), "198.51.100.%d", i);
		all[i] = stranger_from(&rig, host);
	}
	assert_int_equal(ctl_listener_preauths(rig.listener), 128);
	late = stranger_from(&rig, "203.0.113.1"); /* the greediest source pays */
	assert_int_equal(ctl_listener_preauths(rig.listener), 128);
	assert_true(is_closed(v4[2]));
	assert_false(is_closed(v6[2]));
	assert_false(is_closed(late));
	for (int i = 0; i < 10; i++)
		close(v4[i]), close(v6[i]);
	for (int i = 0; i < 112; i++)
		close(all[i]);
	close(late);
	rig_close(&rig);
}

/* Who connects again and again is turned away before anything is computed for him, at no cost for
 * others. */
static void a_source_connects_so_often(void **state)
{
	unsigned away = 0;
	struct rig rig;
	int fd, other;

	(void)state;
	open_keyed(&rig);
	other = stranger_from(&rig, "192.0.2.8");
	for (unsigned i = 0; i < 4096; i++) { /* within milliseconds, or a slow machine's second */
		fd = stranger_from(&rig, "192.0.2.7");
		assert_true(i >= 2048 || !is_closed(fd));
		away += i >= 2048 && is_closed(fd);
		close(fd);
	}
	assert_true(away > 0);
	assert_false(is_closed(other));
	fd = stranger_from(&rig, "192.0.2.8");
	assert_false(is_closed(fd));
	close(fd);
	close(other);
	rig_close(&rig);
}

/* Honest diallers, more at once than strangers may be: all get through. */
static void a_burst_of_diallers_gets_through(void **state)
{
	struct rig rig;
	struct ctl_dial_opts opts;
	struct ctl_dial *dial;

	(void)state;
	open_keyed(&rig);
	opts = rig_opts(&rig);
	for (int i = 0; i < 200; i++)
		assert_int_equal(ctl_dial_start(&rig.loop, &opts, rig_done, &rig, &dial), TCPX_OK);
	RIG_UNTIL(&rig, rig.ndone == 200 && rig.nready == 200);
	assert_int_equal(rig.counters.accepted, 200);
	assert_int_equal(rig.counters.preauth_rejects, 0);
	rig_close(&rig);
}

/* Every descriptor is taken: connections end at once, the loop does not spin, and it recovers. */
static void without_descriptors_connections_are_shed(void **state)
{
	struct rig rig;
	struct rlimit old, tight;
	uint8_t buf[8];
	int fds[4], spare;

	(void)state;
	open_keyed(&rig);
	for (int i = 0; i < 4; i++) {
		fds[i] = rig_raw(&rig);
		assert_int_equal(send(fds[i], http, sizeof(http), MSG_NOSIGNAL), sizeof(http));
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	spare = dup(0);
	assert_true(spare >= 0);
	close(spare);
	tight = old;
	tight.rlim_cur = (rlim_t)spare; /* the lowest free number: nothing can be opened */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	for (int i = 0; i < 4; i++)
		assert_true(rig_drain(&rig, fds[i], buf, sizeof(buf)) <= 0);
	assert_int_equal(rig.counters.preauth_rejects, 4);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	assert_still_serves(&rig);
	rig_close(&rig);
}

static void a_taken_port_is_named(void **state)
{
	struct rig rig;
	struct ctl_listener *second;
	uint16_t port;

	(void)state;
	open_keyed(&rig);
	port = rig.port;
	assert_int_equal(ctl_listener_open(&rig.loop, &rig.addr, NULL, &port, &rig_ops, &rig,
					   &rig.counters, &second),
			 TCPX_ERR_ADDRESS);
	assert_int_equal(error_last()->system_errno, EADDRINUSE);
	assert_non_null(strstr(error_last()->what, "127.0.0.1:"));
	assert_int_equal(port, rig.port);
	rig_close(&rig);
}

static struct rig *closing;

static void close_in_ready(void *arg, const struct ctl_conn *conn)
{
	rig_ready(arg, conn);
	ctl_listener_close(closing->listener);
	closing->listener = NULL;
}

static void ready_may_close_the_listener(void **state)
{
	struct ctl_accept_ops ops = rig_ops;
	struct ctl_dial_opts opts;
	struct rig rig;

	(void)state;
	open_keyed(&rig);
	ops.ready = close_in_ready;
	rig.listener->ops = &ops;
	closing = &rig;
	opts = rig_opts(&rig);
	assert_int_equal(rig_dial(&rig, &opts), TCPX_OK);
	RIG_UNTIL(&rig, rig.nready == 1);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(garbage_gets_no_byte),
		cmocka_unit_test(a_forged_dial_gets_no_byte),
		cmocka_unit_test(half_a_hello_ends_at_the_deadline),
		cmocka_unit_test(a_slow_hello_ends_at_the_deadline),
		cmocka_unit_test(no_proof_ends_at_the_deadline),
		cmocka_unit_test(a_recorded_handshake_does_not_work_again),
		cmocka_unit_test(nothing_is_read_beyond_the_proof),
		cmocka_unit_test(a_refusal_waits_to_be_read),
		cmocka_unit_test(three_hundred_strangers_stay_within_the_limits),
		cmocka_unit_test(each_source_has_its_share),
		cmocka_unit_test(a_source_connects_so_often),
		cmocka_unit_test(a_burst_of_diallers_gets_through),
		cmocka_unit_test(without_descriptors_connections_are_shed),
		cmocka_unit_test(a_taken_port_is_named),
		cmocka_unit_test(ready_may_close_the_listener),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

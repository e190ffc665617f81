/* SPDX-License-Identifier: Apache-2.0 */
/* The data calls of a comm: every version, the rules of the ring, errors, SIGPIPE. */
#include "ncclnet_rig.h"

#include "base/rng.h"

static void send_ok(struct rig *rig, size_t at, size_t bytes)
{
	uint64_t number;
	tcpx_status status;

	do
		status = net_comm_send(rig->send, rig->send_mr, rig->out + at, bytes, &number);
	while (status == TCPX_IN_PROGRESS);
	assert_int_equal(status, TCPX_OK);
}

static void recv_ok(struct rig *rig, size_t at, size_t room)
{
	uint64_t number;
	tcpx_status status;

	do
		status = net_comm_recv(rig->recv, rig->recv_mr, rig->in + at, room, &number);
	while (status == TCPX_IN_PROGRESS);
	assert_int_equal(status, TCPX_OK);
}

static uint64_t poll_ok(struct net_comm *comm, size_t *out_bytes)
{
	uint64_t number = UINT64_MAX;

	assert_int_equal(net_comm_poll(comm, &number, out_bytes), TCPX_OK);
	return number;
}

/* Messages of random lengths, empty ones too, kept in flight as the window allows. */
static void stream_messages(struct rig *rig, unsigned count, int tells)
{
	const size_t slot = sizeof(rig->in) / 16;
	size_t lengths[16], bytes;
	struct net_comm_counts counts;
	uint64_t sent = 0, got = 0;
	struct rng rng;

	rng_seed(&rng, count);
	for (size_t i = 0; i < sizeof(rig->out); i++)
		rig->out[i] = (char)(i * 7 + i / 251);
	while (got < count) {
		while (sent < count && sent - got < RIG_WINDOW) {
			size_t len = sent % 5 ? rng_below(&rng, slot + 1) : 0;

			lengths[sent % 16] = len;
			recv_ok(rig, sent % 16 * slot, slot);
			send_ok(rig, len % 16, len);
			assert_int_equal(rig->fake->last_tag, (int)sent);
			sent++;
		}
		assert_int_equal(poll_ok(rig->recv, &bytes), got);
		assert_int_equal(bytes, tells ? lengths[got % 16] : NET_COMM_UNKNOWN);
		assert_memory_equal(rig->in + got % 16 * slot, rig->out + lengths[got % 16] % 16,
				    lengths[got % 16]);
		assert_int_equal(poll_ok(rig->send, &bytes), got);
		assert_int_equal(net_comm_consumed(rig->recv, got), TCPX_OK);
		got++;
	}
	net_comm_counts(rig->recv, &counts);
	assert_int_equal(counts.posted, count);
	assert_int_equal(counts.done, count);
	assert_int_equal(counts.consumed, count);
	net_comm_counts(rig->send, &counts);
	assert_int_equal(counts.posted, count);
	assert_int_equal(counts.consumed, count);
}

static void every_version(void **state)
{
	static const char *const paths[] = {
		RIG_FAKE("v6"),	 RIG_FAKE("v7"),  RIG_FAKE("v8"),  RIG_FAKE("v9"),
		RIG_FAKE("v10"), RIG_FAKE("v11"), RIG_FAKE("v12"), RIG_FAKE("no-consumed")};

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct net_comm_counts counts;
		struct rig rig;

		rig_comms(&rig, paths[i]);
		rig.fake->tells_size = i % 2;
		rig.fake->null_every = i % 3 ? 4 : 0;
		stream_messages(&rig, 200, i % 2);
		net_comm_counts(rig.send, &counts);
		assert_true((counts.put_off > 0) == (i % 3 > 0));
		rig.fake->null_every = 0;
		rig_end(&rig);
	}
}

/* More than the window is not asked of the plugin; nor what is not the oldest, or too early. */
static void rules(void **state)
{
	uint64_t number;
	size_t bytes;
	struct rig rig;

	(void)state;
	rig_comms(&rig, RIG_FAKE("v7"));
	assert_int_equal(net_comm_poll(rig.recv, &number, &bytes), TCPX_IN_PROGRESS);
	for (unsigned i = 0; i < RIG_WINDOW; i++) {
		recv_ok(&rig, 0, 100);
		send_ok(&rig, 0, 100);
	}
	assert_int_equal(net_comm_recv(rig.recv, rig.recv_mr, rig.in, 100, &number),
			 TCPX_ERR_AGAIN);
	assert_int_equal(net_comm_send(rig.send, rig.send_mr, rig.out, 100, &number),
			 TCPX_ERR_AGAIN);
	assert_int_equal(net_comm_consumed(rig.recv, 0), TCPX_ERR_STATE); /* not done */
	for (unsigned i = 0; i < RIG_WINDOW; i++)
		assert_int_equal(poll_ok(rig.recv, &bytes), i);
	/* Done, and not consumed: the slot is taken. */
	assert_int_equal(net_comm_recv(rig.recv, rig.recv_mr, rig.in, 100, &number),
			 TCPX_ERR_AGAIN);
	assert_int_equal(net_comm_poll(rig.recv, &number, &bytes), TCPX_IN_PROGRESS);
	assert_int_equal(net_comm_consumed(rig.recv, 1), TCPX_ERR_STATE); /* not the oldest */
	assert_int_equal(net_comm_consumed(rig.recv, 0), TCPX_OK);
	assert_int_equal(net_comm_consumed(rig.recv, 0), TCPX_ERR_STATE); /* twice */
	recv_ok(&rig, 0, 100);
	assert_int_equal(net_comm_slot(rig.recv, 17), 1);

	/* The wrong direction, the other comm's memory, outside of it. */
	assert_int_equal(net_comm_recv(rig.send, rig.send_mr, rig.out, 1, &number), TCPX_ERR_STATE);
	assert_int_equal(net_comm_send(rig.send, rig.recv_mr, rig.in, 1, &number), TCPX_ERR_STATE);
	for (unsigned i = 0; i < 2; i++)
		poll_ok(rig.send, &bytes);
	assert_int_equal(
		net_comm_send(rig.send, rig.send_mr, rig.out + 1, sizeof(rig.out), &number),
		TCPX_ERR_RANGE);
	assert_int_equal(net_comm_send(rig.send, rig.send_mr, rig.out - 1, 1, &number),
			 TCPX_ERR_RANGE);
	/* Closing consumes what is done, in order. */
	rig_end(&rig);
	assert_int_equal(rig.fake->last_consumed, RIG_WINDOW - 1);
}

static void errors_end_it(void **state)
{
	struct net_comm_counts counts;
	uint64_t number;
	size_t bytes;
	struct rig rig;

	(void)state;
	rig_comms(&rig, RIG_FAKE("v11"));
	send_ok(&rig, 0, 10);
	rig.fake->warns = 1;
	rig.fake->isend_rc = 2;
	assert_int_equal(net_comm_send(rig.send, rig.send_mr, rig.out, 10, &number),
			 TCPX_ERR_CHANNEL_LOST);
	assert_said("channel 3, NIC fake0, peer rank1: isend of message 1: rc 2");
	assert_said("flood 1");
	rig.fake->isend_rc = rig.fake->warns = 0;
	assert_int_equal(net_comm_poll(rig.send, &number, &bytes), TCPX_ERR_CHANNEL_LOST);
	assert_said("isend of message 1");
	net_comm_counts(rig.send, &counts);
	assert_int_equal(counts.posted, 1);

	recv_ok(&rig, 0, 10);
	rig.fake->test_rc = 3;
	assert_int_equal(net_comm_poll(rig.recv, &number, &bytes), TCPX_ERR_CHANNEL_LOST);
	assert_said("test of message 0: rc 3");
	rig.fake->test_rc = 0;
	assert_int_equal(net_comm_consumed(rig.recv, 0), TCPX_ERR_CHANNEL_LOST);
	rig_end(&rig);
}

static void longer_than_its_receive(void **state)
{
	uint64_t number;
	size_t bytes;
	struct rig rig;

	(void)state;
	rig_comms(&rig, RIG_FAKE("v9"));
	rig.fake->tells_size = 1;
	rig.fake->tells_more = 1;
	recv_ok(&rig, 0, 10);
	send_ok(&rig, 0, 10);
	assert_int_equal(net_comm_poll(rig.recv, &number, &bytes), TCPX_ERR_TRUNCATED);
	assert_said("message 0 has 11 bytes, room is 10");
	rig.fake->tells_size = rig.fake->tells_more = 0;
	rig_end(&rig);
}

static void *drive(void *arg)
{
	struct rig *rig = arg;
	uint64_t number;
	size_t bytes;

	return (void *)(intptr_t)net_comm_poll(rig->send, &number, &bytes);
}

static void one_thread(void **state)
{
	pthread_t thread;
	struct rig rig;
	void *status;

	(void)state;
	rig_comms(&rig, RIG_FAKE("v7"));
	send_ok(&rig, 0, 10);
	assert_int_equal(pthread_create(&thread, NULL, drive, &rig), 0);
	assert_int_equal(pthread_join(thread, &status), 0);
	assert_int_equal((intptr_t)status, TCPX_ERR_STATE);
	rig_end(&rig);
}

static void mask_pipe(int how)
{
	sigset_t pipe;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(how, &pipe, NULL);
}

/* With the default action, which would end the process. */
static void broken_pipe(void **state)
{
	uint64_t number;
	struct rig rig;

	(void)state;
	assert_ptr_equal(signal(SIGPIPE, SIG_DFL), SIG_DFL);
	rig_comms(&rig, RIG_FAKE("v7"));
	rig.fake->pipe = 1;
	mask_pipe(SIG_UNBLOCK);
	assert_int_equal(net_comm_send(rig.send, rig.send_mr, rig.out, 1, &number), TCPX_ERR_STATE);
	assert_said("SIGPIPE");
	mask_pipe(SIG_BLOCK);
	send_ok(&rig, 0, 10);
	rig.fake->pipe = 0;
	rig_end(&rig);
}

static int blocked(void **state)
{
	(void)state;
	mask_pipe(SIG_BLOCK);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_version), cmocka_unit_test(rules),
		cmocka_unit_test(errors_end_it), cmocka_unit_test(longer_than_its_receive),
		cmocka_unit_test(one_thread),	 cmocka_unit_test(broken_pipe),
	};

	return cmocka_run_group_tests(tests, blocked, NULL);
}

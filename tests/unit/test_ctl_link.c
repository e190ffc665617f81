/* SPDX-License-Identifier: Apache-2.0 */
/* Frames over the control link: whole, in order, bounded, and one reason when it is lost. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "ctl/conn.h"
#include "wire/frame_codec.h"

struct end {
	struct sys_loop *loop;
	struct ctl_link *link;
	int nframes, nlost;
	uint64_t bytes;
	tcpx_status lost;
	tcpx_status verdict; /* what frame returns */
	int close_in_frame, close_in_lost, echo, bad;
};

static struct sys_loop loop;
static bool out_of_memory;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
	return out_of_memory ? NULL : __real_malloc(bytes);
}

/* Frame number seq with a payload made of it. */
static struct frame numbered(uint64_t seq, uint8_t *payload, uint32_t bytes)
{
	struct frame frame = {.type = FRAME_LOCAL, .payload_bytes = bytes, .linear = seq};

	for (uint32_t i = 0; i < bytes; i++)
		payload[i] = (uint8_t)(seq * 7 + i);
	return frame;
}

static tcpx_status on_frame(void *arg, const struct frame *frame, const void *payload)
{
	static uint8_t want[FRAME_CONTROL_MAX];
	struct end *end = arg;

	(void)numbered((uint64_t)end->nframes, want, frame->payload_bytes);
	if (frame->linear != (uint64_t)end->nframes ||
	    (frame->payload_bytes && memcmp(want, payload, frame->payload_bytes)) ||
	    (!frame->payload_bytes && payload))
		end->bad++;
	end->nframes++;
	end->bytes += frame->payload_bytes;
	if (end->echo && ctl_link_send(end->link, frame, payload) != TCPX_OK)
		end->bad++;
	if (end->close_in_frame) {
		ctl_link_close(end->link);
		end->link = NULL;
	}
	return end->verdict;
}

static void on_lost(void *arg, tcpx_status status, int err)
{
	struct end *end = arg;

	(void)err;
	end->nlost++;
	end->lost = status;
	if (end->close_in_lost) {
		ctl_link_close(end->link);
		end->link = NULL;
	}
}

static const struct ctl_link_ops ops = {.frame = on_frame, .lost = on_lost};

static void open_end(struct end *end, int fd)
{
	memset(end, 0, sizeof(*end));
	assert_int_equal(ctl_link_open(&loop, fd, &ops, end, &end->link), TCPX_OK);
}

static void make_pair(int fds[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
}

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		int64_t hang = clock_now_ns() + 20 * CLOCK_S_NS;                                   \
		while (!(condition)) {                                                             \
			assert_true(clock_now_ns() < hang);                                        \
			sys_loop_round(&loop, 10 * CLOCK_MS_NS);                                   \
		}                                                                                  \
	} while (0)

static int setup(void **state)
{
	(void)state;
	log_sink_set(NULL, NULL, TCPX_LOG_ERROR);
	return sys_loop_init(&loop);
}

static int teardown(void **state)
{
	(void)state;
	sys_loop_fini(&loop);
	return 0;
}

static void frames_of_every_size_arrive_in_order(void **state)
{
	static const uint32_t sizes[] = {
		0, 1, 63, 64, 65, 4096, FRAME_CONTROL_MAX - 1, FRAME_CONTROL_MAX};
	static uint8_t payload[FRAME_CONTROL_MAX];
	struct end a, b;
	int fds[2], sent = 0;

	(void)state;
	make_pair(fds);
	open_end(&a, fds[0]);
	open_end(&b, fds[1]);
	b.echo = 1;
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			struct frame frame = numbered((uint64_t)sent, payload, sizes[i]);

			while (ctl_link_send(a.link, &frame, payload) == TCPX_ERR_LIMIT)
				sys_loop_round(&loop, CLOCK_MS_NS);
			sent++;
		}
	}
	UNTIL(a.nframes == sent);
	assert_int_equal(b.nframes, sent);
	assert_int_equal(a.bad + b.bad, 0);
	assert_int_equal(a.nlost + b.nlost, 0);
	ctl_link_close(a.link);
	UNTIL(b.nlost == 1);
	assert_int_equal(b.lost, TCPX_ERR_PEER_CLOSED);
	ctl_link_close(b.link);
}

static void frames_may_come_byte_by_byte(void **state)
{
	uint8_t bytes[FRAME_HEADER_BYTES + 10], payload[10];
	struct frame frame = numbered(0, payload, sizeof(payload));
	struct end b;
	int fds[2];

	(void)state;
	make_pair(fds);
	open_end(&b, fds[1]);
	wire_frame_encode(&frame, bytes);
	memcpy(bytes + FRAME_HEADER_BYTES, payload, sizeof(payload));
	for (size_t i = 0; i < sizeof(bytes); i++) {
		assert_int_equal(b.nframes, 0);
		assert_int_equal(write(fds[0], bytes + i, 1), 1);
		sys_loop_round(&loop, CLOCK_MS_NS);
	}
	UNTIL(b.nframes == 1);
	assert_int_equal(b.bad, 0);
	ctl_link_close(b.link);
	close(fds[0]);
}

static void the_output_queue_is_bounded(void **state)
{
	static uint8_t payload[FRAME_CONTROL_MAX];
	struct end a, b;
	int fds[2], sent = 0;
	struct frame frame;

	(void)state;
	make_pair(fds);
	open_end(&a, fds[0]);
	for (;;) { /* nobody reads */
		tcpx_status status;

		frame = numbered((uint64_t)sent, payload, sizeof(payload));
		status = ctl_link_send(a.link, &frame, payload);
		if (status == TCPX_ERR_LIMIT)
			break;
		assert_int_equal(status, TCPX_OK);
		assert_true(++sent < 1000);
	}
	assert_true(sent >= 15); /* 1 MiB and what the socket took */
	for (int i = 0; i < 10; i++)
		sys_loop_round(&loop, 0);
	assert_int_equal(a.nlost, 0);
	open_end(&b, fds[1]); /* now somebody does: nothing was cut */
	UNTIL(b.nframes == sent);
	assert_int_equal(b.bad, 0);
	assert_int_equal(ctl_link_send(a.link, &frame, payload), TCPX_OK);
	UNTIL(b.nframes == sent + 1);
	ctl_link_close(a.link);
	ctl_link_close(b.link);
}

/* The peer may wait for the frame: better another link than one with a hole. */
static void a_frame_without_memory_ends_it(void **state)
{
	uint8_t payload[8];
	struct frame frame = numbered(0, payload, sizeof(payload));
	struct end a;
	int fds[2];

	(void)state;
	make_pair(fds);
	open_end(&a, fds[0]);
	while (write(fds[0], "", 1) > 0) /* no room: the next frame must be kept */
		;
	out_of_memory = true;
	assert_int_equal(ctl_link_send(a.link, &frame, payload), TCPX_ERR_NO_MEMORY);
	out_of_memory = false;
	assert_int_equal(a.nlost, 0);
	assert_int_equal(ctl_link_send(a.link, &frame, payload), TCPX_ERR_NO_MEMORY);
	UNTIL(a.nlost == 1);
	assert_int_equal(a.lost, TCPX_ERR_NO_MEMORY);
	ctl_link_close(a.link);
	close(fds[1]);
}

static void close_sends_what_goes_at_once(void **state)
{
	uint8_t payload[8];
	struct frame frame = numbered(0, payload, sizeof(payload));
	struct end a, b;
	int fds[2];

	(void)state;
	make_pair(fds);
	open_end(&a, fds[0]);
	open_end(&b, fds[1]);
	assert_int_equal(ctl_link_send(a.link, &frame, payload), TCPX_OK);
	ctl_link_close(a.link);
	UNTIL(b.nlost == 1);
	assert_int_equal(b.nframes, 1);
	ctl_link_close(b.link);
}

static void lost_with(const void *bytes, size_t len, tcpx_status want)
{
	struct end b;
	int fds[2];

	make_pair(fds);
	open_end(&b, fds[1]);
	b.close_in_lost = 1;
	assert_int_equal(write(fds[0], bytes, len), (ssize_t)len);
	if (want == TCPX_ERR_PEER_CLOSED)
		close(fds[0]);
	UNTIL(b.nlost == 1);
	assert_int_equal(b.lost, want);
	assert_int_equal(b.nframes, 0);
	for (int i = 0; i < 5; i++)
		sys_loop_round(&loop, 0);
	assert_int_equal(b.nlost, 1);
	if (want != TCPX_ERR_PEER_CLOSED)
		close(fds[0]);
}

static void malformed_frames_end_it(void **state)
{
	uint8_t bytes[FRAME_HEADER_BYTES], garbage[FRAME_HEADER_BYTES];
	struct frame frame = {.type = FRAME_HEARTBEAT};

	(void)state;
	memset(garbage, 0x5a, sizeof(garbage));
	lost_with(garbage, sizeof(garbage), TCPX_ERR_PROTOCOL);
	for (size_t bit = 0; bit < sizeof(bytes) * 8; bit++) {
		wire_frame_encode(&frame, bytes);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		lost_with(bytes, sizeof(bytes), TCPX_ERR_PROTOCOL);
	}
	/* allowed on a data channel only: payload or table too long for here */
	frame = (struct frame){.type = FRAME_SDATA, .payload_bytes = FRAME_CONTROL_MAX + 1};
	wire_frame_encode(&frame, bytes);
	lost_with(bytes, sizeof(bytes), TCPX_ERR_PROTOCOL);
	frame = (struct frame){.type = FRAME_DATA, .payload_bytes = 8, .table_bytes = 8};
	wire_frame_encode(&frame, bytes);
	lost_with(bytes, sizeof(bytes), TCPX_ERR_PROTOCOL);
	lost_with(bytes, sizeof(bytes) - 1, TCPX_ERR_PEER_CLOSED); /* cut */
}

static void the_callers_verdict_ends_it(void **state)
{
	uint8_t payload[4];
	struct frame frame = numbered(0, payload, sizeof(payload));
	struct end a, b;
	int fds[2];

	(void)state;
	make_pair(fds);
	open_end(&a, fds[0]);
	open_end(&b, fds[1]);
	b.verdict = TCPX_ERR_PEER_RESTARTED;
	assert_int_equal(ctl_link_send(a.link, &frame, payload), TCPX_OK);
	assert_int_equal(ctl_link_send(a.link, &frame, payload), TCPX_OK);
	UNTIL(b.nlost == 1);
	assert_int_equal(b.lost, TCPX_ERR_PEER_RESTARTED);
	assert_int_equal(b.nframes, 1);
	assert_int_equal(ctl_link_send(b.link, &frame, payload), TCPX_ERR_STATE);
	ctl_link_close(b.link);
	ctl_link_close(a.link);
}

static void a_frame_may_close_the_link(void **state)
{
	uint8_t payload[4];
	struct frame frame = numbered(0, payload, sizeof(payload));
	struct end a, b;
	int fds[2];

	(void)state;
	make_pair(fds);
	open_end(&a, fds[0]);
	open_end(&b, fds[1]);
	b.close_in_frame = 1;
	for (int i = 0; i < 3; i++)
		assert_int_equal(ctl_link_send(a.link, &frame, payload), TCPX_OK);
	UNTIL(a.nlost == 1);
	assert_int_equal(b.nframes, 1);
	assert_int_equal(b.nlost, 0);
	ctl_link_close(a.link);
}

/* The peer said something, then went away; our send fails, but its words still count. */
static void last_words_are_heard_before_a_failed_send(void **state)
{
	uint8_t bytes[FRAME_HEADER_BYTES];
	struct frame frame = {.type = FRAME_GOODBYE};
	struct end a;
	int fds[2];

	(void)state;
	make_pair(fds);
	open_end(&a, fds[0]);
	wire_frame_encode(&frame, bytes);
	assert_int_equal(write(fds[1], bytes, sizeof(bytes)), (ssize_t)sizeof(bytes));
	close(fds[1]);
	assert_true(ctl_link_send(a.link, &frame, NULL) < 0);
	assert_int_equal(a.nlost, 0); /* never from inside a send */
	UNTIL(a.nlost == 1);
	assert_int_equal(a.nframes, 1);
	ctl_link_close(a.link);
}

static void too_much_is_refused(void **state)
{
	struct frame frame = {.type = FRAME_LOCAL, .payload_bytes = FRAME_CONTROL_MAX + 1};
	struct end a;
	int fds[2];

	(void)state;
	make_pair(fds);
	open_end(&a, fds[0]);
	assert_int_equal(ctl_link_send(a.link, &frame, ""), TCPX_ERR_INVALID);
	assert_int_equal(a.nlost, 0);
	ctl_link_close(a.link);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_of_every_size_arrive_in_order),
		cmocka_unit_test(frames_may_come_byte_by_byte),
		cmocka_unit_test(the_output_queue_is_bounded),
		cmocka_unit_test(a_frame_without_memory_ends_it),
		cmocka_unit_test(close_sends_what_goes_at_once),
		cmocka_unit_test(malformed_frames_end_it),
		cmocka_unit_test(the_callers_verdict_ends_it),
		cmocka_unit_test(a_frame_may_close_the_link),
		cmocka_unit_test(last_words_are_heard_before_a_failed_send),
		cmocka_unit_test(too_much_is_refused),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

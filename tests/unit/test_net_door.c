/* SPDX-License-Identifier: Apache-2.0 */
/* The door of same-host channels: dials, refusals, strangers and their hellos, killed peers. */
#include "door_rig.h"

static void dial_arrives(void **state)
{
	uint8_t nonce[LOCAL_NONCE_BYTES];
	struct net_chan *chan = NULL;
	struct door door;

	(void)state;
	memset(nonce, 0xa5, sizeof(nonce));
	door_open(&door);
	assert_int_equal(local_dial(door.name, nonce, 7, 99, RING, &chan), TCPX_OK);
	assert_int_equal(try_send(chan, 5000), TCPX_OK); /* before anybody accepted */
	while (!door.arrivals)
		sys_loop_round(&door.loop, -1);
	assert_memory_equal(door.nonce, nonce, sizeof(nonce));
	assert_int_equal(door.channel, 7);
	assert_int_equal(door.epoch, 99);
	assert_int_equal(try_recv(door.chan, 5000), TCPX_OK);
	assert_int_equal(try_send(door.chan, 1), TCPX_OK);
	assert_int_equal(try_recv(chan, 1), TCPX_OK);
	chan->ops->close(chan);
	door_close(&door);
}

static void refused_nonce_closes(void **state)
{
	uint8_t nonce[LOCAL_NONCE_BYTES] = {0};
	struct net_chan *chan = NULL;
	struct door door;

	(void)state;
	door_open(&door);
	door.keep = 0;
	assert_int_equal(local_dial(door.name, nonce, 0, 0, RING, &chan), TCPX_OK);
	while (!door.arrivals)
		sys_loop_round(&door.loop, -1);
	assert_int_equal(try_recv(chan, 1), TCPX_ERR_PEER_CLOSED);
	assert_int_equal(try_send(chan, 1), TCPX_ERR_PEER_CLOSED);
	chan->ops->close(chan);
	door_close(&door);
}

static void nobody_there_is_unreachable(void **state)
{
	uint8_t nonce[LOCAL_NONCE_BYTES] = {0};
	struct net_chan *chan = NULL;

	(void)state;
	assert_int_equal(local_dial("tcpx-nobody-has-this-name", nonce, 0, 0, RING, &chan),
			 TCPX_ERR_UNREACHABLE);
	assert_int_equal(local_dial("x", nonce, 0, 0, 100, &chan), TCPX_ERR_INVALID);
	assert_int_equal(local_dial("x", nonce, 0, 0, RING + 1, &chan), TCPX_ERR_INVALID);
	assert_null(chan);
}

/* What a dial that waits for the listener's word was told. */
struct told {
	int calls;
	tcpx_status status;
	struct net_chan *chan;
};

static void dialled(void *arg, tcpx_status status, struct net_chan *chan)
{
	struct told *told = arg;

	told->calls++;
	told->status = status;
	told->chan = chan;
}

static void taken_dial_is_a_channel(void **state)
{
	uint8_t nonce[LOCAL_NONCE_BYTES] = {0};
	struct transport_dial *dial;
	struct told told = {0};
	struct door door;

	(void)state;
	door_open(&door);
	assert_int_equal(
		local_dial_start(&door.loop, door.name, nonce, 3, 5, RING, dialled, &told, &dial),
		TCPX_OK);
	assert_int_equal(told.calls, 0);
	while (!told.calls)
		sys_loop_round(&door.loop, -1);
	assert_int_equal(told.status, TCPX_OK);
	assert_int_equal(door.arrivals, 1);
	assert_int_equal(try_send(told.chan, 5000), TCPX_OK);
	assert_int_equal(try_recv(door.chan, 5000), TCPX_OK);
	assert_int_equal(try_send(door.chan, 700), TCPX_OK);
	assert_int_equal(try_recv(told.chan, 700), TCPX_OK);
	told.chan->ops->close(told.chan);
	door_close(&door);
}

/* A listener that says one byte, or nothing, and closes. */
static void dial_to_one_that_says(const char *bytes, size_t count, tcpx_status want)
{
	uint8_t nonce[LOCAL_NONCE_BYTES] = {0};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
	char name[LOCAL_NAME_MAX] = "tcpx-test-";
	struct transport_dial *dial;
	struct told told = {0};
	struct sys_loop loop;
	struct sockaddr_un addr;
	unsigned len;

	snprintf(name + strlen(name), sizeof(name) - strlen(name), "%d", (int)getpid());
	len = local_address(name, &addr);
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(sys_loop_init(&loop), TCPX_OK);
	assert_int_equal(local_dial_start(&loop, name, nonce, 0, 0, RING, dialled, &told, &dial),
			 TCPX_OK);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	if (count)
		assert_int_equal(send(fd, bytes, count, MSG_NOSIGNAL), count);
	close(fd);
	while (!told.calls)
		sys_loop_round(&loop, -1);
	assert_int_equal(told.status, want);
	assert_null(told.chan);
	/* One that is cancelled tells nothing. */
	assert_int_equal(local_dial_start(&loop, name, nonce, 0, 0, RING, dialled, &told, &dial),
			 TCPX_OK);
	local_dial_cancel(dial);
	sys_loop_round(&loop, 0);
	assert_int_equal(told.calls, 1);
	close(listener);
	sys_loop_fini(&loop);
}

static void refused_dial_is_told(void **state)
{
	static const char refused = LOCAL_ANSWER_REFUSED, other = 77;

	(void)state;
	dial_to_one_that_says(&refused, 1, TCPX_ERR_REFUSED);
	assert_non_null(strstr(error_last()->what, "users"));
	dial_to_one_that_says(&other, 1, TCPX_ERR_PEER_CLOSED);
	dial_to_one_that_says(NULL, 0, TCPX_ERR_PEER_CLOSED);
}

static int memory_of(size_t bytes, unsigned seals)
{
	int fd = memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static int open_fds(void)
{
	int count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void strangers_are_thrown_out(void **state)
{
	static const size_t whole = LOCAL_HEADER_BYTES + 2 * RING;
	struct local_hello good = {
		.magic = LOCAL_MAGIC, .version = LOCAL_VERSION, .ring_bytes = RING};
	struct door door;
	int before;

	(void)state;
	door_open(&door);
	before = open_fds();
	for (int row = 0; row < 9; row++) {
		struct local_hello hello = good;
		int memory = memory_of(whole, F_SEAL_SHRINK), stranger = knock(&door), nfds = 1;

		switch (row) {
		case 0:
			hello.magic++;
			break;
		case 1:
			hello.version++;
			break;
		case 2: /* larger than the memory passed */
			hello.ring_bytes *= 2;
			break;
		case 3:
			hello.ring_bytes--;
			break;
		case 4:
			hello.ring_bytes = UINT64_MAX / 2 + 1;
			break;
		case 5: /* could shrink under us */
			close(memory);
			memory = memory_of(whole, F_SEAL_GROW);
			break;
		case 6:
			nfds = 0;
			break;
		case 7: /* no memory at all */
			close(memory);
			memory = open("/dev/null", O_RDWR | O_CLOEXEC);
			break;
		case 8: /* cannot be written */
			close(memory);
			memory = memory_of(whole, F_SEAL_SHRINK | F_SEAL_WRITE);
			break;
		}
		show(stranger, &hello, sizeof(hello), &memory, nfds);
		until_thrown_out(&door, stranger);
		close(memory);
		assert_int_equal(door.arrivals, 0);
		assert_int_equal(open_fds(), before);
	}
	door_close(&door);
}

static char said[256];

static void keep_line(void *arg, enum tcpx_log_level level, const char *line)
{
	(void)arg;
	if (level == TCPX_LOG_WARN)
		snprintf(said, sizeof(said), "%s", line);
}

/* A hello that is refused is not said to be missing. */
static void why_strangers_are_thrown_out(void **state)
{
	struct local_hello hello = {
		.magic = LOCAL_MAGIC, .version = LOCAL_VERSION + 1, .ring_bytes = RING};
	struct door door;
	int stranger;

	(void)state;
	log_sink_set(keep_line, NULL, TCPX_LOG_WARN);
	door_open(&door);
	stranger = knock(&door);
	show(stranger, &hello, sizeof(hello), NULL, 0);
	until_thrown_out(&door, stranger);
	assert_non_null(strstr(said, "connection dropped: its hello is of another version"));
	stranger = knock(&door);
	show(stranger, &hello, sizeof(hello) - 1, NULL, 0);
	shutdown(stranger, SHUT_WR);
	until_thrown_out(&door, stranger);
	assert_non_null(strstr(said, "connection dropped: it ended before its hello"));
	door_close(&door);
	log_sink_set(NULL, NULL, TCPX_LOG_WARN);
}

/* More descriptors than asked for, in every piece of a hello that comes byte by byte. */
static void hello_in_pieces_with_many_fds(void **state)
{
	struct local_hello hello = {
		.magic = LOCAL_MAGIC, .version = LOCAL_VERSION, .ring_bytes = RING};
	int memory = memory_of(LOCAL_HEADER_BYTES + 2 * RING, F_SEAL_SHRINK), before;
	int fds[4] = {memory, memory, memory, memory}, stranger;
	struct door door;

	(void)state;
	door_open(&door);
	before = open_fds();
	stranger = knock(&door);
	for (size_t i = 0; i < sizeof(hello); i++) {
		show(stranger, (char *)&hello + i, 1, fds, 4);
		if (i % 7 == 0)
			sys_loop_round(&door.loop, 0);
	}
	while (!door.arrivals)
		sys_loop_round(&door.loop, -1);
	assert_int_equal(open_fds(), before + 2); /* both ends of the socket */
	close(stranger);
	close(memory);
	door_close(&door);
}

static void killed_peer_is_reset_after_its_bytes(void **state)
{
	uint8_t nonce[LOCAL_NONCE_BYTES] = {0};
	struct door door;
	uint32_t events;
	pid_t child;
	int epfd, status;

	(void)state;
	door_open(&door);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		struct net_chan *chan = NULL;

		if (local_dial(door.name, nonce, 0, 0, RING, &chan) || try_send(chan, 5000))
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	while (!door.arrivals)
		sys_loop_round(&door.loop, -1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	epfd = chan_epoll(door.chan);
	assert_int_equal(try_recv(door.chan, 4000), TCPX_OK);
	assert_int_equal(try_recv(door.chan, 1000), TCPX_OK);
	while (try_recv(door.chan, 1) == TCPX_IN_PROGRESS)
		chan_sleep(door.chan, epfd, 1, 0);
	assert_int_equal(try_recv(door.chan, 1), TCPX_ERR_PEER_RESET);
	assert_int_equal(try_send(door.chan, 1), TCPX_ERR_PEER_RESET);
	assert_int_equal(door.chan->ops->arm(door.chan, 1, 1, &events), 1);
	close(epfd);
	door_close(&door);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dial_arrives),
		cmocka_unit_test(refused_nonce_closes),
		cmocka_unit_test(nobody_there_is_unreachable),
		cmocka_unit_test(taken_dial_is_a_channel),
		cmocka_unit_test(refused_dial_is_told),
		cmocka_unit_test(strangers_are_thrown_out),
		cmocka_unit_test(why_strangers_are_thrown_out),
		cmocka_unit_test(hello_in_pieces_with_many_fds),
		cmocka_unit_test(killed_peer_is_reset_after_its_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that a local listener hands out: to whom, how many, and what a liar gets for one. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "descriptors.h"
#include "net/local/local_priv.h"
#include "unit.h"

#define NUMBER 0x123456789abcull

/* A listener that has one descriptor, and somebody who asks. */
struct house {
	struct sys_loop loop;
	struct transport_listener *listener;
	struct local_fetch *fetch;
	char name[LOCAL_NAME_MAX];
	uint8_t nonce[LOCAL_NONCE_BYTES];
	int held, got;
	unsigned asked, ends, before;
	tcpx_status status;
};

static int nobody_arrives(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
			  uint32_t epoch, struct net_chan *chan)
{
	(void)arg;
	(void)nonce;
	(void)channel;
	(void)epoch;
	(void)chan;
	return 0;
}

static int house_asked(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint64_t number)
{
	struct house *house = arg;

	house->asked++;
	return number == NUMBER && !memcmp(nonce, house->nonce, LOCAL_NONCE_BYTES) ? house->held
										   : -1;
}

static void house_fetched(void *arg, tcpx_status status, int fd)
{
	struct house *house = arg;

	house->ends++;
	house->status = status;
	house->got = fd;
}

static int nobody_expected(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES])
{
	(void)arg;
	(void)nonce;
	return 0;
}

static const struct transport_listen_ops house_ops = {
	.expected = nobody_expected, .arrived = nobody_arrives, .asked = house_asked};

static void house_open(struct house *house)
{
	memset(house, 0, sizeof(*house));
	memset(house->nonce, 0x5a, sizeof(house->nonce));
	house->got = -1;
	assert_int_equal(sys_loop_init(&house->loop), TCPX_OK);
	assert_int_equal(
		local_listener_open(&house->loop, &house_ops, house, house->name, &house->listener),
		TCPX_OK);
	house->held = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	assert_true(house->held >= 0);
	house->before = open_descriptors();
}

/* With what it has open as it was. */
static void house_close(struct house *house)
{
	assert_int_equal(open_descriptors(), house->before);
	close(house->held);
	local_listener_close(house->listener);
	sys_loop_fini(&house->loop);
}

static tcpx_status house_ask(struct house *house, const char *name, uint64_t number)
{
	return local_fetch_start(&house->loop, name, house->nonce, number, house_fetched, house,
				 &house->fetch);
}

static void house_run(struct house *house, unsigned ends)
{
	while (house->ends < ends)
		sys_loop_round(&house->loop, -1);
}

static void who_asks_right_gets_it(void **state)
{
	struct stat want, got;
	struct house house;

	(void)state;
	house_open(&house);
	for (unsigned i = 1; i <= 3; i++) { /* as often as it asks */
		assert_int_equal(house_ask(&house, house.name, NUMBER), TCPX_OK);
		assert_int_equal(house.ends, i - 1);
		house_run(&house, i);
		assert_int_equal(house.status, TCPX_OK);
		assert_int_equal(fstat(house.held, &want) | fstat(house.got, &got), 0);
		assert_int_equal(want.st_rdev, got.st_rdev);
		assert_int_not_equal(house.got, house.held);
		assert_int_equal(fcntl(house.got, F_GETFD), FD_CLOEXEC);
		close(house.got);
	}
	house_close(&house);
}

static void who_asks_wrong_gets_none(void **state)
{
	struct house house;

	(void)state;
	house_open(&house);
	assert_int_equal(house_ask(&house, house.name, NUMBER + 1), TCPX_OK);
	house_run(&house, 1);
	assert_int_equal(house.status, TCPX_ERR_AGAIN);
	assert_int_equal(house.got, -1);
	assert_int_equal(local_fetch_start(&house.loop, house.name, (uint8_t[LOCAL_NONCE_BYTES]){1},
					   NUMBER, house_fetched, &house, &house.fetch),
			 TCPX_OK);
	house_run(&house, 2);
	assert_int_equal(house.status, TCPX_ERR_AGAIN);
	assert_int_equal(house.asked, 2);
	assert_int_equal(house_ask(&house, "tcpx-nobody-has-this-name", NUMBER),
			 TCPX_ERR_UNREACHABLE);
	house_close(&house);
}

static void who_leaves_hears_nothing(void **state)
{
	struct house house;

	(void)state;
	house_open(&house);
	assert_int_equal(house_ask(&house, house.name, NUMBER), TCPX_OK);
	local_fetch_cancel(house.fetch);
	while (!house.asked) /* the question was there already; its answer goes nowhere */
		sys_loop_round(&house.loop, -1);
	assert_int_equal(house.ends, 0);
	house_close(&house);
}

/* A listener of the test's own, which does to the asker whatever it likes. */
static int liar_open(char name[LOCAL_NAME_MAX])
{
	struct sockaddr_un addr;
	unsigned len;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(name, LOCAL_NAME_MAX, "tcpx-liar-%d", (int)getpid());
	len = local_address(name, &addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, len) | listen(fd, 4), 0);
	return fd;
}

/* So many descriptors, with so many bytes. */
static void give(int sock, int fd, unsigned count, size_t bytes)
{
	union {
		char bytes[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {(char[8]){0}, bytes};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = CMSG_SPACE(count * sizeof(int))};
	int fds[4] = {fd, fd, fd, fd};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(cmsg), fds, count * sizeof(int));
	assert_int_equal(sendmsg(sock, &msg, MSG_NOSIGNAL), bytes);
}

static void a_liar_gives_one_at_most(void **state)
{
	char name[LOCAL_NAME_MAX];
	struct house house;
	int listener;

	(void)state;
	listener = liar_open(name);
	house_open(&house);
	for (unsigned count = 1; count <= 4; count++) {
		int sock;

		assert_int_equal(house_ask(&house, name, NUMBER), TCPX_OK);
		sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		assert_true(sock >= 0);
		give(sock, house.held, count, 1 + count);
		give(sock, house.held, count, 1); /* and more, which nobody reads */
		house_run(&house, count);
		close(sock);
		assert_int_equal(house.status, TCPX_OK);
		assert_int_equal(open_descriptors(), house.before + 1);
		close(house.got);
	}
	house_close(&house);
	close(listener);
}

/* A byte without one, a hang-up, and silence, which lasts two seconds. */
static void a_liar_gives_none(void **state)
{
	char name[LOCAL_NAME_MAX];
	struct house house;
	int listener;

	(void)state;
	listener = liar_open(name);
	house_open(&house);
	for (unsigned how = 0; how < 3; how++) {
		int sock;

		assert_int_equal(house_ask(&house, name, NUMBER), TCPX_OK);
		sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		assert_true(sock >= 0);
		if (how == 0)
			assert_int_equal(send(sock, "", 1, MSG_NOSIGNAL), 1);
		if (how == 1)
			shutdown(sock, SHUT_RDWR);
		house_run(&house, how + 1);
		close(sock);
		assert_int_equal(house.status, TCPX_ERR_AGAIN);
		assert_int_equal(house.got, -1);
	}
	house_close(&house);
	close(listener);
}

/* What an asker sends along is closed, and he is answered once. */
static void a_question_brings_nothing_in(void **state)
{
	struct local_hello hello = {
		.magic = LOCAL_FETCH_MAGIC, .version = LOCAL_VERSION, .ring_bytes = NUMBER};
	struct sockaddr_un addr;
	struct house house;
	int sock, fd = -1;
	char byte;

	(void)state;
	house_open(&house);
	memcpy(hello.nonce, house.nonce, sizeof(hello.nonce));
	sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(sock, (struct sockaddr *)&addr, local_address(house.name, &addr)),
			 0);
	assert_int_equal(local_pass(sock, &hello, 10, house.held), TCPX_OK);
	assert_int_equal(local_pass(sock, (char *)&hello + 10, sizeof(hello) - 10, house.held),
			 TCPX_OK);
	while (local_pass_recv(sock, &byte, 1, &fd) < 0)
		sys_loop_round(&house.loop, -1);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(recv(sock, &byte, 1, 0), 0);
	assert_int_equal(house.asked, 1);
	close(sock);
	house_close(&house);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_asks_right_gets_it),
		cmocka_unit_test(who_asks_wrong_gets_none),
		cmocka_unit_test(who_leaves_hears_nothing),
		cmocka_unit_test(a_liar_gives_one_at_most),
		cmocka_unit_test(a_liar_gives_none),
		cmocka_unit_test(a_question_brings_nothing_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

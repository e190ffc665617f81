/* SPDX-License-Identifier: Apache-2.0 */
/* The door of same-host channels when many come, or somebody whom nobody expects. */
#include "door_rig.h"

static int maps; /* of shared memory, in this process */

void *__real_mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t off);
void *__wrap_mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t off);
void *__wrap_mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	maps += fd >= 0 && flags & MAP_SHARED;
	return __real_mmap64(addr, len, prot, flags, fd, off);
}

/* Half a hello, and more strangers than there is room for: each is thrown out, honest ones pass. */
static void crowd_does_not_lock_the_door(void **state)
{
	enum { CROWD = 100 };
	uint8_t nonce[LOCAL_NONCE_BYTES] = {0};
	struct net_chan *chan = NULL;
	int strangers[CROWD], alive = 0;
	struct door door;

	(void)state;
	door_open(&door);
	for (int i = 0; i < CROWD; i++) {
		strangers[i] = knock(&door);
		show(strangers[i], "half", 4, NULL, 0);
	}
	assert_int_equal(local_dial(door.name, nonce, 0, 0, RING, &chan), TCPX_OK);
	while (!door.arrivals)
		sys_loop_round(&door.loop, -1);
	for (int i = 0; i < CROWD; i++) {
		char byte;

		alive += recv(strangers[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
	}
	assert_in_range(alive, 1, 64);
	for (int i = 0; i < CROWD; i++) /* the rest go when their two seconds are over */
		until_thrown_out(&door, strangers[i]);
	chan->ops->close(chan);
	door_close(&door);
}

/* What somebody brings whom nobody expects is not even mapped: his memory of a wrong shape is not
 * what he goes for. */
static void unexpected_memory_is_not_looked_at(void **state)
{
	uint8_t nonce[LOCAL_NONCE_BYTES] = {1};
	struct net_chan *chan = NULL;
	struct door door;

	(void)state;
	door_open(&door);
	door.expects_nobody = 1;
	maps = 0;
	assert_int_equal(local_dial(door.name, nonce, 0, 0, RING, &chan), TCPX_OK);
	assert_int_equal(maps, 1); /* ours */
	while (!door.asked)
		sys_loop_round(&door.loop, -1);
	assert_int_equal(maps, 1);
	assert_int_equal(door.arrivals, 0);
	chan->ops->close(chan);
	door_close(&door);
}

/* One process that fills the place loses its own guests, never another one's. */
static void each_process_has_its_share(void **state)
{
	enum { CROWD = 200 };
	struct door door;
	int ours, ready[2], done[2], status;
	char byte = 0;
	pid_t pid;

	(void)state;
	door_open(&door);
	ours = knock(&door); /* the oldest of all */
	assert_int_equal(pipe(ready) | pipe(done), 0);
	pid = fork();
	if (!pid) {
		for (int i = 0; i < CROWD; i++)
			(void)knock(&door);
		_exit(write(ready[1], "", 1) != 1 || read(done[0], &byte, 1) != 1);
	}
	while (poll(&(struct pollfd){.fd = ready[0], .events = POLLIN}, 1, 1) != 1)
		sys_loop_round(&door.loop, 0);
	for (int i = 0; i < CROWD; i++)
		sys_loop_round(&door.loop, 0);
	assert_true(recv(ours, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	assert_int_equal(write(done[1], "", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(ours);
	for (int i = 0; i < 2; i++)
		close(ready[i]), close(done[i]);
	door_close(&door);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crowd_does_not_lock_the_door),
		cmocka_unit_test(unexpected_memory_is_not_looked_at),
		cmocka_unit_test(each_process_has_its_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

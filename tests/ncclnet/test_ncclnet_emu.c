/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consumer against the TCPX emulator, which counts every call that a real TCPX plugin would
 * end the process for: every version of the table, host memory and device queues, one process and
 * two, and plugins that fail.
 */
#include "ncclnet_rig.h"

#include <sys/socket.h>

#include "base/rng.h"
#include "tcpxemu/tcpxemu.h"

#define EMU_COUNT 400
#define EMU_CHUNK 65536
#define EMU_OBJECT(version) TCPXEMU_DIR "/libnccl-net-tcpxemu" version ".so"

static const char *const objects[] = {EMU_OBJECT("-v6"), EMU_OBJECT(""),     EMU_OBJECT("-v8"),
				      EMU_OBJECT("-v9"), EMU_OBJECT("-v10"), EMU_OBJECT("-v11"),
				      EMU_OBJECT("-v12")};

/* A side: the plugin, a comm or two, its memory. */
struct side {
	struct net_plugin *plugin;
	struct net_comm *send, *recv;
	struct net_mr *send_mr, *recv_mr;
	void (*set_gpu)(int gpu);
	uint64_t (*violations)(const char *name);
	void (*stats)(struct tcpxemu_stats *out);
	int type;
	char *out, *in; /* 16 slots of EMU_CHUNK bytes each */
};

static tcpx_status set_gpu(void *arg, int gpu, void **out_before)
{
	((struct side *)arg)->set_gpu(gpu);
	*out_before = NULL;
	return TCPX_OK;
}

static void unset_gpu(void *arg, int gpu, void *before)
{
	(void)gpu, (void)before;
	((struct side *)arg)->set_gpu(0);
}

static const struct net_gpu_ops emu_gpu = {set_gpu, unset_gpu};

static void side_open(struct side *side, const char *path, int type)
{
	void *dl;

	memset(side, 0, sizeof(*side));
	if (rig_get(path, RIG_GUARD_NS, &side->plugin))
		fail_msg("%s: %s", path, error_last()->what);
	dl = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	assert_non_null(dl);
	side->set_gpu = dlsym(dl, "tcpxemu_set_gpu");
	side->violations = dlsym(dl, "tcpxemu_violations");
	side->stats = dlsym(dl, "tcpxemu_stats");
	dlclose(dl);
	side->type = type;
	side->out = aligned_alloc(4096, 16 * EMU_CHUNK);
	side->in = aligned_alloc(4096, 16 * EMU_CHUNK);
	for (unsigned i = 0; i < 16 * EMU_CHUNK; i++)
		side->out[i] = (char)(i * 7 + i / 251);
}

static struct net_setup_opts side_opts(struct side *side, int64_t ns)
{
	unsigned dev;

	if (net_plugin_find(side->plugin, "eth2", &dev))
		fail_msg("%s", error_last()->what);
	return (struct net_setup_opts){.plugin = side->plugin,
				       .dev = dev,
				       .gpu = side->type == NCCLNET_PTR_CUDA ? 2 : -1,
				       .gpu_ops = &emu_gpu,
				       .gpu_arg = side,
				       .deadline_ns = clock_after(ns),
				       .channel = 1,
				       .peer = "far",
				       .window = RIG_WINDOW};
}

static struct net_comm *finish_comm(struct net_setup *setup)
{
	struct net_setup_result result = {0};

	if (net_setup_wait(setup, &result))
		fail_msg("%s", error_last()->what);
	return result.comm;
}

static void side_register(struct side *side)
{
	struct net_setup_opts opts = side_opts(side, RIG_GUARD_NS);

	if (side->send)
		side->send_mr =
			rig_register(&opts, side->send, side->out, 16 * EMU_CHUNK, side->type);
	if (side->recv)
		side->recv_mr =
			rig_register(&opts, side->recv, side->in, 16 * EMU_CHUNK, side->type);
}

/* Both ends in this process. */
static void side_pair(struct side *side)
{
	struct net_setup_opts opts = side_opts(side, RIG_GUARD_NS);
	struct net_listener *listener = rig_listen(&opts);
	struct net_setup *connect, *accept;

	assert_int_equal(net_connect_start(&opts, net_listener_handle(listener), &connect),
			 TCPX_OK);
	assert_int_equal(net_accept_start(&opts, listener, &accept), TCPX_OK);
	side->send = finish_comm(connect);
	side->recv = finish_comm(accept);
	side_register(side);
}

static void side_close(struct side *side)
{
	struct net_setup_opts opts = side_opts(side, RIG_GUARD_NS);
	struct tcpxemu_stats stats;

	if (side->send)
		assert_int_equal(rig_close_one(&opts, side->send), TCPX_OK);
	if (side->recv)
		assert_int_equal(rig_close_one(&opts, side->recv), TCPX_OK);
	side->stats(&stats);
	assert_int_equal(side->violations(NULL), 0);
	assert_int_equal(stats.pages_in_use, 0);
	assert_int_equal(stats.comms_open, 0);
	free(side->out);
	free(side->in);
	net_plugin_put(side->plugin);
}

static size_t length_of(uint64_t number)
{
	struct rng rng;

	rng_seed(&rng, number + 1);
	return number % 7 ? rng_below(&rng, EMU_CHUNK + 1) : 0;
}

static void post_send(struct side *side, uint64_t *sent)
{
	size_t bytes = length_of(*sent);
	uint64_t number;
	tcpx_status status =
		net_comm_send(side->send, side->send_mr, side->out + *sent % 16, bytes, &number);

	if (status == TCPX_OK)
		assert_int_equal(number, (*sent)++);
	else if (status != TCPX_IN_PROGRESS)
		fail_msg("%s", error_last()->what);
}

static void post_recv(struct side *side, uint64_t *posted)
{
	uint64_t number;
	tcpx_status status = net_comm_recv(side->recv, side->recv_mr,
					   side->in + *posted % 16 * EMU_CHUNK, EMU_CHUNK, &number);

	if (status == TCPX_OK)
		assert_int_equal(number, (*posted)++);
	else if (status != TCPX_IN_PROGRESS)
		fail_msg("%s", error_last()->what);
}

/* What a kernel would do: the pieces of a device queue's slot go where they belong. */
static void unpack(struct side *side, uint64_t number, size_t expected)
{
	const struct ncclnet_device_handle *device = net_comm_device(side->recv);
	char *to = side->in + number % 16 * EMU_CHUNK;
	const struct ncclnet_queue_meta *meta;
	const struct ncclnet_piece *pieces;
	struct ncclnet_queue queue;
	size_t sum = 0;

	assert_int_equal(device->type, NCCLNET_DEVICE_UNPACK);
	assert_int_equal(device->size, sizeof(queue));
	memcpy(&queue, device->handle, sizeof(queue));
	meta = (const void *)(uintptr_t)queue.meta;
	pieces = meta->pieces[net_comm_slot(side->recv, number)];
	for (uint64_t i = 0; i < meta->count[net_comm_slot(side->recv, number)]; i++) {
		assert_true(pieces[i].dst + pieces[i].len <= EMU_CHUNK);
		memcpy(to + pieces[i].dst, (const char *)(uintptr_t)queue.bounce + pieces[i].src,
		       pieces[i].len);
		sum += pieces[i].len;
	}
	assert_int_equal(sum, expected);
}

static void poll_recv(struct side *side, uint64_t *got)
{
	size_t told, bytes = length_of(*got);
	uint64_t number;
	tcpx_status status = net_comm_poll(side->recv, &number, &told);

	if (status == TCPX_IN_PROGRESS)
		return;
	if (status)
		fail_msg("%s", error_last()->what);
	assert_int_equal(number, *got);
	if (side->type == NCCLNET_PTR_CUDA)
		unpack(side, number, bytes);
	assert_memory_equal(side->in + number % 16 * EMU_CHUNK, side->out + number % 16, bytes);
	assert_int_equal(net_comm_consumed(side->recv, number), TCPX_OK);
	++*got;
}

/* Drives what the side has until count messages are through. */
static void side_stream(struct side *side, uint64_t count)
{
	uint64_t sent = 0, ended = 0, posted = 0, got = 0, number;
	tcpx_status status;
	size_t bytes;

	while ((side->send && ended < count) || (side->recv && got < count)) {
		if (side->recv && posted < count && posted - got < RIG_WINDOW)
			post_recv(side, &posted);
		if (side->send && sent < count && sent - ended < RIG_WINDOW)
			post_send(side, &sent);
		if (side->recv)
			poll_recv(side, &got);
		if (!side->send)
			continue;
		status = net_comm_poll(side->send, &number, &bytes);
		if (status && status != TCPX_IN_PROGRESS)
			fail_msg("%s", error_last()->what);
		ended += !status;
	}
}

static void run_each(int type, size_t from)
{
	for (size_t i = from; i < sizeof(objects) / sizeof(objects[0]); i++) {
		struct side side;

		side_open(&side, objects[i], type);
		side_pair(&side);
		side_stream(&side, EMU_COUNT);
		side_close(&side);
	}
}

static void host_memory(void **state)
{
	(void)state;
	run_each(NCCLNET_PTR_HOST, 0);
}

static void device_queues(void **state)
{
	(void)state;
	run_each(NCCLNET_PTR_CUDA, 1);
}

static void far_receives(int fd)
{
	struct net_setup_opts opts;
	struct net_listener *listener;
	struct net_setup *setup;
	struct side side;
	char word = 'r';

	side_open(&side, objects[1], NCCLNET_PTR_CUDA);
	opts = side_opts(&side, RIG_GUARD_NS);
	listener = rig_listen(&opts);
	if (write(fd, net_listener_handle(listener), NCCLNET_HANDLE_BYTES) != NCCLNET_HANDLE_BYTES)
		_exit(2);
	assert_int_equal(net_accept_start(&opts, listener, &setup), TCPX_OK);
	side.recv = finish_comm(setup);
	side_register(&side);
	if (write(fd, &word, 1) != 1)
		_exit(2);
	side_stream(&side, 10 * EMU_COUNT);
	side_close(&side);
}

/* The sender is told when the receiver is ready, and closes first. */
static void two_processes(void **state)
{
	uint8_t handle[NCCLNET_HANDLE_BYTES];
	struct net_setup_opts opts;
	struct net_setup *setup;
	struct side side;
	int pair[2], status;
	char word;
	pid_t pid;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	if (!pid) {
		far_receives(pair[1]);
		_exit(0);
	}
	side_open(&side, objects[1], NCCLNET_PTR_CUDA);
	opts = side_opts(&side, RIG_GUARD_NS);
	assert_int_equal(recv(pair[0], handle, sizeof(handle), MSG_WAITALL), sizeof(handle));
	assert_int_equal(net_connect_start(&opts, handle, &setup), TCPX_OK);
	side.send = finish_comm(setup);
	side_register(&side);
	assert_int_equal(recv(pair[0], &word, 1, MSG_WAITALL), 1);
	side_stream(&side, 10 * EMU_COUNT);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	side_close(&side);
	close(pair[0]);
	close(pair[1]);
}

/* Each of these in a child, for faults are read at init. */
static int comm_fails(void)
{
	struct side side;
	uint64_t sent = 0, posted = 0, number;
	tcpx_status status = TCPX_OK;
	size_t bytes;

	setenv("TCPXEMU_FAULT", "test-rc:nth=5:side=recv", 1);
	side_open(&side, objects[1], NCCLNET_PTR_HOST);
	side_pair(&side);
	while (status >= 0) {
		if (posted < RIG_WINDOW)
			post_recv(&side, &posted);
		if (sent < posted)
			post_send(&side, &sent);
		assert_true(net_comm_poll(side.send, &number, &bytes) >= 0);
		status = net_comm_poll(side.recv, &number, &bytes);
	}
	assert_int_equal(status, TCPX_ERR_CHANNEL_LOST);
	assert_said("channel 1, NIC eth2, peer far: test of message");
	assert_said("rc 2");
	return 0;
}

static int connect_never(void)
{
	struct net_setup_opts opts;
	struct net_setup *connect, *accept;
	struct net_listener *listener;
	struct net_plugin_info info;
	struct side side;

	setenv("TCPXEMU_FAULT", "connect-never", 1);
	side_open(&side, objects[1], NCCLNET_PTR_HOST);
	opts = side_opts(&side, RIG_GUARD_NS);
	listener = rig_listen(&opts);
	opts.deadline_ns = clock_after(RIG_SHORT_NS);
	assert_int_equal(net_connect_start(&opts, net_listener_handle(listener), &connect),
			 TCPX_OK);
	assert_int_equal(net_accept_start(&opts, listener, &accept), TCPX_OK);
	assert_int_equal(net_setup_wait(connect, NULL), TCPX_ERR_TIMED_OUT);
	assert_int_equal(net_setup_wait(accept, NULL), TCPX_ERR_TIMED_OUT);
	net_plugin_wait(side.plugin, 0);
	net_plugin_describe(side.plugin, &info);
	assert_int_equal(info.leaked, 2);
	assert_int_equal(side.violations(NULL), 0);
	return 0;
}

/* The receiver is gone: the emulator's helper meets SIGPIPE as the original's does. */
static int peer_gone(void)
{
	struct net_setup_opts opts;
	struct side side;
	uint64_t number;
	tcpx_status status;
	size_t bytes;

	assert_ptr_equal(signal(SIGPIPE, SIG_DFL), SIG_DFL);
	side_open(&side, objects[1], NCCLNET_PTR_HOST);
	side_pair(&side);
	opts = side_opts(&side, RIG_GUARD_NS);
	assert_int_equal(rig_close_one(&opts, side.recv), TCPX_OK);
	for (int i = 0; i < 100000; i++) {
		status = net_comm_send(side.send, side.send_mr, side.out, EMU_CHUNK, &number);
		if (status < 0 && status != TCPX_ERR_AGAIN)
			break;
		if (net_comm_poll(side.send, &number, &bytes) < 0)
			break;
	}
	assert_int_equal(rig_close_one(&opts, side.send), TCPX_OK);
	return 0;
}

static void failures(void **state)
{
	(void)state;
	assert_int_equal(in_child(comm_fails), 0);
	assert_int_equal(in_child(connect_never), 0);
	assert_int_equal(in_child(peer_gone), 0);
}

int main(void)
{
	/* Those that fork come first: a child of a process with plugins has none. */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failures),
		cmocka_unit_test(two_processes),
		cmocka_unit_test(host_memory),
		cmocka_unit_test(device_queues),
	};
	sigset_t pipe;

	setenv("NCCL_DYNAMIC_CHUNK_SIZE", "65536", 1);
	setenv("NCCL_NSOCKS_PERTHREAD", "2", 1);
	setenv("TCPXEMU_FRAG", "rand:7", 1);
	setenv("TCPXEMU_STEER", "off", 1);
	setenv("TCPXEMU_FATAL", "abort", 1);
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a plugin has little of, and who it is asked of: a bounce pool that is smaller than what is
 * under way, more posts than a comm takes, a peer beside one that fails, time, RxDM that is not
 * there or refuses. Over the TCPX emulator, on an A3 host.
 */
#include "abi/cuda.h"
#include "plugin_a3.h"
#include "plugin_said.h"

#include "fakecuda/fakecuda.h"
#include "fakerxdm.h"

#define LARGE (512u << 10) /* bytes of a message where the pool is small */
#define UNDER_WAY 10
#define POOL_PAGES 1024 /* 4 MiB */
#define WINDOW 12
#define POSTS 128

static struct fakecuda driver;

/* The emulator has no room for more, or has done so much. */
static void await_stats(uint64_t stalls, uint64_t received, uint64_t in_flight)
{
	struct tcpxemu_stats stats = side_stats();

	while (stats.stalls < stalls || stats.received_messages < received ||
	       stats.in_flight_peak < in_flight)
		side_stats_wait(&stats);
}

static void gpu_env(struct side *side)
{
	side->gpu = true;
	side->nic = a3_nic(0);
	side_env("TCPX_PLUGIN_CHANNELS", "1");
	CHECK(fakecuda_open(getenv("TCPX_CUDA_LIBRARY"), &driver) == 0);
	said_keep(TCPX_LOG_WARN);
}

/* The first writes so many messages at once while nothing is copied out of the second's pages;
 * behind that all come, and are right. */
static void flood(struct side *side, uint32_t count, uint32_t bytes,
		  void (*meanwhile)(struct side *side))
{
	tcpx_request request[POSTS];
	struct area mine, open;

	area_make(side, &mine, (uint64_t)count * bytes);
	area_make(side, &open, (uint64_t)count * bytes);
	area_swap(side, &open);
	area_fill(side, &mine, 0, mine.bytes, 3); /* the same at both ends */
	if (side->index)
		driver.hold_device(0, 1);
	side_meet(side);
	for (uint32_t i = 0; i < count && !side->index; i++) {
		tcpx_segment segment = {.local = mine.region,
					.local_offset = (uint64_t)i * bytes,
					.remote = open.remote,
					.remote_offset = (uint64_t)i * bytes,
					.length = bytes};

		request[i] = side_start(side, TCPX_OP_WRITE, &segment, 1);
	}
	if (side->index) {
		meanwhile(side);
		driver.hold_device(0, 0);
	}
	for (uint32_t i = 0; i < count && !side->index; i++)
		OK(side_end(side, request[i]));
	side_meet(side);
	CHECK_MSG(!side->index || area_is(side, &open, 0, open.bytes, 3), "wrong bytes came");
	CHECK_EQ(said_count("channel "), 0); /* none was lost */
	side_meet(side);
	area_free(side, &mine);
	area_free(side, &open);
	side_close(side);
}

/* ---- a pool of 4 MiB, 5 MiB under way ---- */

static void stalled(struct side *side)
{
	(void)side;
	await_stats(1, POOL_PAGES * 4096 / LARGE, UNDER_WAY);
	CHECK_EQ(side_stats().pages_in_use, POOL_PAGES);
}

static void pool_run(struct side *side, void *arg)
{
	(void)arg;
	gpu_env(side);
	side_env("NCCL_DYNAMIC_CHUNK_SIZE", "524288");
	side_env("TCPX_MESSAGE_BYTES", "524288");
	side_env("TCPX_MAX_SEND_INFLIGHT", "10"); /* UNDER_WAY */
	side_env("TCPXEMU_POOL_BYTES", "4194304");
	side_open(side, TCPXEMU);
	side_connect(side, 1);
	flood(side, 2 * UNDER_WAY, LARGE, stalled);
	/* What is sent may be done early. */
	CHECK(side_stats().in_flight_peak <= UNDER_WAY);
	CHECK(!side->index || side_stats().in_flight_peak == UNDER_WAY);
	CHECK(!side->index || side_stats().pages_peak == POOL_PAGES);
}

/* ---- contexts, which take 0.2 s to make: none is let go while the session lives ---- */

static void contexts_run(struct side *side, void *arg)
{
	(void)arg;
	gpu_env(side);
	side_open(side, TCPXEMU);
	side_connect(side, 1);
	CHECK(driver.calls("cuCtxPushCurrent") > 3); /* by the plugin's setup, no region is there */
	CHECK_EQ(driver.calls("cuDevicePrimaryCtxRelease"), 0);
	side_meet(side);
	side_close(side);
}

/* ---- kernels that do not run on this GPU ---- */

/* Fragments are copied one by one, unless the caller has said that kernels are to do it. */
static void no_kernels_run(struct side *side, void *unpack)
{
	gpu_env(side);
	CHECK_EQ(driver.fail_call("cuModuleLoadData", 0, CUDA_ERR_NO_BINARY_FOR_GPU), 0);
	side->unpack = unpack;
	side_open(side, TCPXEMU);
	side_connect(side, unpack ? 0 : 1);
	if (unpack) {
		said_await("channel &not up&no unpack kernel");
		CHECK_EQ(side_peer(side).message_channels, 0);
	}
	side_meet(side);
	if (unpack)
		side_close_broken(side);
	else
		side_close(side);
}

static void no_kernels_case(void *arg)
{
	(void)arg;
	side_both(no_kernels_run, NULL);
}

static void kernels_wanted_case(void *arg)
{
	static char kernel[] = "kernel";

	(void)arg;
	side_both(no_kernels_run, kernel);
}

/* ---- a wrong pair that is believed: its channel rests, and is tried again behind that ---- */

static void rest_run(struct side *side, void *arg)
{
	struct area mine, open;
	bool rested = false;

	(void)arg;
	gpu_env(side);
	side->nic = a3_nic(side->index ? 2 : 0); /* of GPU 0 at both ends */
	side_env("TCPX_PAIRING", "off");
	side_env("TCPXEMU_FATAL", "rc");
	side_env("TCPX_MESSAGE_TIMEOUT_MS", "400");
	side_env("TCPX_PLUGIN_REST_MS", "2000"); /* more than twice a message's time */
	side_open(side, TCPXEMU);
	side_connect(side, 1);
	area_make(side, &mine, LARGE);
	area_make(side, &open, LARGE);
	area_swap(side, &open);
	while (!side->index &&
	       !said_count("nothing arrived 5 times in a row: it is not dialled for")) {
		tcpx_segment segment = {
			.local = mine.region, .remote = open.remote, .length = LARGE};
		tcpx_request request = side_start(side, TCPX_OP_WRITE, &segment, 1);
		tcpx_status status = side_end(side, request);

		CHECK(status == TCPX_OK || status == TCPX_ERR_CHANNEL_LOST);
		rested |=
			status == TCPX_OK && side_peer(side).message_channels == 0 &&
			said_count(
				"nothing arrived 4 times in a row: it is not dialled for 2000 ms");
	}
	CHECK(side->index || rested);
	side_meet(side);
	area_free(side, &mine);
	area_free(side, &open);
	side_close_wrong(side, "no-cmsg");
}

/* ---- 128 posts at once ---- */

static void filled(struct side *side)
{
	(void)side;
	await_stats(0, WINDOW, WINDOW);
}

static void posts_run(struct side *side, void *arg)
{
	(void)arg;
	gpu_env(side);
	side_open(side, TCPXEMU);
	side_connect(side, 1);
	flood(side, POSTS, MESSAGE, filled);
	CHECK(side_stats().in_flight_peak <= WINDOW); /* and never the plugin's 16 */
	CHECK(!side->index || side_stats().in_flight_peak == WINDOW);
	CHECK_EQ(side_stats().received_messages, side->index ? POSTS : 0);
}

/* ---- a peer beside one that fails ---- */

#define DIES 300000 /* bytes after which a thread of the plugin that sends is gone */
#define MUCH (4 * DIES)

/* One WRITE and one READ, by messages, all right. */
static void third_works(struct side *third, struct area *mine, struct area *open, uint64_t seed)
{
	tcpx_segment segment = {
		.local = mine->region, .remote = open->remote, .length = 2 * MESSAGE};
	tcpx_channel_info info = {.sz = sizeof(info)};
	uint64_t before = 0;
	uint32_t i = 0;

	while (tcpx_channel_query(third->session, third->peer, i, &info) == TCPX_OK &&
	       !info.messages)
		i++;
	CHECK(info.messages);
	before = info.sends_posted;
	area_fill(third, mine, 0, segment.length, seed);
	OK(side_end(third, side_start(third, TCPX_OP_WRITE, &segment, 1)));
	area_set(third, mine, 0, segment.length, 0);
	OK(side_end(third, side_start(third, TCPX_OP_READ, &segment, 1)));
	CHECK(area_is(third, mine, 0, segment.length, seed));
	OK(tcpx_channel_query(third->session, third->peer, i, &info));
	CHECK_EQ(info.sends_posted, before + 2);
}

/* The second's transfer stands still; the third's go on, before and behind its end. */
static void beside(struct side *side, struct side *third, struct area *area, struct area *open,
		   struct area *mine)
{
	tcpx_segment segment = {.local = area->region, .remote = open[0].remote, .length = MUCH};
	tcpx_request request;
	tcpx_status status;

	third_works(third, mine, &open[1], 1);
	request = side_start(side, TCPX_OP_WRITE, &segment, 1);
	said_await("peer 'second': channel &, NIC eth1: message &not taken by the plugin");
	third_works(third, mine, &open[1], 2);
	status = side_end(side, request);
	CHECK_MSG(status == TCPX_OK || status == TCPX_ERR_CHANNEL_LOST, "%s",
		  tcpx_status_name(status));
	third_works(third, mine, &open[1], 3);
	CHECK_EQ(said_count("peer 'third'"), 0);
	CHECK_EQ(side_peer(third).message_channels, 1);
}

static void beside_run(struct side *side, void *arg)
{
	struct side third = *side;
	struct area area, mine, open[2];

	(void)arg;
	side_env("TCPX_PLUGIN_CHANNELS", "1");
	side_env("TCPX_MESSAGE_TIMEOUT_MS", "3000"); /* the third is not to lose its channel */
	side_env("TCPXEMU_STEER", "off");
	side_env("TCPXEMU_FAULT", side->index ? "" : "helper-death:side=send:bytes=300000");
	said_keep(TCPX_LOG_WARN);
	side_open(side, TCPXEMU);
	side_connect(side, 1);
	third.session = side->session;
	third.name = "third";
	if (side->index)
		side_open(&third, TCPXEMU);
	side_connect(&third, 1);
	area_make(side, &area, MUCH);
	area_make(side, &open[0], MUCH);
	area_make(&third, &mine, MUCH);
	area_make(&third, &open[1], MUCH);
	area_swap(side, &open[0]);
	area_swap(&third, &open[1]);
	if (!side->index)
		beside(side, &third, &area, open, &mine);
	side_meet(side);
	area_free(side, &area);
	area_free(side, &open[0]);
	area_free(&third, &mine);
	area_free(&third, &open[1]);
	if (side->index)
		tcpx_session_close(third.session);
	side_close_broken(side);
}

/* ---- a setup that lasts longer than the connect ---- */

/* The peer is up without the channel, and what keeps it is said all the same when it is known. */
static void late_run(struct side *side, void *arg)
{
	(void)arg;
	side_env("TCPX_PLUGIN_CHANNELS", "1");
	side_env("TCPX_PLUGIN_TIMEOUT_MS", side->index ? "60000" : "4500");
	side_env("TCPXEMU_STEER", "off");
	side_env("TCPXEMU_FAULT", side->index ? "connect-never:side=send" : "");
	side->patience_ns = 2000000000; /* streams must be there by then */
	said_keep(TCPX_LOG_WARN);
	side_open(side, TCPXEMU);
	side_connect(side, 0);
	if (!side->index) {
		CHECK(said("peer 'second': plugin channel &not up: channel &, NIC eth1: its setup "
			   "takes too long; "
			   "it may come up later"));
		said_await(
			"peer 'second': plugin channel &not up: channel &, NIC eth1, peer second: "
			"accept: not finished in time");
	}
	side_meet(side);
	side_close_broken(side);
}

/* ---- setups that fail while the GPU's part is opened ---- */

/* The second's accepts are refused when the first's are through: what the first opens for these
 * reads the plugin's queues, which are freed only afterwards. */
static void opens_run(struct side *side, void *arg)
{
	(void)arg;
	side->gpu = true;
	side_env("TCPX_PLUGIN_CHANNELS", "24");
	side_env("TCPX_UNPACK_IMPL", "kernel");
	side_env("TCPXEMU_MEM", "cuda-host-bounce");
	side_env("TCPXEMU_STEER", "off");
	if (side->index)
		side_env("TCPXEMU_FAULT", "accept-rc");
	side_open(side, TCPXEMU);
	side_connect(side, 0);
	CHECK_EQ(side_peer(side).message_channels, 0);
	side_meet(side);
	side_close(side);
}

/* ---- RxDM ---- */

static void rxdm_env(struct side *side, const char *dir)
{
	char steer[128];

	snprintf(steer, sizeof(steer), "rxdm:%s", dir);
	side->gpu = true;
	side_env("TCPX_PLUGIN_CHANNELS", "1");
	side_env("TCPX_UNPACK_IMPL", "d2d");
	if (!side->index) /* of the second nothing is asked */
		side_env("TCPXEMU_STEER", steer);
	said_keep(TCPX_LOG_INFO);
}

/* No rule, so no channel, which is said with its stage at both ends; by streams all works. */
static void no_rule(struct side *side)
{
	tcpx_segment segment;
	struct area mine, open;

	side_connect(side, 0);
	said_await("channel &not up: &channel &, NIC eth1, peer &: rc 3");
	/* Both ends of a setup hear of it, and either may be first: who knows why says it, however
	 * late that is. */
	if (!side->index)
		said_await("peer second: accept: rc 3&no flow rule");
	CHECK_EQ(side_peer(side).message_channels, 0);
	segment = area_pair(side, &mine, &open, 3 * MESSAGE);
	area_fill(side, &mine, 0, segment.length, 9); /* the same at both ends */
	if (!side->index)
		OK(side_end(side, side_start(side, TCPX_OP_WRITE, &segment, 1)));
	side_meet(side);
	CHECK(!side->index || area_is(side, &open, 0, segment.length, 9));
	side_meet(side);
	area_free(side, &mine);
	area_free(side, &open);
	side_close_broken(side);
}

static void rxdm_absent_run(struct side *side, void *arg)
{
	(void)arg;
	rxdm_env(side, getenv("TCPX_SYSFS"));
	side_open(side, TCPXEMU);
	no_rule(side);
}

static void rxdm_refuses_run(struct side *side, void *arg)
{
	struct fakerxdm_opts opts = {.prefix = arg};
	struct fakerxdm *rxdm = NULL;

	rxdm_env(side, arg);
	side_env("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX", arg);
	if (!side->index)
		CHECK(fakerxdm_start(&opts, &rxdm) == 0);
	side_meet(side);
	side_open(side, TCPXEMU);
	side_meet(side); /* both have asked for the owners */
	if (rxdm)
		fakerxdm_mode_set(rxdm, FAKERXDM_REFUSE, 0);
	no_rule(side);
	fakerxdm_stop(rxdm);
}

/* A daemon that knows the GPU not: refused before anything begins. */
static void rxdm_denies_case(void *arg)
{
	TCPX_OPTS(tcpx_session_opts, opts, .bind = "127.0.0.1", .plugin = TCPXEMU,
		  .message_gpu = 1);
	struct fakerxdm_opts daemon = {.prefix = arg, .mode = FAKERXDM_REFUSE};
	struct fakerxdm *rxdm;
	tcpx_session *session;

	side_env("NCCL_DYNAMIC_CHUNK_SIZE", "524288");
	side_env("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX", arg);
	CHECK(fakerxdm_start(&daemon, &rxdm) == 0);
	EXPECT(tcpx_session_open(&opts, &session), TCPX_ERR_NOT_FOUND);
	CHECK_STR(tcpx_last_error()->what,
		  "no NIC owns GPU 0000:04:00.0: RxDM has no queues for it");
	CHECK_STR(tcpx_last_error()->next, "look at the GPUs in RxDM's log at its start");
	fakerxdm_stop(rxdm);
}

static void pool_case(void *arg)
{
	side_both(pool_run, arg);
}

static void posts_case(void *arg)
{
	side_both(posts_run, arg);
}

static void beside_case(void *arg)
{
	side_both(beside_run, arg);
}

static void late_case(void *arg)
{
	side_both(late_run, arg);
}

static void opens_case(void *arg)
{
	side_both(opens_run, arg);
}

static void rest_case(void *arg)
{
	side_both(rest_run, arg);
}

static void contexts_case(void *arg)
{
	side_both(contexts_run, arg);
}

static void rxdm_absent_case(void *arg)
{
	side_both(rxdm_absent_run, arg);
}

static void rxdm_refuses_case(void *arg)
{
	side_both(rxdm_refuses_run, arg);
}

int main(int argc, char **argv)
{
	static const struct check_case cases[] = {
		{"pool_of_4_mib", pool_case},
		{"128_posts_at_once", posts_case},
		{"beside_a_failing_peer", beside_case},
		{"late_then_why", late_case},
		{"refused_while_opened", opens_case},
		{"rxdm_absent", rxdm_absent_case},
		{"rxdm_refuses", rxdm_refuses_case},
		{"rxdm_denies", rxdm_denies_case},
		{"contexts", contexts_case},
		{"rest_and_again", rest_case},
		{"no_kernels", no_kernels_case},
		{"kernels_wanted", kernels_wanted_case},
	};
	struct sysfs_tree a3;
	char dir[96];
	int rc;

	a3_begin(&a3);
	snprintf(dir, sizeof(dir), "%s/rxdm", a3.root);
	rc = check_main(cases, sizeof(cases) / sizeof(*cases), argc > 1 ? argv[1] : NULL, dir);
	sysfs_remove(&a3);
	return rc;
}

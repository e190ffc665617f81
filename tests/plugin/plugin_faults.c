/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes wrong in a plugin and beside it, injected by the TCPX emulator: data right, or an
 * error; other channels and peers go on; whatever is asked to end, ends.
 */
#include "plugin_rig.h"
#include "plugin_said.h"

#define SIZE (40u * MESSAGE + 4321)
#define ROUNDS 6

enum expect {
	ALL_CHANNELS, /* the peer has all of them in the beginning */
	SOME,	      /* one is not there */
	NONE,	      /* the peer is there, by streams alone */
};

struct fault {
	const char *name, *faults; /* of the first process, which sends */
	const char *far;	   /* of the second */
	enum expect expect;
	bool gpu, no_far_plugin;
	const char *variable, *near_value, *far_value; /* in which the ends differ */
	const char *says, *says_far; /* logged about it: channel, NIC, peer and stage */
	bool loses;		     /* a channel is lost under the transfers */
	int first; /* which end's time is to be over first: 1 near, 2 far, 0 either */
};

/* ---- transfers under a fault ---- */

/* What a message is stuck in ends so, where a channel is lost: with words. True: it is done. */
static bool done(struct side *side, bool loses, enum tcpx_op op, const tcpx_segment *segment)
{
	tcpx_status status = side_end(side, side_start(side, op, segment, 1));

	if (!loses || (status != TCPX_ERR_CHANNEL_LOST && status != TCPX_ERR_REMOTE))
		OK(status);
	return status == TCPX_OK;
}

/* A WRITE there and a READ back; what is done is right. */
static void there_and_back(struct side *side, struct area *mine, struct area *open, uint64_t seed,
			   bool loses)
{
	tcpx_segment segment = {.local = mine->region, .remote = open->remote, .length = SIZE};
	bool written;

	area_fill(side, mine, 0, SIZE, seed);
	written = done(side, loses, TCPX_OP_WRITE, &segment);
	area_set(side, mine, 0, SIZE, 0);
	if (done(side, loses, TCPX_OP_READ, &segment) && written)
		CHECK_MSG(area_is(side, mine, 0, SIZE, seed), "wrong bytes came back");
}

static void mail(struct side *side, struct area *mine, uint64_t seed, bool loses)
{
	tcpx_segment segment = {.local = mine->region, .length = SIZE};

	if (!side->index)
		area_fill(side, mine, 0, SIZE, seed);
	if (done(side, loses, side->index ? TCPX_OP_RECV : TCPX_OP_SEND, &segment))
		CHECK_MSG(area_is(side, mine, 0, SIZE, seed), "another message than was sent");
}

static void env_of(struct side *side, const struct fault *fault)
{
	const char *faults = side->index ? fault->far : fault->faults;

	side->gpu = fault->gpu;
	side_env("TCPXEMU_FRAG", "rand");
	if (fault->loses) /* by its time; without a fault no time is to end a message */
		side_env("TCPX_MESSAGE_TIMEOUT_MS",
			 fault->first && fault->first != side->index + 1 ? "4000" : "400");
	if (fault->expect == SOME) /* what it lacks never ends by itself */
		side_env("TCPX_PLUGIN_TIMEOUT_MS", side->index ? "60000" : "1500");
	if (faults)
		side_env("TCPXEMU_FAULT", faults);
	if (fault->variable)
		side_env(fault->variable, side->index ? fault->far_value : fault->near_value);
	said_keep(TCPX_LOG_WARN);
}

static void channels_are(struct side *side, enum expect expect)
{
	uint32_t have = side_peer(side).message_channels;

	if (expect == ALL_CHANNELS)
		CHECK_EQ(have, 4);
	else if (expect == NONE)
		CHECK_EQ(have, 0);
	else
		CHECK(have < 4);
}

static void run(struct side *side, void *arg)
{
	const struct fault *fault = arg;
	bool plugin = !side->index || !fault->no_far_plugin;
	const char *says = side->index ? fault->says_far : fault->says;
	tcpx_counters counters = {.sz = sizeof(counters)};
	struct area mine, open;

	env_of(side, fault);
	side_open(side, plugin ? TCPXEMU : NULL);
	side_connect(side, fault->expect == ALL_CHANNELS ? 4 : 0);
	channels_are(side, fault->expect);
	area_make(side, &mine, SIZE);
	area_make(side, &open, SIZE);
	area_swap(side, &open);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		if (!side->index)
			there_and_back(side, &mine, &open, 10 + i, fault->loses);
		mail(side, &mine, 100 + i, fault->loses);
	}
	if (side->index)
		there_and_back(side, &mine, &open, 50,
			       fault->loses); /* the other way, behind all that */
	CHECK_EQ(side_peer(side).state, TCPX_PEER_UP);
	if (!fault->loses) {
		OK(tcpx_session_counters(side->session, &counters));
		CHECK_EQ(counters.channels_lost, 0);
	}
	if (says)
		said_await(says);
	side_meet(side);
	area_free(side, &mine);
	side_meet(side);
	area_free(side, &open);
	if (fault->loses)
		side_close_broken(side);
	else
		side_close(side);
}

static const struct fault faults[] = {
	{.name = "nulls", .faults = "nulls:nth=3", .far = "nulls:nth=3"},
	{.name = "late_chunks", .faults = "late:nth=2:ms=20", .far = "late:nth=1:ms=20"},
	{.name = "late_chunks_gpu", .faults = "late:nth=2:ms=20", .gpu = true},
	{.name = "small_fragments",
	 .faults = "frags:bytes=48",
	 .far = "frags:bytes=48",
	 .gpu = true},
	{.name = "squeezed_pool", .faults = "pool:pages=96", .far = "pool:pages=96", .gpu = true},
	{.name = "done_delay", .faults = "done-delay:us=3000", .far = "done-delay:us=3000"},
	{.name = "enobufs", .faults = "enobufs:nth=3", .far = "enobufs:nth=3"},
	/* Longer than a message may take: it is not the message that is late. */
	{.name = "slow_registration",
	 .faults = "reg-delay:side=send:comm=0:ms=4000",
	 .variable = "TCPX_MESSAGE_TIMEOUT_MS",
	 .near_value = "400",
	 .far_value = "10000"},
	{.name = "helper_death",
	 .faults = "helper-death:side=send:bytes=2000000",
	 .says = "peer 'second': channel &, NIC eth1: message &tag&at offset&of a &not taken",
	 .loses = true,
	 .first = 1},
	{.name = "helper_death_gpu",
	 .faults = "helper-death:side=send:comm=0:bytes=100000",
	 .gpu = true,
	 .loses = true},
	{.name = "helper_death_far",
	 .far = "helper-death:side=recv:comm=1:bytes=10000",
	 .says = "peer 'second'&at the peer: sends posted&receives posted&unpacked&consumed",
	 .says_far = "peer 'first': channel &, NIC eth1: message &announced and did not arrive",
	 .loses = true,
	 .first = 2},
	{.name = "data_eof", .faults = "data-eof:side=send:comm=0:bytes=50000", .loses = true},
	{.name = "data_eof_gpu",
	 .faults = "data-eof:side=send:comm=0:bytes=50000",
	 .gpu = true,
	 .loses = true},
	{.name = "ctrl_eof", .faults = "ctrl-eof:side=send:comm=1:nth=3", .loses = true},
	{.name = "test_rc",
	 .faults = "test-rc:side=send:nth=4",
	 .says = "peer 'second': channel &, NIC eth1, peer second: test of message &: rc 2",
	 .says_far =
		 "peer 'first': channel &at the peer: channel &, NIC eth1, peer second: test of",
	 .loses = true},
	{.name = "accept_rc",
	 .faults = "accept-rc",
	 .expect = NONE,
	 .says = "peer 'second': plugin channel &not up: channel &, NIC eth1, peer second: accept: "
		 "rc "
		 "3",
	 .says_far = "peer 'first': plugin channel &not up: at the peer: channel &, NIC eth1, peer "
		     "second: "
		     "accept: rc 3",
	 .loses = true},
	{.name = "connect_never",
	 .faults = "connect-never:side=send",
	 .expect = SOME,
	 .says = "peer 'second': plugin channel &not up: channel &, NIC eth1, peer second: "
		 "connect: not finished in time",
	 .says_far = "at the peer: channel &, NIC eth1, peer second: connect: not finished in time",
	 .loses = true},
	{.name = "accept_never",
	 .far = "connect-never:side=send",
	 .expect = SOME,
	 .says = "peer 'second': plugin channel &not up: channel &, NIC eth1, peer second: accept: "
		 "not finished in time",
	 .says_far = "at the peer: channel &, NIC eth1, peer second: accept: not finished in time",
	 .loses = true},
	{.name = "no_plugin_there", .expect = NONE, .no_far_plugin = true},
	{.name = "chunks_differ",
	 .variable = "NCCL_DYNAMIC_CHUNK_SIZE",
	 .near_value = "65536",
	 .far_value = "32768",
	 .expect = NONE},
	{.name = "windows_differ",
	 .variable = "TCPX_MAX_RECV_INFLIGHT",
	 .near_value = "3",
	 .far_value = "14"},
	{.name = "window_of_one",
	 .variable = "TCPX_MAX_SEND_INFLIGHT",
	 .near_value = "1",
	 .far_value = "12",
	 .gpu = true},
	{.name = "messages_differ",
	 .variable = "TCPX_MESSAGE_BYTES",
	 .near_value = "16384",
	 .far_value = "32768"},
};

int main(int argc, char **argv)
{
	return side_main(run, faults, sizeof(faults) / sizeof(*faults), sizeof(*faults),
			 argc > 1 ? argv[1] : NULL);
}

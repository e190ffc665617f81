/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that moves nothing outside of its calls, and takes no message before both ends have
 * called it since the connect (TCPXEMU_PROGRESS=calls, and libfabric's tcp;ofi_rxm): all kinds of
 * transfer, each way alone and both at once, on several channels.
 */
#include "plugin_rig.h"
#include "plugin_said.h"

#include <poll.h>

#define SIZE (40u * MESSAGE + 4321)
#define CHANNELS 4
#define NOTES 200

enum way { FIRST, SECOND, BOTH }; /* who starts */

struct row {
	const char *name;
	enum tcpx_op op;
	enum way way;
	bool gpu, idle;
};

static bool starts(const struct side *side, enum way way)
{
	return way == BOTH || (int)way == side->index;
}

static void transfer(struct side *side, const struct row *row, struct area *mine,
		     const struct area *open, uint64_t seed)
{
	tcpx_segment segment = {.local = mine->region, .remote = open->remote, .length = SIZE};

	if (row->op == TCPX_OP_SEND) {
		bool sends = starts(side, row->way);

		if (sends)
			area_fill(side, mine, 0, SIZE, seed);
		OK(side_end(side,
			    side_start(side, sends ? TCPX_OP_SEND : TCPX_OP_RECV, &segment, 1)));
		CHECK(area_is(side, mine, 0, SIZE, seed));
		return;
	}
	if (!starts(side, row->way))
		return;
	if (row->op == TCPX_OP_WRITE)
		area_fill(side, mine, 0, SIZE, seed);
	else
		area_set(side, mine, 0, SIZE, 0);
	OK(side_end(side, side_start(side, row->op, &segment, 1)));
	if (row->op == TCPX_OP_WRITE) { /* as it lies there */
		area_set(side, mine, 0, SIZE, 0);
		OK(side_end(side, side_start(side, TCPX_OP_READ, &segment, 1)));
	}
	CHECK(row->op == TCPX_OP_READ ? area_same(side, mine, 0, SIZE, 0xa5)
				      : area_is(side, mine, 0, SIZE, seed));
}

/* Once all is through nobody calls the plugin any more, whatever else there is to do. */
static void idle(struct side *side)
{
	uint64_t calls = side_stats().calls;

	side_meet(side);
	for (int i = 0; i < NOTES; i++) {
		tcpx_notification note = {.sz = sizeof(note)};

		OK(tcpx_notify_send(side->session, side->peer, &i, sizeof(i)));
		OK(tcpx_notify_take(side->session, LONG_NS, &note));
		tcpx_notification_release(side->session, &note);
	}
	CHECK_EQ(side_stats().calls, calls);
}

static void run(struct side *side, void *arg)
{
	const struct row *row = arg;
	struct area mine, open;
	uint64_t seed = 7 + (row->way == BOTH && row->op == TCPX_OP_WRITE ? side->index : 0);

	side->gpu = row->gpu;
	side_env("TCPXEMU_PROGRESS", "calls");
	side_env("TCPXEMU_FRAG", "rand");
	side_open(side, TCPXEMU);
	side_connect(side, CHANNELS);
	area_make(side, &mine, SIZE);
	area_make(side, &open, SIZE);
	area_swap(side, &open); /* the peer's from here on, as area_make left it */
	side_meet(side);
	for (int i = 0; i < 3; i++)
		transfer(side, row, &mine, &open, seed);
	side_meet(side);
	CHECK(side_stats().sent_messages + side_stats().received_messages > 0);
	side_meet(side);
	if (row->idle)
		idle(side);
	side_meet(side);
	area_free(side, &mine);
	side_meet(side);
	area_free(side, &open);
	side_close(side);
}

static const struct row rows[] = {
	{"write", TCPX_OP_WRITE, FIRST, .idle = true},
	{"write_back", TCPX_OP_WRITE, SECOND},
	{"write_both", TCPX_OP_WRITE, BOTH},
	{"read", TCPX_OP_READ, FIRST},
	{"read_back", TCPX_OP_READ, SECOND},
	{"read_both", TCPX_OP_READ, BOTH},
	{"send", TCPX_OP_SEND, FIRST},
	{"send_back", TCPX_OP_SEND, SECOND},
	{"gpu_write", TCPX_OP_WRITE, FIRST, .gpu = true},
	{"gpu_write_both", TCPX_OP_WRITE, BOTH, .gpu = true},
	{"gpu_read", TCPX_OP_READ, SECOND, .gpu = true},
	{"gpu_send", TCPX_OP_SEND, FIRST, .gpu = true},
};

/* ---- a plugin that takes no message, whatever is called ---- */

struct refusal {
	const char *name, *fault, *says;
	uint32_t channels; /* that the first has in the beginning */
};

/* From the start: its channels are not there, and the streams carry all. Later, as where a plugin
 * wants a receive posted for each message: the transfer ends. In both cases the words say so. */
static void refuses_run(struct side *side, void *arg)
{
	const struct refusal *row = arg;
	tcpx_segment segment;
	struct area mine, open;
	tcpx_status status;

	side_env("TCPX_PLUGIN_TIMEOUT_MS", side->index ? "60000" : "700");
	side_env("TCPX_MESSAGE_TIMEOUT_MS", side->index ? "60000" : "400");
	if (!side->index)
		side_env("TCPXEMU_FAULT", row->fault);
	said_keep(TCPX_LOG_WARN);
	side_open(side, TCPXEMU);
	side_connect(side, row->channels);
	CHECK_EQ(side_peer(side).message_channels, row->channels);
	segment = area_pair(side, &mine, &open, SIZE);
	if (!side->index) {
		status = side_end(side, side_start(side, TCPX_OP_WRITE, &segment, 1));
		CHECK_EQ(status, row->channels ? TCPX_ERR_CHANNEL_LOST : TCPX_OK);
		said_await(row->says);
	}
	side_meet(side);
	area_free(side, &mine);
	side_meet(side);
	area_free(side, &open);
	side_close_broken(side);
}

static const struct refusal refusals[] = {
	{"takes_none", "no-send:nth=1",
	 "peer 'second': plugin channel &not up: channel &, NIC eth1, peer second: first message: "
	 "not finished in time: the "
	 "plugin took no message (tcpx-gpudirect(7), OTHER PLUGINS) for ",
	 0},
	{"takes_no_more", "no-send:nth=2",
	 "channel &, NIC eth1: the plugin took no message for &(tcpx-gpudirect(7), OTHER PLUGINS)",
	 CHANNELS},
};

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;
	int rc = side_main(run, rows, sizeof(rows) / sizeof(*rows), sizeof(*rows), only);

	return side_main(refuses_run, refusals, 2, sizeof(*refusals), only) || rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Messages are under way when a peer is killed, a session is closed, memory is deregistered. */
#include <sched.h>

#include "plugin_rig.h"

#include "engine/channel/chan_calls.h"
#include "engine/link/comms_state.h"
#include "engine/session/calls.h"

#define SIZE (64u * MESSAGE)
#define COUNT 6
#define ROUNDS 4

enum how { KILLED = 0, CLOSED, DEREGISTERED, CANCELLED, CANCELLED_EARLY, MALFORMED };

struct end {
	const char *name;
	enum how how;
	bool gpu;
};

struct load {
	struct area mine, open;
	tcpx_request request[COUNT];
	int count;
};

/* How many were started: fewer when the peer is gone. Each has a place of its own. */
static int begin(struct side *side, struct load *load)
{
	tcpx_segment segment = {
		.local = load->mine.region, .remote = load->open.remote, .length = SIZE};

	for (load->count = 0; load->count < COUNT; load->count++) {
		segment.local_offset = segment.remote_offset = (uint64_t)load->count * SIZE;
		if (tcpx_request_start(side->session, side->peer,
				       load->count % 2 ? TCPX_OP_READ : TCPX_OP_WRITE, &segment, 1,
				       NULL, &load->request[load->count]) != TCPX_OK)
			break;
	}
	return load->count;
}

/* Every one ends; returns how many ended well. */
static int all_end(struct side *side, struct load *load)
{
	int done = 0;

	for (int i = 0; i < load->count; i++)
		done += side_end(side, load->request[i]) == TCPX_OK;
	return done;
}

/* So many messages have come or gone since. */
static void await_messages(uint64_t since)
{
	struct tcpxemu_stats stats = side_stats();

	while (stats.sent_messages + stats.received_messages < since + 3)
		side_stats_wait(&stats);
}

static uint64_t messages_now(void)
{
	return side_stats().sent_messages + side_stats().received_messages;
}

/* The first's memory goes while the peer sends to it and is sent it: nothing touches it after. */
static void without_memory(struct side *side, struct load *load, const struct end *end)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t before = messages_now();

		CHECK_EQ(begin(side, load), COUNT);
		await_messages(before);
		for (int k = 0; k < COUNT && end->how == CANCELLED; k++)
			(void)tcpx_request_cancel(side->session, load->request[k]);
		area_free(side, &load->mine); /* deregistered, and gone */
		(void)all_end(side, load);
		area_make(side, &load->mine, COUNT * SIZE);
	}
	CHECK_EQ(begin(side, load), COUNT); /* the channels live */
	CHECK_EQ(all_end(side, load), COUNT);
}

/* Its memory is being registered with the only comm when it is cancelled: its place in the sequence
 * is filled, what comes behind it arrives, and the channel lives. */
static void early(struct side *side)
{
	tcpx_counters counters = {.sz = sizeof(counters)};
	struct area mine, other, open;
	tcpx_segment segment = {.length = SIZE};
	tcpx_request request;

	side_env("TCPX_PLUGIN_CHANNELS", "1");
	side_env("TCPX_MESSAGE_TIMEOUT_MS", "1000");
	side_env("TCPXEMU_FAULT", side->index ? "" : "reg-delay:side=send:ms=700");
	side_open(side, TCPXEMU);
	side_connect(side, 1);
	area_make(side, &mine, SIZE);
	area_make(side, &other, SIZE);
	area_make(side, &open, SIZE);
	area_swap(side, &open);
	segment.local = mine.region;
	segment.remote = open.remote;
	if (!side->index) {
		uint64_t before = side_stats().regs;

		request = side_start(side, TCPX_OP_WRITE, &segment, 1);
		while (side_stats().regs == before) /* the hang guard ends it */
			sched_yield();
		EXPECT(tcpx_request_cancel_wait(side->session, request, LONG_NS),
		       TCPX_ERR_CANCELLED);
		tcpx_request_release(side->session, request);
		segment.local = other.region;
	}
	area_fill(side, &other, 0, SIZE, 3); /* the same at both ends */
	if (!side->index)
		OK(side_end(side, side_start(side, TCPX_OP_WRITE, &segment, 1)));
	side_meet(side);
	/* A race detector does not see that the other process knew: the lock in here tells it. */
	OK(tcpx_session_counters(side->session, &counters));
	CHECK(!side->index || area_is(side, &open, 0, SIZE, 3));
	CHECK_EQ(counters.channels_lost, 0);
	side_meet(side);
	area_free(side, &mine);
	area_free(side, &other);
	area_free(side, &open);
	side_close(side);
}

/* The only channel of messages, whose tx owner this thread becomes. */
static struct engine_chan *enter_channel(struct engine_peer *peer)
{
	struct engine_chan *chan;

	link_lock(&peer->link);
	chan = peer->link.chan[peer->comms->first];
	CHECK(chan);
	chan_get(chan);
	link_unlock(&peer->link);
	while (!chan_tx_try(chan)) /* the hang guard ends it, and the next one */
		sched_yield();
	return chan;
}

/* The channel of messages fails with a broken protocol, which ends the peer, while a call is inside
 * it. When the call has returned, the comms are closed, and what waited for them ends. */
static void malformed(struct side *side)
{
	tcpx_event event = {.sz = sizeof(event)};
	struct area mine, open;
	tcpx_segment segment;

	side_env("TCPX_PLUGIN_CHANNELS", "1");
	side_env("TCPXEMU_FAULT", side->index ? "" : "no-send:side=send:nth=3");
	side_open(side, TCPXEMU);
	side_connect(side, 1);
	segment = area_pair(side, &mine, &open, SIZE);
	if (!side->index) {
		uint64_t before = side_stats().sent_messages;
		tcpx_request request = side_start(side, TCPX_OP_WRITE, &segment, 1);
		struct engine_peer *peer =
			engine_peer_get((struct engine_session *)side->session, side->peer.id);
		struct engine_chan *chan;

		while (side_stats().sent_messages == before) /* a part is under way for good */
			sched_yield();
		chan = enter_channel(peer);
		chan_fail(chan, TCPX_ERR_PROTOCOL, 0);
		while (!atomic_load(&chan->stop.shutdown))
			sched_yield();
		chan_tx_leave(chan);
		chan_put(chan);
		peer_put(peer);
		EXPECT(side_end(side, request), TCPX_ERR_PROTOCOL);
		while (event.type != TCPX_EVENT_PEER_DOWN) { /* it comes after the request's end */
			OK(tcpx_session_wait(side->session, LONG_NS));
			OK(tcpx_session_event(side->session, &event));
		}
		CHECK_EQ(event.status, TCPX_ERR_PROTOCOL);
	}
	side_meet(side);
	area_free(side, &mine);
	area_free(side, &open);
	side_close_broken(side);
}

static void run(struct side *side, void *arg)
{
	const struct end *end = arg;
	bool peer_goes = end->how == KILLED || end->how == CLOSED;
	struct load load;
	uint64_t before;

	if (end->how == CANCELLED_EARLY) {
		early(side);
		return;
	}
	if (end->how == MALFORMED) {
		malformed(side);
		return;
	}
	side->gpu = end->gpu;
	side_env("TCPXEMU_FRAG", "rand");
	if (peer_goes)
		side_env("TCPX_MESSAGE_TIMEOUT_MS", "1000");
	tcpx_log_set(NULL, NULL, TCPX_LOG_ERROR);
	side_open(side, TCPXEMU);
	side_connect(side, 4);
	area_make(side, &load.mine, COUNT * SIZE);
	area_make(side, &load.open, COUNT * SIZE);
	area_swap(side, &load.open);
	side_meet(side);
	before = messages_now();
	if (side->index && peer_goes) {
		await_messages(before);
		if (end->how == KILLED)
			raise(SIGKILL);
	} else if (!side->index && peer_goes) {
		do /* until one meets the end */
			(void)begin(side, &load);
		while (all_end(side, &load) == COUNT);
	} else if (!side->index) {
		without_memory(side, &load, end);
	}
	if (!peer_goes)
		side_meet(side);
	else if (side->index) /* in the middle of what the other does */
		OK(tcpx_peer_disconnect(side->session, side->peer));
	area_free(side, &load.mine);
	area_free(side, &load.open);
	if (!peer_goes)
		side_meet(side);
	side_close_broken(side);
}

int main(int argc, char **argv)
{
	static const struct end ends[] = {
		{"killed", KILLED, false},
		{"killed_gpu", KILLED, true},
		{"disconnected", CLOSED, false},
		{"disconnected_gpu", CLOSED, true},
		{"deregistered", DEREGISTERED, false},
		{"deregistered_gpu", DEREGISTERED, true},
		{"cancelled", CANCELLED, false},
		{"cancelled_gpu", CANCELLED, true},
		{"cancelled_early", CANCELLED_EARLY, false},
		{"malformed", MALFORMED, false},
	};

	return side_main(run, ends, sizeof(ends) / sizeof(*ends), sizeof(*ends),
			 argc > 1 ? argv[1] : NULL);
}

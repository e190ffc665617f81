/* SPDX-License-Identifier: Apache-2.0 */
/* Directed schedules of channels that carry messages, beside those that carry streams. */
#include "sim_cases.h"

/* Channels 2 and 3 carry messages; all that is long enough goes like that. */
static struct sim_profile *mailing(void)
{
	static struct sim_profile p;

	sim_profile_plain(&p);
	p.bulk_channels = 3;
	p.message_channels = 2;
	p.message_bytes = 2048;
	p.message_window = 3;
	p.staged[0] = p.staged[1] = 50;
	p.by_msg = 100;
	p.commit = 3000;
	return &p;
}

static void transfers_as_messages(struct sim *sim)
{
	int s;

	sim_case_all_ways(sim);
	SIM_CHECK(sim, sim->count.messages >= 6 * 20, "%llu messages",
		  (unsigned long long)sim->count.messages);
	for (s = 0; s < 2; s++)
		SIM_CHECK(sim, !sim->side[s].link.chan[1].tx_bytes, "bytes went as a stream");
}
CASE(transfers_as_messages, mailing())

void case_one_message_at_a_time(void *arg)
{
	struct sim_profile *p = mailing();

	(void)arg;
	p->message_window = 1;
	p->commit = 50;
	sim_case(transfers_as_messages, p);
}

/* One way, so that nothing but the acknowledgement brings the next. */
static void a_write_as_messages(struct sim *sim)
{
	sim_wait(sim, sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 1), TCPX_OK);
	SIM_CHECK(sim, sim->count.messages == 20, "%llu messages",
		  (unsigned long long)sim->count.messages);
}

void case_a_write_one_message_at_a_time(void *arg)
{
	struct sim_profile *p = mailing();

	(void)arg;
	p->message_window = 1;
	sim_case(a_write_as_messages, p);
}

/* Two messages of which one side only can: the bytes go. */
static void one_side_streams(struct sim *sim)
{
	struct sim_xfer *send, *recv;
	int which;

	for (which = 0; which < 2; which++) {
		sim->p.by_msg = which ? 0 : 100;
		send = sim_start(sim, 0, TCPX_OP_SEND, 40 << 10, 3);
		sim->p.by_msg = which ? 100 : 0;
		recv = sim_start(sim, 1, TCPX_OP_RECV, 40 << 10, 2);
		sim_wait(sim, send, TCPX_OK);
		sim_wait(sim, recv, TCPX_OK);
	}
	sim->p.by_msg = 100;
	SIM_CHECK(sim, !sim->count.messages, "something went as messages");
}
CASE(one_side_streams, mailing())

/* Without the priority channel and the stream everything but messages waits for one of them. */
static void only_messages_are_up(struct sim *sim)
{
	struct sim_xfer *write, *send, *recv;
	uint32_t i;

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	for (i = 0; i < 2; i++)
		sim_cut_force(sim, i);
	write = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 1);
	sim->p.by_msg = 0;
	send = sim_start(sim, 0, TCPX_OP_SEND, 100, 1);
	recv = sim_start(sim, 1, TCPX_OP_RECV, 100, 1);
	sim->p.by_msg = 100;
	sim_wait(sim, write, TCPX_OK);
	sim_wait(sim, send, TCPX_OK);
	sim_wait(sim, recv, TCPX_OK);
}
CASE(only_messages_are_up, mailing())

/* What was not acknowledged goes again, over the other one. */
static void message_channel_lost(struct sim *sim)
{
	struct sim_xfer *write, *read;

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	write = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 3);
	read = sim_start(sim, 1, TCPX_OP_READ, 40 << 10, 3);
	sim_until(sim, sim_case_lends, write, "messages are under way");
	sim_cut_force(sim, 2);
	sim_cut_force(sim, 3);
	sim_wait(sim, write, TCPX_OK);
	sim_wait(sim, read, TCPX_OK);
	sim_until(sim, sim_case_all_up, NULL, "all channels are up again");
	SIM_CHECK(sim, sim->side[0].link.chan[2].epoch == 2, "channel 2 was not lost");
}
CASE(message_channel_lost, mailing())

/* A plugin may read the memory of what it was given until the peer has it. */
static void cancel_waits_for_messages(struct sim *sim)
{
	struct sim_xfer *write = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 2);
	int64_t stop;

	sim_until(sim, sim_case_lends, write, "messages are under way");
	stop = sim->side[1].stopped_until = sim->now + 1000000;
	sim_cancel(write, TCPX_ERR_CANCELLED);
	sim_wait(sim, write, TCPX_ERR_CANCELLED);
	SIM_CHECK(sim, sim->now >= stop, "it ended while messages were under way");
}
CASE(cancel_waits_for_messages, mailing())

/* Closed comms read no memory any more, whether the peer has said its fence or not. */
static void cancel_ends_with_the_comms(struct sim *sim)
{
	struct sim_xfer *write = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 2);
	int64_t stop;

	sim_until(sim, sim_case_lends, write, "messages are under way");
	stop = sim->side[1].stopped_until = sim->now + 1000000;
	sim_cancel(write, TCPX_ERR_CANCELLED);
	sim_cut_force(sim, 2);
	sim_cut_force(sim, 3);
	sim_wait(sim, write, TCPX_ERR_CANCELLED);
	SIM_CHECK(sim, sim->now < stop, "it waited for the peer's fence");
}
CASE(cancel_ends_with_the_comms, mailing())

/* Only channel 3 carries messages. */
static struct sim_profile *mailing_on_one(void)
{
	struct sim_profile *p = mailing();

	p->message_channels = 1;
	return p;
}

static bool serves(struct sim *sim, void *arg)
{
	(void)arg;
	return !list_empty(&sim->side[0].link.resps);
}

static bool under_way(struct sim *sim, void *arg)
{
	(void)arg;
	return sim_case_all_up(sim, NULL) && sim->side[0].link.chan[3].inflight.messages > 1;
}

static bool all_acknowledged(struct sim *sim, void *arg)
{
	(void)arg;
	return !sim->side[0].link.chan[3].inflight.messages;
}

/* So many times side 0's plugin does not take the oldest message, and its channel is lost. */
static void stuck(struct sim *sim, int times)
{
	for (int i = 0; i < times; i++) {
		sim_until(sim, under_way, NULL, "messages are under way");
		SIM_ENTER(sim);
		core_chan_stuck(&sim->side[0].link, 3, TCPX_ERR_CHANNEL_LOST);
		SIM_LEAVE(sim);
		sim_cut_force(sim, 3);
	}
}

static struct sim_xfer *start_of_400(struct sim *sim, int side, enum tcpx_op op, tcpx_status end)
{
	struct sim_xfer *xfer = sim_start(sim, side, op, 400 << 10, 2);

	xfer->bad_status = end;
	return xfer;
}

/* The second time it is taken for the transfer's fault, the first time for the channel's. */
static void messages_that_do_not_go(struct sim *sim)
{
	static const struct {
		int side;
		enum tcpx_op op;
		tcpx_status end;
	} rows[] = {{0, TCPX_OP_WRITE, TCPX_ERR_CHANNEL_LOST}, {1, TCPX_OP_READ, TCPX_ERR_REMOTE}};
	struct sim_xfer *xfer;

	for (int i = 0; i < 2; i++) {
		xfer = start_of_400(sim, rows[i].side, rows[i].op, TCPX_OK);
		stuck(sim, 1);
		sim_wait(sim, xfer, TCPX_OK);
		sim_until(sim, all_acknowledged, NULL, "a reader's end is known");
		xfer = start_of_400(sim, rows[i].side, rows[i].op, rows[i].end);
		stuck(sim, 2);
		sim_wait(sim, xfer, rows[i].end);
	}
	sim_case_all_ways(sim);
}
CASE(messages_that_do_not_go, mailing_on_one())

/* Where no channel of messages comes back, what goes as a stream does not care. */
static void no_channel_of_messages_comes(struct sim *sim)
{
	struct sim_xfer *read = start_of_400(sim, 1, TCPX_OP_READ, TCPX_ERR_REMOTE);
	struct sim_xfer *write = start_of_400(sim, 0, TCPX_OP_WRITE, TCPX_ERR_CHANNEL_LOST);
	struct sim_xfer *streamed;

	sim->p.by_msg = 0;
	streamed = sim_start(sim, 0, TCPX_OP_WRITE, 400 << 10, 1);
	sim->p.by_msg = 100;
	sim_until(sim, serves, NULL, "the READ is served");
	sim_until(sim, under_way, NULL, "messages are under way");
	sim_cut_force(sim, 3);
	SIM_ENTER(sim);
	core_link_strand(&sim->side[0].link, TCPX_ERR_CHANNEL_LOST);
	SIM_LEAVE(sim);
	sim_wait(sim, write, TCPX_ERR_CHANNEL_LOST);
	sim_wait(sim, read, TCPX_ERR_REMOTE);
	sim_wait(sim, streamed, TCPX_OK);
}
CASE(no_channel_of_messages_comes, mailing_on_one())

static void refused_messages(struct sim *sim)
{
	struct sim_xfer *xfer = sim_xfer_new(&sim->side[0], TCPX_OP_WRITE, 40 << 10, 1);

	xfer->keys[0] ^= 0x5555000000ull;
	xfer->bad = true;
	xfer->bad_status = TCPX_ERR_REMOTE_KEY;
	SIM_CHECK(sim, sim_post(xfer) == TCPX_OK && xfer->x.path == CORE_PATH_MESSAGE, "post");
	sim_wait(sim, xfer, TCPX_ERR_REMOTE_KEY);
	SIM_CHECK(sim, sim->count.messages > 0, "nothing was sent");
}
CASE(refused_messages, mailing())

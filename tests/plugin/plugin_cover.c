/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory whose pages the driver does not export: it is never registered with the plugin, its
 * bytes go over tcp and are right, and the log says so. Over the TCPX emulator, on an A3 host.
 */
#include "abi/cuda.h"
#include "plugin_a3.h"
#include "plugin_said.h"

#include "fakecuda/fakecuda.h"

#define CALL "cuMemGetHandleForAddressRange"
#define SMALL (512u << 10) /* the stand-in begins it inside a page, */
#define WHOLE (2u << 20)   /* and this on one */
#define SAID "goes over tcp, not by the plugin&" CALL ": CUDA_ERROR_"

static struct fakecuda driver;

static void cover_env(struct side *side)
{
	side->gpu = true;
	side->nic = a3_nic(0);
	side_env("TCPX_PLUGIN_CHANNELS", "1");
	CHECK(fakecuda_open(getenv("TCPX_CUDA_LIBRARY"), &driver) == 0);
	said_keep(TCPX_LOG_INFO);
}

static void one_sided(struct side *side, enum tcpx_op op, const struct area *mine,
		      const struct area *open)
{
	tcpx_segment segment = {
		.local = mine->region, .remote = open->remote, .length = mine->bytes};

	OK(side_end(side, side_start(side, op, &segment, 1)));
}

static void two_sided(struct side *side, const struct area *area)
{
	tcpx_segment segment = {.local = area->region, .length = area->bytes};

	OK(side_end(side,
		    side_start(side, side->index ? TCPX_OP_RECV : TCPX_OP_SEND, &segment, 1)));
}

/* WRITE, READ and SEND from mine to the second's open, and back. */
static void transfers(struct side *side, struct area *mine, struct area *open)
{
	area_fill(side, mine, 0, mine->bytes, 1);
	side_meet(side);
	if (!side->index)
		one_sided(side, TCPX_OP_WRITE, mine, open);
	side_meet(side);
	CHECK_MSG(!side->index || area_is(side, open, 0, mine->bytes, 1), "WRITE: wrong bytes");
	if (side->index)
		area_fill(side, open, 0, mine->bytes, 2);
	side_meet(side);
	if (!side->index)
		one_sided(side, TCPX_OP_READ, mine, open);
	CHECK_MSG(side->index || area_is(side, mine, 0, mine->bytes, 2), "READ: wrong bytes");
	if (!side->index)
		area_fill(side, mine, 0, mine->bytes, 3);
	two_sided(side, mine);
	CHECK_MSG(area_is(side, mine, 0, mine->bytes, 3), "SEND: wrong bytes");
	side_meet(side);
}

/* Memory of those sizes is carried by the plugin, or is not and never registered. */
static void carried(struct side *side, uint64_t mine_bytes, uint64_t open_bytes, bool by_plugin)
{
	struct tcpxemu_stats before = side_stats(), now;
	struct area mine, open;

	area_make(side, &mine, mine_bytes);
	area_make(side, &open, open_bytes);
	area_swap(side, &open);
	transfers(side, &mine, &open);
	now = side_stats();
	if (by_plugin) {
		CHECK(now.sent_messages + now.received_messages >
		      before.sent_messages + before.received_messages);
		CHECK(side->index || now.regs > before.regs);
	} else {
		CHECK_EQ(now.sent_messages, before.sent_messages);
		CHECK_EQ(now.received_messages, before.received_messages);
		CHECK_EQ(now.regs, before.regs);
	}
	side_meet(side);
	area_free(side, &mine);
	area_free(side, &open);
}

/* The driver exports no page that is not all of an allocation. */
static void strict_run(struct side *side, void *arg)
{
	(void)arg;
	side_env("FAKECUDA_COVER_STRICT", "1");
	cover_env(side);
	side_open(side, TCPXEMU);
	side_connect(side, 1);
	carried(side, WHOLE, WHOLE, true);
	CHECK_EQ(said_count("goes over tcp"), 0);
	said_keep(TCPX_LOG_WARN);
	carried(side, SMALL, SMALL, false);
	CHECK_EQ(said_count(SAID "INVALID_VALUE&aligned to 64 KiB"), 1); /* the first of two */
	said_keep(TCPX_LOG_INFO);
	carried(side, SMALL, WHOLE, false); /* one end is enough */
	CHECK_EQ(said_count(SAID), 2);	    /* and each one at INFO */
	CHECK_EQ(said_count("channel &not up"), 0);
	side_close(side);
}

/* It changes its mind: what is registered afterwards is asked for. */
static void later_run(struct side *side, void *arg)
{
	uint64_t calls;

	(void)arg;
	cover_env(side);
	side_open(side, TCPXEMU);
	side_connect(side, 1);
	calls = driver.calls(CALL);
	carried(side, SMALL, SMALL, true);
	CHECK_EQ(driver.calls(CALL), calls + 2); /* by registrations, not by transfers */
	CHECK_EQ(driver.fail_call(CALL, 0, CUDA_ERR_NOT_SUPPORTED), 0);
	carried(side, WHOLE, WHOLE, false);
	CHECK_EQ(said_count(SAID "NOT_SUPPORTED"), 2);
	side_close(side);
}

/* The pages that messages are received with are asked for, too: there is no channel then. */
static void landing_run(struct side *side, void *arg)
{
	(void)arg;
	cover_env(side);
	CHECK_EQ(driver.fail_call(CALL, 0, CUDA_ERR_INVALID_VALUE), 0);
	side_open(side, TCPXEMU);
	side_connect(side, 0);
	said_await("channel &not up&" CALL);
	CHECK_EQ(side_peer(side).message_channels, 0);
	carried(side, WHOLE, WHOLE, false);
	side_close_broken(side);
}

/* It is not asked where the option says so. */
static void unasked_run(struct side *side, void *arg)
{
	(void)arg;
	side_env("TCPX_GPUDIRECT_COVER", "0");
	cover_env(side);
	CHECK_EQ(driver.fail_call(CALL, 0, CUDA_ERR_INVALID_VALUE), 0);
	side_open(side, TCPXEMU);
	side_connect(side, 1);
	carried(side, SMALL, SMALL, true);
	CHECK_EQ(driver.calls(CALL), 0);
	side_close(side);
}

struct row {
	const char *name;
	void (*run)(struct side *side, void *arg);
};

static void row_run(struct side *side, void *arg)
{
	((const struct row *)arg)->run(side, NULL);
}

int main(int argc, char **argv)
{
	static const struct row rows[] = {
		{"pages_outside_an_allocation", strict_run},
		{"refused_later", later_run},
		{"no_channel_without_a_landing", landing_run},
		{"not_asked", unasked_run},
	};
	struct sysfs_tree a3;
	int rc;

	a3_begin(&a3);
	rc = side_main(row_run, rows, sizeof(rows) / sizeof(*rows), sizeof(*rows),
		       argc > 1 ? argv[1] : NULL);
	sysfs_remove(&a3);
	return rc;
}

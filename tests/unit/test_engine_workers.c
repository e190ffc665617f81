/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk channels of all peers and sessions of a process lie on its workers evenly. */
#include "unit.h"

#include <sched.h>
#include <stdlib.h>

#include <tcpx/tcpx.h>

#include "engine/session/calls.h"
#include "sysfs_tree.h"

#define WORKERS 4
#define ETH3                                                                                       \
	"devices/pci0000:80/0000:80:03.0/"                                                         \
	"0000:82:00.0/0000:83:02.0/0000:86:00.0"
#define WAIT_NS 20000000000LL

static tcpx_session *opened(const char *name, uint32_t channels)
{
	TCPX_OPTS(tcpx_session_opts, opts, .name = name, .bind = "127.0.0.1", .channels = channels,
		  .workers = WORKERS, .flags = TCPX_SESSION_NO_LOCAL);
	tcpx_session *session;

	assert_int_equal(tcpx_session_open(&opts, &session), TCPX_OK);
	return session;
}

/* Both ends are in this process, so there are twice as many. */
static void connected(tcpx_session *from, tcpx_session *to)
{
	uint8_t info[TCPX_INFO_MAX_BYTES];
	uint16_t port;
	size_t len;
	tcpx_peer peer;

	assert_int_equal(tcpx_session_listen(to, NULL, &port), TCPX_OK);
	assert_int_equal(tcpx_session_info(to, info, sizeof(info), &len), TCPX_OK);
	assert_int_equal(tcpx_session_connect(from, info, len, NULL, &peer), TCPX_OK);
	assert_int_equal(tcpx_session_accept(to, WAIT_NS, &peer), TCPX_OK);
}

static void each_has(uint32_t channels)
{
	assert_int_equal(engine_runtime.nworkers, WORKERS);
	for (uint32_t i = 0; i < WORKERS; i++)
		assert_int_equal(atomic_load(&engine_runtime.workers[i].channels), channels);
}

static void channels_are_spread(void **state)
{
	tcpx_session *a[3], *b[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		char name[2][16];

		snprintf(name[0], sizeof(name[0]), "a%d", i);
		snprintf(name[1], sizeof(name[1]), "b%d", i);
		a[i] = opened(name[0], 2);
		b[i] = opened(name[1], 2);
		connected(a[i], b[i]);
		each_has((uint32_t)i + 1); /* 2 channels, 2 ends, 4 workers */
	}
	for (int i = 0; i < 3; i++) {
		tcpx_session_close(a[i]);
		tcpx_session_close(b[i]);
		if (i < 2)
			each_has(2 - (uint32_t)i);
	}
}

/* A machine of two nodes with a CPU of ours each, whose loopback is a NIC of the second one. */
static int two_nodes(struct sysfs_tree *tree)
{
	char cpu[2][16];
	cpu_set_t set;
	int count = 0;

	if (sched_getaffinity(0, sizeof(set), &set))
		return -1;
	for (int i = 0; i < CPU_SETSIZE && count < 2; i++)
		if (CPU_ISSET(i, &set))
			snprintf(cpu[count++], sizeof(cpu[0]), "%d\n", i);
	if (count < 2)
		return -1;
	assert_int_equal(sysfs_unpack(tree, "a3-high"), 0);
	assert_int_equal(sysfs_put(tree, "devices/system/node/node0/cpulist", cpu[0], 0), 0);
	assert_int_equal(sysfs_put(tree, "devices/system/node/node1/cpulist", cpu[1], 0), 0);
	assert_int_equal(sysfs_put(tree, ETH3 "/net/lo/device", "../../../0000:86:00.0", 1), 0);
	assert_int_equal(sysfs_put(tree, "class/net/lo", "../../" ETH3 "/net/lo", 1), 0);
	return 0;
}

static void have(uint32_t first, uint32_t second)
{
	for (uint32_t i = 0; i < WORKERS; i++) {
		assert_int_equal(engine_runtime.workers[i].node, i / 2);
		assert_int_equal(atomic_load(&engine_runtime.workers[i].channels),
				 i < 2 ? first : second);
	}
}

static int placed(void)
{
	struct sysfs_tree tree;
	tcpx_session *a, *b;

	if (two_nodes(&tree))
		return 0;
	setenv("TCPX_SYSFS", tree.root, 1);
	a = opened("a", 4);
	b = opened("b", 4);
	have(0, 0);
	connected(a, b);
	have(0, 4);
	tcpx_session_close(a);
	tcpx_session_close(b);
	sysfs_remove(&tree);
	return 0;
}

static void channels_are_near_their_nic(void **state)
{
	(void)state;
	assert_int_equal(in_child(placed), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(channels_are_near_their_nic),
		cmocka_unit_test(channels_are_spread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

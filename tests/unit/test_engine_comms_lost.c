/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the level at which lost plugin channels are logged: the first channel that is lost for a
 * cause as a warning, the others below; and the peer's counts at the level of their own channel,
 * whatever was logged about other channels meanwhile. */
#include "unit.h"

#include <pthread.h>

#include "engine/channel/comms.h"
#include "engine/link/engine.h"

#define FIRST 3 /* index of the first plugin channel */

static struct engine_peer peer;
static struct engine_peer_comms table;
static struct comms_slot slots[2];
static enum tcpx_log_level logged; /* level of the last line */
static char text[512];

static void keep(void *arg, enum tcpx_log_level level, const char *line)
{
	(void)arg;
	logged = level;
	snprintf(text, sizeof(text), "%s", line);
}

static int peer_make(void **state)
{
	(void)state;
	memset(&peer, 0, sizeof(peer));
	memset(&table, 0, sizeof(table));
	memset(slots, 0, sizeof(slots));
	table.slots = slots;
	table.first = FIRST;
	table.count = 2;
	peer.comms = &table;
	return pthread_mutex_init(&peer.link.lock, NULL);
}

static int peer_end(void **state)
{
	(void)state;
	return pthread_mutex_destroy(&peer.link.lock);
}

static void is_logged(uint32_t channel, const char *why, enum tcpx_log_level level)
{
	comms_lost_there(&peer, FIRST + channel, why);
	assert_non_null(strstr(text, why));
	assert_int_equal(logged, level);
}

static void counts_have_the_level_of_their_channel(void **state)
{
	(void)state;
	is_logged(0, "channel 3, NIC eth1: message 7 did not arrive", TCPX_LOG_WARN);
	is_logged(1, "channel 4, NIC eth1: message 2 did not arrive", TCPX_LOG_INFO);
	is_logged(0, "sends posted 7, done 6", TCPX_LOG_WARN);
	is_logged(1, "sends posted 2, done 2", TCPX_LOG_INFO);
	is_logged(1, "channel 4, NIC eth1: the helper died", TCPX_LOG_WARN);
	is_logged(0, "sends posted 7, done 6", TCPX_LOG_WARN);
}

/* The peer's counts may come without a reason, if this end gave one. */
static void counts_without_a_reason_are_no_warning(void **state)
{
	(void)state;
	is_logged(0, "sends posted 7, done 6", TCPX_LOG_INFO);
}

static void a_setup_that_was_logged_is_no_warning_again(void **state)
{
	(void)state;
	slots[0].told = true;
	is_logged(0, "channel 3, NIC eth1: accept: rc 3", TCPX_LOG_INFO);
	is_logged(0, "sends posted 0, done 0", TCPX_LOG_INFO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(counts_have_the_level_of_their_channel, peer_make,
						peer_end),
		cmocka_unit_test_setup_teardown(counts_without_a_reason_are_no_warning, peer_make,
						peer_end),
		cmocka_unit_test_setup_teardown(a_setup_that_was_logged_is_no_warning_again,
						peer_make, peer_end),
	};

	tcpx_log_set(keep, NULL, TCPX_LOG_INFO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

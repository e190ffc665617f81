/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's log lines: which pass, where they go, and that they are bounded. */
#include "ncclnet_rig.h"

#include "net/ncclnet/plugin_log.h"

static atomic_int lines, floods;

static void sink(void *arg, enum tcpx_log_level level, const char *line)
{
	(void)arg, (void)level;
	atomic_fetch_add(&lines, 1);
	if (strstr(line, "fake-net-v7.so: ") && strstr(line, "flood"))
		atomic_fetch_add(&floods, 1);
}

static int passes(const char *debug, const char *subsys, int level, unsigned long flags)
{
	struct net_plugin_filter filter = net_plugin_filter_parse(debug, subsys);

	return net_plugin_filter_passes(&filter, level, flags);
}

static void levels(void **state)
{
	(void)state;
	assert_false(passes(NULL, NULL, NCCLNET_LOG_WARN, ~0ul));
	assert_false(passes("nonsense", NULL, NCCLNET_LOG_WARN, ~0ul));
	assert_false(passes("VERSION", NULL, NCCLNET_LOG_WARN, ~0ul));
	assert_true(passes("warn", NULL, NCCLNET_LOG_WARN, ~0ul));
	assert_false(passes("WARN", NULL, NCCLNET_LOG_INFO, ~0ul));
	assert_true(passes("INFO", NULL, NCCLNET_LOG_INFO, NCCLNET_SUB_INIT));
	assert_false(passes("INFO", NULL, NCCLNET_LOG_TRACE, NCCLNET_SUB_INIT));
	assert_true(passes("TRACE", NULL, NCCLNET_LOG_TRACE, NCCLNET_SUB_INIT));
}

static void subsystems(void **state)
{
	(void)state;
	assert_false(passes("INFO", NULL, NCCLNET_LOG_INFO, NCCLNET_SUB_NET));
	assert_true(passes("INFO", NULL, NCCLNET_LOG_INFO, NCCLNET_SUB_ENV));
	assert_true(passes("INFO", "net", NCCLNET_LOG_INFO, NCCLNET_SUB_NET));
	assert_false(passes("INFO", "NET", NCCLNET_LOG_INFO, NCCLNET_SUB_INIT));
	assert_true(passes("INFO", "INIT,NET", NCCLNET_LOG_INFO, NCCLNET_SUB_NET));
	assert_true(passes("INFO", "ALL", NCCLNET_LOG_INFO, NCCLNET_SUB_COLL));
	assert_false(passes("INFO", "^NET", NCCLNET_LOG_INFO, NCCLNET_SUB_NET));
	assert_true(passes("INFO", "^NET", NCCLNET_LOG_INFO, NCCLNET_SUB_COLL));
	assert_false(passes("INFO", "NETS", NCCLNET_LOG_INFO, NCCLNET_SUB_NET));
	assert_false(passes("INFO", ",,", NCCLNET_LOG_INFO, NCCLNET_SUB_NET));
}

static void flood(void **state)
{
	struct rig rig;
	uint64_t number;

	(void)state;
	log_sink_set(sink, NULL, TCPX_LOG_INFO);
	rig_comms(&rig, RIG_FAKE("v7"));
	rig.fake->warns = 5000;
	assert_int_equal(net_comm_send(rig.send, rig.send_mr, rig.out, 1, &number), TCPX_OK);
	assert_int_equal(rig_info(&rig).warnings, 5000);
	assert_string_equal(rig_info(&rig).last_warning, "flood 1");
	assert_true(floods >= 1);
	assert_true(floods <= 200); /* a burst for each of two windows */
	rig.fake->warns = 0;
	rig_end(&rig);
	log_sink_set(NULL, NULL, TCPX_LOG_WARN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels),
		cmocka_unit_test(subsystems),
		cmocka_unit_test(flood),
	};
	sigset_t pipe;

	setenv("NCCL_DEBUG", "WARN", 1);
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's log lines: which pass, where they go, and that they are bounded. */
#include "ncclnet_rig.h"

#include <stdio.h>
#include <unistd.h>

#include "plugin/plugin_log.h"

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

#define WORDS "fatal, rx no cmsg"
#define OTHER_WORDS "CUDA call failed: 700"

/* A process whose plugin says so and ends it; with NULL it leaves by itself. */
static void end_with(const char *words)
{
	struct rig rig;
	uint64_t number;

	rig_comms(&rig, RIG_FAKE("v7"));
	rig.fake->warns = 1;
	rig.fake->ends = words;
	if (net_comm_send(rig.send, rig.send_mr, rig.out, 1, &number) != TCPX_OK || words)
		return;
	rig_end(&rig);
}

/* What such a process writes. */
static void output_of(const char *mode, char *out, size_t size)
{
	char command[4096];
	FILE *child;

	snprintf(command, sizeof(command), "NCCL_DEBUG= exec /proc/%d/exe %s 2>&1", getpid(), mode);
	child = popen(command, "re");
	assert_non_null(child);
	out[fread(out, 1, size - 1, child)] = '\0';
	pclose(child);
}

/* Whatever NCCL_DEBUG says: without them nobody knows why the process is gone. */
static void last_words_are_shown(void **state)
{
	char text[4096];

	(void)state;
	output_of("fatal", text, sizeof(text));
	assert_non_null(strstr(text, "tcpx: WARN fake-net-v7.so: "));
	assert_non_null(strstr(text, WORDS));
	assert_null(strstr(text, "its last warning")); /* it is there already */
	assert_null(strstr(text, "flood"));
	output_of("other", text, sizeof(text));
	assert_non_null(strstr(text, "the process ends with fake-net-v7.so in use; its last "
				     "warning was: " OTHER_WORDS));
	output_of("none", text, sizeof(text));
	assert_string_equal(text, "");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels),
		cmocka_unit_test(subsystems),
		cmocka_unit_test(flood),
		cmocka_unit_test(last_words_are_shown),
	};
	sigset_t pipe;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, NULL);
	if (argc > 1) {
		end_with(!strcmp(argv[1], "fatal")   ? WORDS
			 : !strcmp(argv[1], "other") ? OTHER_WORDS
						     : NULL);
		return 0;
	}
	setenv("NCCL_DEBUG", "WARN", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

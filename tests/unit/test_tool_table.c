/* SPDX-License-Identifier: Apache-2.0 */
/* Lines below the table of tcpx perf. */
#include <stdlib.h>

#include "perf_table.h"
#include "unit.h"

/* What is printed of a sender's counters, for the caller to free. */
static char *limits_of(const struct perf_options *o, const char *congestion, uint64_t retransmits)
{
	struct perf_meter sender = {.busy_ns = 1000000, .retransmits = retransmits};
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	snprintf(sender.congestion, sizeof(sender.congestion), "%s", congestion);
	perf_table_limits(out, o, &sender);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void many_retransmits_with_bbr_are_explained(void **state)
{
	static const struct {
		const char *congestion;
		uint64_t retransmits;
		int explained;
	} rows[] = {{"bbr", 48815, 1}, {"bbr", 20, 0}, {"cubic", 48815, 0}, {"", 48815, 0}};
	const struct perf_options o = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *text = limits_of(&o, rows[i].congestion, rows[i].retransmits);

		assert_non_null(strstr(text, "limited by"));
		assert_int_equal(strstr(text, "TCPX_CONGESTION=cubic") != NULL, rows[i].explained);
		free(text);
	}
}

static const struct {
	struct perf_options options;
	const char *process, *note;
} senders[] = {
	{{.op = PERF_OP_WRITE}, "this command\n", "bbr  trust"},
	{{.op = PERF_OP_READ},
	 "'tcpx serve' at the other end\n",
	 "bbr (this end; serve sends)  trust"},
	{{.op = PERF_OP_READ, .loopback = 1}, "this command\n", "bbr  trust"},
	{{.op = PERF_OP_WRITE, .bidir = 1},
	 "this command, and for 'tcpx serve' at the other end\n",
	 "bbr  trust"},
};

static void the_advice_names_the_process_that_sends(void **state)
{
	char wanted[160];

	(void)state;
	for (size_t i = 0; i < sizeof(senders) / sizeof(senders[0]); i++) {
		char *text = limits_of(&senders[i].options, "bbr", 48815);

		snprintf(wanted, sizeof(wanted), "set TCPX_CONGESTION=cubic for %s",
			 senders[i].process);
		assert_non_null(strstr(text, wanted));
		free(text);
	}
}

static void the_header_says_whose_congestion_control_it_is(void **state)
{
	const struct perf_path path = {.transport = "tcp", .congestion = "bbr", .channels = 2};

	(void)state;
	for (size_t i = 0; i < sizeof(senders) / sizeof(senders[0]); i++) {
		char *text = NULL;
		size_t bytes = 0;
		FILE *out = open_memstream(&text, &bytes);

		assert_non_null(out);
		perf_table_path(out, &senders[i].options, &path, NULL);
		assert_int_equal(fclose(out), 0);
		assert_non_null(strstr(text, senders[i].note));
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_retransmits_with_bbr_are_explained),
		cmocka_unit_test(the_advice_names_the_process_that_sends),
		cmocka_unit_test(the_header_says_whose_congestion_control_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

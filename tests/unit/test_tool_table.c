/* SPDX-License-Identifier: Apache-2.0 */
/* Lines below the table of tcpx perf. */
#include <stdlib.h>

#include "perf_table.h"
#include "unit.h"

/* What is printed of a sender's counters, for the caller to free. */
static char *limits_of(const char *congestion, uint64_t retransmits)
{
	struct perf_meter sender = {.busy_ns = 1000000, .retransmits = retransmits};
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	snprintf(sender.congestion, sizeof(sender.congestion), "%s", congestion);
	perf_table_limits(out, &sender);
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

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *text = limits_of(rows[i].congestion, rows[i].retransmits);

		assert_non_null(strstr(text, "limited by"));
		assert_int_equal(strstr(text, "TCPX_CONGESTION=cubic") != NULL, rows[i].explained);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_retransmits_with_bbr_are_explained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* diag: what is hidden in a text, and the differences of two. */
#include <stdlib.h>

#include "cli_secret.h"
#include "diag_mask.h"
#include "diag_summary.h"
#include "unit.h"

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static struct diag_mask mask;

/* What becomes of a text; the caller frees it. */
static char *masked(const char *text)
{
	char *out = NULL;
	size_t len;
	FILE *f = open_memstream(&out, &len);

	assert_non_null(f);
	diag_mask_write(&mask, text, strlen(text), f);
	assert_int_equal(fclose(f), 0);
	return out;
}

static void assert_masked(const char *text, const char *want)
{
	char *got = masked(text);

	assert_string_equal(got, want);
	free(got);
}

static void keys_are_hidden_wherever_they_stand(void **state)
{
	(void)state;
	diag_mask_init(&mask, 0);
	assert_masked(KEY, "(hidden)");
	assert_masked("k=" KEY "\n", "k=(hidden)\n");
	assert_masked("x" KEY KEY "y", "x(hidden)y");
	assert_masked(KEY ":10.0.0.1", "(hidden):10.0.0.1");
	assert_masked("0123456789abcdef 10.0.0.1", "0123456789abcdef 10.0.0.1");
}

static void addresses_get_one_name_each(void **state)
{
	(void)state;
	diag_mask_init(&mask, 1);
	snprintf(mask.host, sizeof(mask.host), "node7");
	assert_masked("10.0.0.1 10.0.0.2:80 10.0.0.1/24", "ip-1 ip-2:80 ip-1/24");
	assert_masked("[fe80::1]:9 FE80::1 ::1 127.0.0.1 0.0.0.0",
		      "[ip-3]:9 ip-3 ::1 127.0.0.1 0.0.0.0");
	assert_masked("42:01:0a:80:00:02, 42:01:0A:80:00:02", "mac-1, mac-1");
	assert_masked("to 10.0.0.2.\n", "to ip-2.\n");
	assert_masked("node7:/x node77 anode7 node7", "host-1:/x node77 anode7 host-1");
	/* what only looks like one */
	assert_masked("0000:04:00.0 1.2.3 535.104.05 10:02:16",
		      "0000:04:00.0 1.2.3 535.104.05 10:02:16");
	assert_masked("1.2.3.4.5 x10.0.0.1 300.0.0.1", "1.2.3.4.5 x10.0.0.1 300.0.0.1");
}

static void more_addresses_than_room_are_hidden_too(void **state)
{
	(void)state;
	diag_mask_init(&mask, 1);
	for (unsigned i = 0; i < DIAG_MASK_MAX + 10; i++) {
		char text[32], *got;

		snprintf(text, sizeof(text), "10.1.%u.%u", i / 250, i % 250);
		got = masked(text);
		assert_null(strstr(got, "10.1."));
		free(got);
	}
}

static void secrets_are_known_by_name(void **state)
{
	(void)state;
	assert_true(cli_is_secret("NCCL_API_TOKEN=x", 14));
	assert_true(cli_is_secret("my_password", 11));
	assert_true(cli_is_secret("TCPX_KEY", 8));
	assert_false(cli_is_secret("TCPX_KEY_FILE", 13));
	assert_false(cli_is_secret("NCCL_ALGO", 9));
	assert_true(cli_has_key("a " KEY));
	assert_false(cli_has_key(&(KEY)[1]));
}

static void assert_differences(const char *a, const char *b, unsigned count, const char *want)
{
	const char *names[2] = {"before", "after"};
	char *out = NULL;
	size_t len;
	FILE *f = open_memstream(&out, &len);

	assert_non_null(f);
	assert_int_equal(diag_differences(a, b, ": ", names, 3, f), count);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(out, want);
	free(out);
}

static void differences_are_named_by_line(void **state)
{
	(void)state;
	assert_differences("a: 1\nb: 2\n", "b: 2\na: 1\n", 0, "");
	assert_differences("a: 1\n", "a: 5\n", 1, "  a: 1 -> 5  (+4)\n");
	assert_differences("a: 5\n", "a: 1\n", 1, "  a: 5 -> 1  (-4)\n");
	assert_differences("a: up\n", "a: down\n", 1, "  a: up -> down\n");
	assert_differences("a: 1\n", "b: 1\n", 2, "  a: only before: 1\n  b: only after: 1\n");
	assert_differences("", "a: 1\nb: 1\nc: 1\nd: 1\n", 4,
			   "  a: only after: 1\n  b: only after: 1\n  c: only after: 1\n"
			   "  and 1 more\n");
	assert_differences("no separator\n", "\n\n", 0, "");
}

static void the_use_of_cpus_is_counted(void **state)
{
	char *out = NULL;
	size_t len;
	FILE *f = open_memstream(&out, &len);

	(void)state;
	assert_non_null(f);
	diag_cpu_use("cpu  0 0 0 0 0 0 0 0\ncpu0 10 0 10 80 0 0 0 0\n",
		     "cpu  30 0 20 50 0 0 0 0\ncpu0 10 0 10 180 0 0 0 0\n", f);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(out, "  cpu 50 %\n  cpu0 0 %\n");
	free(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_hidden_wherever_they_stand),
		cmocka_unit_test(addresses_get_one_name_each),
		cmocka_unit_test(more_addresses_than_room_are_hidden_too),
		cmocka_unit_test(secrets_are_known_by_name),
		cmocka_unit_test(differences_are_named_by_line),
		cmocka_unit_test(the_use_of_cpus_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* doctor: recorded facts with wild lines and values are refused, or go through every rule. */
#include "base/rng.h"
#include "doctor_rules.h"
#include "unit.h"

static struct doctor_report report;

static size_t read_record(const char *name, char *text, size_t cap)
{
	char path[512];
	FILE *f;
	size_t len;

	snprintf(path, sizeof(path), "%s/facts/%s.facts", RECORD_DIR, name);
	f = fopen(path, "re");
	assert_non_null(f);
	len = fread(text, 1, cap, f);
	fclose(f);
	assert_true(len > 0 && len < cap);
	return len;
}

/* A value for each key: of another line, a huge one, or a few bytes of it changed. */
static size_t mutate(struct rng *rng, const char *from, size_t len, char *out)
{
	static const char *const wild[] = {"18446744073709551615",
					   "-9223372036854775808",
					   "",
					   "unlimited",
					   ",,,",
					   "%s%n",
					   "0-1,,5-",
					   "eth1:"};
	size_t used = 0;

	for (size_t at = 0; at < len;) {
		size_t line = strcspn(from + at, "\n"), name = strcspn(from + at, "=");
		uint64_t dice = rng_u64(rng) % 600;

		memcpy(out + used, from + at, line + 1);
		if (dice < 3 && name < line && at) {
			const char *value = wild[rng_u64(rng) % 8];

			memcpy(out + used + name + 1, value, strlen(value));
			out[used + name + 1 + strlen(value)] = '\n';
			used += name + 2 + strlen(value);
		} else if (dice == 3 && at) {
			out[used + rng_u64(rng) % line] ^= (char)(1u << rng_u64(rng) % 8);
			used += line + 1;
		} else if (dice != 4 || !at) {
			used += line + 1;
		}
		at += line + 1;
	}
	return used;
}

static void wild_facts_are_refused_or_judged(void **state)
{
	static const char *const names[] = {"a3-healthy", "a3-eth2", "wrong-environment",
					    "a3-no-rxdm", "laptop",  "peer-differs"};
	static char text[65536], wild[4 * 65536];
	struct rng rng;
	unsigned judged = 0, refused = 0;

	(void)state;
	rng_seed(&rng, 1);
	for (unsigned i = 0; i < 1200; i++) {
		struct doctor_facts facts = {0};
		char why[300] = "";
		size_t len = read_record(names[i % 6], text, sizeof(text) - 1);

		text[len] = '\0';
		len = mutate(&rng, text, len, wild);
		if (doctor_facts_parse(&facts, wild, len, why, sizeof(why))) {
			assert_true(*why);
			assert_int_equal(facts.count, 0);
			refused++;
			continue;
		}
		doctor_judge_all(&facts, UINT64_MAX, &report);
		assert_true(report.count >= 20);
		doctor_facts_free(&facts);
		judged++;
	}
	assert_true(refused > 0);
	print_message("%u refused, %u judged\n", refused, judged);
}

/* Wild values that are well-formed for their key go through every rule. */
static void wild_values_are_judged(void **state)
{
	static const char *const values[] = {"18446744073709551615",
					     "-9223372036854775808",
					     "0",
					     "yes",
					     "no",
					     "",
					     ",,:;-",
					     "0-1023",
					     "unlimited",
					     "0000:04:00.0"};
	static char text[65536];
	struct rng rng;

	(void)state;
	rng_seed(&rng, 2);
	for (unsigned i = 0; i < 2000; i++) {
		struct doctor_facts facts = {0};
		size_t len =
			read_record(i & 1 ? "peer-differs" : "a3-eth2", text, sizeof(text) - 1);
		char why[300] = "";

		text[len] = '\0';
		assert_int_equal(doctor_facts_parse(&facts, text, len, why, sizeof(why)), 0);
		for (unsigned k = 0; k < 1 + i % 50; k++) {
			const struct doctor_fact *row = &facts.rows[rng_u64(&rng) % facts.count];

			doctor_put_text(&facts, values[rng_u64(&rng) % 10], "%s", row->key);
		}
		doctor_judge_all(&facts, UINT64_MAX, &report);
		assert_true(report.count >= 20);
		doctor_facts_free(&facts);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wild_facts_are_refused_or_judged),
		cmocka_unit_test(wild_values_are_judged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

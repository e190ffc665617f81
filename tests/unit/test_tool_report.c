/* SPDX-License-Identifier: Apache-2.0 */
/* report: which links are slow, and whom that is put down to. */
#include "report.h"
#include "unit.h"

#define GB 1e9

/* A mesh of ranks with so many GPUs each; every link of two ranks at 10 GB/s. */
struct mesh {
	struct report report;
	char hosts[8][REPORT_HOST_MAX];
	struct report_end ends[32];
	struct report_cell cells[1024];
	struct report_findings found;
};

static void make(struct mesh *m, uint32_t ranks, uint32_t gpus)
{
	struct report *r = &m->report;

	*m = (struct mesh){.found = {0}};
	*r = (struct report){.op = "write", .hosts = m->hosts, .ends = m->ends, .cells = m->cells};
	r->nranks = ranks;
	for (uint32_t i = 0; i < ranks * gpus; i++)
		m->ends[r->nends++] =
			(struct report_end){.rank = i / gpus, .gpu = i % gpus, .host = "h"};
	for (uint32_t from = 0; from < r->nends; from++)
		for (uint32_t to = 0; to < r->nends; to++)
			if (from / gpus != to / gpus)
				m->cells[r->ncells++] = (struct report_cell){
					.from = from, .to = to, .rate = 10 * GB};
}

static struct report_cell *cell(struct mesh *m, uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; i < m->report.ncells; i++)
		if (m->cells[i].from == from && m->cells[i].to == to)
			return &m->cells[i];
	fail();
	return NULL;
}

/* "slow links, stragglers" */
static void judged(struct mesh *m, uint32_t slow, uint32_t stragglers)
{
	assert_int_equal(report_judge(&m->report, 20, &m->found), 0);
	assert_int_equal(m->found.nslow, slow);
	assert_int_equal(m->found.nstragglers, stragglers);
}

static void a_healthy_mesh(void **state)
{
	struct mesh m;

	(void)state;
	make(&m, 4, 2);
	cell(&m, 0, 2)->rate = 8.01 * GB; /* inside the 20 % */
	cell(&m, 2, 0)->rate = 30 * GB;	  /* fast is no fault */
	judged(&m, 0, 0);
	assert_true(m.found.median == 10 * GB && m.found.least == 8.01 * GB &&
		    m.found.most == 30 * GB);
	report_findings_free(&m.found);
}

static void one_slow_link(void **state)
{
	struct mesh m;

	(void)state;
	make(&m, 3, 2);
	cell(&m, 5, 0)->rate = 7.99 * GB;
	judged(&m, 1, 0);
	for (uint32_t i = 0; i < m.report.ncells; i++)
		assert_int_equal(m.found.slow[i], m.cells[i].from == 5 && m.cells[i].to == 0
							  ? REPORT_SLOW
							  : REPORT_WELL);
	report_findings_free(&m.found);
}

static void a_slow_receiver(void **state)
{
	struct mesh m;
	uint32_t slow, all;

	(void)state;
	make(&m, 4, 2);
	for (uint32_t from = 2; from < 8; from++)
		cell(&m, from, 1)->rate = (3 + from) * GB / 10;
	cell(&m, 7, 2)->rate = 1 * GB; /* and a link beside */
	judged(&m, 1, 1);
	assert_int_equal(m.found.ends[1], REPORT_RECEIVES);
	assert_true(report_rate(&m.report, &m.found, 0, 1, REPORT_RECEIVES, &slow, &all) ==
		    0.75 * GB);
	assert_int_equal(slow, 6);
	assert_int_equal(all, 6);
	report_findings_free(&m.found);
}

static void a_slow_host(void **state)
{
	struct mesh m;

	(void)state;
	make(&m, 4, 2);
	for (uint32_t i = 0; i < 2; i++)
		for (uint32_t far = 2; far < 8; far++)
			cell(&m, i, far)->rate = cell(&m, far, i)->rate = 2 * GB;
	judged(&m, 0, 1);
	assert_int_equal(m.found.ranks[0], REPORT_SENDS | REPORT_RECEIVES);
	assert_int_equal(m.found.ranks[1] | m.found.ranks[2] | m.found.ranks[3], 0);
	assert_int_equal(m.found.ends[0] | m.found.ends[1], 0); /* said once */
	report_findings_free(&m.found);
}

/* A host that sends slowly, with one GPU that receives slowly, too. */
static void one_direction_of_a_host(void **state)
{
	struct mesh m;

	(void)state;
	make(&m, 4, 2);
	for (uint32_t far = 2; far < 8; far++) {
		cell(&m, 0, far)->rate = cell(&m, 1, far)->rate = 2 * GB;
		cell(&m, far, 1)->rate = 3 * GB;
	}
	judged(&m, 0, 2);
	assert_int_equal(m.found.ranks[0], REPORT_SENDS);
	assert_int_equal(m.found.ends[0], 0);
	assert_int_equal(m.found.ends[1], REPORT_RECEIVES);
	report_findings_free(&m.found);
}

/* A link alone says nothing of its ends. */
static void two_ends(void **state)
{
	struct mesh m;

	(void)state;
	make(&m, 2, 1);
	cell(&m, 0, 1)->rate = 1 * GB;
	judged(&m, 1, 0);
	report_findings_free(&m.found);
	make(&m, 2, 1);
	m.report.ncells = 0;
	judged(&m, 0, 0);
	assert_true(m.found.median == 0);
	report_findings_free(&m.found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_healthy_mesh),	   cmocka_unit_test(one_slow_link),
		cmocka_unit_test(a_slow_receiver),	   cmocka_unit_test(a_slow_host),
		cmocka_unit_test(one_direction_of_a_host), cmocka_unit_test(two_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

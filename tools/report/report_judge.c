/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which links are slow, and which ends or hosts cause it. Pure. */
#include <stdlib.h>
#include <string.h>

#include "report.h"

static int report_judge_by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double report_judge_median(double *rates, uint32_t count)
{
	if (!count)
		return 0;
	qsort(rates, count, sizeof(*rates), report_judge_by_value);
	return count % 2 ? rates[count / 2] : (rates[count / 2 - 1] + rates[count / 2]) / 2;
}

/* Whether the cell belongs to the end (or rank) in this direction. */
static int belongs(const struct report *r, const struct report_cell *cell, int rank, uint32_t index,
		   int direction)
{
	uint32_t end = direction == REPORT_SENDS ? cell->from : cell->to;

	return rank ? r->ends[end].rank == index : end == index;
}

double report_rate(const struct report *r, const struct report_findings *f, int rank,
		   uint32_t index, int direction, uint32_t *out_slow, uint32_t *out_all)
{
	double *rates = calloc(r->ncells + 1, sizeof(*rates)), middle;

	*out_slow = *out_all = 0;
	if (!rates)
		return 0;
	for (uint32_t i = 0; i < r->ncells; i++) {
		if (!belongs(r, &r->cells[i], rank, index, direction))
			continue;
		rates[(*out_all)++] = r->cells[i].rate;
		*out_slow += f->slow[i] != REPORT_WELL;
	}
	middle = report_judge_median(rates, *out_all);
	free(rates);
	return middle;
}

/* Per end: all cells and slow ones, at [direction - 1]. */
struct count {
	uint32_t all[2], slow[2];
};

static void count_cells(const struct report *r, const struct report_findings *f,
			struct count *counts)
{
	for (uint32_t i = 0; i < r->ncells; i++) {
		uint32_t ends[2] = {r->cells[i].from, r->cells[i].to};

		for (int d = 0; d < 2; d++) {
			struct count *it = &counts[ends[d]];

			it->all[d]++;
			it->slow[d] += f->slow[i] != REPORT_WELL;
		}
	}
}

/* Whether most of its links are slow. A single link says nothing about its ends. */
static unsigned char report_judge_directions(const struct count *count)
{
	unsigned char found = 0;

	for (int d = 0; d < 2; d++)
		if (count->all[d] > 1 && 2 * count->slow[d] > count->all[d])
			found |= (unsigned char)(1 << d);
	return found;
}

/* A rank whose ends are all slow is slow as a whole, if it has several. */
static void find_ranks(const struct report *r, struct report_findings *f)
{
	for (uint32_t rank = 0; rank < r->nranks; rank++) {
		unsigned char all = REPORT_SENDS | REPORT_RECEIVES;
		uint32_t ends = 0;

		for (uint32_t i = 0; i < r->nends; i++)
			if (r->ends[i].rank == rank) {
				all &= f->ends[i];
				ends++;
			}
		if (ends < 2 || !all)
			continue;
		f->ranks[rank] = all;
		f->nstragglers++;
		for (uint32_t i = 0; i < r->nends; i++)
			if (r->ends[i].rank == rank)
				f->ends[i] &= (unsigned char)~all;
	}
}

static int is_explained(const struct report *r, const struct report_findings *f,
			const struct report_cell *cell)
{
	const uint32_t from = r->ends[cell->from].rank, to = r->ends[cell->to].rank;

	return (f->ends[cell->from] | f->ranks[from]) & REPORT_SENDS ||
	       (f->ends[cell->to] | f->ranks[to]) & REPORT_RECEIVES;
}

static int find_stragglers(const struct report *r, struct report_findings *f)
{
	struct count *counts = calloc(r->nends + 1, sizeof(*counts));

	if (!counts)
		return -1;
	count_cells(r, f, counts);
	for (uint32_t i = 0; i < r->nends; i++)
		f->ends[i] = report_judge_directions(&counts[i]);
	free(counts);
	find_ranks(r, f);
	for (uint32_t i = 0; i < r->nends; i++)
		f->nstragglers += f->ends[i] != 0;
	for (uint32_t i = 0; i < r->ncells; i++) {
		if (f->slow[i] == REPORT_WELL)
			continue;
		if (is_explained(r, f, &r->cells[i]))
			f->slow[i] = REPORT_EXPLAINED;
		else
			f->nslow++;
	}
	return 0;
}

static int report_judge_measure(const struct report *r, struct report_findings *f)
{
	double *rates = calloc(r->ncells + 1, sizeof(*rates));

	if (!rates)
		return -1;
	for (uint32_t i = 0; i < r->ncells; i++) {
		rates[i] = r->cells[i].rate;
		f->wrong += r->cells[i].wrong;
	}
	f->median = report_judge_median(rates, r->ncells);
	f->least = r->ncells ? rates[0] : 0;
	f->most = r->ncells ? rates[r->ncells - 1] : 0;
	free(rates);
	return 0;
}

int report_judge(const struct report *r, double percent, struct report_findings *out)
{
	struct report_findings *f = out;

	*f = (struct report_findings){.median = 0};
	f->slow = calloc(r->ncells + 1, 1);
	f->ends = calloc(r->nends + 1, 1);
	f->ranks = calloc(r->nranks + 1, 1);
	if (!f->slow || !f->ends || !f->ranks || report_judge_measure(r, f))
		return -1;
	for (uint32_t i = 0; i < r->ncells; i++)
		if (r->cells[i].rate < f->median * (1 - percent / 100))
			f->slow[i] = REPORT_SLOW;
	return find_stragglers(r, f);
}

void report_findings_free(struct report_findings *f)
{
	free(f->slow);
	free(f->ends);
	free(f->ranks);
}

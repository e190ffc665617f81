/* SPDX-License-Identifier: Apache-2.0 */
/* Findings in words. */
#include "base/bytes.h"
#include "report.h"

#define GIGA 1e9
#define LISTED 32 /* most slow links listed; the drawing has all */

static void name_end(const struct report *r, uint32_t end, FILE *out)
{
	const struct report_end *e = &r->ends[end];

	fprintf(out, "rank %u (%s) GPU %u", e->rank, e->host, e->gpu);
}

static double percent_of(double rate, double whole)
{
	return whole > 0 ? 100 * rate / whole : 0;
}

static void print_wrong(const struct report *r, FILE *out)
{
	for (uint32_t i = 0; i < r->ncells; i++) {
		if (!r->cells[i].wrong)
			continue;
		fprintf(out, "WRONG DATA: %llu bytes, ", (unsigned long long)r->cells[i].wrong);
		name_end(r, r->cells[i].from, out);
		fprintf(out, " -> ");
		name_end(r, r->cells[i].to, out);
		fprintf(out, "\n");
	}
}

static void print_straggler(const struct report *r, const struct report_findings *f, int rank,
			    uint32_t index, FILE *out)
{
	unsigned char found = rank ? f->ranks[index] : f->ends[index];

	for (int d = REPORT_SENDS; d <= REPORT_RECEIVES; d++) {
		uint32_t slow, all;
		double rate;

		if (!(found & d))
			continue;
		rate = report_rate(r, f, rank, index, d, &slow, &all);
		fprintf(out, "straggler: ");
		if (rank)
			fprintf(out, "rank %u (%s), all its GPUs,", index, r->hosts[index]);
		else
			name_end(r, index, out);
		fprintf(out, " %s at %.3f GB/s, %.0f %% of the median; %u of %u links are slow\n",
			d == REPORT_SENDS ? "sends" : "receives", rate / GIGA,
			percent_of(rate, f->median), slow, all);
	}
}

static void print_slow(const struct report *r, const struct report_findings *f, FILE *out)
{
	uint32_t listed = 0;

	for (uint32_t i = 0; i < r->ncells && listed < LISTED; i++) {
		if (f->slow[i] != REPORT_SLOW)
			continue;
		fprintf(out, "slow link: ");
		name_end(r, r->cells[i].from, out);
		fprintf(out, " -> ");
		name_end(r, r->cells[i].to, out);
		fprintf(out, ": %.3f GB/s, %.0f %% of the median\n", r->cells[i].rate / GIGA,
			percent_of(r->cells[i].rate, f->median));
		listed++;
	}
	if (listed < f->nslow)
		fprintf(out, "and %u more slow links\n", f->nslow - listed);
}

void report_print(const struct report *r, const struct report_findings *f, FILE *out)
{
	char size[BYTES_TEXT_MAX];

	fprintf(out, "mesh of %u ranks, %u GPUs: %s of %s, %u links\n", r->nranks, r->nends, r->op,
		bytes_format(r->size, size, sizeof(size)), r->ncells);
	print_wrong(r, out);
	fprintf(out, "median %.3f GB/s, least %.3f, most %.3f\n", f->median / GIGA, f->least / GIGA,
		f->most / GIGA);
	for (uint32_t i = 0; i < r->nranks; i++)
		print_straggler(r, f, 1, i, out);
	for (uint32_t i = 0; i < r->nends; i++)
		print_straggler(r, f, 0, i, out);
	print_slow(r, f, out);
	if (!f->nslow && !f->nstragglers)
		fprintf(out, "no link is slow\n");
}

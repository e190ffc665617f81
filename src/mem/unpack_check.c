/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the plugin's descriptors of fragments, and turns them into pieces of a launch. */
#include <inttypes.h>

#include "base/error.h"
#include "mem/unpack_priv.h"

#define WORD 16u

static const char broken[] = "the plugin or the peer broke its contract: the channel is unusable";

/* Returns ERR_CORRUPT with the error that fragment `i` is not valid. */
static tcpx_status refuse_frag(uint32_t i, const struct base_frag *f,
			       const struct mem_unpack_job *job, const char *what)
{
	(void)error_set(TCPX_ERR_CORRUPT, 0,
			"fragment %u of %" PRIu64 " %s: %u bytes at %u of the pool to %" PRIu64
			" (pool %" PRIu64 ", posted %" PRIu64 ", expected %" PRIu64 " bytes)",
			i, job->nfrags, what, f->len, f->src, f->dst, job->src_bytes,
			job->dst_bytes, job->expect);
	return error_next("%s", broken);
}

/* Checks that one fragment lies in the pool and in the posted buffer, and that the fragments up to
 * this one do not exceed the expected length. `sum` is the length of the fragments before it. */
static tcpx_status check_frag(const struct mem_unpack_job *job, uint32_t i,
			      const struct base_frag *f, uint64_t sum)
{
	if (f->src > job->src_bytes || f->len > job->src_bytes - f->src)
		return refuse_frag(i, f, job, "exceeds the pool");
	if (f->dst > job->dst_bytes || f->len > job->dst_bytes - f->dst)
		return refuse_frag(i, f, job, "exceeds the posted buffer");
	if (f->len > job->expect - sum)
		return refuse_frag(i, f, job, "exceeds the expected length");
	return TCPX_OK;
}

/* Splits a fragment into pieces and returns their number; if `split` is 0, the fragment becomes one
 * piece. All pieces except the last end at an aligned word of the destination, so that warps do not
 * share a word. */
static uint32_t add_pieces(struct base_frag *pieces, struct base_frag f, int split)
{
	uint32_t n = 0, head = (uint32_t)(0 - f.dst) % WORD, step = head + MEM_UNPACK_WORDS * WORD;

	while (split && f.len > step + WORD - 1) {
		pieces[n++] = (struct base_frag){f.src, step, f.dst};
		f.src += step;
		f.dst += step;
		f.len -= step;
		step = MEM_UNPACK_WORDS * WORD;
	}
	pieces[n++] = f;
	return n;
}

/* Merges two runs of indices with ascending destinations, [from, mid) and [mid, end) of `in`, into
 * `out`. */
static void merge_runs(const struct base_frag *pieces, const uint16_t *in, uint16_t *out,
		       uint32_t from, uint32_t mid, uint32_t end)
{
	uint32_t a = from, b = mid;

	for (uint32_t k = from; k < end; k++)
		if (b == end || (a < mid && pieces[in[a]].dst <= pieces[in[b]].dst))
			out[k] = in[a++];
		else
			out[k] = in[b++];
}

/* Returns the end of the run of ascending destinations that begins at index `from`. */
static uint32_t run_end(const struct base_frag *pieces, const uint16_t *order, uint32_t from,
			uint32_t count)
{
	do
		from++;
	while (from < count && pieces[order[from - 1]].dst <= pieces[order[from]].dst);
	return from;
}

/* Returns the indices of the pieces sorted by destination. Merges ascending runs until one is
 * left. */
static const uint16_t *sort_pieces(const struct base_frag *pieces, uint32_t count, uint16_t *order)
{
	uint16_t *in = order, *out = order + MEM_UNPACK_PIECES;

	for (uint32_t i = 0; i < count; i++)
		in[i] = (uint16_t)i;
	while (run_end(pieces, in, 0, count) < count) {
		uint16_t *was = in;

		for (uint32_t from = 0, mid, end; from < count; from = end) {
			mid = run_end(pieces, in, from, count);
			end = mid < count ? run_end(pieces, in, mid, count) : mid;
			merge_runs(pieces, in, out, from, mid, end);
		}
		in = out;
		out = was;
	}
	return in;
}

/* Checks that no pieces overlap at the destination. Called only if a fragment's destination begins
 * before the end of the previous fragment's; other lists have no overlaps. `room` has space for 2 *
 * MEM_UNPACK_PIECES indices. */
static tcpx_status check_overlaps(const struct mem_unpack_job *job, const struct base_frag *pieces,
				  uint32_t count, uint16_t *room)
{
	const uint16_t *order = sort_pieces(pieces, count, room);

	for (uint32_t i = 1; i < count; i++) {
		const struct base_frag *a = &pieces[order[i - 1]], *b = &pieces[order[i]];

		if (b->dst - a->dst >= a->len)
			continue;
		(void)error_set(TCPX_ERR_CORRUPT, 0,
				"two fragments overlap: %u bytes to %" PRIu64
				", %u bytes to %" PRIu64,
				a->len, a->dst - job->dst, b->len, b->dst - job->dst);
		return error_next("%s", broken);
	}
	return TCPX_OK;
}

tcpx_status mem_unpack_add(struct mem_unpack *u, struct unpack_slot *slot,
			   const struct mem_unpack_job *job)
{
	struct base_frag *pieces = slot->pieces + slot->count;
	uint64_t sum = 0, end = 0;
	uint32_t count = 0;
	int ascends = 1;

	for (uint32_t i = 0; i < job->nfrags; i++) {
		/* read once, so that what is checked is what is copied */
		struct base_frag f = job->frags[i];
		tcpx_status status = check_frag(job, i, &f, sum);

		if (status != TCPX_OK)
			return status;
		if (!f.len)
			continue;
		ascends &= f.dst >= end;
		end = f.dst + f.len;
		sum += f.len;
		f.dst += job->dst;
		count += add_pieces(pieces + count, f, u->split);
	}
	if (sum != job->expect) {
		(void)error_set(TCPX_ERR_CORRUPT, 0,
				"%" PRIu64 " fragments of %" PRIu64 " bytes where %" PRIu64
				" bytes were expected",
				job->nfrags, sum, job->expect);
		return error_next("%s", broken);
	}
	if (!ascends) {
		tcpx_status status = check_overlaps(job, pieces, count, u->order);

		if (status != TCPX_OK)
			return status;
	}
	slot->count += count;
	slot->bytes += sum;
	return TCPX_OK;
}

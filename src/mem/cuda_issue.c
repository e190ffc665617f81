/* SPDX-License-Identifier: Apache-2.0 */
/* Copies by the GPU's copy engine. Contiguous copies are merged into runs, and each run is one
 * driver call. If the driver refuses a call, the call is repeated in smaller parts. */
#include "mem/cuda_issue.h"

#include "base/error.h"

/* A list of copies that is being put into a stream. */
struct issue {
	const struct sys_cuda *api;
	cuda_stream stream;
	uint8_t *bounce; /* MEM_BOUNCE_BYTES of pinned memory for copies within the GPU, or NULL */
	cuda_result fatal; /* the error that made the device unusable, or CUDA_OK */
};

/* A run: copies that one driver call makes together. Each has one piece, and they are contiguous in
 * the slots and on the GPU. */
struct run {
	struct mem_copy *first, *last; /* first and last copy of the run, linked by `next` */
	/* address of the first byte in the slots; address of the first byte on the GPU */
	uint8_t *slot, *memory;
	uint64_t bytes;
};

/* Copies from `from` to `to`, both GPU memory, through the bounce buffer. One buffer is enough,
 * because the stream keeps the order of the parts. */
static cuda_result bounce_bytes(const struct issue *issue, cuda_ptr to, cuda_ptr from,
				uint64_t bytes)
{
	cuda_ptr between = (uintptr_t)issue->bounce;
	cuda_result result = CUDA_OK;

	while (bytes && result == CUDA_OK) {
		uint64_t part = bytes < MEM_BOUNCE_BYTES ? bytes : MEM_BOUNCE_BYTES;

		result = issue->api->copy_async(between, from, part, issue->stream);
		if (result == CUDA_OK)
			result = issue->api->copy_async(to, between, part, issue->stream);
		to += part;
		from += part;
		bytes -= part;
	}
	return result;
}

static cuda_result copy_bytes(const struct issue *issue, const struct mem_copy *copy, void *slot,
			      void *memory, uint64_t bytes)
{
	cuda_ptr host = (uintptr_t)slot, gpu = (uintptr_t)memory;

	if (issue->bounce && copy->within)
		return bounce_bytes(issue, gpu, host, bytes);
	return copy->to_slot ? issue->api->copy_async(host, gpu, bytes, issue->stream)
			     : issue->api->copy_async(gpu, host, bytes, issue->stream);
}

/* Records a failure as the result of the copy, unless the copy has failed before. Parts of the copy
 * may be in the stream, so the copy's `done` is called only when its whole group has ended. */
static void record_failure(struct issue *issue, struct mem_copy *copy, cuda_result result)
{
	static struct log_limit limit;

	if (copy->result == TCPX_OK) {
		copy->result = sys_cuda_error(result, copy->to_slot ? "copy from the GPU"
								    : "copy to the GPU");
		if (result != CUDA_ERR_DEINITIALIZED && log_allow(&limit, 3))
			LOG_WARN("%s", error_last()->what);
	}
	if (sys_cuda_fatal(result))
		issue->fatal = result;
}

/* Returns the total length of piece *i and of the pieces that follow it contiguously, both in GPU
 * memory and at the copy's other side. Advances *i to the first piece after them. */
static uint64_t stretch_bytes(const struct mem_copy *copy, uint32_t *i)
{
	uint8_t *memory = copy->pieces[*i].addr;
	uint64_t bytes = copy->pieces[*i].length, source = copy->sources ? copy->sources[*i] : 0;

	while (++*i < copy->npieces && copy->pieces[*i].addr == memory + bytes &&
	       (!copy->sources || copy->sources[*i] == source + bytes))
		bytes += copy->pieces[*i].length;
	return bytes;
}

/* Issues pieces `from` .. `upto` - 1 with one driver call each. Their bytes are contiguous in the
 * slot and begin at `slot`. */
static cuda_result issue_each(const struct issue *issue, const struct mem_copy *copy, uint8_t *slot,
			      uint32_t from, uint32_t upto)
{
	cuda_result result = CUDA_OK;

	for (; from < upto && result == CUDA_OK; from++) {
		const struct mem_piece *piece = &copy->pieces[from];

		if (piece->length)
			result = copy_bytes(issue, copy, slot, piece->addr, piece->length);
		slot += piece->length;
	}
	return result;
}

/* Issues one copy, with one driver call per contiguous stretch of its pieces. If the driver refuses
 * a stretch, issues the stretch piece by piece: adjacent pieces may lie in separate allocations,
 * and the driver refuses a call that spans two allocations. */
static cuda_result issue_pieces(const struct issue *issue, const struct mem_copy *copy)
{
	uint8_t *slot = copy->slot;
	uint64_t at = 0;
	uint32_t i = 0;

	while (i < copy->npieces) {
		uint8_t *memory = copy->pieces[i].addr;
		uint64_t source = copy->sources ? copy->sources[i] : at;
		uint32_t begin = i;
		uint64_t bytes = stretch_bytes(copy, &i);
		cuda_result result = CUDA_OK;

		if (bytes)
			result = copy_bytes(issue, copy, slot + source, memory, bytes);
		if (result == CUDA_ERR_INVALID_VALUE && i - begin > 1)
			result = issue_each(issue, copy, slot + source, begin, i);
		if (result != CUDA_OK)
			return result;
		at += bytes;
	}
	return CUDA_OK;
}

/* Issues the copies of a run one by one. Called when the driver has refused a single call for all
 * of them: the run may span two allocations. */
static void issue_singly(struct issue *issue, const struct run *run)
{
	struct mem_copy *copy = run->first;

	for (;; copy = copy->next) {
		cuda_result result = issue_pieces(issue, copy);

		if (result != CUDA_OK)
			record_failure(issue, copy, result);
		if (copy == run->last)
			return;
	}
}

/* Issues the run with one driver call. If the driver refuses a call for several copies, issues the
 * copies one by one. Any other error becomes the result of all copies of the run. If an earlier
 * call made the device unusable, issues nothing, and that call's error becomes the result. The run
 * is empty afterwards. */
static void issue_run(struct issue *issue, struct run *run)
{
	cuda_result result = issue->fatal; /* may be set by an earlier call */

	if (!result && run->bytes)
		result = copy_bytes(issue, run->first, run->slot, run->memory, run->bytes);
	if (result == CUDA_ERR_INVALID_VALUE && run->first != run->last)
		issue_singly(issue, run);
	else if (result != CUDA_OK)
		for (struct mem_copy *copy = run->first;; copy = copy->next) {
			record_failure(issue, copy, result);
			if (copy == run->last)
				break;
		}
	run->first = NULL;
}

/* Appends the copy to the run and returns 1, if the copy has one piece without `sources`, is
 * contiguous with the run on both sides, and has the run's `within`. Otherwise, or if the run is
 * empty, returns 0. */
static int run_grow(struct run *run, struct mem_copy *copy)
{
	if (!run->first || copy->npieces != 1 || copy->sources ||
	    copy->within != run->first->within || (uint8_t *)copy->slot != run->slot + run->bytes ||
	    (uint8_t *)copy->pieces->addr != run->memory + run->bytes)
		return 0;
	run->last = copy;
	run->bytes += copy->bytes;
	return 1;
}

static void run_begin(struct run *run, struct mem_copy *copy)
{
	*run = (struct run){copy, copy, copy->slot, copy->pieces->addr, copy->bytes};
}

uint32_t mem_issue_calls(struct mem_copy *first, uint32_t enough)
{
	struct run run = {0};
	uint32_t calls = 0;

	for (struct mem_copy *copy = first; copy && calls < enough; copy = copy->next) {
		if (run_grow(&run, copy))
			continue;
		run.first = NULL;
		if (copy->npieces == 1 && !copy->sources)
			run_begin(&run, copy);
		for (uint32_t i = 0; i < copy->npieces && calls < enough; calls++)
			(void)stretch_bytes(copy, &i);
	}
	return calls;
}

cuda_result mem_issue_copies(const struct sys_cuda *api, cuda_stream stream, void *bounce,
			     struct mem_copy *first)
{
	struct issue issue = {api, stream, bounce, CUDA_OK};
	struct run run = {0};

	for (struct mem_copy *copy = first; copy; copy = copy->next) {
		cuda_result result;

		if (run_grow(&run, copy))
			continue;
		if (run.first)
			issue_run(&issue, &run);
		if (copy->npieces == 1 && !copy->sources) {
			run_begin(&run, copy);
			continue;
		}
		result = issue.fatal ? issue.fatal : issue_pieces(&issue, copy);
		if (result != CUDA_OK)
			record_failure(&issue, copy, result);
	}
	if (run.first)
		issue_run(&issue, &run);
	return issue.fatal;
}

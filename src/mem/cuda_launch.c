/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of pieces for the copy kernels: builds them from copies, launches them, aborts them. */
#include "mem/cuda_launch.h"

#include <stdatomic.h>

#include "base/error.h"
#include "mem/copy.h"
#include "mem/cuda_kind.h"

#define LAUNCHES 32u	  /* most launches for one list */
#define CALLS_A_LAUNCH 4u /* cost of a launch, in calls of the copy engine */
#define GAP (16u << 10)	  /* longest gap between slots of one launch, in bytes */
#define SLOT_BYTES (MEM_LAUNCHER_BYTES / MEM_LAUNCH_SLOTS)
#define MARK_BYTES 128u

/* The launches of one list while it is built. */
struct plan {
	struct mem_copy_args args[LAUNCHES];
	uint32_t begin[LAUNCHES + 1]; /* per launch: index of its first piece */
	cuda_ptr slot[LAUNCHES];      /* per launch: GPU address of byte 0 of its slot */
	uint32_t n, pieces;	      /* number of launches and of pieces */
	cuda_ptr end;		      /* end of the last piece in the slots, as a GPU address */
};

tcpx_status mem_launcher_open(struct cuda_launcher *launcher,
			      const struct mem_cuda_kernels *kernels, cuda_stream stream,
			      void *memory, cuda_ptr memory_at)
{
	const struct sys_cuda *api = kernels->gpu->api;
	cuda_result result;

	*launcher = (struct cuda_launcher){.stream = stream};
	result = api->mem_alloc(&launcher->state, sizeof(struct mem_copy_state));
	if (result != CUDA_OK)
		return sys_cuda_error(result, "state of the copy kernels");
	/* cleared in the stream of the launches, so that it is cleared before any of them runs */
	result = api->set_async(launcher->state, 0, sizeof(struct mem_copy_state), stream);
	if (result != CUDA_OK) {
		(void)api->mem_free(launcher->state);
		return sys_cuda_error(result, "state of the copy kernels");
	}
	for (unsigned i = 0; i < MEM_LAUNCH_SLOTS; i++) {
		uint8_t *slot = (uint8_t *)memory + i * SLOT_BYTES;
		cuda_ptr at = memory_at + i * SLOT_BYTES;

		launcher->slots[i] = (struct cuda_launch){
			.mark = (struct mem_copy_mark *)slot,
			.pieces = (struct mem_copy_piece *)(slot + MARK_BYTES),
			.mark_at = at,
			.pieces_at = at + MARK_BYTES,
		};
	}
	launcher->kernels = kernels;
	return TCPX_OK;
}

void mem_launcher_close(struct cuda_launcher *launcher)
{
	if (launcher->kernels)
		(void)launcher->kernels->gpu->api->mem_free(launcher->state);
	launcher->kernels = NULL;
}

struct cuda_launch *mem_launcher_slot(struct cuda_launcher *launcher)
{
	for (unsigned i = 0; launcher->kernels && i < MEM_LAUNCH_SLOTS; i++)
		if (!launcher->slots[i].busy)
			return &launcher->slots[i];
	return NULL;
}

/* Adds a stretch of `bytes` bytes to the list: `at` is its address in the slot, `gpu` its address
 * in GPU memory. Extends the last piece if the stretch follows it on both sides, else adds a piece.
 * Begins a new launch if the gap to the last piece in the slots is too long or the launch is full.
 * Returns 0 if the list is full or would need more than LAUNCHES launches. */
static int plan_piece(struct plan *plan, struct mem_copy_piece *pieces, cuda_ptr at, cuda_ptr gpu,
		      uint64_t bytes)
{
	uint32_t open = plan->n ? plan->pieces - plan->begin[plan->n - 1] : 0;
	struct mem_copy_piece *last = plan->pieces ? &pieces[plan->pieces - 1] : NULL;

	if (open && at == plan->end && gpu == last->addr + last->length) {
		last->length += bytes;
	} else {
		if (plan->pieces == MEM_LAUNCH_PIECES)
			return 0;
		if (!open || open == MEM_COPY_PIECES || at < plan->end || at - plan->end > GAP) {
			if (plan->n == LAUNCHES)
				return 0;
			plan->begin[plan->n] = plan->pieces;
			plan->slot[plan->n++] = at;
		}
		pieces[plan->pieces++] = (struct mem_copy_piece){
			.addr = gpu, .length = bytes, .slot_off = at - plan->slot[plan->n - 1]};
	}
	plan->end = at + bytes;
	return 1;
}

/* Adds the pieces of all copies. Returns 0 if there are no pieces, if the list is full, or if a
 * kernel cannot access the slot of a copy. */
static int plan_copies(struct plan *plan, struct mem_copy_piece *pieces,
		       const struct mem_copy *first)
{
	for (const struct mem_copy *copy = first; copy; copy = copy->next) {
		cuda_ptr at;

		if (!copy->bytes)
			continue;
		if (!mem_cuda_slot_mapped(copy->slot, copy->bytes, copy->device, &at))
			return 0; /* heap memory: a kernel's access would break the context */
		for (uint32_t i = 0; i < copy->npieces; i++) {
			uint64_t bytes = copy->pieces[i].length;

			if (bytes &&
			    !plan_piece(plan, pieces, at, (uintptr_t)copy->pieces[i].addr, bytes))
				return 0;
			at += bytes;
		}
	}
	plan->begin[plan->n] = plan->pieces;
	return plan->n > 0;
}

/* Divides the pieces of every launch among blocks. Returns 0 if mem_copy_plan refuses a launch. */
static int plan_blocks(struct plan *plan, const struct cuda_launcher *launcher,
		       const struct cuda_launch *launch)
{
	for (uint32_t i = 0; i < plan->n; i++) {
		uint32_t begin = plan->begin[i];
		struct mem_copy_args *args = &plan->args[i];

		args->pieces = launch->pieces_at + begin * sizeof(struct mem_copy_piece);
		args->mark = launch->mark_at;
		args->state = launcher->state;
		args->serial = launch->serial;
		if (mem_copy_plan(&launch->pieces[begin], plan->begin[i + 1] - begin, plan->slot[i],
				  0, args) != TCPX_OK)
			return 0;
	}
	return 1;
}

void mem_launch_renew(struct cuda_launcher *launcher, struct cuda_launch *launch)
{
	struct mem_copy_mark *mark = launch->mark;

	launcher->serial = launcher->serial + 2 ? launcher->serial + 2 : 2; /* even, not 0 */
	launch->serial = launcher->serial;
	atomic_store_explicit(&mark->abort, 0, memory_order_relaxed);
	atomic_store_explicit(&mark->stopped, 0, memory_order_relaxed);
	atomic_store_explicit(&mark->started, launch->serial - 1, memory_order_relaxed);
}

void mem_launch_failed(void)
{
	static struct log_limit limit;

	/* Not an error: if the device is broken, the copy engine fails too and reports it. */
	if (log_allow(&limit, 3))
		LOG_INFO("%s; the copy engine is used instead", error_last()->what);
}

enum mem_launch_result mem_launch_put(struct cuda_launcher *launcher, struct cuda_launch *launch,
				      const struct mem_copy *first, uint32_t calls)
{
	struct plan plan;
	uint32_t i;

	if (launcher->move_blocks)
		return mem_launch_put_moves(launcher, launch, first);
	plan.n = plan.pieces = 0;
	plan.end = 0;
	if (!plan_copies(&plan, launch->pieces, first) || plan.n > calls / CALLS_A_LAUNCH)
		return MEM_LAUNCH_NONE;
	mem_launch_renew(launcher, launch);
	if (!plan_blocks(&plan, launcher, launch))
		return MEM_LAUNCH_NONE;
	for (i = 0; i < plan.n; i++)
		if (mem_cuda_kernels_launch(launcher->kernels, first->to_slot, launcher->stream,
					    &plan.args[i]) != TCPX_OK)
			break;
	launch->busy = i > 0;
	if (i == plan.n)
		return MEM_LAUNCH_ALL;
	mem_launch_failed();
	return i ? MEM_LAUNCH_PART : MEM_LAUNCH_NONE;
}

int mem_launch_started(const struct cuda_launch *launch)
{
	return atomic_load_explicit(&launch->mark->started, memory_order_relaxed) == launch->serial;
}

/* Stores `abort`, then loads `started`, both seq_cst: the host's part of the protocol in
 * copy_abi.h. */
int mem_launch_abort(struct cuda_launch *launch)
{
	atomic_store(&launch->mark->abort, 1);
	return atomic_load(&launch->mark->started) != launch->serial;
}

int mem_launch_stopped(const struct cuda_launch *launch)
{
	return atomic_load_explicit(&launch->mark->stopped, memory_order_relaxed) != 0;
}

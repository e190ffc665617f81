/* SPDX-License-Identifier: Apache-2.0 */
/* The rig: memory on both sides, launches, and a look at every byte. */
#include "gpu_rig.h"

#include <stdatomic.h>

#include "base/error.h"
#include "check.h"

static struct gpu_rig *the_rig;
static struct gpu_lane *at_lane; /* whose slot gpu_rig_expect looks up */

void gpu_rig_fail(const char *file, int line, cuda_result result, const char *call)
{
	(void)sys_cuda_error(result, call);
	check_fail(file, line, "%s", error_last()->what);
}

static void *pinned(struct gpu_rig *rig, size_t bytes, cuda_ptr *out_gpu)
{
	void *memory = NULL;

	RIG_MUST(rig->api->host_alloc(&memory, bytes, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED));
	RIG_MUST(rig->api->host_device_ptr(out_gpu, memory, 0));
	return memory;
}

static void lane_open(struct gpu_rig *rig, struct gpu_lane *lane)
{
	size_t slot = rig->slot_bytes + 2 * RIG_GUARD;

	RIG_MUST(rig->api->stream_create(&lane->stream, CUDA_STREAM_NON_BLOCKING, 0));
	lane->pieces = pinned(rig, MEM_COPY_PIECES * sizeof(*lane->pieces), &lane->pieces_gpu);
	lane->mark = pinned(rig, sizeof(*lane->mark), &lane->mark_gpu);
	lane->open = pinned(rig, sizeof(*lane->open), &lane->open_gpu);
	lane->word = pinned(rig, sizeof(*lane->word), &lane->word_gpu);
	atomic_store(lane->word, 0);
	lane->slot = pinned(rig, slot, &lane->slot_gpu);
	lane->model = malloc(slot);
	CHECK(lane->model);
	RIG_MUST(rig->api->mem_alloc(&lane->state, sizeof(struct mem_copy_state)));
	RIG_MUST(rig->api->set_async(lane->state, 0, sizeof(struct mem_copy_state), lane->stream));
	RIG_MUST(rig->api->stream_synchronize(lane->stream));
	memset(lane->slot, 0, slot);
}

struct gpu_rig *gpu_rig_open(size_t slot_bytes, size_t arena_bytes, struct rng *rng)
{
	struct gpu_rig *rig = calloc(1, sizeof(*rig));
	tcpx_status status;

	CHECK(rig);
	rig->slot_bytes = slot_bytes;
	rig->arena_bytes = arena_bytes;
	status = sys_cuda_get(0, &rig->gpu);
	if (status == TCPX_ERR_UNSUPPORTED)
		SKIP("%s", error_last()->what);
	CHECK_MSG(status == TCPX_OK, "%s", error_last()->what);
	CHECK_MSG(sys_cuda_push(rig->gpu, &rig->scope) == TCPX_OK, "%s", error_last()->what);
	rig->api = rig->gpu->api;
	status = mem_cuda_kernels_load(rig->gpu, &rig->kernels);
	if (status == TCPX_ERR_UNSUPPORTED)
		SKIP("%s", error_last()->what);
	CHECK_MSG(status == TCPX_OK, "%s", error_last()->what);
	for (int i = 0; i < RIG_LANES; i++)
		lane_open(rig, &rig->lane[i]);
	RIG_MUST(rig->api->mem_alloc(&rig->arena, arena_bytes));
	rig->shadow = malloc(arena_bytes);
	rig->image = malloc(arena_bytes);
	CHECK(rig->shadow && rig->image);
	rng_fill(rng, rig->shadow, arena_bytes);
	RIG_MUST(rig->api->copy(rig->arena, (cuda_ptr)(uintptr_t)rig->shadow, arena_bytes));
	RIG_MUST(rig->api->ctx_synchronize());
	the_rig = rig;
	return rig;
}

void gpu_rig_plan(struct gpu_rig *rig, struct gpu_lane *lane, uint32_t count, size_t slot_at,
		  uint32_t blocks)
{
	tcpx_status status = mem_copy_plan(
		lane->pieces, count, lane->slot_gpu + RIG_GUARD + slot_at, blocks, &lane->args);

	CHECK_MSG(status == TCPX_OK, "%s", error_last()->what);
	lane->args.pieces = lane->pieces_gpu;
	lane->args.mark = lane->mark_gpu;
	lane->args.state = lane->state;
	lane->args.serial = rig->serial += 2;
	atomic_store(&lane->mark->abort, 0);
	atomic_store(&lane->mark->stopped, 0);
}

void gpu_rig_launch(struct gpu_rig *rig, struct gpu_lane *lane, int to_slot)
{
	CHECK_MSG(mem_cuda_kernels_launch(&rig->kernels, to_slot, lane->stream, &lane->args) ==
			  TCPX_OK,
		  "%s", error_last()->what);
	RIG_MUST(rig->api->stream_write(lane->stream, lane->word_gpu, ++lane->launches, 0));
}

void gpu_rig_wait(struct gpu_rig *rig, struct gpu_lane *lane)
{
	for (unsigned spins = 1; atomic_load(lane->word) != lane->launches; spins++) {
		cuda_result result;

		if (spins % 10000)
			continue;
		/* a stream without a word, and work that it lost */
		result = rig->api->stream_query(lane->stream);
		if (result == CUDA_ERR_NOT_READY)
			continue;
		RIG_MUST(result);
		CHECK_MSG(atomic_load(lane->word) == lane->launches,
			  "the stream is at its end, its word is %u, not %u (started %u)",
			  atomic_load(lane->word), lane->launches,
			  atomic_load(&lane->mark->started));
	}
}

static void *model_at(uint64_t addr, uint64_t bytes)
{
	static struct mem_copy_state state;
	static struct mem_copy_mark mark;
	struct gpu_rig *rig = the_rig;
	uint64_t slot = addr - at_lane->slot_gpu, arena = addr - rig->arena;

	if (addr == at_lane->mark_gpu) {
		atomic_store(&mark.abort, 0);
		return &mark;
	}
	if (addr == at_lane->args.state)
		return &state; /* which has no list of that serial */
	if (addr == at_lane->pieces_gpu)
		return at_lane->pieces;
	if (slot < rig->slot_bytes + 2 * RIG_GUARD)
		return at_lane->model + slot;
	CHECK_MSG(arena < rig->arena_bytes && bytes <= rig->arena_bytes - arena,
		  "the test's own list leaves the arena");
	return rig->shadow + arena;
}

void gpu_rig_expect(struct gpu_rig *rig, struct gpu_lane *lane, int to_slot)
{
	(void)rig;
	at_lane = lane;
	mem_copy_cpu(&lane->args, to_slot, model_at);
}

static size_t first_wrong(const uint8_t *have, const uint8_t *want, size_t bytes, size_t *out_count)
{
	size_t first = bytes;

	*out_count = 0;
	for (size_t i = 0; i < bytes; i++) {
		if (have[i] == want[i])
			continue;
		if (first == bytes)
			first = i;
		++*out_count;
	}
	return first;
}

static void tell_piece(const struct gpu_lane *lane, uint32_t i)
{
	const struct mem_copy_piece *p = &lane->pieces[i];

	fprintf(stderr,
		"  piece %u of %u: address %% 16 = %u, length %" PRIu64 ", slot offset %" PRIu64
		"; slot %% 128 = %u, %u blocks of %u bytes, serial %u, stopped %u\n",
		i, lane->args.count, (unsigned)(p->addr % 16), p->length, p->slot_off,
		(unsigned)(lane->args.slot % 128), lane->args.blocks, lane->args.share,
		lane->args.serial, atomic_load(&lane->mark->stopped));
}

void gpu_rig_check_slot(struct gpu_rig *rig, struct gpu_lane *lane, const char *what)
{
	size_t bytes = rig->slot_bytes + 2 * RIG_GUARD, count, at;
	uint64_t off;

	if (!memcmp(lane->slot, lane->model, bytes))
		return;
	at = first_wrong(lane->slot, lane->model, bytes, &count);
	off = lane->slot_gpu + at - lane->args.slot; /* wraps in front of the slot */
	for (uint32_t i = 0; i < lane->args.count; i++)
		if (off - lane->pieces[i].slot_off < lane->pieces[i].length)
			tell_piece(lane, i);
	check_fail(
		__FILE__, __LINE__,
		"%s: %zu bytes of the slot differ, the first at slot offset %lld: %02x, not %02x",
		what, count, (long long)off, lane->slot[at], lane->model[at]);
}

void gpu_rig_check_arena(struct gpu_rig *rig, struct gpu_lane *lane, const char *what)
{
	size_t count, at;

	RIG_MUST(rig->api->copy((cuda_ptr)(uintptr_t)rig->image, rig->arena, rig->arena_bytes));
	if (!memcmp(rig->image, rig->shadow, rig->arena_bytes))
		return;
	at = first_wrong(rig->image, rig->shadow, rig->arena_bytes, &count);
	for (uint32_t i = 0; i < lane->args.count; i++)
		if (rig->arena + at - lane->pieces[i].addr < lane->pieces[i].length)
			tell_piece(lane, i);
	check_fail(__FILE__, __LINE__,
		   "%s: %zu bytes of GPU memory differ, the first at %zu: %02x, not %02x", what,
		   count, at, rig->image[at], rig->shadow[at]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking on a GPU, in streams of the highest priority. The thread that uses the unpacker makes
 * the launches itself. */
#include "mem/unpack_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "mem/cuda_kernels.h"
#include "mem/cuda_kind.h"
#include "mem/unpack_priv.h"

#define WORD_BYTES 4096u /* bytes before the pieces: a page that holds only the words */
#define PIECES_BYTES (MEM_UNPACK_PIECES * sizeof(struct base_frag))
#define MAPPED_BYTES (WORD_BYTES + UNPACK_SLOTS * PIECES_BYTES)
#define STAGE_LEAST (1ull << 20) /* least bytes of a slot's stage in mode HOST */
#define PEERS 64u		 /* most GPUs that a process can use */

/* compiled code of unpack.cu, as a fatbin or PTX text */
extern const unsigned char mem_unpack_image[];

struct unpack_cuda {
	struct sys_cuda_gpu *gpu;
	struct mem_unpack_kernels kernels;
	cuda_stream streams[UNPACK_LANES];
	/* GPU addresses of the state and the word of lane 0; each further lane has both
	 * UNPACK_WORD_GAP bytes higher */
	cuda_ptr state, word_at;
	/* pinned memory: `mapped` has words and pieces; `stage` has the stages of all slots in mode
	 * HOST */
	uint8_t *mapped, *stage;
	/* references to the GPUs that mem_unpack_reach allowed, held so that their contexts stay */
	struct sys_cuda_gpu *peers[PEERS];
};

tcpx_status mem_unpack_kernels_load(const struct sys_cuda_gpu *gpu,
				    struct mem_unpack_kernels *out_kernels)
{
	struct mem_unpack_kernels k = {.gpu = gpu};
	tcpx_status status;

	status = sys_cuda_module_load(gpu, mem_unpack_image, "unpack", &k.module);
	if (status != TCPX_OK)
		return status;
	status = sys_cuda_module_find(gpu, k.module, "mem_unpack_list", &k.list);
	if (status == TCPX_OK)
		status = sys_cuda_module_find(gpu, k.module, "mem_unpack_inline", &k.in_params);
	if (status != TCPX_OK) {
		mem_unpack_kernels_unload(&k);
		return status;
	}
	*out_kernels = k;
	return TCPX_OK;
}

void mem_unpack_kernels_unload(struct mem_unpack_kernels *kernels)
{
	if (kernels->module)
		(void)kernels->gpu->api->module_unload(kernels->module);
	memset(kernels, 0, sizeof(*kernels));
}

uint32_t mem_unpack_blocks(const struct sys_cuda_gpu *gpu, uint32_t count)
{
	uint32_t blocks = (count + MEM_UNPACK_WARPS - 1) / MEM_UNPACK_WARPS;
	uint32_t most = gpu->sms * MEM_UNPACK_SM_BLOCKS;

	if (most && blocks > most)
		blocks = most;
	return blocks ? blocks : 1;
}

cuda_result mem_unpack_kernels_launch(const struct mem_unpack_kernels *kernels, cuda_stream stream,
				      const struct mem_unpack_args *args,
				      const struct base_frag *pieces)
{
	struct mem_unpack_inline_args whole = {.args = *args};
	void *params[] = {&whole}; /* mem_unpack_list reads only whole.args */
	int in_params = args->count <= MEM_UNPACK_INLINE;

	if (in_params && pieces) /* `pieces` is NULL if the list is empty */
		memcpy(whole.pieces, pieces, args->count * sizeof(*pieces));
	return kernels->gpu->api->launch(in_params ? kernels->in_params : kernels->list,
					 args->blocks, 1, 1, MEM_UNPACK_THREADS, 1, 1, 0, stream,
					 params, NULL);
}

static cuda_stream stream_of(const struct unpack_cuda *cuda, uint64_t serial)
{
	return cuda->streams[serial % UNPACK_LANES];
}

static cuda_ptr word_of(const struct unpack_cuda *cuda, uint64_t serial)
{
	return cuda->word_at + serial % UNPACK_LANES * UNPACK_WORD_GAP;
}

static cuda_result launch_kernel(struct mem_unpack *u, const struct unpack_slot *slot,
				 uint64_t serial, int *out_put)
{
	const struct unpack_cuda *cuda = u->cuda;
	const struct mem_unpack_args args = {
		.src = slot->src,
		.pieces = slot->pieces_at,
		.word = word_of(cuda, serial),
		.state = cuda->state + serial % UNPACK_LANES * UNPACK_WORD_GAP,
		.serial = (uint32_t)serial,
		.count = slot->count,
		.blocks = mem_unpack_blocks(cuda->gpu, slot->count),
	};
	cuda_result result = mem_unpack_kernels_launch(&cuda->kernels, stream_of(cuda, serial),
						       &args, slot->pieces);

	*out_put = result == CUDA_OK;
	return result;
}

/* Mode D2D: makes one device copy per piece. *out_put is 1 if a copy is in the stream. */
static cuda_result copy_each(const struct unpack_cuda *cuda, const struct unpack_slot *slot,
			     cuda_stream stream, int *out_put)
{
	cuda_result result = CUDA_OK;

	for (uint32_t i = 0; i < slot->count && result == CUDA_OK; i++) {
		const struct base_frag *f = &slot->pieces[i];

		result = cuda->gpu->api->copy_async(f->dst, slot->src + f->src, f->len, stream);
		*out_put |= result == CUDA_OK;
	}
	return result;
}

/* Mode HOST: copies the pieces from the bounce pool to pinned host memory, in the order of the
 * list. Then copies from there to the destination, with one copy per contiguous stretch of it.
 * *out_put is 1 if a copy is in the stream. */
static cuda_result copy_through_host(const struct unpack_cuda *cuda, const struct unpack_slot *slot,
				     cuda_stream stream, int *out_put)
{
	const struct sys_cuda *api = cuda->gpu->api;
	cuda_ptr stage = (uintptr_t)slot->stage, at = stage;
	cuda_result result = CUDA_OK;
	uint32_t i = 0;

	for (; i < slot->count && result == CUDA_OK; i++) {
		const struct base_frag *f = &slot->pieces[i];

		result = api->copy_async(at, slot->src + f->src, f->len, stream);
		*out_put |= result == CUDA_OK;
		at += f->len;
	}
	for (i = 0, at = stage; i < slot->count && result == CUDA_OK;) {
		uint64_t begin = slot->pieces[i].dst, bytes = 0;

		while (i < slot->count && slot->pieces[i].dst == begin + bytes)
			bytes += slot->pieces[i++].len;
		result = api->copy_async(begin, at, bytes, stream);
		at += bytes;
	}
	return result;
}

/* Makes the stream write the launch's number after the launch's copies. If this is not possible,
 * sets u->wordless. (In mode KERNEL the kernel writes the number.) */
static void write_end(struct mem_unpack *u, uint64_t serial)
{
	const struct unpack_cuda *cuda = u->cuda;
	const struct sys_cuda *api = cuda->gpu->api;

	if (!api->stream_write || api->stream_write(stream_of(cuda, serial), word_of(cuda, serial),
						    (uint32_t)serial, 0) != CUDA_OK)
		u->wordless = 1;
}

/* Returns the status for a failed driver call. If the GPU's context is broken, breaks the unpacker
 * too, and logs the error unless the process is ending. */
static tcpx_status unpack_failed(struct mem_unpack *u, cuda_result result)
{
	tcpx_status status = sys_cuda_error(result, "unpacking");

	if (sys_cuda_fatal(result))
		mem_unpack_break(u, result != CUDA_ERR_DEINITIALIZED);
	return status;
}

static tcpx_status cuda_launch(struct mem_unpack *u, struct unpack_slot *slot, uint64_t serial,
			       int *out_put)
{
	struct unpack_cuda *cuda = u->cuda;
	struct sys_cuda_scope scope;
	cuda_result result;
	tcpx_status status = sys_cuda_push(cuda->gpu, &scope);

	if (status != TCPX_OK)
		return status;
	if (u->opts.mode == MEM_UNPACK_KERNEL)
		result = launch_kernel(u, slot, serial, out_put);
	else if (u->opts.mode == MEM_UNPACK_D2D)
		result = copy_each(cuda, slot, stream_of(cuda, serial), out_put);
	else
		result = copy_through_host(cuda, slot, stream_of(cuda, serial), out_put);
	if (u->opts.mode != MEM_UNPACK_KERNEL && (result == CUDA_OK || *out_put)) {
		*out_put = 1; /* even for a launch without pieces, the stream writes the number */
		write_end(u, serial);
	}
	sys_cuda_pop(&scope);
	if (result == CUDA_OK)
		return TCPX_OK;
	return unpack_failed(u, result);
}

/* Asks the driver whether the streams are empty (unpack_backend.ask). Queries them even if the
 * context cannot be made current, because at the end of the process the query fails with an error
 * that says so. */
static tcpx_status cuda_ask(struct mem_unpack *u)
{
	struct unpack_cuda *cuda = u->cuda;
	struct sys_cuda_scope scope;
	int inside = sys_cuda_push(cuda->gpu, &scope) == TCPX_OK;
	cuda_result result = CUDA_OK;

	for (int i = 0; i < UNPACK_LANES && result == CUDA_OK; i++)
		result = cuda->gpu->api->stream_query(cuda->streams[i]);
	if (inside)
		sys_cuda_pop(&scope);
	if (result == CUDA_OK)
		return TCPX_OK;
	return sys_cuda_fatal(result) ? unpack_failed(u, result) : TCPX_IN_PROGRESS;
}

/* Lets the GPU access memory of the peer GPU. Returns ERR_UNSUPPORTED if it cannot. */
static tcpx_status peer_enable(const struct sys_cuda_gpu *gpu, const struct sys_cuda_gpu *peer)
{
	const struct sys_cuda *api = gpu->api;
	cuda_result result;
	int can = 0;

	result = api->device_can_access(&can, gpu->device, peer->device);
	if (result == CUDA_OK && can)
		result = api->ctx_enable_peer(peer->ctx, 0);
	if (result == CUDA_ERR_PEER_ACCESS_UNSUPPORTED || (result == CUDA_OK && !can)) {
		(void)error_set(TCPX_ERR_UNSUPPORTED, 0,
				"GPU %u (%s) cannot write memory of GPU %u (%s)", gpu->ordinal,
				gpu->pci, peer->ordinal, peer->pci);
		return error_next("see 'nvidia-smi topo -p2p w'");
	}
	if (result != CUDA_OK && result != CUDA_ERR_PEER_ACCESS_ALREADY_ENABLED)
		return sys_cuda_error(result, "access of one GPU to another");
	return TCPX_OK;
}

static tcpx_status cuda_reach(struct mem_unpack *u, uint32_t device)
{
	struct unpack_cuda *cuda = u->cuda;
	struct sys_cuda_scope scope;
	struct sys_cuda_gpu *peer;
	tcpx_status status;

	if (device == u->opts.device || (device < PEERS && cuda->peers[device]))
		return TCPX_OK;
	if (device >= PEERS)
		return error_set(TCPX_ERR_INVALID, 0, "GPU %u: only the first %u GPUs can be used",
				 device, PEERS);
	status = sys_cuda_get(device, &peer);
	if (status != TCPX_OK)
		return status;
	status = sys_cuda_push(cuda->gpu, &scope);
	if (status == TCPX_OK) {
		status = peer_enable(cuda->gpu, peer);
		sys_cuda_pop(&scope);
	}
	if (status == TCPX_OK)
		cuda->peers[device] = peer;
	else
		sys_cuda_put(peer);
	return status;
}

/* Releases everything that mem_unpack_cuda_open acquired, even if it failed halfway. */
static void cuda_close(struct mem_unpack *u)
{
	struct unpack_cuda *cuda = u->cuda;
	struct sys_cuda_scope scope;

	/* sys_cuda_push is tried twice, so that a temporary failure does not leak memory */
	if (cuda->gpu && (sys_cuda_push(cuda->gpu, &scope) == TCPX_OK ||
			  sys_cuda_push(cuda->gpu, &scope) == TCPX_OK)) {
		for (int i = 0; i < UNPACK_LANES; i++)
			if (cuda->streams[i])
				(void)cuda->gpu->api->stream_destroy(cuda->streams[i]);
		if (cuda->state)
			(void)cuda->gpu->api->mem_free(cuda->state);
		mem_unpack_kernels_unload(&cuda->kernels);
		sys_cuda_pop(&scope);
	}
	mem_cuda_slot_free(cuda->stage, UNPACK_SLOTS * u->stage_bytes, u->opts.device);
	mem_cuda_slot_free(cuda->mapped, MAPPED_BYTES, u->opts.device);
	for (uint32_t i = 0; i < PEERS; i++)
		if (cuda->peers[i])
			sys_cuda_put(cuda->peers[i]);
	if (cuda->gpu)
		sys_cuda_put(cuda->gpu);
	free(cuda);
}

static const struct unpack_backend cuda_backend = {
	.launch = cuda_launch,
	.ask = cuda_ask,
	.reach = cuda_reach,
	.close = cuda_close,
};

/* Allocates pinned memory that the GPU can access: the words, the pieces of all slots, and the
 * stages in mode HOST. */
static tcpx_status open_memory(struct mem_unpack *u)
{
	struct unpack_cuda *cuda = u->cuda;
	uint32_t device = u->opts.device;

	cuda->mapped = mem_cuda_slot_alloc(MAPPED_BYTES, device);
	if (!cuda->mapped)
		return error_last()->status;
	if (!mem_cuda_slot_mapped(cuda->mapped, MAPPED_BYTES, device, &cuda->word_at))
		return error_set(TCPX_ERR_SYSTEM, 0, "GPU %u cannot write to mapped host memory",
				 device);
	unpack_words_at(u, cuda->mapped);
	if (u->opts.mode == MEM_UNPACK_HOST) {
		u->stage_bytes = u->opts.job_bytes > STAGE_LEAST ? u->opts.job_bytes : STAGE_LEAST;
		cuda->stage = mem_cuda_slot_alloc(UNPACK_SLOTS * u->stage_bytes, device);
		if (!cuda->stage)
			return error_last()->status;
	}
	for (uint64_t i = 0; i < UNPACK_SLOTS; i++) {
		struct unpack_slot *slot = &u->slots[i];

		slot->pieces = (struct base_frag *)(cuda->mapped + WORD_BYTES + i * PIECES_BYTES);
		slot->pieces_at = cuda->word_at + WORD_BYTES + i * PIECES_BYTES;
		slot->stage = cuda->stage ? cuda->stage + i * u->stage_bytes : NULL;
	}
	return TCPX_OK;
}

/* Launches each kernel once with no pieces. A driver may load code at the first launch of a kernel,
 * which takes as long as a thousand launches and may wait for kernels of the application. */
static tcpx_status warm_up(const struct unpack_cuda *cuda)
{
	const struct mem_unpack_args args = {
		.word = cuda->word_at, .state = cuda->state, .blocks = 1};
	struct mem_unpack_kernels by_list = cuda->kernels;
	cuda_result result;

	by_list.in_params = by_list.list;
	result = mem_unpack_kernels_launch(&cuda->kernels, cuda->streams[0], &args, NULL);
	if (result == CUDA_OK)
		result = mem_unpack_kernels_launch(&by_list, cuda->streams[0], &args, NULL);
	return result == CUDA_OK ? TCPX_OK : sys_cuda_error(result, "first launch to unpack");
}

/* Creates the streams and, in mode KERNEL, the state and the kernels. The GPU's context must be
 * current. */
static tcpx_status open_stream(struct mem_unpack *u)
{
	struct unpack_cuda *cuda = u->cuda;
	const struct sys_cuda *api = cuda->gpu->api;
	int least = 0, greatest = 0;
	cuda_result result;
	tcpx_status status;

	result = api->ctx_priorities(&least, &greatest);
	for (int i = 0; i < UNPACK_LANES && result == CUDA_OK; i++)
		result = api->stream_create(&cuda->streams[i], CUDA_STREAM_NON_BLOCKING, greatest);
	if (result != CUDA_OK)
		return sys_cuda_error(result, "stream to unpack");
	if (u->opts.mode != MEM_UNPACK_KERNEL)
		return TCPX_OK;
	result = api->mem_alloc(&cuda->state, UNPACK_LANES * UNPACK_WORD_GAP);
	/* cleared in the stream of the lane, so that it is cleared before the lane's launches
	 * run */
	for (int i = 0; i < UNPACK_LANES && result == CUDA_OK; i++)
		result = api->set_async(cuda->state + i * UNPACK_WORD_GAP, 0, sizeof(uint32_t),
					cuda->streams[i]);
	if (result != CUDA_OK)
		return sys_cuda_error(result, "state of the unpack kernels");
	status = mem_unpack_kernels_load(cuda->gpu, &cuda->kernels);
	return status == TCPX_OK ? warm_up(cuda) : status;
}

tcpx_status mem_unpack_cuda_open(struct mem_unpack *u)
{
	struct unpack_cuda *cuda = calloc(1, sizeof(*cuda));
	struct sys_cuda_scope scope;
	tcpx_status status;

	if (!cuda)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "an unpacker");
	u->cuda = cuda;
	u->backend = &cuda_backend;
	u->split = u->opts.mode == MEM_UNPACK_KERNEL;
	status = sys_cuda_get(u->opts.device, &cuda->gpu);
	if (status == TCPX_OK)
		status = open_memory(u);
	if (status == TCPX_OK) {
		status = sys_cuda_push(cuda->gpu, &scope);
		if (status == TCPX_OK) {
			status = open_stream(u);
			sys_cuda_pop(&scope);
		}
	}
	if (status != TCPX_OK) {
		tcpx_error error = *error_last();

		cuda_close(u);
		(void)error_raise(&error);
	}
	return status;
}

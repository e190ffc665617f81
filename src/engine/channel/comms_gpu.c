/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's part of a comm that receives: what the plugin says about its receive queue and bounce
 * pages, an unpacker, and memory that receives are posted with. */
#include "engine/channel/comms_gpu.h"

#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "mem/cuda_cover.h"
#include "sys/cpu.h"
#include "sys/cuda.h"

#define HOST_RECV "host-recv"
/* bytes of all bounce pages, if the driver does not know; offsets in them have 32 bits */
#define POOL_UNKNOWN (1ull << 32)

enum op_state { OP_RUNNING = 0, OP_ENDED };

struct comms_gpu_op {
	/* the thread of an open or close has a reference; an open wakes the link when it ends */
	struct engine_peer *peer;
	struct mem_unpack_opts opts;
	bool chosen;	   /* the user chose the mode, so no other one replaces it */
	uint32_t home;	   /* the session's GPU, to whose memory the messages go */
	uint64_t queue_at; /* device address of the plugin's queue */
	uint64_t window;   /* host-recv: number of messages that fit into `gpu.landing`; else 0 */
	struct sys_cuda_gpu *device;
	struct comms_gpu gpu;
	cuda_ptr block; /* the GPU memory that contains gpu.landing; host-recv: 0 */
	_Atomic int state;
	tcpx_status status;
	tcpx_error error;
};

static const char *const mode_names[] = {
	[MEM_UNPACK_KERNEL] = "kernel", [MEM_UNPACK_D2D] = "d2d",   [MEM_UNPACK_HOST] = "host",
	[MEM_UNPACK_CPU] = "cpu",	[MEM_UNPACK_NONE] = "none",
};

const char *comms_unpack_text(const struct engine_comms *comms)
{
	return comms->gpu ? comms->gpu->mode : "";
}

tcpx_status comms_gpu_mode(const char *text, struct engine_plugin *plugin)
{
	bool chosen = text || config_value(CONFIG_UNPACK_IMPL)->source != CONFIG_DEFAULT;

	if (!chosen && config_bool(CONFIG_HOST_RECV_DEBUG))
		text = HOST_RECV;
	if (!text)
		text = config_text(CONFIG_UNPACK_IMPL);
	plugin->host_recv = !strcmp(text, HOST_RECV);
	plugin->chosen = chosen;
	plugin->unpack = MEM_UNPACK_D2D; /* used by host-recv: one copy per message */
	if (plugin->host_recv)
		return TCPX_OK;
	for (unsigned i = 0; i < sizeof(mode_names) / sizeof(mode_names[0]); i++) {
		if (strcmp(text, mode_names[i]) != 0)
			continue;
		plugin->unpack = (enum mem_unpack_mode)i;
		return TCPX_OK;
	}
	return error_set(
		TCPX_ERR_INVALID, 0,
		"TCPX_UNPACK_IMPL '%s' is unknown: use kernel, d2d, host, cpu, none or " HOST_RECV,
		text);
}

/* What gpu_enter() hands to gpu_leave(): the GPU that is current, and what was current before. */
struct entered {
	struct sys_cuda_gpu *gpu;
	struct sys_cuda_scope scope;
};

static tcpx_status gpu_enter(void *arg, int gpu, void **out_before)
{
	struct entered *entered = calloc(1, sizeof(*entered));
	tcpx_status status;

	(void)arg;
	if (!entered)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "context of GPU %d", gpu);
	status = sys_cuda_get((uint32_t)gpu, &entered->gpu);
	if (status == TCPX_OK) {
		status = sys_cuda_push(entered->gpu, &entered->scope);
		if (status != TCPX_OK)
			sys_cuda_put(entered->gpu);
	}
	if (status != TCPX_OK) {
		free(entered);
		return status;
	}
	*out_before = entered;
	return TCPX_OK;
}

static void gpu_leave(void *arg, int gpu, void *before)
{
	struct entered *entered = before;

	(void)arg;
	(void)gpu;
	sys_cuda_pop(&entered->scope);
	sys_cuda_put(entered->gpu);
	free(entered);
}

const struct net_gpu_ops comms_gpu_ops = {gpu_enter, gpu_leave};

/* Returns the number of bytes from address `at` to the end of the allocation that contains it.
 * Returns POOL_UNKNOWN if the driver does not know, or if there are more bytes than that. */
static uint64_t bytes_from(const struct sys_cuda *api, cuda_ptr at)
{
	cuda_ptr start = 0;
	size_t bytes = 0;

	if (api->pointer_attribute(&start, CUDA_POINTER_RANGE_START, at) != CUDA_OK ||
	    api->pointer_attribute(&bytes, CUDA_POINTER_RANGE_SIZE, at) != CUDA_OK || start > at ||
	    at - start >= bytes || bytes - (at - start) > POOL_UNKNOWN)
		return POOL_UNKNOWN;
	return bytes - (at - start);
}

/* Reads the addresses of the metadata and of the bounce pages from the plugin's device queue. One
 * read is enough, because both stay in place for as long as the comm lives. */
static tcpx_status queue_read(struct comms_gpu_op *op)
{
	const struct sys_cuda *api = op->device->api;
	struct ncclnet_queue queue;
	void *meta = NULL;
	cuda_result rc;

	if (!op->queue_at)
		return error_set(TCPX_ERR_UNSUPPORTED, 0, "the plugin gave no device queue");
	rc = api->copy((cuda_ptr)(uintptr_t)&queue, op->queue_at, sizeof(queue));
	if (rc != CUDA_OK)
		return sys_cuda_error(rc, "reading the plugin's queue");
	/* queue.meta is the device address of mapped host memory. If the driver does not know the
	 * CPU address of that memory, queue.meta itself is used. */
	if (api->pointer_attribute(&meta, CUDA_POINTER_HOST, queue.meta) != CUDA_OK || !meta)
		meta = (void *)(uintptr_t)queue.meta;
	if (!meta || !queue.bounce)
		return error_set(TCPX_ERR_UNSUPPORTED, 0,
				 "the plugin's device queue names no memory");
	op->gpu.meta = meta;
	op->gpu.pool = queue.bounce;
	op->gpu.pool_bytes = bytes_from(api, queue.bounce);
	return TCPX_OK;
}

/* For host-recv: allocates host memory for a window of messages. The memory is pinned, so that the
 * driver copies from it directly. */
static tcpx_status landing_make_host(struct comms_gpu_op *op)
{
	uint64_t bytes = op->window * op->opts.job_bytes;
	cuda_result rc = op->device->api->host_alloc(&op->gpu.landing, bytes, 0);

	if (rc != CUDA_OK) {
		op->gpu.landing = NULL;
		return sys_cuda_error(rc, "host memory for messages");
	}
	op->gpu.landing_bytes = op->gpu.pool_bytes = bytes;
	op->gpu.pool = (uint64_t)(uintptr_t)op->gpu.landing;
	return TCPX_OK;
}

/* Allocates GPU memory for one message, in whole pages; receives are posted with this memory. Then,
 * unless TCPX_GPUDIRECT_COVER is off, asks the driver whether it exports these pages to the plugin,
 * and returns an error if it does not. */
static tcpx_status landing_make(struct comms_gpu_op *op)
{
	const uint64_t page = NET_MR_PAGE;
	uint64_t bytes = (op->opts.job_bytes + page - 1) & ~(page - 1);
	cuda_result rc = op->device->api->mem_alloc(&op->block, bytes + page);

	if (rc != CUDA_OK) {
		op->block = 0;
		return sys_cuda_error(rc, "memory for messages");
	}
	op->gpu.landing = (void *)(uintptr_t)((op->block + page - 1) & ~(page - 1));
	op->gpu.landing_bytes = bytes;
	if (!config_bool(CONFIG_GPUDIRECT_COVER))
		return TCPX_OK;
	return mem_cuda_cover(op->device, (cuda_ptr)(uintptr_t)op->gpu.landing, bytes);
}

static void gpu_op_release(struct comms_gpu_op *op)
{
	struct sys_cuda_scope scope;

	mem_unpack_close(op->gpu.unpack);
	if (op->device && sys_cuda_push(op->device, &scope) == TCPX_OK) {
		if (op->block)
			(void)op->device->api->mem_free(op->block);
		else if (op->window && op->gpu.landing)
			(void)op->device->api->host_free(op->gpu.landing);
		sys_cuda_pop(&scope);
	}
	if (op->device)
		sys_cuda_put(op->device);
}

/* Runs on a thread of its own: finds the plugin's bounce pages (not for host-recv), allocates the
 * memory for receives and opens the unpacker. If the GPU has no unpack kernel and the user chose no
 * mode, unpacks with separate copies. */
static tcpx_status gpu_op_open(struct comms_gpu_op *op)
{
	struct sys_cuda_scope scope;
	tcpx_status status = sys_cuda_get(op->opts.device, &op->device);

	if (status != TCPX_OK)
		return status;
	status = sys_cuda_push(op->device, &scope);
	if (status != TCPX_OK)
		return status;
	status = op->window ? landing_make_host(op) : queue_read(op);
	if (status == TCPX_OK && !op->window)
		status = landing_make(op);
	sys_cuda_pop(&scope);
	if (status != TCPX_OK)
		return status;
	status = mem_unpack_open(&op->opts, &op->gpu.unpack);
	if (status == TCPX_ERR_UNSUPPORTED && !op->chosen) { /* no unpack kernel for this GPU */
		op->opts.mode = MEM_UNPACK_D2D;
		status = mem_unpack_open(&op->opts, &op->gpu.unpack);
	}
	op->gpu.mode = op->window ? HOST_RECV : mode_names[op->opts.mode];
	/* with a relay the NIC receives into another GPU, and copies go from there to the session's
	 * GPU */
	if (status == TCPX_OK && op->home != op->opts.device)
		status = mem_unpack_reach(op->gpu.unpack, op->home);
	return status;
}

static void *gpu_open_main(void *arg)
{
	struct comms_gpu_op *op = arg;
	struct engine_peer *peer = op->peer;

	op->status = gpu_op_open(op);
	op->error = *error_last();
	if (op->status != TCPX_OK) {
		gpu_op_release(op);
		op->gpu.unpack = NULL;
		op->gpu.landing = NULL;
		op->block = 0;
		op->device = NULL;
	}
	atomic_store(&op->state, OP_ENDED); /* op belongs to the control thread from here on */
	link_wake(&peer->link);
	peer_put(peer);
	return NULL;
}

static void *gpu_close_main(void *arg)
{
	struct comms_gpu_op *op = arg;
	struct engine_peer *peer = op->peer;

	gpu_op_release(op);
	free(op);
	peer_put(peer);
	return NULL;
}

/* Releases op on a thread of its own, because the driver may take long. The thread holds a
 * reference to the peer, so closing the session waits for the thread for up to CLOSE_WAIT_NS
 * (session.c). On an error, op is not released. */
static tcpx_status gpu_close_later(struct comms_gpu_op *op)
{
	pthread_t thread;
	tcpx_status status;

	peer_get(op->peer);
	status = sys_thread_start(&thread, "tcpx-plugin", gpu_close_main, op);
	if (status == TCPX_OK)
		pthread_detach(thread);
	else
		peer_put(op->peer); /* what was opened stays allocated */
	return status;
}

tcpx_status comms_gpu_open(struct engine_comms *comms)
{
	const struct engine_plugin *plugin = comms->peer->link.session->plugin;
	struct comms_gpu_op *op = calloc(1, sizeof(*op));
	pthread_t thread;
	tcpx_status status;

	if (!op)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "unpacking of channel %u", comms->channel);
	op->peer = comms->peer;
	op->opts = (struct mem_unpack_opts){
		.mode = plugin->unpack,
		.device = (uint32_t)(plugin->host_recv ? plugin->gpu : comms_nic(comms)->landing),
		.job_bytes = comms->peer->comms->message_bytes};
	op->chosen = plugin->chosen;
	op->home = (uint32_t)plugin->gpu;
	op->queue_at = (uint64_t)(uintptr_t)net_comm_device(comms->in)->handle;
	op->window = plugin->host_recv ? comms->peer->comms->window : 0;
	peer_get(op->peer);
	comms->gpu_op = op;
	status = sys_thread_start(&thread, "tcpx-plugin", gpu_open_main, op);
	if (status == TCPX_OK) {
		pthread_detach(thread);
		return TCPX_OK;
	}
	comms->gpu_op = NULL;
	peer_put(op->peer);
	free(op);
	return status;
}

tcpx_status comms_gpu_opened(struct engine_comms *comms)
{
	struct comms_gpu_op *op = comms->gpu_op;
	tcpx_status status;

	if (atomic_load(&op->state) == OP_RUNNING)
		return TCPX_IN_PROGRESS;
	status = op->status;
	if (status == TCPX_OK) {
		comms->gpu = &op->gpu;
		return TCPX_OK;
	}
	(void)error_raise(&op->error);
	comms->gpu_op = NULL;
	free(op);
	return status;
}

bool comms_gpu_opens(const struct engine_comms *comms)
{
	return comms->gpu_op && !comms->gpu && atomic_load(&comms->gpu_op->state) == OP_RUNNING;
}

void comms_gpu_abandon(struct engine_comms *comms)
{
	struct comms_gpu_op *op = comms->gpu_op;

	if (!op || comms->gpu)
		return;
	comms->gpu_op = NULL;
	if (op->status != TCPX_OK)
		free(op);
	else
		(void)gpu_close_later(op);
}

void comms_gpu_close(struct engine_comms *comms)
{
	if (!comms->gpu)
		return;
	if (gpu_close_later(comms->gpu_op) == TCPX_OK)
		comms->gpu_op = NULL;
	comms->gpu = NULL;
}

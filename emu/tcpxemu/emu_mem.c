/* SPDX-License-Identifier: Apache-2.0 */
/* Where pools, metadata and queues lie in each memory mode, and which GPU is current. */
#include "emu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static __thread int thread_gpu;
static __thread bool thread_gpu_set;

void tcpxemu_set_gpu(int gpu)
{
	thread_gpu = gpu;
	thread_gpu_set = true;
}

int tcpxemu_get_gpu(void)
{
	return emu_gpu_current();
}

int emu_gpu_current(void)
{
	int gpu = emu_cuda_current();
	const char *text;

	if (gpu >= 0)
		return gpu;
	if (!thread_gpu_set) {
		text = getenv("TCPXEMU_GPU");
		tcpxemu_set_gpu(text && *text ? atoi(text) : 0);
	}
	return thread_gpu >= 0 && thread_gpu < emu_config.gpus ? thread_gpu : -1;
}

enum emu_area_kind emu_kind_of_meta(void)
{
	return emu_config.mode == EMU_MEM_CPU ? EMU_AREA_HEAP : EMU_AREA_PINNED;
}

enum emu_area_kind emu_kind_of_queue(void)
{
	return emu_config.mode == EMU_MEM_CPU ? EMU_AREA_HEAP : EMU_AREA_DEVICE;
}

enum emu_area_kind emu_kind_of_pool(void)
{
	if (emu_config.mode == EMU_MEM_CPU)
		return EMU_AREA_HEAP;
	return emu_config.mode == EMU_MEM_HOST_BOUNCE ? EMU_AREA_PINNED : EMU_AREA_POOL;
}

enum emu_area_kind emu_kind_of_stage(void)
{
	return emu_config.mode == EMU_MEM_CPU ? EMU_AREA_HEAP : EMU_AREA_PINNED;
}

int emu_area_get(struct emu_area *out, enum emu_area_kind kind, size_t bytes, int gpu)
{
	void *at;

	*out = (struct emu_area){.kind = kind, .bytes = bytes, .gpu = gpu};
	if (kind != EMU_AREA_HEAP)
		return emu_cuda_area_get(out);
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		  -1, 0);
	if (at == MAP_FAILED)
		return -1;
	out->host = at;
	out->device = (uint64_t)(uintptr_t)at;
	return 0;
}

void emu_area_put(struct emu_area *area)
{
	if (area->kind != EMU_AREA_HEAP)
		emu_cuda_area_put(area);
	else if (area->host)
		munmap(area->host, area->bytes);
	memset(area, 0, sizeof(*area));
}

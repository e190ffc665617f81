/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out, when a region is registered, whether the driver exports the region's pages to the
 * plugin. */
#include "engine/channel/comms.h"

#include "base/config.h"
#include "mem/cuda_cover.h"

uint64_t comms_cover(const struct mem_region *region, uintptr_t *out_base)
{
	const uintptr_t in_page = NET_MR_PAGE - 1;
	uintptr_t base = (uintptr_t)region->base, end = base + region->length;

	*out_base = base & ~in_page;
	return ((end + in_page) & ~in_page) - *out_base;
}

/* Asks the driver whether it exports each of the parts of the region (at most NET_MR_PIECE bytes)
 * that the plugin will ask for. Returns OK if the driver exports all of them. */
static tcpx_status cover_ask_pieces(const struct sys_cuda_gpu *gpu, const struct mem_region *region)
{
	uintptr_t base;
	uint64_t bytes = comms_cover(region, &base);
	unsigned pieces = net_mr_pieces(bytes);
	tcpx_status status = TCPX_OK;

	for (unsigned i = 0; status == TCPX_OK && i < pieces; i++)
		status = mem_cuda_cover(gpu, base + i * NET_MR_PIECE, net_mr_piece(bytes, i));
	return status;
}

static tcpx_status cover_ask(const struct mem_region *region)
{
	struct sys_cuda_scope scope;
	struct sys_cuda_gpu *gpu;
	tcpx_status status = sys_cuda_get(region->device, &gpu);

	if (status != TCPX_OK)
		return status;
	status = sys_cuda_push(gpu, &scope);
	if (status == TCPX_OK) {
		status = cover_ask_pieces(gpu, region);
		sys_cuda_pop(&scope);
	}
	sys_cuda_put(gpu);
	return status;
}

/* Logs that the driver does not export the pages of the region. The level is WARN only for the
 * first such region of a session, and INFO for others, since there may be thousands. */
static void cover_log_refusal(struct engine_plugin *plugin, const struct mem_region *region)
{
	const tcpx_error *error = error_last();
	enum tcpx_log_level level =
		atomic_fetch_add(&plugin->uncovered, 1) ? TCPX_LOG_INFO : TCPX_LOG_WARN;

	LOG(level, "the region of %llu bytes at %p goes over tcp, not by the plugin: %s; %s",
	    (unsigned long long)region->length, (void *)region->base, error->what, error->next);
}

void comms_cover_check(const struct engine_session *session, struct mem_region *region)
{
	struct engine_plugin *plugin = session->plugin;

	if (!plugin || plugin->gpu < 0 || region->kind->kind != TCPX_MEM_CUDA ||
	    plugin->gpu != (int)region->device || atomic_load(&region->cover) != MEM_COVER_UNASKED)
		return;
	if (!config_bool(CONFIG_GPUDIRECT_COVER) || cover_ask(region) == TCPX_OK) {
		atomic_store(&region->cover, MEM_COVER_GIVEN);
		return;
	}
	atomic_store(&region->cover, MEM_COVER_REFUSED);
	cover_log_refusal(plugin, region);
}

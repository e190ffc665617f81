/* SPDX-License-Identifier: Apache-2.0 */
/* Executes READs and WRITEs whose remote memory is mapped in this process: a local GPU copies the
 * bytes, and no data frame is sent. */
#include "engine/path/direct.h"

#include <stdlib.h>

#include "engine/link/account.h"
#include "engine/link/prefill.h"
#include "engine/link/stage.h"
#include "engine/path/share.h"

/* Shorter lists are made at the post. */
#define PLAN_SEGS 64u

/* Whether all local regions of the request are memory of one device. */
static bool one_device(const struct engine_request *request)
{
	const struct mem_region *first = request->regions.at[0];

	for (uint32_t i = 1; i < request->regions.count; i++)
		if (request->regions.at[i]->kind != first->kind ||
		    request->regions.at[i]->device != first->device)
			return false;
	return true;
}

/* Allocates a plan for the request. Returns NULL if the session's budget or the memory is used up;
 * the list is then made at each post. */
static struct direct_plan *plan_alloc(const struct engine_request *request)
{
	const struct core_segs *segs = &request->segs;
	size_t head = sizeof(struct direct_plan) + segs->nremote * sizeof(uint64_t);
	size_t pieces = (size_t)segs->nseg * sizeof(struct mem_piece);
	size_t size = head + pieces + (size_t)segs->nseg * sizeof(uint64_t);
	struct direct_plan *plan = session_alloc(request->session, size);

	if (!plan)
		return NULL;
	plan->size = size;
	plan->pieces = (struct mem_piece *)((uint8_t *)plan + head);
	plan->sources = (uint64_t *)((uint8_t *)plan->pieces + pieces);
	return plan;
}

void direct_plan_free(struct engine_request *request)
{
	struct direct_plan *plan = request->way.plan;

	request->way.plan = NULL;
	if (plan)
		session_free(request->session, plan, plan->size);
}

/* Writes the list of the plan, whose bases are known. */
static void plan_write(struct direct_plan *plan, const struct engine_request *request)
{
	const struct core_segs *segs = &request->segs;
	bool write = request->xfer.op == TCPX_OP_WRITE;

	for (uint32_t i = 0; i < segs->nseg; i++) {
		const struct core_seg *seg = &segs->seg[i];
		uint64_t far = plan->bases[seg->remote] + seg->remote_off;
		uint8_t *near = request->regions.at[seg->local]->base + seg->local_off;

		plan->pieces[i] = (struct mem_piece){write ? (void *)(uintptr_t)far : near,
						     core_seg_length(segs, i)};
		plan->sources[i] = write ? (uintptr_t)near : far;
	}
}

/* Stores the addresses of the peer's regions in plan->bases, unless `plan` is NULL. Returns false
 * if one of them is not mapped for the request's GPU. */
static bool bases_find(const struct engine_request *request, struct direct_plan *plan)
{
	const struct mem_region *region = request->regions.at[0];
	struct engine_peer *peer = request->peer;
	bool found;
	int within;

	link_lock(&peer->link);
	found = peer->shared && peer->shared->nin;
	for (uint32_t i = 0; found && i < request->segs.nremote; i++) {
		struct engine_map *map = share_map_of_key(peer, request->regions.keys[i]);
		uint64_t base =
			map ? region->kind->mapped_at(map->mapping, region->device, &within) : 0;

		found = base != 0;
		if (plan)
			plan->bases[i] = base;
	}
	link_unlock(&peer->link);
	return found;
}

void direct_prepared(struct engine_request *request)
{
	const struct mem_region *region = request->regions.at[0];

	if (!bases_find(request, NULL))
		return;
	if (region->kind->rouse)
		/* the post usually follows at once, and then finds the thread awake */
		region->kind->rouse(region->device, MEM_CALL_MOVE);
	if (request->segs.nseg < PLAN_SEGS || !one_device(request))
		return;
	request->way.plan = plan_alloc(request);
	if (request->way.plan && bases_find(request, request->way.plan))
		plan_write(request->way.plan, request);
	else
		direct_plan_free(request); /* revoked meanwhile, or no memory */
}

/* Whether the plan's addresses are those of the stage's mappings. Sets *out_within to 1 if one of
 * these is memory of the GPU that copies. */
static bool plan_holds(const struct direct_plan *plan, const struct engine_stage *stage,
		       int *out_within)
{
	const struct mem_region *region = stage->whole->regions.at[0];
	int within;

	*out_within = 0;
	for (uint32_t i = 0; i < stage->nmaps; i++) {
		if (region->kind->mapped_at(stage->maps[i]->mapping, region->device, &within) !=
		    plan->bases[i])
			return false;
		*out_within |= within;
	}
	return true;
}

/* The stage's build(): adds one copy for each segment of the request. */
static tcpx_status direct_build(struct engine_stage *stage)
{
	struct direct_plan *plan = stage->whole->way.plan;
	const struct core_segs *segs = &stage->whole->segs;
	bool write = stage->whole->xfer.op == TCPX_OP_WRITE;
	tcpx_status status;
	int within;

	if (plan && plan_holds(plan, stage, &within)) {
		(void)copies_init_moves(&stage->copies, 0, true, stage_commit_done);
		return copies_move_list(&stage->copies, stage->whole->regions.at[0], within,
					plan->pieces, plan->sources, segs->nseg);
	}
	status = copies_init_moves(&stage->copies, segs->nseg, true, stage_commit_done);
	for (uint32_t i = 0; i < segs->nseg && status == TCPX_OK; i++) {
		const struct core_seg *seg = &segs->seg[i];

		status = (write ? copies_move_out
				: copies_move)(&stage->copies, segs->local[seg->local],
					       seg->local_off, core_seg_length(segs, i),
					       stage->maps[seg->remote]->mapping, seg->remote_off);
	}
	return status;
}

/* Ends the stage's use of its mappings. Reduces stage->maps to the mappings that the caller must
 * close: those that are revoked and have no other user. The caller holds link.lock. */
static void direct_unuse(struct engine_stage *stage)
{
	uint32_t idle = 0;

	stage->peer->shared->direct_bytes -= stage->bytes;
	for (uint32_t i = 0; i < stage->nmaps; i++) {
		struct engine_map *map = stage->maps[i];

		map->uses--;
		if (share_map_idle(map))
			stage->maps[idle++] = map;
	}
	stage->nmaps = idle;
}

static void direct_release(struct engine_stage *stage, bool last)
{
	if (last) {
		free(stage->maps);
		return;
	}
	link_lock(&stage->peer->link);
	direct_unuse(stage);
	link_unlock_only(&stage->peer->link);
	while (stage->nmaps)
		share_map_close(stage->maps[--stage->nmaps]);
}

/* Stores the mapping of each remote region of the request in `maps`. Returns false if one of these
 * regions is not mapped, if the request reaches beyond the end of one, or, for a WRITE, if the
 * source's GPU has no access to a mapping yet. In all three cases the request is sent in frames,
 * and the peer refuses what is invalid. The caller holds link.lock. */
static bool direct_find(const struct engine_request *request, struct engine_map **maps)
{
	bool write = request->xfer.op == TCPX_OP_WRITE;

	for (uint32_t i = 0; i < request->segs.nremote; i++) {
		maps[i] = share_map_of_key(request->peer, request->regions.keys[i]);
		if (!maps[i] || request->regions.ends[i] > maps[i]->length)
			return false;
		/* The GPU of a WRITE's source makes the copies. It must have access to the mapping
		 * already, because starting the copies does not give access. */
		for (uint32_t k = 0; write && k < request->regions.count; k++)
			if (!copies_mapped(request->regions.at[k], maps[i]->mapping))
				return false;
	}
	return true;
}

bool direct_begin(struct engine_request *request)
{
	const struct core_segs *segs = &request->segs;
	struct engine_peer *peer = request->peer;
	struct engine_shares *shares = peer->shared;
	struct engine_stage *stage = NULL;
	struct engine_map **maps;

	/* A copy that has begun cannot be stopped, and a cancel waits until it has ended. So at
	 * most CORE_REF_WINDOW bytes are under way in direct requests to this peer. */
	if (segs->total > CORE_REF_WINDOW - shares->direct_bytes)
		return false;
	maps = malloc(segs->nremote * sizeof(struct engine_map *));
	if (maps && direct_find(request, maps))
		stage = stage_open(peer, NULL, segs->total);
	if (!stage) {
		free(maps);
		return false;
	}
	stage->release = direct_release;
	stage->maps = maps;
	stage->nmaps = segs->nremote;
	for (uint32_t i = 0; i < stage->nmaps; i++)
		stage->maps[i]->uses++;
	shares->direct_bytes += segs->total;
	stage->whole = request;
	stage->build = direct_build;
	/* The stage has no copies yet; direct_build() adds them. */
	(void)copies_init(&stage->copies, NULL, 0, stage_commit_done);
	request->way.direct = stage;
	return true;
}

void direct_posted(struct engine_request *request, tcpx_status status)
{
	struct engine_stage *stage = request->way.direct;

	request->way.direct = NULL;
	if (!stage)
		return;
	if (status == TCPX_OK) {
		prefill_defer(request->peer, stage);
		return;
	}
	/* link.lock has been held since direct_begin(), so no mapping was revoked and none must be
	 * closed. */
	direct_unuse(stage);
	free(stage->maps);
	stage_forget(stage);
}

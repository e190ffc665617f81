/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the segment list of a request: looks up regions, checks ranges, and joins neighbouring
 * segments. */
#include "engine/link/import.h"
#include "engine/link/segments.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* A small open-addressing map from region handles to indices in the request's region tables. */
struct idmap {
	uint64_t *id;
	uint32_t *index;
	uint32_t cap, used;
};

/* State of segments_build(). last_*: handles and indices of the regions of the previous segment,
 * since most lists use one region many times. */
struct builder {
	struct engine_request *request;
	struct idmap local, remote;
	uint32_t cap_regions, cap_keys;
	uint64_t last_local, last_remote;
	uint32_t last_local_at, last_remote_at;
	uint32_t needs; /* the mem_traits that local memory must have */
	size_t at;	/* index of the current segment */
};

/* Returns a pointer to the index that belongs to `id`, or NULL if there is no memory. Sets *out_new
 * to whether `id` was added by this call; if so, the caller must store the index. */
static uint32_t *idmap_find(struct idmap *map, uint64_t id, bool *out_new)
{
	uint32_t slot;

	if (map->used * 2 >= map->cap) {
		struct idmap bigger = {.cap = map->cap ? map->cap * 2 : 64};

		bigger.id = calloc(bigger.cap, sizeof(*bigger.id));
		bigger.index = calloc(bigger.cap, sizeof(*bigger.index));
		if (!bigger.id || !bigger.index) {
			free(bigger.id);
			free(bigger.index);
			return NULL;
		}
		for (uint32_t i = 0; i < map->cap; i++) {
			bool ignored;

			if (map->id[i])
				*idmap_find(&bigger, map->id[i], &ignored) = map->index[i];
		}
		free(map->id);
		free(map->index);
		*map = bigger;
	}
	slot = (uint32_t)((id * 0x9e3779b97f4a7c15ull) >> 32) & (map->cap - 1);
	while (map->id[slot] && map->id[slot] != id)
		slot = (slot + 1) & (map->cap - 1);
	*out_new = !map->id[slot];
	if (*out_new) {
		map->id[slot] = id;
		map->used++;
	}
	return &map->index[slot];
}

static tcpx_status segments_no_memory(void)
{
	return error_set(TCPX_ERR_NO_MEMORY, 0, "segment list");
}

/* Checks that a local region may be used, and appends it to the request's table, with a
 * reference. */
static tcpx_status local_add(struct builder *b, uint64_t id, uint32_t *out_index)
{
	struct engine_request *request = b->request;
	struct mem_region *region;
	tcpx_status status;

	if (request->regions.count == b->cap_regions) {
		uint32_t cap = b->cap_regions ? b->cap_regions * 2 : 8;
		struct mem_region **more =
			realloc(b->cap_regions ? request->regions.at : NULL, cap * sizeof(*more));

		if (!more)
			return segments_no_memory();
		request->regions.at = more;
		b->cap_regions = cap;
	}
	region = mem_region_get(request->session->regions, id);
	if (!region)
		return error_set(TCPX_ERR_STALE, 0, "segment %zu: local region is not registered",
				 b->at);
	status = mem_region_same(region);
	if (status == TCPX_OK)
		status = mem_region_allows(region, b->needs);
	if (status != TCPX_OK) {
		mem_region_put(region);
		return status;
	}
	request->segs.vanishing |= mem_region_vanishes(region);
	request->regions.at[request->regions.count] = region;
	*out_index = request->regions.count++;
	return TCPX_OK;
}

/* Looks up the index of a local region in the request's table. Adds the region if it is new. */
static tcpx_status local_index(struct builder *b, uint64_t id, uint32_t *out_index)
{
	uint32_t *index;
	tcpx_status status;
	bool fresh;

	if (id == b->last_local && b->request->regions.count) {
		*out_index = b->last_local_at;
		return TCPX_OK;
	}
	if (!id || id >> 63)
		return error_set(TCPX_ERR_INVALID, 0, "segment %zu: local is not a local region",
				 b->at);
	index = idmap_find(&b->local, id, &fresh);
	if (!index)
		return segments_no_memory();
	if (fresh) {
		status = local_add(b, id, index);
		if (status != TCPX_OK)
			return status;
	}
	b->last_local = id;
	b->last_local_at = *out_index = *index;
	return TCPX_OK;
}

/* Appends the key of a peer's region to the request's table, and updates request->remote, which
 * says what all remote memory of the request allows. */
static tcpx_status remote_add(struct builder *b, uint64_t id, uint32_t *out_index)
{
	struct engine_request *request = b->request;
	struct handles *imports = &request->session->imports;
	struct engine_import *import = handle_get(imports, id);
	struct wire_token token = {0};
	const struct mem_kind *kind;
	bool ours = import && (import->peer_id == request->peer_id ||
			       import->link_id == atomic_load(&request->peer)->app_handle);

	if (ours)
		token = import->token;
	if (import)
		handle_put(imports, import);
	if (!ours)
		return error_set(TCPX_ERR_STALE, 0,
				 "segment %zu: remote region was not imported from this peer",
				 b->at);
	if (request->segs.nremote == b->cap_keys) {
		uint32_t cap = b->cap_keys ? b->cap_keys * 2 : 8;
		uint64_t *keys = realloc(request->regions.keys, cap * sizeof(*keys)), *ends;

		if (!keys)
			return segments_no_memory();
		request->regions.keys = keys;
		ends = realloc(request->regions.ends, cap * sizeof(*ends));
		if (!ends)
			return segments_no_memory();
		request->regions.ends = ends;
		b->cap_keys = cap;
	}
	kind = mem_kind_get(token.kind);
	request->remote.staged |= (token.flags & WIRE_TOKEN_STAGED) != 0;
	request->remote.shares &= kind && kind->move;
	request->remote.rights &= token.rights;
	request->remote.messages &= (token.flags & WIRE_TOKEN_MESSAGES) != 0;
	request->regions.keys[request->segs.nremote] = token.key;
	request->regions.ends[request->segs.nremote] = 0;
	*out_index = request->segs.nremote++;
	return TCPX_OK;
}

/* Looks up the index of a peer's region in the request's table. Adds the region if it is new. */
static tcpx_status remote_index(struct builder *b, uint64_t id, uint32_t *out_index)
{
	uint32_t *index;
	tcpx_status status;
	bool fresh;

	if (id == b->last_remote && b->request->segs.nremote) {
		*out_index = b->last_remote_at;
		return TCPX_OK;
	}
	if (!(id >> 63))
		return error_set(TCPX_ERR_INVALID, 0,
				 "segment %zu: remote is not an imported region", b->at);
	index = idmap_find(&b->remote, id, &fresh);
	if (!index)
		return segments_no_memory();
	if (fresh) {
		status = remote_add(b, id, index);
		if (status != TCPX_OK)
			return status;
	}
	b->last_remote = id;
	b->last_remote_at = *out_index = *index;
	return TCPX_OK;
}

/* Checks a segment, and appends it to the list or joins it with the previous segment. A segment of
 * 0 bytes is only checked. */
static tcpx_status segment_add(struct builder *b, const tcpx_segment *segment, bool remote)
{
	struct core_segs *segs = &b->request->segs;
	struct core_seg *seg = &segs->seg[segs->nseg], *last = seg - 1;
	const struct mem_region *region;
	uint32_t local = 0, far = 0;
	tcpx_status status;

	status = local_index(b, segment->local.id, &local);
	if (status == TCPX_OK && remote)
		status = remote_index(b, segment->remote.id, &far);
	if (status != TCPX_OK)
		return status;
	region = b->request->regions.at[local];
	if (segment->local_offset > region->length ||
	    segment->length > region->length - segment->local_offset)
		return error_set(TCPX_ERR_RANGE, 0,
				 "segment %zu: %llu bytes at offset %llu leave the local region of "
				 "%llu bytes",
				 b->at, (unsigned long long)segment->length,
				 (unsigned long long)segment->local_offset,
				 (unsigned long long)region->length);
	if (remote && segment->remote_offset + segment->length < segment->remote_offset)
		return error_set(TCPX_ERR_RANGE, 0, "segment %zu: remote offset wraps around",
				 b->at);
	if (segment->length > TCPX_TOTAL_MAX - segs->total)
		return error_set(TCPX_ERR_LIMIT, 0,
				 "segment %zu: the list has more than 2^48 bytes", b->at);
	if (!segment->length)
		return TCPX_OK;
	if (remote && segment->remote_offset + segment->length > b->request->regions.ends[far])
		b->request->regions.ends[far] = segment->remote_offset + segment->length;
	if (segs->nseg && last->local == local && last->remote == far &&
	    last->local_off + (segs->total - last->linear) == segment->local_offset &&
	    (!remote ||
	     last->remote_off + (segs->total - last->linear) == segment->remote_offset)) {
		segs->total += segment->length; /* this segment continues the previous one */
		return TCPX_OK;
	}
	*seg = (struct core_seg){.linear = segs->total,
				 .local_off = segment->local_offset,
				 .remote_off = segment->remote_offset,
				 .local = local,
				 .remote = far};
	segs->total += segment->length;
	segs->nseg++;
	return TCPX_OK;
}

/* Returns the size in bytes of a list of `count` segments and their sentinel. */
static size_t list_bytes(uint64_t count)
{
	return (size_t)(count + 1) * sizeof(struct core_seg);
}

/* Sets the last error after an allocation for the list has failed, and returns the error's
 * status. */
static tcpx_status list_memory(struct engine_session *session, size_t count)
{
	tcpx_status status = session_memory_error(session);

	if (status != TCPX_ERR_LIMIT)
		return segments_no_memory();
	error_set(status, 0,
		  "a list of %zu segments needs %zu bytes of the session's memory budget, which is "
		  "%llu bytes with %llu in use",
		  count, list_bytes(count), (unsigned long long)session->account.budget,
		  (unsigned long long)account_bytes(session));
	return error_next("raise memory_budget_bytes (TCPX_MEMORY_BUDGET_BYTES), release requests, "
			  "or use shorter lists");
}

/* Frees the unused end of the list. The list is shorter than `count` if segments were joined or
 * empty, or if one was refused. */
static void list_shrink(struct engine_request *request, size_t count)
{
	struct core_segs *segs = &request->segs;
	struct core_seg *less;

	if (!request->many || segs->nseg == count)
		return;
	less = realloc(request->many, list_bytes(segs->nseg));
	if (less)
		request->many = segs->seg = less;
	session_uncharge(request->session, list_bytes(count) - list_bytes(segs->nseg));
}

tcpx_status segments_build(struct engine_request *request, enum tcpx_op op,
			   const tcpx_segment *segments, size_t count)
{
	bool reads = op == TCPX_OP_WRITE || op == TCPX_OP_SEND;
	struct builder b = {.request = request, .needs = reads ? MEM_CAN_READ : MEM_CAN_WRITE};
	struct core_segs *segs = &request->segs;
	tcpx_status status = TCPX_OK;
	bool remote = op == TCPX_OP_WRITE || op == TCPX_OP_READ;

	request->local.shares = request->remote.shares = true;
	request->local.messages = request->remote.messages = true;
	request->remote.rights = UINT32_MAX;
	request->many = count > 1 ? session_alloc(request->session, list_bytes(count)) : NULL;
	segs->seg = count > 1 ? request->many : request->one;
	if (!segs->seg)
		return list_memory(request->session, count);
	for (b.at = 0; b.at < count && status == TCPX_OK; b.at++)
		status = segment_add(&b, &segments[b.at], remote);
	free(b.local.id);
	free(b.local.index);
	free(b.remote.id);
	free(b.remote.index);
	list_shrink(request, count);
	if (status != TCPX_OK) {
		segments_free(request);
		return status;
	}
	segs->seg[segs->nseg].linear = segs->total;
	segs->local = (void *const *)request->regions.at;
	segs->nlocal = request->regions.count;
	segs->remote = request->regions.keys;
	for (uint32_t i = 0; i < request->regions.count; i++) {
		request->local.staged |= request->regions.at[i]->kind->staged;
		request->local.shares &= request->regions.at[i]->kind->share != NULL;
	}
	return TCPX_OK;
}

void segments_free(struct engine_request *request)
{
	while (request->regions.count)
		mem_region_put(request->regions.at[--request->regions.count]);
	free(request->regions.at);
	free(request->regions.keys);
	free(request->regions.ends);
	if (request->many)
		session_free(request->session, request->many, list_bytes(request->segs.nseg));
	request->regions.at = NULL;
	request->regions.keys = request->regions.ends = NULL;
	request->many = NULL;
	memset(&request->segs, 0, sizeof(request->segs));
}

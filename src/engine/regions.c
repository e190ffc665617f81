/* SPDX-License-Identifier: Apache-2.0 */
/* Regions: ours with the requests and pushes that use them, and the peers' that were imported. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/calls.h"
#include "engine/comms.h"
#include "engine/early.h"
#include "engine/import.h"
#include "engine/rx_into.h"
#include "engine/share.h"

#define IMPORT_TAG (1ull << 63)

tcpx_status engine_region_register(struct engine_session *session, void *addr, uint64_t length,
				   const tcpx_region_opts *opts, tcpx_region *out_region)
{
	tcpx_status status = mem_region_add(session->regions, addr, length, opts, &out_region->id);
	struct mem_region *region = NULL;

	if (status == TCPX_OK && session->plugin)
		region = mem_region_get(session->regions, out_region->id);
	if (region) {
		comms_cover_check(session, region);
		mem_region_put(region);
	}
	return status;
}

static bool request_uses(const struct engine_request *request, const struct mem_region *region)
{
	for (uint32_t i = 0; i < request->nregions; i++)
		if (request->regions[i] == region)
			return true;
	return false;
}

/* Ends what uses the region on one peer. */
static void peer_forget_region(struct engine_peer *peer, struct mem_region *region)
{
	struct list_node *pos, *tmp;
	uint32_t i;

	pthread_mutex_lock(&peer->lock);
	early_forget(peer, request_uses, region);
	if (peer->core_ready) {
		LIST_FOREACH_SAFE(pos, tmp, &peer->core.active) {
			struct core_xfer *xfer = LIST_ENTRY(pos, struct core_xfer, node);

			if (request_uses(LIST_ENTRY(xfer, struct engine_request, xfer), region))
				core_xfer_cancel(&peer->core, xfer, TCPX_ERR_DEREGISTERED);
		}
		LIST_FOREACH_SAFE(pos, tmp, &peer->core.pushes) {
			struct core_push *push = LIST_ENTRY(pos, struct core_push, node);

			if (served_uses(push, region))
				core_push_stop(&peer->core, push, TCPX_ERR_REMOTE_KEY);
		}
		for (i = 0; i < CORE_CHANNELS_MAX; i++)
			if (peer->chan[i])
				chan_rx_forget(peer->chan[i], region);
		share_forget(peer, region);
		comms_forget(peer, region);
	}
	pthread_mutex_unlock(&peer->lock);
	peer_kick(peer, true);
}

/* The last reference went. */
void import_free(void *object)
{
	struct engine_import *import = object;

	handle_give(&import->session->imports, import);
}

static tcpx_status import_forget(struct engine_session *session, uint64_t id)
{
	struct engine_import *import = handle_claim(&session->imports, id);

	if (!import)
		return error_set(TCPX_ERR_STALE, 0, "imported region is not valid any more");
	handle_put(&session->imports, import);
	return TCPX_OK;
}

tcpx_status engine_region_deregister(struct engine_session *session, uint64_t id,
				     int64_t timeout_ns)
{
	int64_t deadline = clock_after(timeout_ns > 0 ? timeout_ns : CLOCK_S_NS);
	struct mem_region *region;
	struct list_node *pos;
	tcpx_status status;

	if (id & IMPORT_TAG)
		return import_forget(session, id);
	status = mem_region_retire(session->regions, id, &region);
	if (status != TCPX_OK)
		return error_set(TCPX_ERR_STALE, 0, "region is not registered");
	if (!region)
		return TCPX_OK; /* registered once more: nothing changes for anybody */
	pthread_mutex_lock(&session->lock);
	LIST_FOREACH(pos, &session->peer_list)
		peer_forget_region(LIST_ENTRY(pos, struct engine_peer, node), region);
	pthread_mutex_unlock(&session->lock);
	status = mem_region_quiesce(region, timeout_ns < 0 ? -1 : deadline);
	if (status == TCPX_OK)
		mem_region_remove(session->regions, id);
	else
		error_set(status, 0, "region is still accessed");
	mem_region_put(region);
	return status;
}

tcpx_status engine_region_export(struct engine_session *session, uint64_t id, uint8_t *token)
{
	struct wire_token parts = {0};
	struct mem_region *region;

	if (id & IMPORT_TAG)
		return error_set(TCPX_ERR_INVALID, 0, "an imported region has no token of ours");
	region = mem_region_get(session->regions, id);
	if (!region)
		return error_set(TCPX_ERR_STALE, 0, "region is not registered");
	parts.kind = (uint8_t)region->kind->kind;
	parts.rights = (uint8_t)region->rights;
	parts.flags = region->flags & TCPX_REGION_STABLE ? WIRE_TOKEN_STABLE : 0;
	if (region->kind->staged)
		parts.flags |= WIRE_TOKEN_STAGED;
	if (comms_takes(session, region))
		parts.flags |= WIRE_TOKEN_MESSAGES;
	parts.key = region->own.key;
	wire_token_encode(&parts, token);
	mem_region_put(region);
	return TCPX_OK;
}

tcpx_status engine_region_import(struct engine_session *session, uint64_t peer_id,
				 const void *token, size_t len, tcpx_region *out_region)
{
	struct engine_import *import;
	struct engine_peer *peer;
	struct wire_token parts;
	uint64_t link_id;
	tcpx_status status;

	status = wire_token_decode(token, len, &parts);
	if (status != TCPX_OK)
		return error_set(status, 0, "region token of %zu bytes", len);
	peer = engine_peer_get(session, peer_id);
	if (!peer)
		return TCPX_ERR_STALE;
	link_id = peer->slot_id;
	peer_put(peer);
	import = handle_take(&session->imports);
	if (!import)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "imported region");
	import->session = session;
	import->peer_id = peer_id;
	import->link_id = link_id;
	import->token = parts;
	handle_publish(&session->imports, import);
	out_region->id = import->slot.id;
	return TCPX_OK;
}

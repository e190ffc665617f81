/* SPDX-License-Identifier: Apache-2.0 */
/* Registers and deregisters regions, and exports and imports tokens. Deregistering a region ends
 * the requests and read responses that use it. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/session/calls.h"
#include "engine/request/pending.h"
#include "engine/link/import.h"
#include "engine/path/paths.h"
#include "engine/channel/serve.h"

#define IMPORT_TAG (1ull << 63)

tcpx_status engine_region_register(struct engine_session *session, void *addr, uint64_t length,
				   const tcpx_region_opts *opts, tcpx_region *out_region)
{
	tcpx_status status = mem_region_add(session->regions, addr, length, opts, &out_region->id);

	if (status == TCPX_OK)
		path_registered(session, out_region->id);
	return status;
}

static bool request_uses(const struct engine_request *request, const struct mem_region *region)
{
	for (uint32_t i = 0; i < request->regions.count; i++)
		if (request->regions.at[i] == region)
			return true;
	return false;
}

/* Ends all that the link to one peer does with a local region. Cancels the requests and stops the
 * read responses that use it, keeps arriving frames from writing to it, and lets the paths forget
 * it (path_forget()). */
static void peer_forget_region(struct engine_peer *peer, struct mem_region *region)
{
	struct core_xfer *xfer, *next_xfer;
	struct core_resp *resp, *next_resp;
	uint32_t i;

	link_lock(&peer->link);
	pending_forget(peer, request_uses, region);
	if (peer->link.core_ready) {
		for (xfer = core_xfer_after(&peer->link.core, NULL); xfer; xfer = next_xfer) {
			next_xfer = core_xfer_after(&peer->link.core, xfer);
			if (request_uses(LIST_ENTRY(xfer, struct engine_request, xfer), region))
				core_xfer_cancel(&peer->link.core, xfer, TCPX_ERR_DEREGISTERED);
		}
		for (resp = core_resp_after(&peer->link.core, NULL); resp; resp = next_resp) {
			next_resp = core_resp_after(&peer->link.core, resp);
			if (served_uses(resp, region))
				core_resp_stop(&peer->link.core, resp, TCPX_ERR_REMOTE_KEY);
		}
		for (i = 0; i < CORE_CHANNELS_MAX; i++)
			if (peer->link.chan[i])
				chan_rx_forget(peer->link.chan[i], region);
		path_forget(peer, region);
	}
	link_unlock(&peer->link);
}

/* Puts the object of an imported region back into the table of imports. Called when the last
 * reference to the object was dropped. */
void import_free(void *object)
{
	struct engine_import *import = object;

	handle_give(&import->session->imports, import);
}

static tcpx_status import_forget(struct engine_session *session, uint64_t id)
{
	struct engine_import *import = handle_claim(&session->imports, id);

	if (!import)
		return error_set(TCPX_ERR_STALE, 0, "imported region %llx is no longer valid",
				 (unsigned long long)id);
	handle_put(&session->imports, import);
	return TCPX_OK;
}

tcpx_status engine_region_deregister(struct engine_session *session, uint64_t id,
				     int64_t timeout_ns)
{
	int64_t deadline = clock_after(timeout_ns > 0 ? timeout_ns : CLOCK_S_NS);
	struct mem_region *region;
	struct engine_peer *peer;
	tcpx_status status;

	if (id & IMPORT_TAG)
		return import_forget(session, id);
	status = mem_region_retire(session->regions, id, &region);
	if (status != TCPX_OK)
		return error_set(TCPX_ERR_STALE, 0, "region %llx is not registered",
				 (unsigned long long)id);
	if (!region)
		return TCPX_OK; /* registered more than once, so the region stays */
	for (peer = session_next_peer(session, NULL); peer; peer = session_next_peer(session, peer))
		peer_forget_region(peer, region);
	status = mem_region_quiesce(region, timeout_ns < 0 ? -1 : deadline);
	if (status == TCPX_OK) {
		mem_region_remove(session->regions, id);
	} else {
		error_set(status, 0, "the region of %llu bytes at %p is still accessed",
			  (unsigned long long)region->length, (void *)region->base);
		error_next("wait until its requests end, or allow a longer time");
	}
	mem_region_put(region);
	return status;
}

/* Returns this session's region with this id, with a reference. Returns NULL on failure; the last
 * error says why. */
static struct mem_region *region_get_own(struct engine_session *session, uint64_t id)
{
	struct mem_region *region = NULL;

	if (id & IMPORT_TAG)
		error_set(TCPX_ERR_INVALID, 0, "an imported region cannot be exported");
	else if (!(region = mem_region_get(session->regions, id)))
		error_set(TCPX_ERR_STALE, 0, "region %llx is not registered",
			  (unsigned long long)id);
	return region;
}

static void region_token_write(struct engine_session *session, struct mem_region *region,
			       uint64_t key, uint8_t *token)
{
	struct wire_token parts = {
		.kind = (uint8_t)region->kind->kind, .rights = (uint8_t)region->rights, .key = key};

	parts.flags = region->flags & TCPX_REGION_STABLE ? WIRE_TOKEN_STABLE : 0;
	parts.flags |= path_token(session, region);
	wire_token_encode(&parts, token);
}

tcpx_status engine_region_export(struct engine_session *session, uint64_t id, uint8_t *token)
{
	struct mem_region *region = region_get_own(session, id);

	if (!region)
		return error_last()->status;
	region_token_write(session, region, region->own.key, token);
	mem_region_put(region);
	return TCPX_OK;
}

/* Sets and returns the error for a peer that has proven no key: ERR_STATE if the peer has not
 * connected yet, or ERR_UNSUPPORTED if one side has no crypto library. The caller holds
 * link.lock. */
static tcpx_status region_peer_unproven(const struct engine_peer *peer)
{
	if (!peer->link.core_ready) {
		error_set(TCPX_ERR_STATE, 0, "the peer has not connected, so it has proven no key");
		return error_next("call again once it is up (TCPX_EVENT_PEER_UP)");
	}
	error_set(TCPX_ERR_UNSUPPORTED, 0, "peer '%s' has proven no key: %s has no crypto library",
		  peer->who.name,
		  peer->link.session->identity.own.there ? "its session" : "this session");
	return error_next("install OpenSSL 3 on both sides, or use the token of "
			  "tcpx_region_export, which is valid for every peer");
}

/* Copies the public key that the peer has proven to out_key. Returns an error if the peer has
 * proven none, or if the handle is stale. */
static tcpx_status region_peer_key(struct engine_session *session, uint64_t peer_id,
				   uint8_t out_key[WIRE_KEY_BYTES])
{
	struct engine_peer *peer = engine_peer_get(session, peer_id);
	tcpx_status status = TCPX_OK;
	const uint8_t *key;

	if (!peer)
		return TCPX_ERR_STALE;
	link_lock(&peer->link);
	key = identity_proven(&peer->who);
	if (key)
		memcpy(out_key, key, WIRE_KEY_BYTES);
	else
		status = region_peer_unproven(peer);
	link_unlock(&peer->link);
	peer_put(peer);
	return status;
}

tcpx_status engine_region_token_for(struct engine_session *session, uint64_t id, uint64_t peer_id,
				    uint8_t *token)
{
	struct mem_region *region = region_get_own(session, id);
	uint8_t peer[WIRE_KEY_BYTES];
	tcpx_status status;
	uint64_t key;

	_Static_assert(sizeof(peer) == MEM_PEER_BYTES, "a public key");
	if (!region)
		return error_last()->status;
	status = region_peer_key(session, peer_id, peer);
	if (status == TCPX_OK)
		status = mem_region_bind(session->regions, region, peer, &key);
	if (status == TCPX_OK)
		region_token_write(session, region, key, token);
	mem_region_put(region);
	return status;
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
		return error_set(status, 0, "the region token of %zu bytes is not usable", len);
	peer = engine_peer_get(session, peer_id);
	if (!peer)
		return TCPX_ERR_STALE;
	link_id = peer->app_handle;
	peer_put(peer);
	import = handle_take(&session->imports);
	if (!import)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for an imported region");
	import->session = session;
	import->peer_id = peer_id;
	import->link_id = link_id;
	import->token = parts;
	handle_publish(&session->imports, import);
	out_region->id = import->slot.id;
	return TCPX_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Serves READs of the peer: checks the segment lists that the peer sends, and gives them to the
 * core as read responses, which send the bytes (core/resp.c). */
#include "engine/channel/serve.h"

#include <string.h>

#include "engine/channel/rx_into.h"
#include "engine/path/solo.h"
#include "engine/path/paths.h"
#include "wire/table.h"

/* A checked copy of the part of a READ's segment list that one frame carries, with references to
 * the regions of the list. The copy lives until the read response has ended. */
struct served {
	struct core_resp resp;
	struct engine_peer *peer;
	uint32_t nregions;
	size_t bytes;	/* size of this struct and its arrays, charged to the account */
	uint64_t *keys; /* keys by which the peer named the regions */
	struct mem_region *regions[];
};

void served_free(struct core_resp *resp)
{
	struct served *served = (struct served *)resp;
	uint32_t i;

	solo_served(resp);
	for (i = 0; i < served->nregions; i++)
		mem_region_access_end(served->regions[i]);
	session_free(served->peer->link.session, served, served->bytes);
}

bool served_uses(const struct core_resp *resp, const struct mem_region *region)
{
	const struct served *served = (const struct served *)resp;
	uint32_t i;

	for (i = 0; i < served->nregions; i++)
		if (served->regions[i] == region)
			return true;
	return false;
}

/* Whether a region of the list was deregistered. */
static bool served_retired(const struct served *served)
{
	uint32_t i;

	for (i = 0; i < served->nregions; i++)
		if (atomic_load(&served->regions[i]->retired))
			return true;
	return false;
}

/* Returns the number of pieces in the frame's list; 0 if the list is malformed, has more than
 * CORE_PIECES_MAX pieces, or does not add up to the bytes that the frame asks for. */
static uint32_t served_count_pieces(const struct frame *frame, const uint8_t *table)
{
	struct wire_table_reader reader;
	uint64_t key, offset, length, sum = 0;
	uint32_t n = 0;
	int more;

	wire_table_open(&reader, table, frame->table_bytes);
	while ((more = wire_table_next(&reader, &key, &offset, &length)) > 0) {
		if (++n > CORE_PIECES_MAX || length > frame->offset - sum)
			return 0;
		sum += length;
	}
	return more < 0 || sum != frame->offset ? 0 : n;
}

/* Copies the list and takes references to its regions. Returns an error, such as ERR_REMOTE_KEY, if
 * the peer may not read one of the pieces; the references taken so far remain. */
static tcpx_status served_fill(struct engine_peer *peer, struct served *served,
			       const struct frame *frame, const uint8_t *table)
{
	struct core_segs *segs = &served->resp.segs;
	struct wire_table_reader reader;
	uint64_t key, offset, length;
	struct mem_region *region = NULL; /* the last region held */
	tcpx_status status;

	wire_table_open(&reader, table, frame->table_bytes);
	while (wire_table_next(&reader, &key, &offset, &length) > 0) {
		struct core_seg *seg = &segs->seg[segs->nseg];

		if (!region || served->keys[served->nregions - 1] != key ||
		    mem_region_access_more(region, offset, length, TCPX_RIGHT_READ) != TCPX_OK) {
			status = rx_region_get(peer, key, offset, length, TCPX_RIGHT_READ, &region);
			if (status != TCPX_OK)
				return status;
			served->keys[served->nregions] = key;
			served->regions[served->nregions++] = region;
			segs->vanishing |= mem_region_vanishes(region);
		}
		*seg = (struct core_seg){
			.linear = segs->total, .local_off = offset, .local = served->nregions - 1};
		served->resp.job.fills |= region->kind->staged;
		segs->total += length;
		segs->nseg++;
		seg[1].linear = segs->total;
	}
	segs->nlocal = served->nregions;
	return TCPX_OK;
}

/*
 * Copies and checks the list, chooses the path of the answer, and gives the read response to the
 * core. If the READ cannot be served, queues a refusal instead.
 *
 * The work that one READ_REQ causes is bounded by its list: at most CORE_PIECES_MAX pieces, in
 * memory that is charged to the session's account. Credit limits how many READ_REQs are served at a
 * time (ENGINE_READ_WINDOW). The size of a response is not limited: its bytes leave in chunks, and
 * other jobs of the link have their turn after CORE_QUANTUM_BYTES.
 */
tcpx_status serve_list(struct engine_chan *chan, const uint8_t *table)
{
	struct engine_peer *peer = chan->peer;
	const struct frame *frame = &chan->rx.frame;
	uint32_t pieces = served_count_pieces(frame, table);
	struct served *served;
	tcpx_status status;
	size_t bytes;

	if (!pieces)
		return TCPX_ERR_PROTOCOL;
	bytes = sizeof(*served) + (pieces + 1) * sizeof(struct core_seg) +
		pieces * (sizeof(served->regions[0]) + sizeof(served->keys[0]));
	served = session_alloc(peer->link.session, bytes);
	status = served ? TCPX_OK : TCPX_ERR_NO_MEMORY;
	if (served) {
		memset(served, 0, sizeof(*served));
		served->peer = peer;
		served->bytes = bytes;
		served->resp.segs.seg = (struct core_seg *)&served->regions[pieces];
		served->keys = (uint64_t *)&served->resp.segs.seg[pieces + 1];
		served->resp.segs.local = (void *const *)served->regions;
		served->resp.job.peer_xfer = frame->xfer;
		served->resp.job.linear_base = frame->linear;
		status = served_fill(peer, served, frame, table);
		if (status == TCPX_OK)
			status = path_serve(peer, &served->resp, frame, served->keys);
		if (status == TCPX_OK) {
			solo_serve(&served->resp, frame);
		} else {
			served_free(&served->resp);
			served = NULL;
		}
	}
	link_lock(&peer->link);
	if (served && !peer->link.core.dead) {
		core_resp_start(&peer->link.core, &served->resp);
		/* A region may have been deregistered before core_resp_start(), when the core did
		 * not know this read response yet. */
		if (served_retired(served))
			core_resp_stop(&peer->link.core, &served->resp, TCPX_ERR_REMOTE_KEY);
	} else if (served) {
		served_free(&served->resp);
	} else if (!peer->link.core.dead) {
		core_resp_refuse(&peer->link.core, frame->xfer, status);
	}
	link_unlock_only(&peer->link);
	return TCPX_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the destination of a payload: regions that the peer names, the segment list of a request of
 * this end, or a buffer. */
#include "engine/channel/rx_into.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/channel/serve.h"
#include "engine/path/paths.h"
#include "engine/path/share.h"
#include "wire/table.h"

/* Releases the regions that the chunk is written to. */
void rx_release(struct chan_rx *rx)
{
	while (rx->nheld)
		mem_region_access_end(rx->held[--rx->nheld].region);
}

static void *region_addr(const struct mem_region *region, uint64_t offset)
{
	return region->base + offset;
}

/* Records that the chunk accesses the region; rx_release() ends the access. If memory is short,
 * ends the access at once and returns false. */
static bool rx_hold_region(struct chan_rx *rx, struct mem_region *region, uint64_t key)
{
	if (rx->nheld == rx->cap_held) {
		uint32_t cap = rx->cap_held ? rx->cap_held * 2 : 8;
		struct chan_held *more = realloc(rx->held, cap * sizeof(*more));

		if (!more) {
			mem_region_access_end(region);
			return false;
		}
		rx->held = more;
		rx->cap_held = cap;
	}
	rx->held[rx->nheld++] = (struct chan_held){region, key, 1};
	return true;
}

tcpx_status rx_region_get(const struct engine_peer *peer, uint64_t key, uint64_t offset,
			  uint64_t length, uint32_t right, struct mem_region **out_region)
{
	static struct log_limit limit;
	tcpx_status status =
		mem_region_access(peer->link.session->regions, identity_proven(&peer->who), key,
				  offset, length, right, out_region);

	if (status != TCPX_OK && log_level >= TCPX_LOG_INFO && log_allow(&limit, 10))
		LOG_INFO("peer '%s' may not %s %" PRIu64 " bytes at offset %" PRIu64
			 " of the region that it names: %s",
			 peer->who.name, right == TCPX_RIGHT_READ ? "read" : "write", length,
			 offset, error_status_text(status));
	return status;
}

/* Adds one destination piece of the chunk: checks key, rights and range, and keeps the region in
 * use. Returns OK, or the status with which the chunk is refused. */
static tcpx_status rx_add_piece(struct engine_chan *chan, uint64_t key, uint64_t offset,
				uint64_t length)
{
	struct chan_rx *rx = &chan->rx;
	struct chan_held *last = rx->nheld ? &rx->held[rx->nheld - 1] : NULL;
	struct mem_region *region;
	tcpx_status status;

	if (last && last->key == key &&
	    mem_region_access_more(last->region, offset, length, TCPX_RIGHT_WRITE) == TCPX_OK) {
		rx->iov[rx->niov++] = (struct iovec){region_addr(last->region, offset), length};
		last->pieces++;
		return TCPX_OK;
	}
	status = rx_region_get(chan->peer, key, offset, length, TCPX_RIGHT_WRITE, &region);
	if (status != TCPX_OK)
		return status;
	rx->iov[rx->niov++] = (struct iovec){region_addr(region, offset), length};
	rx->vanishing |= mem_region_vanishes(region);
	return rx_hold_region(rx, region, key) ? TCPX_OK : TCPX_ERR_NO_MEMORY;
}

/* Allocates rx->message if there is none. Each payload needs this memory, because any chunk may be
 * refused, and the bytes of a refused chunk go there. */
static tcpx_status rx_get_scratch(struct chan_rx *rx)
{
	if (!rx->message)
		rx->message = malloc(ENGINE_COPY_BYTES);
	return rx->message ? TCPX_OK : TCPX_ERR_NO_MEMORY;
}

void rx_refuse(struct chan_rx *rx, tcpx_status status)
{
	rx->verdict = status;
	rx->aborted = true;
	rx_release(rx);
}

/* Chooses the path of the payload and lets it prepare the destination: the regions in rx->held, or
 * the segment list `segs`. Returns OK even if the path refuses the chunk. ERR_PROTOCOL ends the
 * peer. */
static tcpx_status rx_into_path(struct engine_chan *chan, const struct core_segs *segs,
				const uint8_t *sources, uint32_t bytes)
{
	struct chan_rx *rx = &chan->rx;
	tcpx_status status;

	rx->path = path_of_sink(chan, segs);
	status = rx->path->receive(chan, segs, sources, bytes);
	if (status == TCPX_OK || status == TCPX_ERR_PROTOCOL)
		return status;
	rx_refuse(rx, status);
	return TCPX_OK;
}

/* Finds the destination of a chunk that names regions of this end, one in its header or several in
 * its table. Returns OK even if the chunk is refused. Returns ERR_PROTOCOL if the table is
 * malformed. */
static tcpx_status rx_into_regions(struct engine_chan *chan, const uint8_t *table)
{
	struct chan_rx *rx = &chan->rx;
	const struct frame *frame = &rx->frame;
	uint32_t sources = core_path_of(frame) == CORE_PATH_REFERENCE ? frame->follows : 0;
	uint32_t bytes = frame->table_bytes - sources;
	struct wire_table_reader reader;
	uint64_t key, offset, length, sum = 0;
	tcpx_status status = TCPX_OK;
	uint32_t pieces = 0;
	int more;

	if (!bytes) {
		status = rx_add_piece(chan, frame->key, frame->offset, frame->payload_bytes);
	} else {
		wire_table_open(&reader, table, bytes);
		while ((more = wire_table_next(&reader, &key, &offset, &length)) > 0) {
			/* after a refusal the rest of the table is read only to check its form */
			if (length > frame->payload_bytes - sum || ++pieces > CORE_PIECES_MAX)
				return TCPX_ERR_PROTOCOL;
			sum += length;
			if (status == TCPX_OK)
				status = rx_add_piece(chan, key, offset, length);
		}
		if (more < 0 || sum != frame->payload_bytes)
			return TCPX_ERR_PROTOCOL;
	}
	if (status == TCPX_OK) {
		share_written(chan);
		return rx_into_path(chan, NULL, table + bytes, sources);
	}
	rx_refuse(rx, status);
	return TCPX_OK;
}

tcpx_status rx_into(struct engine_chan *chan, const uint8_t *table)
{
	struct chan_rx *rx = &chan->rx;
	tcpx_status status = TCPX_OK;

	if (rx->frame.payload_bytes)
		status = rx_get_scratch(rx);
	if (status != TCPX_OK)
		return status;
	switch (rx->core.kind) {
	case CORE_RX_NONE:
		break;
	case CORE_RX_SCRATCH:
		rx->aborted = true;
		break;
	case CORE_RX_REGION:
		return rx_into_regions(chan, table);
	case CORE_RX_SEGS:
		return rx_into_path(chan, rx->core.segs, table, rx->frame.follows);
	case CORE_RX_MESSAGE:
		rx->iov[0] = (struct iovec){rx->message, rx->frame.payload_bytes};
		rx->niov = 1;
		break;
	case CORE_RX_NOTE:
		rx->iov[0] = (struct iovec){rx->core.note->data + rx->core.linear,
					    rx->frame.payload_bytes};
		rx->niov = 1;
		break;
	case CORE_RX_LIST:
		return serve_list(chan, table);
	}
	return status;
}

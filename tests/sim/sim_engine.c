/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine does for frames: memory of regions and programs, READ lists, each checked. */
#include "sim.h"

#include <string.h>

static void may_write(struct sim *sim, const struct sim_region *region)
{
	const struct sim_xfer *owner = region->owner;

	if (sim->p.hostile)
		return;
	/* Only the far end's writes are judged here; a transfer's own memory by its channel. */
	if (owner && owner->x.op == TCPX_OP_WRITE)
		SIM_CHECK(sim, !owner->frozen,
			  "transfer %u: its destination is written after its end", owner->number);
}

void sim_region_copy(struct sim_region *region, uint64_t off, uint8_t *bytes, uint64_t n, bool into)
{
	struct sim *sim = region->side->sim;

	SIM_CHECK(sim, off <= region->length && n <= region->length - off,
		  "region %llx: bytes %llu..%llu of %llu", (unsigned long long)region->key,
		  (unsigned long long)off, (unsigned long long)(off + n),
		  (unsigned long long)region->length);
	SIM_CHECK(sim, !region->dead, "region %llx: %s after it was quiesced",
		  (unsigned long long)region->key, into ? "written" : "read");
	if (into) {
		may_write(sim, region);
		memcpy(region->mem + off, bytes, n);
	} else {
		memcpy(bytes, region->mem + off, n);
	}
}

void sim_segs_copy(struct sim *sim, const struct core_segs *segs, struct core_cursor at,
		   uint8_t *bytes, uint64_t n, bool into)
{
	while (n > 0) {
		const struct core_seg *seg = &segs->seg[at.seg];
		uint64_t part = core_seg_length(segs, at.seg) - at.off;

		SIM_CHECK(sim, at.seg < segs->nseg, "a frame reaches beyond its list");
		part = part < n ? part : n;
		sim_region_copy(segs->local[seg->local], seg->local_off + at.off, bytes, part,
				into);
		bytes += part;
		n -= part;
		at = (struct core_cursor){.seg = at.seg + 1};
	}
}

void sim_segs_applied(struct sim *sim, const struct core_segs *segs, uint64_t linear, uint64_t n)
{
	struct core_cursor at = core_cursor_at(segs, linear);

	while (n > 0) {
		const struct core_seg *seg = &segs->seg[at.seg];
		uint64_t part = core_seg_length(segs, at.seg) - at.off;

		part = part < n ? part : n;
		sim_mark_applied(sim, segs->local[seg->local], seg->local_off + at.off, part);
		n -= part;
		at = (struct core_cursor){.seg = at.seg + 1};
	}
}

/* n bytes into the pieces, from their byte skip on. */
void sim_pieces_copy(struct sim_side *side, const struct sim_piece *pieces, uint32_t count,
		     uint64_t skip, uint8_t *bytes, uint64_t n)
{
	uint32_t i;

	for (i = 0; i < count && n > 0; i++) {
		uint64_t part = pieces[i].bytes;

		if (skip >= part) {
			skip -= part;
			continue;
		}
		part = part - skip < n ? part - skip : n;
		sim_region_copy(sim_region_at(side, pieces[i].key), pieces[i].offset + skip, bytes,
				part, true);
		skip = 0;
		bytes += part;
		n -= part;
	}
}

tcpx_status sim_pieces_hold(struct sim_side *side, const struct sim_piece *pieces, uint32_t count,
			    uint32_t right)
{
	struct sim_region *region;
	tcpx_status status;
	uint32_t i;

	for (i = 0; i < count; i++) {
		status = sim_region_check(side, &pieces[i], right, &region);
		if (status != TCPX_OK)
			return status;
	}
	for (i = 0; i < count; i++)
		sim_region_at(side, pieces[i].key)->io++;
	return TCPX_OK;
}

void sim_pieces_put(struct sim_side *side, const struct sim_piece *pieces, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		sim_region_put(sim_region_at(side, pieces[i].key));
}

bool sim_pieces_retired(struct sim_side *side, const struct sim_piece *pieces, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (sim_region_at(side, pieces[i].key)->retired)
			return true;
	return false;
}

void sim_pieces_applied(struct sim_side *side, const struct sim_piece *pieces, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		sim_mark_applied(side->sim, sim_region_at(side, pieces[i].key), pieces[i].offset,
				 pieces[i].bytes);
}

static struct sim_push *resp_new(struct sim_side *side, const struct sim_frame *frame)
{
	struct sim_push *resp = sim_alloc(sizeof(*resp));
	struct core_segs *segs = &resp->resp.segs;
	uint32_t i, count = frame->npieces;

	resp->side = side;
	resp->regions = sim_alloc((count + 1) * sizeof(*resp->regions));
	resp->nregions = count;
	segs->seg = sim_alloc((count + 1) * sizeof(*segs->seg));
	segs->nseg = count;
	for (i = 0; i < count; i++) {
		resp->regions[i] = sim_region_at(side, frame->pieces[i].key);
		segs->seg[i] = (struct core_seg){
			.linear = segs->total, .local_off = frame->pieces[i].offset, .local = i};
		segs->total += frame->pieces[i].bytes;
		resp->resp.job.fills |= resp->regions[i]->staged;
	}
	segs->seg[count].linear = segs->total;
	segs->local = (void *const *)resp->regions;
	segs->nlocal = count;
	resp->resp.job.path = core_path_of(&frame->frame);
	resp->resp.job.fills &= resp->resp.job.path == CORE_PATH_STREAM;
	resp->resp.job.by_prio = frame->frame.key == FRAME_READ_BY_PRIO &&
				 resp->resp.job.path != CORE_PATH_MESSAGE &&
				 !resp->resp.job.fills && sim_route_drawn(side->sim, 80);
	resp->resp.job.peer_xfer = frame->frame.xfer;
	resp->resp.job.linear_base = frame->frame.linear;
	list_push_back(&side->resps, &resp->node);
	return resp;
}

void sim_read_request(struct sim_side *side, const struct sim_frame *frame)
{
	struct sim *sim = side->sim;
	bool odd = sim_hostile_pieces(frame);
	tcpx_status status =
		odd ? TCPX_ERR_REMOTE_RANGE
		    : sim_pieces_hold(side, frame->pieces, frame->npieces, SIM_READ_RIGHT);
	struct list_node *pos;
	uint64_t count = 0;

	if (status == TCPX_OK && !sim_ref_served(side, frame)) {
		sim_pieces_put(side, frame->pieces, frame->npieces);
		status = TCPX_ERR_REMOTE;
	}
	SIM_HONEST(sim, status != TCPX_ERR_REMOTE, "a READ asks for what cannot be lent");
	SIM_ENTER(sim);
	if (status == TCPX_OK)
		core_resp_start(&side->link, &resp_new(side, frame)->resp);
	else
		core_resp_refuse(&side->link, frame->frame.xfer, status);
	SIM_LEAVE(sim);
	LIST_FOREACH(pos, &side->resps)
		count++;
	SIM_CHECK(sim, count <= sim->p.credit[side->index][FRAME_CREDIT_READ],
		  "%llu pieces of READ lists, %llu were granted", (unsigned long long)count,
		  (unsigned long long)sim->p.credit[side->index][FRAME_CREDIT_READ]);
}

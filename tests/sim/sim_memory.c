/* SPDX-License-Identifier: Apache-2.0 */
/* Regions with guards and maps, and transfers whose pieces lie scattered in them. */
#include "sim.h"

#include <string.h>

#define GAP_BYTE 0xee
#define SIDE_OF_KEY(key) ((key)&1)

void *sim_grow(void *old, uint32_t count, uint32_t *cap, size_t each)
{
	void *more;

	if (count < *cap)
		return old;
	*cap = *cap ? *cap * 2 : 64;
	more = sim_alloc(*cap * each);
	if (count)
		memcpy(more, old, count * each);
	return more;
}

struct sim_region *sim_region_new(struct sim_side *side, struct sim_xfer *owner, uint64_t length,
				  uint32_t rights, bool staged)
{
	struct sim_region *region = sim_alloc(sizeof(*region));
	uint8_t *mem = sim_alloc(length + 2 * SIM_GUARD);

	memset(mem, GAP_BYTE, length + 2 * SIM_GUARD);
	*region = (struct sim_region){.side = side,
				      .owner = owner,
				      .mem = mem + SIM_GUARD,
				      .map = sim_alloc(length + 1),
				      .length = length,
				      .rights = rights,
				      .staged = staged};
	side->regions =
		sim_grow(side->regions, side->nregions, &side->cap_regions, sizeof(*side->regions));
	side->regions[side->nregions] = region;
	region->key = 0x1000 + (uint64_t)side->nregions++ * 2 + (uint64_t)side->index;
	return region;
}

struct sim_region *sim_region_at(struct sim_side *side, uint64_t key)
{
	uint64_t index = (key - 0x1000) / 2;

	if (key < 0x1000 || SIDE_OF_KEY(key) != (uint64_t)side->index || index >= side->nregions)
		return NULL;
	return side->regions[index];
}

tcpx_status sim_region_check(struct sim_side *side, const struct sim_piece *piece, uint32_t right,
			     struct sim_region **out_region)
{
	struct sim_region *region = sim_region_at(side, piece->key);

	if (!region || region->retired)
		return TCPX_ERR_REMOTE_KEY;
	if (!(region->rights & right))
		return TCPX_ERR_REMOTE_RIGHTS;
	if (piece->offset > region->length || piece->bytes > region->length - piece->offset)
		return TCPX_ERR_REMOTE_RANGE;
	*out_region = region;
	return TCPX_OK;
}

void sim_region_put(struct sim_region *region)
{
	struct sim *sim = region->side->sim;

	SIM_CHECK(sim, region->io > 0, "region %llx given back twice",
		  (unsigned long long)region->key);
	region->io--;
	if (region->retired && !region->io)
		region->dead = true;
}

/* No new access; accesses under way are redirected when their call comes back. */
void sim_region_retire(struct sim_region *region)
{
	struct sim_side *side = region->side;
	struct list_node *pos, *tmp;

	if (region->retired)
		return;
	SIM_TRACE(side->sim, "%d retire region %llx", side->index, (unsigned long long)region->key);
	region->retired = true;
	LIST_FOREACH_SAFE(pos, tmp, &side->resps) {
		struct sim_push *resp = LIST_ENTRY(pos, struct sim_push, node);
		uint32_t i;

		for (i = 0; i < resp->nregions; i++) {
			if (resp->regions[i] != region)
				continue;
			resp->stopped = true;
			SIM_ENTER(side->sim);
			core_resp_stop(&side->link, &resp->resp, TCPX_ERR_DEREGISTERED);
			SIM_LEAVE(side->sim);
			break;
		}
	}
	if (!region->io)
		region->dead = true;
}

uint8_t sim_pattern(uint64_t pattern, uint64_t linear)
{
	return (uint8_t)((pattern + linear * 0x9e3779b97f4a7c15ull) >> 56);
}

/* Cuts total into count pieces, in order. */
static void cut_lengths(struct sim *sim, uint64_t *lengths, uint32_t count, uint64_t total)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		uint64_t left = total - (count - 1 - i);
		uint64_t take = i + 1 == count ? left : 1 + sim_upto(sim, 2 * (left / (count - i)));

		lengths[i] = take < left ? take : left;
		total -= lengths[i];
	}
}

/* Where each piece lies: a shuffled order, with gaps, over up to SIM_REGIONS regions. */
static uint32_t lay_out(struct sim *sim, const uint64_t *lengths, uint32_t count, uint64_t *offs,
			uint32_t *which, uint64_t sizes[SIM_REGIONS])
{
	uint32_t *order = sim_alloc((count + 1) * sizeof(*order)), i;
	uint32_t used = count > 1 && sim_chance(sim, 50) ? SIM_REGIONS : 1;
	bool dense = sim_chance(sim, 30);

	for (i = 0; i < count; i++)
		order[i] = i;
	for (i = count; i > 1 && !dense; i--) {
		uint32_t j = (uint32_t)rng_below(&sim->rng, i), tmp = order[j];

		order[j] = order[i - 1];
		order[i - 1] = tmp;
	}
	memset(sizes, 0, SIM_REGIONS * sizeof(*sizes));
	for (i = 0; i < count; i++) {
		uint32_t at = order[i], r = (uint32_t)rng_below(&sim->rng, used);

		which[at] = r;
		offs[at] = sizes[r] + (dense ? 0 : sim_upto(sim, 3));
		sizes[r] = offs[at] + lengths[at];
	}
	return used;
}

static void map_pieces(struct sim_xfer *xfer, struct sim_region **regions, bool local)
{
	uint32_t i;

	for (i = 0; i < xfer->segs.nseg; i++) {
		const struct core_seg *seg = &xfer->segs.seg[i];
		struct sim_region *region = regions[local ? seg->local : seg->remote];

		memset(region->map + (local ? seg->local_off : seg->remote_off), 1,
		       core_seg_length(&xfer->segs, i));
	}
}

static void lay_pieces(struct sim_xfer *xfer, uint32_t count, uint64_t total, bool remote)
{
	struct sim *sim = xfer->side->sim;
	uint64_t *lengths = sim_alloc((count + 1) * sizeof(*lengths)), linear = 0;
	uint64_t *offs[2], sizes[2][SIM_REGIONS];
	uint32_t *which[2], used[2] = {0}, i, s;
	bool read = xfer->x.op == TCPX_OP_READ;

	cut_lengths(sim, lengths, count, total);
	for (s = 0; s < (remote ? 2u : 1u); s++) {
		struct sim_side *side = s ? xfer->side->peer : xfer->side;
		struct sim_region **regions = s ? xfer->remote : xfer->local;
		bool staged = sim_chance(sim, sim->p.staged[side->index]);

		offs[s] = sim_alloc((count + 1) * sizeof(**offs));
		which[s] = sim_alloc((count + 1) * sizeof(**which));
		used[s] = lay_out(sim, lengths, count, offs[s], which[s], sizes[s]);
		for (i = 0; i < used[s]; i++)
			regions[i] = sim_region_new(
				side, xfer, sizes[s][i],
				s ? (read ? SIM_READ_RIGHT : SIM_WRITE_RIGHT) : 0, staged);
		if (s)
			xfer->x.remote_staged = staged && !read;
		else
			xfer->x.local_staged = staged;
	}
	for (i = 0; i < count; i++, linear += lengths[i - 1])
		xfer->segs.seg[i] = (struct core_seg){.linear = linear,
						      .local_off = offs[0][i],
						      .local = which[0][i],
						      .remote_off = remote ? offs[1][i] : 0,
						      .remote = remote ? which[1][i] : 0};
	xfer->segs.seg[count].linear = total;
	for (i = 0; i < used[0]; i++)
		xfer->local_table[i] = xfer->local[i];
	for (i = 0; i < used[1]; i++)
		xfer->keys[i] = xfer->remote[i]->key;
	xfer->segs.nlocal = used[0];
	xfer->segs.nremote = used[1];
	map_pieces(xfer, xfer->local, true);
	if (remote)
		map_pieces(xfer, xfer->remote, false);
}

struct sim_xfer *sim_xfer_new(struct sim_side *side, enum tcpx_op op, uint64_t total,
			      uint32_t segments)
{
	struct sim *sim = side->sim;
	struct sim_xfer *xfer = sim_alloc(sizeof(*xfer));
	bool remote = op == TCPX_OP_WRITE || op == TCPX_OP_READ;

	if (op == TCPX_OP_NOTIFY)
		total = 0;
	if (segments > total)
		segments = (uint32_t)total;
	xfer->side = side;
	xfer->number = ++sim->xfer_count;
	xfer->x.op = op;
	xfer->segs.total = total;
	xfer->segs.nseg = segments;
	xfer->segs.seg = sim_alloc((segments + 1) * sizeof(*xfer->segs.seg));
	xfer->segs.local = xfer->local_table;
	xfer->segs.remote = xfer->keys;
	xfer->x.segs = &xfer->segs;
	if (segments)
		lay_pieces(xfer, segments, total, remote);
	side->xfers = sim_grow(side->xfers, side->nxfers, &side->cap_xfers, sizeof(*side->xfers));
	xfer->index = side->nxfers;
	side->xfers[side->nxfers++] = xfer;
	return xfer;
}

/* Source and destination of a WRITE or READ, seen from the data. */
static bool is_source(const struct sim_xfer *xfer, bool local)
{
	return xfer->x.op == TCPX_OP_SEND ? local : (xfer->x.op == TCPX_OP_WRITE) == local;
}

/* Fresh bytes in the source, poison in the destination, nothing applied. */
void sim_xfer_fill(struct sim_xfer *xfer)
{
	struct sim *sim = xfer->side->sim;
	uint32_t i;
	int local;

	xfer->pattern = rng_u64(&sim->rng);
	for (i = 0; i < xfer->segs.nseg; i++) {
		const struct core_seg *seg = &xfer->segs.seg[i];
		uint64_t n = core_seg_length(&xfer->segs, i), k;

		for (local = 0; local < 2; local++) {
			struct sim_region *region =
				local ? xfer->local[seg->local] : xfer->remote[seg->remote];
			uint64_t off = local ? seg->local_off : seg->remote_off;

			if (!region || off > region->length) /* spoilt on purpose */
				continue;
			memset(region->map + off, 1, n);
			if (!is_source(xfer, local)) {
				memset(region->mem + off, 0xdd, n);
				continue;
			}
			for (k = 0; k < n; k++)
				region->mem[off + k] = sim_pattern(xfer->pattern, seg->linear + k);
		}
	}
}

/* The request ended: the application uses its source for something else. */
void sim_xfer_poison(struct sim_xfer *xfer)
{
	uint32_t i;

	for (i = 0; i < xfer->segs.nseg && is_source(xfer, true); i++) {
		const struct core_seg *seg = &xfer->segs.seg[i];

		memset(xfer->local[seg->local]->mem + seg->local_off, 0x55,
		       core_seg_length(&xfer->segs, i));
	}
}

/* Are the first bytes of the destination those of the pattern? */
bool sim_xfer_equal(const struct sim_xfer *xfer, uint64_t bytes, uint64_t pattern)
{
	bool local = xfer->x.op == TCPX_OP_READ || xfer->x.op == TCPX_OP_RECV;
	uint32_t i;

	for (i = 0; i < xfer->segs.nseg; i++) {
		const struct core_seg *seg = &xfer->segs.seg[i];
		const struct sim_region *region =
			local ? xfer->local[seg->local] : xfer->remote[seg->remote];
		uint64_t off = local ? seg->local_off : seg->remote_off, k;

		for (k = 0; k < core_seg_length(&xfer->segs, i) && seg->linear + k < bytes; k++)
			if (region->mem[off + k] != sim_pattern(pattern, seg->linear + k))
				return false;
	}
	return true;
}

/* A chunk is applied, once and only once. */
void sim_mark_applied(struct sim *sim, struct sim_region *region, uint64_t off, uint64_t n)
{
	uint64_t k;

	for (k = off; k < off + n; k++) {
		SIM_HONEST(sim, region->map[k] == 1, "transfer %u: byte %llu of region %llx %s",
			   region->owner ? region->owner->number : 0, (unsigned long long)k,
			   (unsigned long long)region->key,
			   region->map[k] ? "was applied twice" : "belongs to nobody");
		region->map[k] = 2;
	}
}

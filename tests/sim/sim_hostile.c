/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that lies: fields of its frames and fences become others. The other side must stay within
 * its own memory and budgets, end every request once, and give everything back. */
#include "sim.h"

/* A value that is near the truth, or far off. */
static uint64_t lie(struct sim *sim, uint64_t truth)
{
	switch (rng_below(&sim->rng, 6)) {
	case 0:
		return 0;
	case 1:
		return truth + 1;
	case 2:
		return truth - 1;
	case 3:
		return truth ^ (1ull << rng_below(&sim->rng, 64));
	case 4:
		return sim_upto(sim, 100);
	default:
		return UINT64_MAX - sim_upto(sim, 2);
	}
}

void sim_hostile_frame(struct sim *sim, struct frame *frame)
{
	if (!sim_chance(sim, sim->p.hostile))
		return;
	switch (rng_below(&sim->rng, 9)) {
	case 0:
		frame->type = (uint8_t)sim_upto(sim, FRAME_DATA_LAST);
		if (frame->type == FRAME_ACK || frame->type == FRAME_CREDIT ||
		    frame->type == FRAME_STAGE_REQ)
			frame->seq = 0;
		break;
	case 1:
		frame->flags = (uint16_t)sim_upto(sim, sim->p.by_ref || sim->p.by_msg ? 31 : 15);
		if (sim->p.by_msg && frame->flags & FRAME_F_REF)
			frame->flags ^= FRAME_F_REF | FRAME_F_MSG;
		break;
	case 2:
		frame->seq = lie(sim, frame->seq);
		break;
	case 3:
		frame->epoch = (uint32_t)lie(sim, frame->epoch);
		break;
	case 4:
		frame->xfer = lie(sim, frame->xfer);
		break;
	case 5:
		frame->key = lie(sim, frame->key);
		break;
	case 6:
		frame->offset = lie(sim, frame->offset);
		break;
	default:
		frame->linear = lie(sim, frame->linear);
		break;
	}
}

void sim_hostile_fence(struct sim *sim, uint32_t *channel, uint32_t *epoch, uint64_t *applied)
{
	if (!sim_chance(sim, sim->p.hostile))
		return;
	switch (rng_below(&sim->rng, 3)) {
	case 0:
		*channel = (uint32_t)lie(sim, *channel);
		break;
	case 1:
		*epoch = (uint32_t)lie(sim, *epoch);
		break;
	default:
		*applied = lie(sim, *applied);
		break;
	}
}

/* Do the pieces say what the header says? The engine refuses them otherwise. */
bool sim_hostile_pieces(const struct sim_frame *frame)
{
	uint64_t want = frame->frame.type == FRAME_READ_REQ ? frame->frame.offset
							    : frame->frame.payload_bytes;
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < frame->npieces; i++)
		sum += frame->pieces[i].bytes;
	return sum != want || !want;
}

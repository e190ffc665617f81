/* SPDX-License-Identifier: Apache-2.0 */
/* Staging at the destination: requests of the sender, grants of the receiver. */
#include "core/stage_quota.h"

/* Gives back grants beyond what is requested and what the peer lets us keep ahead of requests. With
 * grants ahead, the next small WRITE need not wait for a grant. */
static void stage_out_trim(struct core_stage_out *out)
{
	uint64_t need = out->requested - out->withdrawn - out->used + out->ahead;
	uint64_t have = out->granted - out->used;

	/* granted <= requested - withdrawn + ahead: nothing to give back */
	if (have <= need)
		return;
	out->dropped += have - need;
	out->used += have - need;
	out->requested += have - need; /* keeps requested >= used */
	out->due = true;
}

/* Requests staging for `bytes` more. This makes a STAGE_REQ frame due, except if the peer lets us
 * keep grants ahead of requests, and the grants suffice for all requests and for half of what may
 * be kept. */
bool core_stage_out_request(struct core_stage_out *out, uint64_t bytes)
{
	out->requested += bytes;
	if (out->ahead && out->granted >= out->requested - out->withdrawn + out->ahead / 2)
		return false;
	out->due = true;
	return true;
}

void core_stage_out_withdraw(struct core_stage_out *out, uint64_t bytes)
{
	out->withdrawn += bytes;
	out->due = true;
	stage_out_trim(out);
}

uint64_t core_stage_out_grant(struct core_stage_out *out, uint64_t granted, uint64_t ahead)
{
	uint64_t more = granted - out->granted;

	if (granted <= out->granted)
		return 0;
	out->granted = granted;
	out->ahead = ahead;
	stage_out_trim(out);
	return more;
}

void core_stage_out_use(struct core_stage_out *out, uint64_t bytes)
{
	out->used += bytes;
}

void core_stage_out_lost(struct core_stage_out *out, uint64_t bytes, bool again)
{
	out->dropped += bytes;
	if (again)
		out->requested += bytes;
	out->due = true;
}

bool core_stage_out_next(struct core_stage_out *out, struct frame *frame)
{
	if (!out->due)
		return false;
	out->due = false;
	frame->type = FRAME_STAGE_REQ;
	frame->linear = out->requested;
	frame->key = out->withdrawn;
	frame->offset = out->dropped;
	return true;
}

void core_stage_out_repeat(struct core_stage_out *out)
{
	out->due |= out->requested > 0;
}

bool core_stage_in_requested(struct core_stage_in *in, const struct frame *frame,
			     uint64_t *out_back)
{
	uint64_t back = frame->offset - in->dropped;

	if (frame->linear < in->requested || frame->key < in->withdrawn ||
	    frame->offset < in->dropped || frame->key > frame->linear)
		return false;
	if (back > in->granted - in->used)
		back = in->granted - in->used;
	in->used += back;
	in->requested = frame->linear;
	in->withdrawn = frame->key;
	in->dropped = frame->offset;
	*out_back = back;
	return true;
}

uint64_t core_stage_in_missing(const struct core_stage_in *in)
{
	uint64_t want = in->requested - in->withdrawn + in->ahead;

	return want > in->granted ? want - in->granted : 0;
}

void core_stage_in_grant(struct core_stage_in *in, uint64_t bytes)
{
	in->granted += bytes;
	in->due = true;
}

bool core_stage_in_arrive(struct core_stage_in *in, uint64_t bytes)
{
	if (in->granted - in->used < bytes)
		return false;
	in->used += bytes;
	return true;
}

void core_stage_in_undo(struct core_stage_in *in, uint64_t bytes)
{
	in->used -= bytes;
}

uint64_t core_stage_in_close(struct core_stage_in *in)
{
	uint64_t left = in->granted - in->used;

	in->used = in->granted;
	return left;
}

uint64_t core_stage_in_advertise(struct core_stage_in *in, uint64_t *out_ahead)
{
	in->due = false;
	in->advertised = in->granted;
	*out_ahead = in->ahead;
	return in->advertised;
}

void core_stage_in_readvertise(struct core_stage_in *in)
{
	in->due |= in->advertised > 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One end of a measured row. */
#include "perf_side.h"

#include <string.h>

#include <tcpx/session.h>

#include "base/error.h"
#include "cli_values.h"
#include "perf_pattern.h"

#define UNCHECKED_BYTES (256ull << 20) /* bytes of a window without the check */
#define UNCHECKED_TRANSFERS (2 * PERF_TRANSFERS_MAX)

/* Whether bytes move away from the initiator: for WRITE and SEND, not for READ. */
static int is_source(enum perf_end end, const struct perf_spec *spec)
{
	return spec->bidir || (spec->op != TCPX_OP_READ) == (end == PERF_CLIENT);
}

static int is_destination(enum perf_end end, const struct perf_spec *spec)
{
	return spec->bidir || (spec->op == TCPX_OP_READ) == (end == PERF_CLIENT);
}

/* Whether transfers wrap around in the working set. SEND cannot, because its receives are posted
 * before the window. */
static int goes_round(const struct perf_spec *spec)
{
	return !spec->check && !spec->pong &&
	       (spec->op == TCPX_OP_WRITE || spec->op == TCPX_OP_READ);
}

int perf_side_initiates(const struct perf_side *side)
{
	return side->end == PERF_CLIENT || side->spec.bidir;
}

int perf_side_has_dst(const struct perf_side *side)
{
	return is_destination(side->end, &side->spec);
}

uint64_t perf_side_bytes(enum perf_end end, const struct perf_spec *spec)
{
	return spec->working_set * (uint64_t)(is_source(end, spec) + is_destination(end, spec));
}

const char *perf_spec_wrong(const struct perf_spec *spec, uint64_t limit)
{
	if (spec->op != TCPX_OP_WRITE && spec->op != TCPX_OP_READ && spec->op != TCPX_OP_SEND)
		return "no such operation";
	if (!spec->size || spec->size > spec->working_set)
		return "the size is zero or above the working set";
	if (!spec->batch || spec->batch > PERF_PIECES_MAX || spec->batch > TCPX_SEGMENTS_MAX)
		return "the batch is out of range";
	if (spec->size % spec->batch)
		return "the batch does not divide the size";
	if (!spec->depth || spec->bidir > 1 || spec->check > 1 || spec->pong > 1 ||
	    (spec->pong && (spec->op != TCPX_OP_WRITE || !spec->bidir)))
		return "a number is out of range";
	if (spec->kind > TCPX_MEM_CUDA ||
	    (spec->device > CLI_NUMBER_MAX && spec->device != PERF_DEVICE_FIRST))
		return "no such kind of memory, or no such device";
	if (spec->working_set > limit || perf_side_bytes(PERF_SERVER, spec) > limit)
		return "the working set is above what serve allows (serve --max-memory)";
	return NULL;
}

/* Opens the GPU of the buffers of the row, if any; closes buffers of another GPU first. */
static tcpx_status take_gpu(struct perf_side *side, const struct perf_place *place)
{
	int wanted = place->kind == TCPX_MEM_CUDA;

	if (!side->gpu == !wanted && (!wanted || perf_gpu_device(side->gpu) == place->device))
		return TCPX_OK;
	perf_buffer_close(&side->src, side->session);
	perf_buffer_close(&side->dst, side->session);
	perf_gpu_close(side->gpu);
	side->gpu = NULL;
	return wanted ? perf_gpu_open(place->device, &side->gpu) : TCPX_OK;
}

tcpx_status perf_side_open(struct perf_side *side, const struct perf_spec *spec,
			   const struct perf_place *place)
{
	tcpx_status status;

	perf_side_end(side);
	status = take_gpu(side, place);
	if (status != TCPX_OK)
		return status;
	if (perf_layout_init(&side->layout, spec->working_set, spec->size, (uint32_t)spec->batch,
			     spec->seed))
		return error_set(TCPX_ERR_NO_MEMORY, 0, "the layout of a row");
	side->spec = *spec;
	side->row_open = 1;
	if (is_source(side->end, spec))
		status = perf_buffer_open(&side->src, side->session, spec->working_set, place->kind,
					  side->gpu);
	else
		perf_buffer_close(&side->src, side->session);
	if (status == TCPX_OK && is_destination(side->end, spec))
		status = perf_buffer_open(&side->dst, side->session, spec->working_set, place->kind,
					  side->gpu);
	else if (status == TCPX_OK)
		perf_buffer_close(&side->dst, side->session);
	if (status != TCPX_OK)
		perf_side_end(side);
	return status;
}

tcpx_status perf_side_export(struct perf_side *side, uint8_t tokens[PERF_TOKENS_BYTES])
{
	tcpx_status status = TCPX_OK;

	memset(tokens, 0, PERF_TOKENS_BYTES);
	if (side->src.addr)
		status = tcpx_region_export(side->session, side->src.region, tokens);
	if (status == TCPX_OK && side->dst.addr)
		status = tcpx_region_export(side->session, side->dst.region,
					    tokens + TCPX_TOKEN_BYTES);
	return status;
}

static tcpx_status open_flow(struct perf_side *side, struct perf_flow *flow, enum tcpx_op op)
{
	struct perf_flow_opts opts = {
		.session = side->session,
		.peer = side->peer,
		.op = op,
		.layout = &side->layout,
		.depth = side->spec.depth < UINT32_MAX ? (uint32_t)side->spec.depth : UINT32_MAX,
		.share = goes_round(&side->spec),
		.pong = (int)side->spec.pong,
		.deadline_ns = side->deadline_ns,
	};

	/* Only the client may use the completion queue: all clients of a server share one
	 * session. */
	opts.queue = side->end == PERF_CLIENT && !side->spec.pong && opts.depth > 1 &&
		     op != TCPX_OP_RECV;

	if (op == TCPX_OP_WRITE || op == TCPX_OP_SEND)
		opts.local = side->src.region;
	else
		opts.local = side->dst.region;
	if (op == TCPX_OP_WRITE)
		opts.remote = side->remote_dst;
	if (op == TCPX_OP_READ)
		opts.remote = side->remote_src;
	return perf_flow_open(flow, &opts);
}

tcpx_status perf_side_bind(struct perf_side *side, const uint8_t tokens[PERF_TOKENS_BYTES])
{
	enum tcpx_op op = (enum tcpx_op)side->spec.op;
	tcpx_status status = TCPX_OK;

	if (perf_side_initiates(side) && op == TCPX_OP_READ)
		status = tcpx_region_import(side->session, side->peer, tokens, TCPX_TOKEN_BYTES,
					    &side->remote_src);
	if (perf_side_initiates(side) && op == TCPX_OP_WRITE)
		status = tcpx_region_import(side->session, side->peer, tokens + TCPX_TOKEN_BYTES,
					    TCPX_TOKEN_BYTES, &side->remote_dst);
	if (status == TCPX_OK && perf_side_initiates(side))
		status = open_flow(side, &side->out, op);
	if (status == TCPX_OK && op == TCPX_OP_SEND && perf_side_has_dst(side))
		status = open_flow(side, &side->in, TCPX_OP_RECV);
	return status;
}

uint64_t perf_side_most(const struct perf_side *side)
{
	uint64_t whole = side->layout.transfers, rounds = UNCHECKED_BYTES / side->spec.size;

	if (!goes_round(&side->spec))
		return whole;
	if (rounds > UNCHECKED_TRANSFERS)
		rounds = UNCHECKED_TRANSFERS;
	return rounds > whole ? rounds : whole;
}

/* Direction 0 is from the client, direction 1 from the server. */
static uint64_t perf_side_key_of(const struct perf_side *side, const struct perf_window *window,
				 enum perf_end source)
{
	return perf_pattern_key(side->spec.seed, window->number, source);
}

tcpx_status perf_side_fill(struct perf_side *side, const struct perf_window *window)
{
	uint64_t key = perf_side_key_of(side, window, side->end), length = side->spec.working_set;

	if (side->gpu)
		return perf_gpu_fill(side->gpu, side->src.addr, side->dst.addr, length, key,
				     &side->leave);
	return perf_fill(side->src.addr, side->dst.addr, length, key, &side->leave);
}

tcpx_status perf_side_receive(struct perf_side *side, const struct perf_window *window)
{
	return side->in.prepared ? perf_flow_post(&side->in, (uint32_t)window->used) : TCPX_OK;
}

tcpx_status perf_side_received(struct perf_side *side, const struct perf_window *window)
{
	return side->in.prepared ? perf_flow_wait(&side->in, (uint32_t)window->used) : TCPX_OK;
}

static tcpx_status flip(struct perf_side *side)
{
	uint8_t *byte = (uint8_t *)side->dst.addr + perf_layout_dst(&side->layout, 0) +
			side->layout.piece / 2;

	if (side->gpu)
		return perf_gpu_flip(side->gpu, byte);
	*byte ^= 0x10;
	return TCPX_OK;
}

tcpx_status perf_side_check(struct perf_side *side, const struct perf_window *window,
			    struct perf_wrong *out_wrong)
{
	enum perf_end other = side->end == PERF_CLIENT ? PERF_SERVER : PERF_CLIENT;
	tcpx_status status = TCPX_OK;

	*out_wrong = (struct perf_wrong){0};
	if (!side->dst.addr)
		return TCPX_OK;
	if (window->inject)
		status = flip(side);
	if (!side->spec.check || status != TCPX_OK)
		return status;
	if (side->gpu)
		return perf_gpu_check(side->gpu, &side->layout, side->dst.addr,
				      (uint32_t)window->used, perf_side_key_of(side, window, other),
				      &side->leave, out_wrong);
	return perf_layout_check(&side->layout, side->dst.addr, (uint32_t)window->used,
				 perf_side_key_of(side, window, other), &side->leave, out_wrong);
}

static void forget(struct perf_side *side, tcpx_region *region)
{
	if (region->id)
		tcpx_region_deregister(side->session, *region, 0);
	region->id = 0;
}

void perf_side_end(struct perf_side *side)
{
	if (!side->row_open)
		return;
	perf_flow_close(&side->out);
	perf_flow_close(&side->in);
	forget(side, &side->remote_src);
	forget(side, &side->remote_dst);
	perf_layout_fini(&side->layout);
	side->row_open = 0;
}

void perf_side_close(struct perf_side *side)
{
	perf_side_end(side);
	perf_buffer_close(&side->src, side->session);
	perf_buffer_close(&side->dst, side->session);
	perf_gpu_close(side->gpu);
	side->gpu = NULL;
}

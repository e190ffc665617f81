/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: a ring of 16 a comm, first in, first out. stage[] are free-running counters, RETIRED <=
 * INACTIVE <= SENT <= ACTIVE <= POSTED. The request with index i is free below stage[EMU_RETIRED],
 * INACTIVE (a receive that is done and not consumed) below stage[EMU_INACTIVE], TRANSMITTING below
 * stage[EMU_SENT], ACTIVE below stage[EMU_ACTIVE], POSTED below stage[EMU_POSTED].
 */
#include "emu.h"

#include <emmintrin.h>
#include <string.h>

static struct emu_request *item(struct emu_comm *comm, uint64_t index)
{
	return &comm->item[index % EMU_REQUESTS];
}

static int post(struct emu_comm *comm, void *data, size_t size, const struct emu_mr *mr, void **out)
{
	struct emu_request *request;
	uint64_t index = comm->stage[EMU_POSTED], flight;

	if (index - comm->stage[EMU_RETIRED] == EMU_REQUESTS)
		return emu_violation(TCPXEMU_RING_FULL, "16 requests are out");
	if (!mr)
		return emu_violation(TCPXEMU_MR_NULL, "no memory handle");
	request = item(comm, index);
	*request = (struct emu_request){.comm = comm,
					.index = index,
					.data = data,
					.mr = mr,
					.type = mr->type,
					.posted = (uint32_t)size,
					.size = (uint32_t)size,
					.slot = -1};
	request->pending = comm->kind == EMU_SEND ? (int64_t)size : -1;
	comm->stage[EMU_POSTED]++;
	flight = comm->stage[EMU_POSTED] - comm->stage[EMU_RETIRED];
	emu_peak(&emu_count.in_flight_peak, flight);
	*out = request;
	return EMU_OK;
}

/* A call of the comm. False: calls make the connection, and it is not there yet. */
static bool linked(struct emu_comm *comm, int *out_rc)
{
	atomic_fetch_add_explicit(&emu_count.calls, 1, memory_order_relaxed);
	if (!emu_config.calls)
		return true;
	*out_rc = emu_link(comm);
	return !*out_rc && comm->up;
}

static bool no_send(const struct emu_comm *comm)
{
	const struct emu_fault *fault = emu_fault(EMU_FAULT_NO_SEND, EMU_SIDE_SEND, comm->serial);

	return fault && comm->stage[EMU_POSTED] + 1 >= fault->nth;
}

int emu_isend(void *ref, void *data, size_t size, void *mr, void **out)
{
	const struct emu_mr *region = mr;
	int rc;
	struct emu_comm *comm = emu_comm_enter(ref, EMU_SEND, &rc);

	*out = NULL;
	if (!comm)
		return rc;
	if (!linked(comm, &rc) || no_send(comm))
		return emu_comm_leave(comm, rc); /* no request: call again */
	if (size && !emu_config.chunk)
		emu_violation(TCPXEMU_CHUNK_UNSET, "it never leaves");
	else if (region && region->type == EMU_CUDA && size > emu_config.chunk)
		emu_violation(TCPXEMU_MULTI_CHUNK, "%zu bytes, the chunk has %u", size,
			      emu_config.chunk);
	return emu_comm_leave(comm, post(comm, data, size, region, out));
}

int emu_irecv(void *ref, int n, void **data, const size_t *sizes, void **mrs, void **out)
{
	int rc;
	struct emu_comm *comm = emu_comm_enter(ref, EMU_RECV, &rc);

	*out = NULL;
	if (!comm)
		return rc;
	(void)linked(comm, &rc);
	if (rc)
		return emu_comm_leave(comm, rc);
	if (n != 1)
		rc = emu_violation(TCPXEMU_IRECV_N, "irecv of %d buffers", n);
	else
		rc = post(comm, data[0], sizes[0], mrs[0], out);
	return emu_comm_leave(comm, rc);
}

static bool all_in(const struct emu_request *request)
{
	return request->pending == 0;
}

/* An empty one that begins a comm only shows that it is there. */
static bool counts(const struct emu_request *request)
{
	return request->size || request->index;
}

/* What the caller reads next is published here, by its own thread: entries, count, then done. */
static int receive_done(struct emu_comm *comm, struct emu_request *request)
{
	if (counts(request))
		emu_stats_message(false, request->size);
	if (!comm->queue)
		return EMU_OK;
	if (request->frags > EMU_FRAGS)
		return emu_violation(TCPXEMU_REQUEST_FRAGMENTS, "%u in a message of %u bytes",
				     request->frags, request->size);
	atomic_store_explicit(&comm->queue->at->cnt[request->slot], request->frags,
			      memory_order_release);
	_mm_sfence();
	if (request->frags) /* packets of two pages */
		emu_stats_packets(comm->dev, (request->size + 2 * EMU_PAGE - 1) / (2 * EMU_PAGE));
	return EMU_OK;
}

static int finish(struct emu_comm *comm, struct emu_request *request, int *done)
{
	int side = comm->kind == EMU_SEND ? EMU_SIDE_SEND : EMU_SIDE_RECV, rc;
	const struct emu_fault *late = emu_fault(EMU_FAULT_DONE, side, comm->serial);

	if (late && !request->done_at)
		request->done_at = emu_now() + late->us * 1000;
	if (late && emu_now() < request->done_at)
		return EMU_OK;
	if (comm->kind == EMU_RECV) {
		rc = receive_done(comm, request);
		if (rc)
			return rc;
	} else if (counts(request)) {
		emu_stats_message(true, request->size);
	}
	if (counts(request))
		atomic_fetch_add(&comm->messages, 1);
	atomic_fetch_add(&comm->bytes, request->size);
	comm->stage[EMU_INACTIVE]++;
	if (comm->kind == EMU_SEND || !emu_flavour.device)
		comm->stage[EMU_RETIRED]++;
	*done = 1;
	return EMU_OK;
}

static int test(struct emu_comm *comm, struct emu_request *request, int *done)
{
	int rc = EMU_OK;

	if (!linked(comm, &rc))
		return rc;
	rc = emu_progress(comm);
	if (rc)
		return rc;
	if (emu_config.calls)
		emu_helpers_run(comm);
	if (request->index < comm->stage[EMU_INACTIVE])
		emu_violation(TCPXEMU_TEST_DONE, "request %llu",
			      (unsigned long long)request->index);
	else if (request->index > comm->stage[EMU_INACTIVE])
		emu_violation(TCPXEMU_TEST_ORDER, "request %llu, the oldest is %llu",
			      (unsigned long long)request->index,
			      (unsigned long long)comm->stage[EMU_INACTIVE]);
	if (comm->stage[EMU_SENT] == comm->stage[EMU_INACTIVE])
		return EMU_OK; /* the oldest is not under way: silence, whoever asks */
	if (request->index != comm->stage[EMU_INACTIVE])
		return EMU_INTERNAL;
	return all_in(request) ? finish(comm, request, done) : EMU_OK;
}

/* sizes is never written. */
int emu_test(void *opaque, int *done, int *sizes)
{
	struct emu_request *request = opaque;
	struct emu_comm *comm;
	const struct emu_fault *fault;
	int rc, side;

	(void)sizes;
	*done = 0;
	if (!request || !request->comm)
		return emu_violation(TCPXEMU_TEST_NULL, "no request");
	comm = request->comm;
	if (atomic_exchange(&comm->busy, 1))
		return emu_violation(TCPXEMU_THREADS, "another thread is in this comm");
	rc = atomic_load(&comm->broken);
	side = comm->kind == EMU_SEND ? EMU_SIDE_SEND : EMU_SIDE_RECV;
	fault = emu_fault(EMU_FAULT_TEST_RC, side, comm->serial);
	if (!rc && fault && ++comm->tests == fault->nth)
		rc = EMU_SYSTEM;
	if (!rc)
		rc = test(comm, request, done);
	comm->failed |= rc != EMU_OK;
	return emu_comm_leave(comm, rc);
}

/* Order is not looked at for an empty message; what breaks the original's ring there is told. */
static int consume_empty(struct emu_comm *comm, const struct emu_request *request)
{
	if (comm->stage[EMU_RETIRED] == comm->stage[EMU_INACTIVE] ||
	    request->index != comm->stage[EMU_RETIRED])
		return emu_violation(TCPXEMU_CONSUME_EMPTY, "request %llu, the oldest is %llu",
				     (unsigned long long)request->index,
				     (unsigned long long)comm->stage[EMU_RETIRED]);
	comm->stage[EMU_RETIRED]++;
	comm->queue->head++;
	return EMU_OK;
}

static int consume(struct emu_comm *comm, struct emu_request *request)
{
	if (comm->kind == EMU_SEND) {
		emu_violation(TCPXEMU_CONSUME_SEND, "irecvConsumed of a send");
		return EMU_OK;
	}
	if (!comm->queue)
		return emu_violation(TCPXEMU_NO_DEVHANDLE, "irecvConsumed without a queue");
	if (!request->size && request->slot >= 0)
		return consume_empty(comm, request);
	if (comm->stage[EMU_RETIRED] == comm->stage[EMU_INACTIVE] ||
	    request->index != comm->stage[EMU_RETIRED])
		return emu_violation(TCPXEMU_CONSUME_ORDER, "request %llu, %llu to %llu are done",
				     (unsigned long long)request->index,
				     (unsigned long long)comm->stage[EMU_RETIRED],
				     (unsigned long long)comm->stage[EMU_INACTIVE]);
	emu_slot_recycle(comm, (unsigned)request->slot);
	comm->stage[EMU_RETIRED]++;
	comm->queue->head++;
	return EMU_OK;
}

int emu_consumed(void *ref, int n, void *opaque)
{
	struct emu_request *request = opaque;
	struct emu_comm *comm;
	int rc;

	if (!request || n != 1)
		return emu_violation(TCPXEMU_CONSUME_NULL, "irecvConsumed of %d requests", n);
	comm = emu_comm_enter(ref, request->comm ? request->comm->kind : EMU_RECV, &rc);
	if (!comm)
		return rc;
	return emu_comm_leave(comm, consume(comm, request));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that move data through a comm, and the rules that plugins impose on them. */
#include "base/law.h"
#include "plugin/comm.h"

#include <signal.h>

#include "base/text.h"
#include "plugin/priv.h"

/* Marks the comm as lost. The error has channel, NIC, peer, the formatted text, and the plugin's
 * last warning if the plugin has warned since the comm was made. Returns `status`; every later data
 * call returns the same error. */
__attribute__((format(printf, 3, 4))) static tcpx_status
comm_lose(struct net_comm *comm, tcpx_status status, const char *what, ...)
{
	char text[160], said[NET_PLUGIN_LINE_BYTES];
	va_list args;

	va_start(args, what);
	text_vformat(text, sizeof(text), what, args);
	va_end(args);
	net_plugin_said(comm->plugin, comm->warned, said, sizeof(said));
	error_fill(&comm->failed, status, 0, "channel %u, NIC %s, peer %s: %s%s", comm->channel,
		   comm->plugin->devices[comm->dev].name, comm->peer, text, said);
	return error_raise(&comm->failed);
}

static tcpx_status comm_refused(struct net_comm *comm, const char *call, uint64_t number,
				ncclnet_result rc)
{
	return comm_lose(comm, TCPX_ERR_CHANNEL_LOST, "%s of message %llu: %s", call,
			 (unsigned long long)number, net_plugin_result(rc));
}

/* Called at the beginning of every data call. The first caller becomes the driver of the comm if it
 * blocks SIGPIPE. Returns OK if the comm is not lost and the caller is its driver, otherwise the
 * error that the data call returns. Whether the driver still blocks SIGPIPE is not checked
 * again. */
static tcpx_status comm_enter(struct net_comm *comm)
{
	sigset_t blocked;

	if (comm->failed.status)
		return error_raise(&comm->failed);
	if (atomic_load_explicit(&comm->driven, memory_order_acquire)) {
		if (pthread_equal(comm->driver, pthread_self()))
			return TCPX_OK;
		return error_set(TCPX_ERR_STATE, 0, "channel %u: a second thread called its comm",
				 comm->channel);
	}
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	if (!sigismember(&blocked, SIGPIPE))
		return error_set(TCPX_ERR_STATE, 0,
				 "channel %u: its comm was called on a thread that does "
				 "not block SIGPIPE",
				 comm->channel);
	comm->driver = pthread_self();
	atomic_store_explicit(&comm->driven, true, memory_order_release);
	return TCPX_OK;
}

uint64_t net_mr_reach(const struct net_mr *mr, const void *data)
{
	uint64_t at = (uintptr_t)data - (uintptr_t)mr->base, end;

	if (at >= mr->bytes)
		return 0;
	end = at / NET_MR_PIECE * NET_MR_PIECE + NET_MR_PIECE + NET_MR_OVERLAP;
	return (end < mr->bytes ? end : mr->bytes) - at;
}

/* Posts a send if `sends` is true, else a receive: calls the plugin, and stores the plugin's
 * request in comm->ring. Returns what net_comm_send and net_comm_recv return. */
static tcpx_status comm_post(struct net_comm *comm, bool sends, struct net_mr *mr, void *data,
			     size_t bytes, uint64_t *out_number)
{
	struct net_comm_counts *counts = &comm->counts;
	uint64_t number = counts->posted, at = (uintptr_t)data - (uintptr_t)mr->base;
	struct net_request *slot = &comm->ring[number % NET_COMM_WINDOW];
	int tag = (int)net_comm_tag(number);
	void *request = NULL, *piece;
	tcpx_status status = comm_enter(comm);
	ncclnet_result rc;

	if (status)
		return status;
	if (comm->sends != sends || mr->comm != comm)
		return error_set(TCPX_ERR_STATE, 0, "channel %u: %s", comm->channel,
				 mr->comm != comm ? "the memory is registered with another comm"
				 : comm->sends	  ? "its comm only sends"
						  : "its comm only receives");
	if (number - counts->consumed >= comm->window)
		return error_set(TCPX_ERR_AGAIN, 0,
				 "channel %u: all %u requests of its comm are in use",
				 comm->channel, comm->window);
	if (bytes > net_mr_reach(mr, data) || at >= mr->bytes ||
	    bytes > comm->plugin->devices[comm->dev].message_max)
		return error_set(TCPX_ERR_RANGE, 0,
				 "channel %u: a message of %zu bytes at offset %llu of %llu "
				 "registered bytes",
				 comm->channel, bytes, (unsigned long long)at,
				 (unsigned long long)mr->bytes);
	piece = mr->pieces[at / NET_MR_PIECE < mr->npieces ? at / NET_MR_PIECE : mr->npieces - 1];
	rc = sends ? comm->calls->isend(comm->table, comm->comm, data, bytes, tag, piece, &request)
		   : comm->calls->irecv(comm->table, comm->comm, data, bytes, tag, piece, &request);
	if (rc)
		return comm_refused(comm, sends ? "isend" : "irecv", number, rc);
	if (!request) {
		counts->put_off++;
		return TCPX_IN_PROGRESS;
	}
	*slot = (struct net_request){request, bytes};
	counts->posted++;
	*out_number = number;
	return TCPX_OK;
}

tcpx_status net_comm_send(struct net_comm *comm, struct net_mr *mr, const void *data, size_t bytes,
			  uint64_t *out_number)
{
	law_free("a plugin");
	return comm_post(comm, true, mr, (void *)data, bytes, out_number);
}

tcpx_status net_comm_recv(struct net_comm *comm, struct net_mr *mr, void *data, size_t room,
			  uint64_t *out_number)
{
	law_free("a plugin");
	return comm_post(comm, false, mr, data, room, out_number);
}

tcpx_status net_comm_poll(struct net_comm *comm, uint64_t *out_number, size_t *out_bytes)
{
	struct net_comm_counts *counts = &comm->counts;
	uint64_t number = counts->done;
	struct net_request *head = &comm->ring[number % NET_COMM_WINDOW];
	tcpx_status status = comm_enter(comm);
	int done = 0, told = -1;
	ncclnet_result rc;

	law_free("a plugin");
	if (status)
		return status;
	if (number == counts->posted)
		return TCPX_IN_PROGRESS;
	rc = comm->calls->test(comm->table, head->request, &done, &told);
	if (rc)
		return comm_refused(comm, "test", number, rc);
	if (!done)
		return TCPX_IN_PROGRESS;
	if (!comm->sends && told >= 0 && (size_t)told > head->room)
		return comm_lose(comm, TCPX_ERR_TRUNCATED, "message %llu has %d bytes, room is %zu",
				 (unsigned long long)number, told, head->room);
	counts->done++;
	atomic_store_explicit(&comm->ended, counts->done, memory_order_release);
	if (comm->sends) {
		counts->consumed++;
		counts->bytes += head->room;
	} else if (told >= 0) {
		counts->bytes += (uint64_t)told;
	}
	*out_number = number;
	*out_bytes = comm->sends ? head->room : told >= 0 ? (size_t)told : NET_COMM_UNKNOWN;
	return TCPX_OK;
}

tcpx_status net_comm_consumed(struct net_comm *comm, uint64_t number)
{
	struct net_comm_counts *counts = &comm->counts;
	tcpx_status status = comm_enter(comm);
	ncclnet_result rc;

	if (status)
		return status;
	if (comm->sends || number != counts->consumed || number >= counts->done)
		return error_set(TCPX_ERR_STATE, 0,
				 "channel %u: message %llu cannot be consumed; %llu is next, and "
				 "those before %llu are done",
				 comm->channel, (unsigned long long)number,
				 (unsigned long long)counts->consumed,
				 (unsigned long long)counts->done);
	rc = comm->calls->consumed(comm->table, comm->comm,
				   comm->ring[number % NET_COMM_WINDOW].request);
	if (rc)
		return comm_refused(comm, "irecvConsumed", number, rc);
	counts->consumed++;
	return TCPX_OK;
}

uint64_t net_comm_ended(const struct net_comm *comm)
{
	return atomic_load_explicit(&comm->ended, memory_order_acquire);
}

void net_comm_counts(const struct net_comm *comm, struct net_comm_counts *out_counts)
{
	*out_counts = comm->counts;
}

unsigned net_comm_slot(const struct net_comm *comm, uint64_t number)
{
	return (unsigned)((comm->before + number) % NCCLNET_QUEUE_DEPTH);
}

const struct ncclnet_device_handle *net_comm_device(const struct net_comm *comm)
{
	return &comm->device;
}

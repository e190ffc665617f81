/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange of the first message of a comm, which is empty. */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "plugin/setup_priv.h"

/* Pause between two calls of the plugin, doubled each time until it is at least PAUSE_MAX_NS. No
 * event tells when to call again, and progress may need calls at the peer. */
#define PAUSE_FIRST_NS 20000
#define PAUSE_MAX_NS 1000000

#define NOT_TAKEN "the plugin took no message (tcpx-gpudirect(7), OTHER PLUGINS)"
#define NOT_SENT "the plugin did not complete the send of its first message"
#define NOT_ARRIVED "the peer's first message did not arrive"

/* Records what the operation waits for. The error text of a late operation names it. */
static void setup_lacks(struct net_setup *setup, const char *what)
{
	setup->lacks_ns = clock_now_ns();
	atomic_store_explicit(&setup->lacks, what, memory_order_release);
}

static tcpx_status first_post(struct net_setup *setup, struct net_mr *mr)
{
	struct net_comm *comm = setup->comm;
	uint64_t number;

	if (comm->sends)
		return net_comm_send(comm, mr, mr->base, 0, &number);
	return net_comm_recv(comm, mr, mr->base, NET_MR_PAGE < mr->bytes ? NET_MR_PAGE : mr->bytes,
			     &number);
}

/* Posts the message or, if it is posted, tests it. Consumes a message that was received. Returns
 * IN_PROGRESS if the caller must call again. Returns OK if the message was sent, or was received
 * and consumed. */
static tcpx_status first_step(struct net_setup *setup, struct net_mr *mr, bool *posted)
{
	struct net_comm *comm = setup->comm;
	tcpx_status status;
	uint64_t number;
	size_t bytes;

	if (!*posted) {
		status = first_post(setup, mr);
		*posted = status == TCPX_OK;
		if (*posted && comm->sends)
			setup_lacks(setup, NOT_SENT);
		return *posted ? TCPX_IN_PROGRESS : status;
	}
	status = net_comm_poll(comm, &number, &bytes);
	if (status != TCPX_OK || comm->sends)
		return status;
	if (bytes && bytes != NET_COMM_UNKNOWN)
		return error_set(TCPX_ERR_PROTOCOL, 0,
				 "channel %u: the peer's first message has %zu bytes instead of 0",
				 comm->channel, bytes);
	return net_comm_consumed(comm, number);
}

/* Hides the first message from the later driver of the comm, so that the next message has number
 * 0. */
static void first_forget(struct net_comm *comm)
{
	comm->before = comm->counts.posted;
	comm->counts = (struct net_comm_counts){0};
	atomic_store_explicit(&comm->ended, 0, memory_order_relaxed);
	atomic_store_explicit(&comm->driven, false, memory_order_release);
}

/* Calls the plugin until the message was sent, or was received and consumed. Returns an error if a
 * call fails, or if the operation must end (net_setup_over). */
static tcpx_status first_through(struct net_setup *setup, struct net_mr *mr)
{
	struct timespec pause = {0, PAUSE_FIRST_NS};
	bool posted = false;
	tcpx_status status;

	setup_lacks(setup, setup->comm->sends ? NOT_TAKEN : NOT_ARRIVED);
	while ((status = first_step(setup, mr, &posted)) == TCPX_IN_PROGRESS) {
		if (net_setup_over(setup))
			return net_setup_late(setup);
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < PAUSE_MAX_NS)
			pause.tv_nsec *= 2;
	}
	if (status == TCPX_OK)
		first_forget(setup->comm);
	return status;
}

/* Registers a page for the empty message. The plugin requires registered memory, but does not read
 * the page. */
static tcpx_status first_memory(struct net_setup *setup, struct net_mr **out_mr)
{
	static _Alignas(NET_MR_PAGE) char page[NET_MR_PAGE];
	struct net_comm *comm = setup->comm;
	struct net_mr *mr = calloc(1, sizeof(*mr) + sizeof(mr->pieces[0]));
	struct net_gpu_scope scope;
	tcpx_status status;
	ncclnet_result rc;

	if (!mr)
		return error_set(TCPX_ERR_NO_MEMORY, 0,
				 "no memory for the first message of channel %u", comm->channel);
	*mr = (struct net_mr){.comm = comm,
			      .base = page,
			      .bytes = sizeof(page),
			      .type = NCCLNET_PTR_HOST,
			      .npieces = 1};
	list_init(&mr->node);
	status = net_gpu_enter(setup, &scope);
	if (status == TCPX_OK) {
		rc = comm->calls->reg(comm->table, comm->comm, page, sizeof(page), mr->type,
				      &mr->pieces[0]);
		net_gpu_leave(setup, &scope);
		status = rc ? net_setup_refused(setup, rc) : TCPX_OK;
	}
	if (status != TCPX_OK)
		free(mr);
	else
		*out_mr = mr;
	return status;
}

static tcpx_status first_send_body(struct net_setup *setup)
{
	struct net_comm *comm = setup->comm;
	struct net_mr *mr = NULL;
	tcpx_status status = first_memory(setup, &mr);

	if (status == TCPX_OK)
		status = first_through(setup, mr);
	if (status == TCPX_OK) {
		status = net_mr_drop(setup, mr);
		mr = NULL;
	}
	/* If the message failed, the plugin may still use `mr`, so the comm keeps `mr` until the
	 * comm is closed. */
	net_comm_unuse(comm, mr);
	return status;
}

static tcpx_status first_recv_body(struct net_setup *setup)
{
	struct net_comm *comm = setup->comm;
	tcpx_status status = first_through(setup, setup->mr);

	net_comm_unuse(comm, NULL);
	return status;
}

static tcpx_status first_start(const struct net_setup_opts *opts, struct net_comm *comm,
			       struct net_mr *mr, tcpx_status (*body)(struct net_setup *setup),
			       struct net_setup **out_setup)
{
	struct net_setup *setup;
	tcpx_status status = net_opts_check(opts);

	if (status != TCPX_OK)
		return status;
	setup = net_setup_new(opts, "first message", body, NULL);
	if (!setup)
		return error_last()->status;
	setup->comm = comm;
	setup->mr = mr;
	net_comm_use(comm);
	status = net_setup_run(setup, out_setup);
	if (status != TCPX_OK)
		net_comm_unuse(comm, NULL);
	return status;
}

tcpx_status net_first_send_start(const struct net_setup_opts *opts, struct net_comm *comm,
				 struct net_setup **out_setup)
{
	return first_start(opts, comm, NULL, first_send_body, out_setup);
}

tcpx_status net_first_recv_start(const struct net_setup_opts *opts, struct net_comm *comm,
				 struct net_mr *mr, struct net_setup **out_setup)
{
	return first_start(opts, comm, mr, first_recv_body, out_setup);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Registers memory with a comm, piece by piece, and deregisters it. */
#include <stdlib.h>

#include "plugin/setup_priv.h"

tcpx_status net_mr_drop(struct net_setup *setup, struct net_mr *mr)
{
	struct net_comm *comm = mr->comm;
	ncclnet_result rc, first = NCCLNET_OK;
	struct net_gpu_scope scope;
	tcpx_status status = TCPX_OK;

	for (unsigned i = 0; i < mr->npieces; i++) {
		status = net_gpu_enter(setup, &scope);
		if (status)
			break;
		rc = comm->calls->dereg(comm->table, comm->comm, mr->pieces[i]);
		net_gpu_leave(setup, &scope);
		net_setup_warn(setup, "deregMr", rc);
		if (!first)
			first = rc;
	}
	free(mr);
	return !status && first ? net_setup_refused(setup, first) : status;
}

unsigned net_mr_pieces(uint64_t bytes)
{
	return bytes > NET_MR_OVERLAP ? (unsigned)((bytes - NET_MR_OVERLAP - 1) / NET_MR_PIECE + 1)
				      : 1;
}

uint64_t net_mr_piece(uint64_t bytes, unsigned i)
{
	uint64_t left = bytes - i * NET_MR_PIECE;

	return left < NET_MR_PIECE + NET_MR_OVERLAP ? left : NET_MR_PIECE + NET_MR_OVERLAP;
}

void net_comm_use(struct net_comm *comm)
{
	pthread_mutex_lock(&comm->lock);
	comm->users++;
	pthread_mutex_unlock(&comm->lock);
}

void net_comm_unuse(struct net_comm *comm, struct net_mr *mr)
{
	pthread_mutex_lock(&comm->lock);
	if (mr)
		list_push_back(&comm->mrs, &mr->node);
	if (!--comm->users)
		pthread_cond_signal(&comm->idle);
	pthread_mutex_unlock(&comm->lock);
}

/* Registers the memory of `mr`, which has `all` pieces. mr->npieces counts the pieces that are
 * registered. */
static tcpx_status register_pieces(struct net_setup *setup, struct net_mr *mr, unsigned all)
{
	struct net_comm *comm = mr->comm;
	struct net_gpu_scope scope;
	tcpx_status status;
	ncclnet_result rc;

	while (mr->npieces < all) {
		unsigned i = mr->npieces;

		if (net_setup_over(setup))
			return net_setup_late(setup);
		status = net_gpu_enter(setup, &scope);
		if (status)
			return status;
		rc = comm->calls->reg(comm->table, comm->comm, mr->base + i * NET_MR_PIECE,
				      net_mr_piece(mr->bytes, i), mr->type, &mr->pieces[i]);
		net_gpu_leave(setup, &scope);
		if (rc)
			return net_setup_refused(setup, rc);
		mr->npieces++;
	}
	return TCPX_OK;
}

/* Registers the memory and adds the registration to the comm's list. If the caller never takes the
 * result, the registration stays in that list until the comm is closed. */
static tcpx_status register_body(struct net_setup *setup)
{
	struct net_mr *mr = setup->mr;
	struct net_comm *comm = mr->comm;
	unsigned all = mr->npieces;
	tcpx_status status;
	tcpx_error error;

	mr->npieces = 0;
	status = register_pieces(setup, mr, all);
	if (status) {
		error = *error_last();
		(void)net_mr_drop(setup, mr);
		net_comm_unuse(comm, NULL);
		return error_raise(&error);
	}
	setup->result.mr = mr;
	net_comm_unuse(comm, mr);
	return TCPX_OK;
}

static tcpx_status register_check(const struct net_comm *comm, const void *base, uint64_t bytes,
				  int type)
{
	const struct net_plugin_device *device = net_plugin_device(comm->plugin, comm->dev);

	if ((type != NCCLNET_PTR_HOST && type != NCCLNET_PTR_CUDA) ||
	    !(device->ptr_support & (uint32_t)type))
		return error_set(TCPX_ERR_UNSUPPORTED, 0,
				 "NIC %s of %s does not support memory of type %d", device->name,
				 comm->plugin->log.file, type);
	if (!bytes || !base || (uintptr_t)base + bytes < (uintptr_t)base)
		return error_set(TCPX_ERR_INVALID, 0, "%llu bytes at %p cannot be registered",
				 (unsigned long long)bytes, base);
	if (type == NCCLNET_PTR_CUDA && ((uintptr_t)base | bytes) % NET_MR_PAGE)
		return error_set(TCPX_ERR_INVALID, 0,
				 "CUDA memory is registered in whole pages: %p, %llu bytes", base,
				 (unsigned long long)bytes);
	return TCPX_OK;
}

tcpx_status net_register_start(const struct net_setup_opts *opts, struct net_comm *comm, void *base,
			       uint64_t bytes, int type, struct net_setup **out_setup)
{
	unsigned pieces = net_mr_pieces(bytes);
	struct net_setup *setup;
	struct net_mr *mr;
	tcpx_status status = net_opts_check(opts);

	if (!status)
		status = register_check(comm, base, bytes, type);
	if (status)
		return status;
	mr = calloc(1, sizeof(*mr) + pieces * sizeof(mr->pieces[0]));
	setup = mr ? net_setup_new(opts, "regMr", register_body, NULL) : NULL;
	if (!setup) {
		free(mr);
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a registration with a comm");
	}
	mr->comm = comm;
	mr->base = base;
	mr->bytes = bytes;
	mr->type = type;
	mr->npieces = pieces;
	setup->mr = mr;
	net_comm_use(comm);
	status = net_setup_run(setup, out_setup);
	if (status) {
		net_comm_unuse(comm, NULL);
		free(mr);
	}
	return status;
}

/* Deregisters the memory. net_deregister_start() has already removed the registration from the
 * comm's list. */
static tcpx_status deregister_body(struct net_setup *setup)
{
	struct net_comm *comm = setup->mr->comm;
	tcpx_status status = net_mr_drop(setup, setup->mr);

	net_comm_unuse(comm, NULL);
	return status;
}

tcpx_status net_deregister_start(const struct net_setup_opts *opts, struct net_mr *mr,
				 struct net_setup **out_setup)
{
	struct net_setup *setup = net_setup_new(opts, "deregMr", deregister_body, NULL);
	struct net_comm *comm = mr->comm;
	tcpx_status status;

	if (!setup)
		return error_last()->status;
	setup->mr = mr;
	pthread_mutex_lock(&comm->lock);
	list_remove(&mr->node);
	comm->users++;
	pthread_mutex_unlock(&comm->lock);
	status = net_setup_run(setup, out_setup);
	if (status)
		net_comm_unuse(comm, mr);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen, connect and accept. The first call starts a thread and gives no comm; the comm comes with
 * the first call after its end, and never twice. The original frees its state there and leaves the
 * pointer to it in the handle and the listen comm: here such a state is kept and recognised.
 */
#include "emu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SOCKET_OK, SOCKET_PENDING, SOCKET_FAILED }; /* what each end tells the other */

struct emu_setup {
	struct emu_setup *next;
	_Atomic int rc; /* EMU_BUSY: its thread works */
	_Atomic bool stop;
	bool handed, connects;
	unsigned nulls; /* further calls without a comm */
	struct emu_comm *comm;
	struct emu_handle handle;
	union emu_addr here;
	int data_fd, ctrl_fd; /* accept: the listening ones */
};

static pthread_mutex_t setups_lock = PTHREAD_MUTEX_INITIALIZER;
static struct emu_setup *setups;

static struct emu_setup *setup_new(enum emu_kind kind, int dev, int gpu)
{
	struct emu_setup *setup = calloc(1, sizeof(*setup));
	int side = kind == EMU_SEND ? EMU_SIDE_SEND : EMU_SIDE_RECV;

	if (!setup)
		return NULL;
	setup->comm = emu_comm_new(kind, dev, gpu);
	if (!setup->comm) {
		free(setup);
		return NULL;
	}
	if (emu_fault(EMU_FAULT_NULLS, side, setup->comm->serial))
		setup->nulls = (unsigned)emu_fault(EMU_FAULT_NULLS, side, -1)->nth;
	setup->connects = kind == EMU_SEND;
	setup->here = emu_nic(dev)->addr;
	atomic_store(&setup->rc, EMU_BUSY);
	pthread_mutex_lock(&setups_lock);
	setup->next = setups;
	setups = setup;
	pthread_mutex_unlock(&setups_lock);
	return setup;
}

static struct emu_setup *setup_find(const void *state)
{
	struct emu_setup *at;

	pthread_mutex_lock(&setups_lock);
	for (at = setups; at && at != state; at = at->next)
		;
	pthread_mutex_unlock(&setups_lock);
	return at;
}

/* Tells what this end has and hears what the other has; the acceptor speaks first. */
static int exchange(struct emu_setup *setup, int fd, int32_t mine, int32_t *out_theirs)
{
	const _Atomic bool *stop = &setup->stop;

	if (!setup->connects && emu_sock_all(fd, &mine, sizeof(mine), true, stop))
		return -1;
	if (emu_sock_all(fd, out_theirs, sizeof(*out_theirs), false, stop))
		return -1;
	return setup->connects ? emu_sock_all(fd, &mine, sizeof(mine), true, stop) : 0;
}

/* One socket, tried again while either end says "pending". The fd, or -1. */
static int setup_socket(struct emu_setup *setup, bool ctrl, bool *out_steered)
{
	struct emu_comm *comm = setup->comm;

	for (int i = 0; i < emu_config.retries && !atomic_load(&setup->stop); i++) {
		int32_t mine = SOCKET_OK, theirs = SOCKET_FAILED;
		int fd, steered = 1;

		if (setup->connects)
			fd = emu_sock_connect(ctrl ? &setup->handle.ctrl : &setup->handle.data,
					      ctrl && emu_config.ctrl_set ? &emu_config.ctrl
									  : &setup->here);
		else
			fd = emu_sock_accept(ctrl ? setup->ctrl_fd : setup->data_fd);
		if (fd < 0)
			return -1;
		if (!setup->connects && !ctrl)
			steered = emu_steer_socket(fd, comm->dev, comm->gpu, comm->serial);
		if (steered < 0)
			mine = SOCKET_PENDING;
		if (exchange(setup, ctrl ? fd : comm->ctrl_fd, mine, &theirs)) {
			close(fd);
			return -1;
		}
		if (mine == SOCKET_OK && theirs == SOCKET_OK) {
			*out_steered = steered;
			return fd;
		}
		close(fd);
		if (theirs == SOCKET_FAILED)
			break;
	}
	return -1;
}

/* The control socket first, then the data sockets from the last to the first. */
static int setup_sockets(struct emu_setup *setup)
{
	struct emu_comm *comm = setup->comm;

	for (int32_t i = comm->socks; i >= 0; i--) {
		bool ctrl = i == comm->socks, steered = false;
		int32_t index = i;
		int fd;

		emu_sleep_us(emu_config.step_us);
		fd = setup_socket(setup, ctrl, &steered);
		if (fd < 0)
			return EMU_INTERNAL;
		if (ctrl)
			comm->ctrl_fd = fd;
		if (emu_sock_all(comm->ctrl_fd, &index, sizeof(index), setup->connects,
				 &setup->stop) ||
		    index < 0 || index > comm->socks || (index == comm->socks) != ctrl ||
		    (!ctrl && comm->lane[index].fd >= 0)) {
			if (!ctrl)
				close(fd);
			return EMU_INTERNAL;
		}
		if (!ctrl) {
			comm->lane[index].fd = fd;
			comm->lane[index].steered = steered;
			emu_zero_open(&comm->lane[index]);
		}
		emu_sock_nonblocking(fd);
	}
	return EMU_OK;
}

static int connect_all(struct emu_setup *setup)
{
	long serial = setup->comm->serial;
	const struct emu_fault *delay = emu_fault(EMU_FAULT_CONNECT_DELAY, EMU_SIDE_SEND, serial);

	if (delay)
		emu_sleep_us((unsigned)delay->ms * 1000);
	return setup_sockets(setup);
}

static int accept_all(struct emu_setup *setup)
{
	struct emu_comm *comm = setup->comm;
	int rc = setup_sockets(setup), bytes;

	if (rc)
		return rc;
	emu_sleep_us(emu_config.settle_us);
	if (emu_fault(EMU_FAULT_ACCEPT_RC, EMU_SIDE_RECV, comm->serial))
		return EMU_INTERNAL;
	for (int i = 0; emu_config.steer != EMU_STEER_OFF && i < comm->socks; i++) {
		/* It may have met the NIC before its rule did. */
		if (comm->lane[i].steered && !ioctl(comm->lane[i].fd, FIONREAD, &bytes) &&
		    bytes > 0)
			return emu_violation(TCPXEMU_EARLY_DATA,
					     "%d bytes on socket %d before the accept returned",
					     bytes, i);
	}
	return EMU_OK;
}

static void listening_close(struct emu_setup *setup)
{
	if (setup->connects)
		return;
	close(setup->data_fd);
	close(setup->ctrl_fd);
}

static void *setup_main(void *opaque)
{
	struct emu_setup *setup = opaque;
	int rc = setup->connects ? connect_all(setup) : accept_all(setup);
	struct emu_comm *comm = NULL;

	pthread_mutex_lock(&setups_lock);
	if (rc || atomic_load(&setup->stop)) {
		comm = setup->comm;
		setup->comm = NULL;
		rc = rc ? rc : EMU_INTERNAL;
	}
	if (atomic_load(&setup->stop))
		listening_close(setup);
	atomic_store(&setup->rc, rc);
	pthread_mutex_unlock(&setups_lock);
	if (comm)
		emu_comm_free(comm);
	return NULL;
}

static int setup_start(struct emu_setup *setup)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, setup_main, setup))
		return EMU_SYSTEM;
	pthread_detach(thread);
	return EMU_OK;
}

/* The comm once it is there; NULL: call again. */
static int setup_poll(struct emu_setup *setup, void **out)
{
	struct emu_ref *ref;
	int rc = atomic_load(&setup->rc);

	if (rc == EMU_BUSY)
		return EMU_OK;
	if (setup->nulls) {
		setup->nulls--;
		return EMU_OK;
	}
	setup->handed = true;
	if (rc)
		return rc;
	ref = emu_ref_new(setup->comm->kind);
	if (!ref)
		return EMU_SYSTEM;
	ref->dev = setup->comm->dev;
	pthread_mutex_t *lock;
	emu_refs(&lock);
	ref->comm = setup->comm;
	pthread_mutex_unlock(lock);
	setup->comm = NULL;
	*out = ref;
	return EMU_OK;
}

int emu_listen(int dev, void *opaque, void **out)
{
	struct emu_handle handle;
	struct emu_ref *ref;

	if (dev < 0 || dev >= emu_config.devs)
		return emu_violation(TCPXEMU_BAD_DEV, "listen on device %d of %d", dev,
				     emu_config.devs);
	memset(&handle, 0, sizeof(handle)); /* what lies between its members goes over the wire */
	handle.port_start = handle.port_count = -1;
	handle.socks = emu_config.socks;
	handle.threads = emu_config.threads;
	handle.data = emu_nic(dev)->addr;
	handle.redirect = emu_config.ctrl_set;
	handle.ctrl = emu_config.ctrl_set ? emu_config.ctrl : handle.data;
	ref = emu_ref_new(EMU_LISTEN);
	if (!ref)
		return EMU_SYSTEM;
	ref->dev = dev;
	ref->gpu = emu_gpu_current();
	ref->data_fd = emu_sock_listen(&handle.data);
	ref->ctrl_fd = ref->data_fd < 0 ? -1 : emu_sock_listen(&handle.ctrl);
	if (ref->ctrl_fd < 0) {
		atomic_store(&ref->dead, true);
		if (ref->data_fd >= 0)
			close(ref->data_fd);
		return EMU_INTERNAL;
	}
	memset(opaque, 0, EMU_HANDLE_BYTES);
	memcpy(opaque, &handle, sizeof(handle));
	*out = ref;
	return EMU_OK;
}

int emu_connect(int dev, void *opaque, void **out)
{
	struct emu_handle *handle = opaque;
	struct emu_setup *setup;
	void *state = NULL;

	*out = NULL;
	if (dev < 0 || dev >= emu_config.devs)
		return emu_violation(TCPXEMU_BAD_DEV, "connect from device %d of %d", dev,
				     emu_config.devs);
	memcpy(&state, &handle->state, sizeof(state));
	if (state) {
		setup = setup_find(state);
		if (!setup || !setup->connects)
			return emu_violation(TCPXEMU_HANDLE_DIRTY, "bytes 80 to 87 are %p", state);
		if (setup->handed)
			return emu_violation(TCPXEMU_HANDLE_REUSED, "its comm was given");
		return setup_poll(setup, out);
	}
	if (handle->socks < 1 || handle->socks > EMU_SOCKS || handle->threads < 1 ||
	    handle->threads > EMU_THREADS)
		return emu_violation(TCPXEMU_HANDLE_DIRTY, "%d sockets, %d threads", handle->socks,
				     handle->threads);
	if (emu_fault(EMU_FAULT_CONNECT_NEVER, EMU_SIDE_SEND, -1))
		return EMU_OK;
	setup = setup_new(EMU_SEND, dev, emu_gpu_current());
	if (!setup)
		return EMU_SYSTEM;
	setup->handle = *handle;
	setup->comm->socks = handle->socks;
	setup->comm->threads = handle->threads;
	handle->state = setup;
	return setup_start(setup);
}

static int devhandle_fill(struct emu_ref *ref, struct emu_device_handle **devhandle)
{
	if (!devhandle || !emu_flavour.device)
		return EMU_OK;
	if (!*devhandle)
		return emu_violation(TCPXEMU_DEVHANDLE_NULL, "accept writes through it");
	return emu_queue_new(ref->comm, *devhandle);
}

int emu_accept(void *opaque, void **out, struct emu_device_handle **devhandle)
{
	struct emu_ref *ref = opaque;
	struct emu_setup *setup;
	int rc;

	*out = NULL;
	if (!ref || ref->kind != EMU_LISTEN)
		return emu_violation(TCPXEMU_NULL_COMM, "accept without a listen comm");
	if (atomic_load(&ref->dead))
		return emu_violation(TCPXEMU_DEAD_COMM, "accept after closeListen");
	if (ref->handed)
		return emu_violation(TCPXEMU_LISTEN_REUSED, "its comm was given");
	if (ref->setup) {
		rc = setup_poll(ref->setup, out);
		ref->handed = ref->setup->handed;
		return rc || !*out ? rc : devhandle_fill(*out, devhandle);
	}
	setup = setup_new(EMU_RECV, ref->dev, ref->gpu);
	if (!setup)
		return EMU_SYSTEM;
	setup->comm->gpu_accept = emu_gpu_current();
	setup->comm->socks = emu_config.socks;
	setup->comm->threads = emu_config.threads;
	setup->data_fd = ref->data_fd;
	setup->ctrl_fd = ref->ctrl_fd;
	ref->setup = setup;
	return setup_start(setup);
}

int emu_close_listen(void *opaque)
{
	struct emu_ref *ref = opaque;
	bool pending = false;

	if (!ref)
		return EMU_OK;
	if (ref->kind != EMU_LISTEN)
		return emu_violation(TCPXEMU_NULL_COMM, "closeListen of a comm");
	if (atomic_exchange(&ref->dead, true))
		return emu_violation(TCPXEMU_DEAD_COMM, "closed twice");
	pthread_mutex_lock(&setups_lock);
	if (ref->setup && atomic_load(&ref->setup->rc) == EMU_BUSY) {
		pending = true; /* its thread closes them */
		atomic_store(&ref->setup->stop, true);
		shutdown(ref->data_fd, SHUT_RDWR);
		shutdown(ref->ctrl_fd, SHUT_RDWR);
	} else {
		close(ref->data_fd);
		close(ref->ctrl_fd);
	}
	pthread_mutex_unlock(&setups_lock);
	if (pending)
		emu_violation(TCPXEMU_CLOSE_PENDING, "the original's thread goes on without it");
	return EMU_OK;
}

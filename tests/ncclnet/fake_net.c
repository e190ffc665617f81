/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small ncclNet plugin that moves messages between comms of its own process and counts every
 * fake_breach of the strictest rules: 16 requests, head-only test, consume in order, one use of a
 * handle. FAKE_INIT_RC and others give what can go wrong before the first comm; fake_table.c has
 * its table.
 */
#include "fake_priv.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/futex.h"

#ifndef FAKE_DEVICES
#define FAKE_DEVICES 2
#endif
#ifndef FAKE_INIT_RC
#define FAKE_INIT_RC 0
#endif

#define DEPTH 16
#define MAGIC 0x66616b65u

SHOWN struct fake_net fake_net = {.want_gpu = -1};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all that follows */
static ncclnet_logger log_line;

struct request {
	struct end *end;
	uint64_t number;
	char *data;
	size_t room, bytes;
	bool moved;
};

struct end { /* one comm */
	struct wire *wire;
	bool sends, closed;
	uint64_t posted, done, consumed;
	struct request ring[DEPTH];
};

struct wire { /* a listener, then a connection; not freed before both ends are closed */
	uint32_t magic;
	int null_connects, null_accepts, users;
	bool connected, accepted;
	struct end ends[2]; /* 0 sends */
};

int fake_breach(void)
{
	atomic_fetch_add(&fake_net.violations, 1);
	return NCCLNET_ERR_INTERNAL;
}

/* Every setup call is made with the GPU that it is about, and with SIGPIPE blocked. */
static void look_around(void)
{
	int (*current)(void) = atomic_load(&fake_net.current_gpu);
	sigset_t blocked;

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	if (!sigismember(&blocked, SIGPIPE))
		atomic_fetch_add(&fake_net.unmasked, 1);
	if (current && current() != atomic_load(&fake_net.want_gpu))
		atomic_fetch_add(&fake_net.wrong_gpu, 1);
}

static void wait_while(atomic_int *word)
{
	int value;

	while ((value = atomic_load(word)))
		(void)sys_futex_wait((_Atomic uint32_t *)word, (uint32_t)value, -1);
}

int fake_init(ncclnet_logger logger)
{
	atomic_fetch_add(&fake_net.inits, 1);
	look_around();
#ifdef FAKE_INIT_BLOCKS
	for (;;)
		pause();
#endif
	log_line = logger;
	if (FAKE_INIT_RC)
		logger(NCCLNET_LOG_WARN, ~0ul, __FILE__, __LINE__, "no unix client at %s\n",
		       "/tmp");
	return FAKE_INIT_RC;
}

int fake_devices(int *out)
{
	*out = FAKE_DEVICES;
	return 0;
}

int fake_properties(int dev, PROPS *props)
{
	static char names[2][8] = {"fake0", "fake1"};
	static char path[] = "/sys/devices/pci0000:00/0000:00:04.0";

	memset(props, 0, sizeof(*props));
	props->name = names[dev];
	props->pci_path = dev ? NULL : path;
#ifdef FAKE_WILD_NAME
	props->name = (char *)0x7f0000001000;
#endif
	props->guid = (uint64_t)dev;
	props->ptr_support = NCCLNET_PTR_HOST | NCCLNET_PTR_CUDA;
	props->speed = 200000;
	props->max_comms = 65536;
	props->max_recvs = 1;
#if FAKE_VERSION >= 7
	props->device_type = NCCLNET_DEVICE_UNPACK;
	props->device_version = NCCLNET_UNPACK_VERSION;
#endif
#if FAKE_VERSION >= 9
	props->parts.count = 1;
	props->parts.devs[0] = dev;
	props->max_p2p_bytes = props->max_coll_bytes = 1u << 30;
#endif
	return 0;
}

int fake_listen(void *handle, void **out)
{
	struct wire *wire = calloc(1, sizeof(*wire));

	look_around();
	atomic_fetch_add(&fake_net.listens, 1);
	wire->magic = MAGIC;
	wire->null_connects = wire->null_accepts = atomic_load(&fake_net.null_comms);
	wire->ends[0] = (struct end){.wire = wire, .sends = true};
	wire->ends[1] = (struct end){.wire = wire};
	wire->users = 1;
	memcpy(handle, &wire, sizeof(wire));
	*out = wire;
	return 0;
}

int fake_connect(void *handle, void **out)
{
	struct wire *wire;
	int rc = atomic_load(&fake_net.setup_rc);

	look_around();
	*out = NULL;
	if (rc)
		return rc;
	memcpy(&wire, handle, sizeof(wire));
	pthread_mutex_lock(&lock);
	if (wire->magic != MAGIC || wire->connected) {
		rc = fake_breach();
	} else if (!wire->null_connects) {
		wire->connected = true;
		wire->users++;
		atomic_fetch_add(&fake_net.sends_open, 1);
		*out = &wire->ends[0];
	} else {
		wire->null_connects--;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

int fake_accept(void *listener, void **out)
{
	struct wire *wire = listener;
	int rc = atomic_load(&fake_net.setup_rc);

	look_around();
	*out = NULL;
	atomic_fetch_add(&fake_net.in_accept, 1);
	if (atomic_exchange(&fake_net.hangs_next, 0))
		wait_while(&fake_net.hangs);
	wait_while(&fake_net.blocks_accept);
	atomic_fetch_sub(&fake_net.in_accept, 1);
	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	if (wire->accepted) {
		rc = fake_breach();
	} else if (wire->connected && !wire->null_accepts) {
		wire->accepted = true;
		wire->users++;
		atomic_fetch_add(&fake_net.recvs_open, 1);
		*out = &wire->ends[1];
	} else if (wire->null_accepts) {
		wire->null_accepts--;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

static void wire_put(struct wire *wire)
{
	if (!--wire->users)
		free(wire);
}

int fake_reg(void *comm, void *data, mr_size bytes, int type, void **out)
{
	int k = atomic_fetch_add(&fake_net.regs, 1), at;

	look_around();
	wait_while(&fake_net.blocks_reg);
	if (k < FAKE_SIZES)
		atomic_store(&fake_net.sizes[k], (uint64_t)bytes);
	at = atomic_load(&fake_net.reg_rc_at);
	if (at && atomic_fetch_sub(&fake_net.reg_rc_at, 1) == 1) {
		atomic_fetch_sub(&fake_net.regs, 1);
		return NCCLNET_ERR_INTERNAL;
	}
	if (!comm || bytes <= 0 || (uint64_t)bytes >= 1ull << 31 ||
	    (type == NCCLNET_PTR_CUDA && (((uintptr_t)data | (uintptr_t)bytes) & 4095)))
		return fake_breach();
	*out = data;
	return 0;
}

int fake_dereg(void *comm, void *mr)
{
	(void)comm;
	(void)mr;
	atomic_fetch_add(&fake_net.deregs, 1);
	return 0;
}

static int post(struct end *end, void *data, size_t bytes, int tag, void **out)
{
	static atomic_int posts;
	int every = atomic_load(&fake_net.null_every), rc = 0;

	*out = NULL;
	if (every && atomic_fetch_add(&posts, 1) % every == 0)
		return 0;
	pthread_mutex_lock(&lock);
	atomic_store(&fake_net.last_tag, tag);
	if (end->closed || end->posted - end->consumed >= DEPTH) {
		rc = fake_breach();
	} else {
		struct request *request = &end->ring[end->posted % DEPTH];

		*request = (struct request){end, end->posted++, data, bytes, bytes, false};
		*out = request;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

static void break_pipe(void)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return;
	close(pair[1]);
	if (write(pair[0], "x", 1) >= 0)
		fake_breach();
	close(pair[0]);
}

int fake_isend(void *comm, void *data, io_size bytes, int tag, void **out)
{
	int rc = atomic_load(&fake_net.isend_rc);

	for (int i = atomic_load(&fake_net.warns); i > 0; i--)
		log_line(NCCLNET_LOG_WARN, ~0ul, __FILE__, __LINE__, "flood %d\n", i);
	if (atomic_load(&fake_net.pipe))
		break_pipe();
	if (atomic_load(&fake_net.ends)) {
		log_line(NCCLNET_LOG_WARN, ~0ul, __FILE__, __LINE__, "%s\n",
			 atomic_load(&fake_net.ends));
		exit(1);
	}
	return rc ? rc : post(comm, data, (size_t)bytes, tag, out);
}

int fake_irecv(void *comm, int count, void **data, io_size *bytes, int *tags, void **request)
{
	if (count != 1 || *request)
		return fake_breach();
	return post(comm, data[0], (size_t)bytes[0], tags[0], request);
}

/* The k-th message of a wire, when both ends have it. */
static void move(struct wire *wire, uint64_t number)
{
	struct request *out = &wire->ends[0].ring[number % DEPTH];
	struct request *in = &wire->ends[1].ring[number % DEPTH];

	if (number >= wire->ends[0].posted || number >= wire->ends[1].posted || in->moved)
		return;
	in->bytes = out->bytes < in->room ? out->bytes : in->room;
	if (in->bytes)
		memcpy(in->data, out->data, in->bytes);
	in->moved = out->moved = true;
}

int fake_test(void *opaque, int *done, int *sizes)
{
	struct request *request = opaque;
	struct end *end = request->end;
	int rc = atomic_load(&fake_net.test_rc);

	*done = 0;
	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	if (request->number != end->done) {
		rc = fake_breach();
	} else {
		move(end->wire, request->number);
		if (request->moved) {
			*done = 1;
			end->done++;
			if (end->sends || !CONSUMES)
				end->consumed++;
			if (sizes && atomic_load(&fake_net.tells_size))
				*sizes = (int)request->bytes + atomic_load(&fake_net.tells_more);
		}
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

int fake_iflush(void *comm, int n, void **data, int *sizes, void **mrs, void **request)
{
	(void)comm, (void)n, (void)data, (void)sizes, (void)mrs, (void)request;
	return fake_breach();
}

static int close_any(struct end *end, atomic_int *open)
{
	wait_while(&fake_net.blocks_close);
	pthread_mutex_lock(&lock);
	if (end->closed)
		fake_breach();
	end->closed = true;
	wire_put(end->wire);
	pthread_mutex_unlock(&lock);
	atomic_fetch_sub(open, 1);
	return atomic_load(&fake_net.close_rc);
}

int fake_close_send(void *comm)
{
	return close_any(comm, &fake_net.sends_open);
}

int fake_close_recv(void *comm)
{
	return close_any(comm, &fake_net.recvs_open);
}

int fake_close_listen(void *comm)
{
	pthread_mutex_lock(&lock);
	wire_put(comm);
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&fake_net.unlistens, 1);
	return 0;
}

int fake_consumed(void *comm, int n, void *opaque)
{
	struct end *end = comm;
	struct request *request = opaque;
	int rc = 0;

	pthread_mutex_lock(&lock);
	if (n != 1 || request->number != end->consumed || request->number >= end->done) {
		rc = fake_breach();
	} else {
		atomic_store(&fake_net.last_consumed, (int)end->consumed);
		end->consumed++;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consumer of an ncclNet plugin (table v7) for the tests of tcpx trace: both ends of channels in
 * one process, messages whose sizes a seed chooses, and on request one planted fault.
 * Usage: trace_program PLUGIN SEED [FAULT [MESSAGE]]
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "abi/ncclnet.h"
#include "base/clock.h"
#include "base/rng.h"

#define CHANNELS 3
#define MESSAGES 48
#define WINDOW 8
#define ROOM 131072 /* of a message's buffer; the chunk size of the runs */
#define HANG_NS (20 * CLOCK_S_NS)
#define LATE_US 600000
#define UNTESTED_US 1300000 /* more than the second after which lint finds a request */

enum faults {
	FAULT_NONE,
	FAULT_DEVICE,	  /* the last channel uses another NIC */
	FAULT_UNCONSUMED, /* a message is never consumed */
	FAULT_TAG,	  /* both ends use a tag again */
	FAULT_TAG_ONE,	  /* one end does */
	FAULT_ORDER,	  /* two messages change their places */
	FAULT_LARGER,	  /* a message is larger */
	FAULT_SMALLER,
	FAULT_LATE, /* the sender pauses before a message */
	FAULT_LATE_RECEIVE,
	FAULT_EXIT,	/* the process ends */
	FAULT_KILL,	/* it is killed */
	FAULT_REGISTER, /* the receiver registers per message */
	FAULT_NOT_HEAD, /* the second oldest is tested first */
	FAULT_EARLY,	/* consumed before the copy */
	FAULT_HOST,	/* the receiver's memory is host memory */
	FAULT_EXTRA,	/* one more channel */
	FAULT_FEWER,	/* one channel fewer */
	FAULT_TWICE,	/* consumed twice */
	FAULT_UNTESTED, /* the receiver stops asking */
	FAULT_HOT,	/* accept is called without a pause */
	FAULT_NO_CLOSE, /* nothing is closed */
};

static const char *const fault_names[] = {
	"none",	    "device",	"unconsumed", "tag",	      "tag-one", "order",
	"larger",   "smaller",	"late",	      "late-receive", "exit",	 "kill",
	"register", "not-head", "early",      "host",	      "extra",	 "fewer",
	"twice",    "untested", "hot",	      "no-close",
};

static const struct ncclnet_table_v7 *net;
static enum faults fault;
static unsigned fault_at;
static int64_t deadline;

struct channel {
	unsigned number;
	int dev;
	void *listener, *sends, *receives;
	char handle[NCCLNET_HANDLE_BYTES], sent[NCCLNET_HANDLE_BYTES];
	struct ncclnet_device_handle device;
	char *out, *in;
	void *out_mr, *in_mr;
	unsigned sizes[MESSAGES];
	int tags[MESSAGES];
};

static void must(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "trace_program: %s: %d\n", what, rc);
	exit(1);
}

static void in_time(const char *what)
{
	if (clock_now_ns() > deadline)
		must(-1, what);
}

/* The fault that is planted is the time itself, so there is no event to wait for. */
static void plant_time(unsigned us)
{
	usleep(us);
}

/* Waits until the recorder has written to its file. The other threads call the plugin meanwhile, so
 * there is something to write. */
static void await_written(void)
{
	const char *file = getenv("TCPX_TRACE");
	struct pollfd poller = {.fd = inotify_init1(IN_CLOEXEC), .events = POLLIN};

	if (!file || poller.fd < 0 || inotify_add_watch(poller.fd, file, IN_MODIFY) < 0)
		must(-1, "watch the trace");
	if (poll(&poller, 1, (int)(HANG_NS / CLOCK_MS_NS)) != 1)
		must(-1, "wait for the trace");
	close(poller.fd);
}

static int planted(const struct channel *c, enum faults one, unsigned message)
{
	return fault == one && c->number == 0 && message == fault_at;
}

static void said(int level, unsigned long flags, const char *file, int line, const char *format,
		 ...)
{
	(void)level;
	(void)flags;
	(void)file;
	(void)line;
	(void)format;
}

static void channel_plan(struct channel *c, unsigned number, struct rng *rng)
{
	unsigned size;

	c->number = number;
	c->dev = fault == FAULT_DEVICE && number == CHANNELS - 1 ? 1 : 0;
	for (unsigned i = 0; i < MESSAGES; i++) {
		c->sizes[i] = 4096 + (unsigned)rng_below(rng, ROOM / 2);
		c->tags[i] = (int)i;
	}
	if (number)
		return;
	size = c->sizes[fault_at];
	if (fault == FAULT_ORDER) {
		c->sizes[fault_at] = c->sizes[fault_at + 1];
		c->sizes[fault_at + 1] = size;
	} else if (fault == FAULT_LARGER) {
		c->sizes[fault_at] += 4096;
	} else if (fault == FAULT_SMALLER) {
		c->sizes[fault_at] -= 1;
	} else if (fault == FAULT_TAG) {
		c->tags[fault_at] = c->tags[fault_at - 1];
	}
}

static void channel_open(struct channel *c)
{
	struct ncclnet_device_handle *device = &c->device;
	unsigned patience = fault == FAULT_HOT && c->number == 0 ? 20000 : 0;

	must(net->listen(c->dev, c->handle, &c->listener), "listen");
	memcpy(c->sent, c->handle, sizeof(c->sent));
	while (!c->sends || !c->receives) {
		for (; patience; patience--)
			if (!c->receives)
				must((net->accept)(c->listener, &c->receives, &device), "accept");
		if (!c->sends)
			must(net->connect(c->dev, c->sent, &c->sends, NULL), "connect");
		if (!c->receives)
			must((net->accept)(c->listener, &c->receives, &device), "accept");
		in_time("setup");
		usleep(500); /* no event tells progress; T06 forbids calls without a pause */
	}
	if (posix_memalign((void **)&c->out, 4096, ROOM) ||
	    posix_memalign((void **)&c->in, 4096, (size_t)WINDOW * ROOM))
		must(-1, "memory");
	for (unsigned i = 0; i + 8 <= ROOM; i += 8)
		memcpy(c->out + i, "PAYLOAD", 8);
	must(net->reg_mr(c->sends, c->out, ROOM, NCCLNET_PTR_CUDA, &c->out_mr), "regMr");
	must(net->reg_mr(c->receives, c->in, WINDOW * ROOM,
			 fault == FAULT_HOST && !c->number ? NCCLNET_PTR_HOST : NCCLNET_PTR_CUDA,
			 &c->in_mr),
	     "regMr");
}

static void *send_main(void *arg)
{
	struct channel *c = arg;
	void *requests[WINDOW] = {NULL};
	unsigned posted = 0, done = 0;
	int is_done;

	while (done < MESSAGES) {
		while (posted < MESSAGES && posted - done < WINDOW) {
			void **request = &requests[posted % WINDOW];

			if (planted(c, FAULT_LATE, posted))
				plant_time(LATE_US);
			must(net->isend(c->sends, c->out, (int)c->sizes[posted], c->tags[posted],
					c->out_mr, request),
			     "isend");
			if (!*request)
				break;
			posted++;
		}
		is_done = 0;
		if (done < posted)
			must(net->test(requests[done % WINDOW], &is_done, NULL), "test");
		if (is_done)
			done++;
		else
			sched_yield();
		in_time("sending");
	}
	return NULL;
}

/* From the bounce pages to where the message belongs. */
static void unpack(const struct channel *c, unsigned number, char *to)
{
	const struct ncclnet_queue *queue = c->device.handle;
	const struct ncclnet_queue_meta *meta;
	unsigned slot = number % NCCLNET_QUEUE_DEPTH;

	if (!queue || (fault == FAULT_HOST && !c->number))
		return;
	meta = (const void *)queue->meta; /* CPU addresses in the emulator's mode */
	for (uint64_t i = 0; i < meta->count[slot]; i++)
		memcpy(to + meta->pieces[slot][i].dst,
		       (const char *)queue->bounce + meta->pieces[slot][i].src,
		       meta->pieces[slot][i].len);
}

static void receive_ended(struct channel *c, unsigned number, void *request)
{
	if (planted(c, FAULT_EXIT, number))
		exit(3);
	if (planted(c, FAULT_KILL, number)) {
		await_written();
		kill(getpid(), SIGKILL);
	}
	if (!planted(c, FAULT_EARLY, number))
		unpack(c, number, c->in + (size_t)(number % WINDOW) * ROOM);
	if (planted(c, FAULT_UNCONSUMED, number))
		return;
	(void)net->irecv_consumed(c->receives, 1, request);
	if (planted(c, FAULT_TWICE, number))
		(void)net->irecv_consumed(c->receives, 1, request);
}

static void receive_post(struct channel *c, unsigned number, void **request)
{
	void *data = c->in + (size_t)(number % WINDOW) * ROOM, *mr = c->in_mr, *again = NULL;
	int size = (int)c->sizes[number], tag = c->tags[number];

	if (planted(c, FAULT_LATE_RECEIVE, number))
		plant_time(LATE_US);
	if (planted(c, FAULT_TAG_ONE, number))
		tag += 1000;
	if (fault == FAULT_REGISTER && !c->number)
		must(net->reg_mr(c->receives, data, ROOM, NCCLNET_PTR_CUDA, &again), "regMr");
	must(net->irecv(c->receives, 1, &data, &size, &tag, again ? &again : &mr, request),
	     "irecv");
	if (again)
		must(net->dereg_mr(c->receives, again), "deregMr");
}

static void *receive_main(void *arg)
{
	struct channel *c = arg;
	void *requests[WINDOW] = {NULL};
	unsigned posted = 0, done = 0;
	int is_done, size;

	while (done < MESSAGES) {
		while (posted < MESSAGES && posted - done < WINDOW) {
			receive_post(c, posted, &requests[posted % WINDOW]);
			if (!requests[posted % WINDOW])
				break;
			posted++;
		}
		if (planted(c, FAULT_NOT_HEAD, done) && posted - done > 1)
			(void)net->test(requests[(done + 1) % WINDOW], &is_done, &size);
		if (planted(c, FAULT_UNTESTED, done)) {
			plant_time(UNTESTED_US);
			exit(0);
		}
		is_done = size = 0;
		must(net->test(requests[done % WINDOW], &is_done, &size), "test");
		if (is_done) {
			receive_ended(c, done, requests[done % WINDOW]);
			done++;
		} else {
			sched_yield();
		}
		in_time("receiving");
	}
	return NULL;
}

static void channel_close(struct channel *c)
{
	must(net->dereg_mr(c->sends, c->out_mr), "deregMr");
	must(net->dereg_mr(c->receives, c->in_mr), "deregMr");
	must(net->close_send(c->sends), "closeSend");
	must(net->close_recv(c->receives), "closeRecv");
	must(net->close_listen(c->listener), "closeListen");
	free(c->out);
	free(c->in);
}

int main(int argc, char **argv)
{
	static struct channel channels[CHANNELS + 1];
	pthread_t threads[2 * (CHANNELS + 1)];
	struct ncclnet_props_v7 props;
	unsigned count = CHANNELS, faults = sizeof(fault_names) / sizeof(fault_names[0]);
	void *handle = argc > 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	struct rng rng;
	int devices;

	for (unsigned i = 0; argc > 3 && i < faults; i++)
		if (!strcmp(argv[3], fault_names[i]))
			fault = (enum faults)i;
	fault_at = argc > 4 ? (unsigned)atoi(argv[4]) : 10;
	if (!handle || (argc > 3 && !fault && strcmp(argv[3], "none")) || !fault_at ||
	    fault_at >= MESSAGES - 1) {
		fprintf(stderr, "usage: trace_program PLUGIN SEED [FAULT [MESSAGE]] %s\n",
			handle ? "" : dlerror());
		return 2;
	}
	net = dlsym(handle, "ncclNetPlugin_v7");
	deadline = clock_now_ns() + HANG_NS;
	rng_seed(&rng, strtoull(argv[2], NULL, 10));
	must(net->init(said), "init");
	must(net->devices(&devices), "devices");
	for (int i = 0; i < devices; i++)
		must(net->get_properties(i, &props), "getProperties");
	count += fault == FAULT_EXTRA;
	count -= fault == FAULT_FEWER;
	for (unsigned i = 0; i < count; i++) {
		channel_plan(&channels[i], i, &rng);
		channel_open(&channels[i]);
	}
	for (unsigned i = 0; i < count; i++) {
		pthread_create(&threads[2 * i], NULL, send_main, &channels[i]);
		pthread_create(&threads[2 * i + 1], NULL, receive_main, &channels[i]);
	}
	for (unsigned i = 0; i < 2 * count; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < count && fault != FAULT_NO_CLOSE; i++)
		channel_close(&channels[i]);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets of the stand-in and the one thread that serves them. */
#include "fakerxdm.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "rxdm_state.h"

#define DOORS_MAX (4 + 2 * RXDM_GPUS)
#define GUESTS_MAX 256

struct door {
	enum rxdm_door kind;
	unsigned gpu;
	int fd;
	struct sockaddr_un addr;
};

struct guest {
	int fd;
	const struct door *door;
	uint8_t in[WIRE_RXDM_HEAD + WIRE_RXDM_BODY_MAX];
	size_t got;
	int asked, registered;
	int64_t due_ns; /* when its answer may leave */
};

struct fakerxdm {
	struct fakerxdm_opts opts;
	struct door doors[DOORS_MAX];
	unsigned ndoors;
	struct guest guests[GUESTS_MAX];
	unsigned nguests, nclients;
	pthread_t thread;
	int started, stop_fd;
	pthread_mutex_t lock; /* state, and mode and slow_ms of opts */
	struct rxdm_state state;
};

static int listen_at(struct fakerxdm *rxdm, enum rxdm_door kind, unsigned gpu, const char *name)
{
	struct door *door = &rxdm->doors[rxdm->ndoors];
	socklen_t len;
	int put;

	*door = (struct door){.kind = kind, .gpu = gpu, .addr = {.sun_family = AF_UNIX}};
	put = snprintf(door->addr.sun_path, sizeof(door->addr.sun_path), "%s/%s", rxdm->opts.prefix,
		       name);
	if (put < 0 || (size_t)put >= sizeof(door->addr.sun_path)) {
		fprintf(stderr, "fakerxdm: %s is too long for sockets\n", rxdm->opts.prefix);
		return -1;
	}
	door->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (door->fd >= 0)
		rxdm->ndoors++;
	unlink(door->addr.sun_path);
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)put);
	if (door->fd < 0 || bind(door->fd, (struct sockaddr *)&door->addr, len) ||
	    listen(door->fd, 128)) {
		fprintf(stderr, "fakerxdm: cannot listen at %s: %s\n", door->addr.sun_path,
			strerror(errno));
		return -1;
	}
	return 0;
}

static int open_doors(struct fakerxdm *rxdm)
{
	char name[64], pci[PCI_TEXT_MAX];

	if (listen_at(rxdm, RXDM_INSTALL, 0, "rx_rule_manager") ||
	    listen_at(rxdm, RXDM_UNINSTALL, 0, "rx_rule_uninstall") ||
	    listen_at(rxdm, RXDM_QUEUES_OF, 0, "queue_ids_by_gpu") ||
	    listen_at(rxdm, RXDM_REGISTRY, 0, "rxdm_application_registry"))
		return -1;
	for (unsigned i = 0; i < rxdm->state.ngpus; i++) {
		pci_format(rxdm->state.gpus[i].pci, pci);
		snprintf(name, sizeof(name), "get_gpu_fd_%s", pci);
		if (listen_at(rxdm, RXDM_FD, i, name))
			return -1;
		snprintf(name, sizeof(name), "get_gpu_metadata_%s", pci);
		if (listen_at(rxdm, RXDM_MEMORY, i, name))
			return -1;
	}
	return 0;
}

static void leave(struct fakerxdm *rxdm, struct guest *guest)
{
	int last = guest->registered && !--rxdm->nclients;

	close(guest->fd);
	*guest = rxdm->guests[--rxdm->nguests];
	if (last && rxdm->opts.last_left)
		rxdm->opts.last_left(rxdm->opts.arg);
}

static void enter(struct fakerxdm *rxdm, const struct door *door)
{
	int fd = accept4(door->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	if (rxdm->nguests == GUESTS_MAX) {
		close(fd);
		return;
	}
	rxdm->guests[rxdm->nguests++] = (struct guest){.fd = fd, .door = door};
}

/* One byte, and the pool's descriptor where there is one. */
static void send_pool(struct fakerxdm *rxdm, const struct guest *guest)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	char byte = 'x';
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	int fd = rxdm->state.gpus[guest->door->gpu].pool_fd;

	if (fd >= 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		CMSG_FIRSTHDR(&msg)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&msg)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&msg)->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &fd, sizeof(fd));
	}
	if (sendmsg(guest->fd, &msg, MSG_NOSIGNAL) == 1)
		rxdm->state.counts.descriptors++;
}

/* Answers the question that guest->in holds, under the lock. 1: it is to leave. */
static int answer(struct fakerxdm *rxdm, struct guest *guest)
{
	static const uint8_t garbage[] = {0, 4, 0xff, 0xff, 0xff, 0xff};
	size_t len = guest->got - WIRE_RXDM_HEAD;
	struct wire_rxdm question = {0}, reply;
	uint8_t out[sizeof(guest->in)];
	char text[512];

	guest->asked = 0;
	guest->got = 0;
	if (rxdm->opts.mode == FAKERXDM_SILENT)
		return 0;
	if (rxdm->opts.mode == FAKERXDM_HANG_UP)
		return 1;
	if (rxdm->opts.mode == FAKERXDM_GARBAGE)
		return send(guest->fd, garbage, sizeof(garbage), MSG_NOSIGNAL), 1;
	if (wire_rxdm_decode(guest->in + WIRE_RXDM_HEAD, len, &question)) {
		rxdm_state_refuse(&rxdm->state, 3, "Invalid Argument", &reply, text, sizeof(text));
	} else if (rxdm->opts.mode == FAKERXDM_REFUSE) {
		rxdm_state_refuse(&rxdm->state, 13, "told to refuse", &reply, text, sizeof(text));
	} else if (guest->door->kind == RXDM_FD) {
		send_pool(rxdm, guest);
		return 1;
	} else {
		rxdm_state_answer(&rxdm->state, guest->door->kind, guest->door->gpu, &question,
				  &reply, text, sizeof(text));
	}
	len = wire_rxdm_encode(&reply, out, sizeof(out));
	if (send(guest->fd, out, len, MSG_NOSIGNAL) != (ssize_t)len)
		return 1;
	if (guest->door->kind == RXDM_REGISTRY && question.client && !guest->registered) {
		guest->registered = 1; /* and its connection stays */
		rxdm->nclients++;
	}
	return guest->door->kind == RXDM_INSTALL || guest->door->kind == RXDM_UNINSTALL;
}

static int answer_due(struct fakerxdm *rxdm, struct guest *guest)
{
	int gone;

	pthread_mutex_lock(&rxdm->lock);
	gone = answer(rxdm, guest);
	if (rxdm->opts.stats)
		rxdm_state_write(&rxdm->state, rxdm->opts.stats);
	pthread_mutex_unlock(&rxdm->lock);
	return gone;
}

/* Whether the result of a recv() tells that the connection has ended. */
static int is_end(ssize_t got)
{
	return !got || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/* What the guest says; 1: it is to leave. */
static int hear(struct fakerxdm *rxdm, struct guest *guest)
{
	size_t want = WIRE_RXDM_HEAD;
	ssize_t got;

	if (guest->asked) {
		char byte;

		return is_end(recv(guest->fd, &byte, 1, MSG_PEEK)); /* one question at a time */
	}
	if (guest->got >= WIRE_RXDM_HEAD)
		want += wire_rxdm_length(guest->in);
	if (want > sizeof(guest->in))
		return 1;
	got = recv(guest->fd, guest->in + guest->got, want - guest->got, 0);
	if (got <= 0)
		return is_end(got);
	guest->got += (size_t)got;
	if (guest->got < WIRE_RXDM_HEAD ||
	    guest->got < WIRE_RXDM_HEAD + wire_rxdm_length(guest->in))
		return 0;
	guest->asked = 1;
	pthread_mutex_lock(&rxdm->lock);
	guest->due_ns = clock_now_ns() + rxdm->opts.slow_ms * CLOCK_MS_NS;
	pthread_mutex_unlock(&rxdm->lock);
	return 0;
}

/* How long poll() may wait: until the first answer is due. */
static int patience_ms(const struct fakerxdm *rxdm)
{
	int64_t now_ns = clock_now_ns(), least_ns = INT64_MAX;

	for (unsigned i = 0; i < rxdm->nguests; i++)
		if (rxdm->guests[i].asked && rxdm->guests[i].due_ns < least_ns)
			least_ns = rxdm->guests[i].due_ns;
	if (least_ns == INT64_MAX)
		return -1;
	return least_ns <= now_ns ? 0 : (int)((least_ns - now_ns) / CLOCK_MS_NS + 1);
}

static void serve(struct fakerxdm *rxdm, const struct pollfd *polls)
{
	/* From the end: who leaves is replaced by the last, who was served. */
	for (unsigned i = rxdm->nguests; i--;) {
		struct guest *guest = &rxdm->guests[i];
		int gone = 0;

		if (polls[1 + rxdm->ndoors + i].revents)
			gone = hear(rxdm, guest);
		if (!gone && guest->asked && clock_now_ns() >= guest->due_ns)
			gone = answer_due(rxdm, guest);
		if (gone)
			leave(rxdm, guest);
	}
	for (unsigned i = 0; i < rxdm->ndoors; i++)
		if (polls[1 + i].revents)
			enter(rxdm, &rxdm->doors[i]);
}

static void *run(void *arg)
{
	struct fakerxdm *rxdm = arg;
	struct pollfd polls[1 + DOORS_MAX + GUESTS_MAX];

	for (;;) {
		unsigned count = 1 + rxdm->ndoors;

		polls[0] = (struct pollfd){rxdm->stop_fd, POLLIN, 0};
		for (unsigned i = 0; i < rxdm->ndoors; i++)
			polls[1 + i] = (struct pollfd){rxdm->doors[i].fd, POLLIN, 0};
		for (unsigned i = 0; i < rxdm->nguests; i++, count++)
			polls[count] = (struct pollfd){rxdm->guests[i].fd,
						       rxdm->guests[i].asked ? 0 : POLLIN, 0};
		if (poll(polls, count, patience_ms(rxdm)) < 0 && errno != EINTR)
			return NULL;
		if (polls[0].revents)
			return NULL;
		serve(rxdm, polls);
	}
}

int fakerxdm_start(const struct fakerxdm_opts *opts, struct fakerxdm **out)
{
	struct fakerxdm *rxdm = calloc(1, sizeof(*rxdm));
	const char *topo = opts->topo ? opts->topo : FAKERXDM_A3VM;

	if (!rxdm)
		return -1;
	rxdm->opts = *opts;
	rxdm->state.max_rules = opts->max_rules;
	pthread_mutex_init(&rxdm->lock, NULL);
	rxdm->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (rxdm_state_parse(&rxdm->state, topo)) {
		fprintf(stderr, "fakerxdm: malformed table of NICs: %s\n", topo);
		goto failed;
	}
	if (mkdir(opts->prefix, 0755) && errno != EEXIST) {
		fprintf(stderr, "fakerxdm: cannot make %s: %s\n", opts->prefix, strerror(errno));
		goto failed;
	}
	if (rxdm->stop_fd < 0 ||
	    rxdm_pools_open(&rxdm->state, opts->cuda,
			    opts->pool_bytes ? opts->pool_bytes : FAKERXDM_POOL_BYTES) ||
	    open_doors(rxdm) || pthread_create(&rxdm->thread, NULL, run, rxdm))
		goto failed;
	rxdm->started = 1;
	*out = rxdm;
	return 0;
failed:
	fakerxdm_stop(rxdm);
	return -1;
}

void fakerxdm_stop(struct fakerxdm *rxdm)
{
	uint64_t one = 1;

	if (!rxdm)
		return;
	if (rxdm->started && write(rxdm->stop_fd, &one, sizeof(one)) == sizeof(one))
		pthread_join(rxdm->thread, NULL);
	for (unsigned i = 0; i < rxdm->nguests; i++)
		close(rxdm->guests[i].fd);
	for (unsigned i = 0; i < rxdm->ndoors; i++) {
		close(rxdm->doors[i].fd);
		unlink(rxdm->doors[i].addr.sun_path);
	}
	rxdm_pools_close(&rxdm->state);
	if (rxdm->stop_fd >= 0)
		close(rxdm->stop_fd);
	pthread_mutex_destroy(&rxdm->lock);
	free(rxdm);
}

void fakerxdm_mode_set(struct fakerxdm *rxdm, enum fakerxdm_mode mode, unsigned slow_ms)
{
	pthread_mutex_lock(&rxdm->lock);
	rxdm->opts.mode = mode;
	rxdm->opts.slow_ms = slow_ms;
	pthread_mutex_unlock(&rxdm->lock);
}

unsigned fakerxdm_rules(struct fakerxdm *rxdm, struct fakerxdm_rule *out, unsigned max)
{
	unsigned count;

	pthread_mutex_lock(&rxdm->lock);
	count = rxdm->state.nrules;
	memcpy(out, rxdm->state.rules, (count < max ? count : max) * sizeof(*out));
	pthread_mutex_unlock(&rxdm->lock);
	return count;
}

void fakerxdm_counts(struct fakerxdm *rxdm, struct fakerxdm_counts *out)
{
	pthread_mutex_lock(&rxdm->lock);
	*out = rxdm->state.counts;
	pthread_mutex_unlock(&rxdm->lock);
}

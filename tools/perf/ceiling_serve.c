/* SPDX-License-Identifier: Apache-2.0 */
/* The server's side of --ceiling. */
#include "ceiling_serve.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "perf_meter.h"
#include "sys/addr.h"
#include "sys/crypto.h"

#define LISTENERS_MAX 16
#define ACCEPT_NS (10 * CLOCK_S_NS)
#define IDLE_SECONDS 5 /* time limit for a client that arms and then moves nothing */

struct ceiling_serve {
	struct ceiling_end end;
	enum ceiling_ping ping;
	uint8_t secret[CEILING_SECRET_BYTES];
	int listeners[LISTENERS_MAX];
	unsigned nlisteners;
	pthread_t acceptor;
	int accepting; /* the acceptor must be joined */
	_Atomic int stop;
	unsigned accepted; /* written by the acceptor, read after it was joined */
	uint64_t cpu_ns;
	pthread_mutex_t lock; /* guards what follows; lanes touch buffers between arm and idle */
	pthread_cond_t changed;
	unsigned busy;	     /* lanes that have not finished the armed window */
	uint64_t generation; /* of arms */
	int closing;
	struct lane_arg {
		struct ceiling_serve *serve;
		struct ceiling_lane *lane;
	} args[CEILING_LANES_MAX];
};

static int move_window(struct ceiling_lane *lane)
{
	uint8_t byte = 0;

	if (lane->sends) /* one byte requests a window */
		return ceiling_receive(lane->fd, &byte, 1) || ceiling_lane_send(lane);
	return ceiling_lane_receive(lane);
}

/* Waits for the next arm. Returns 0, or -1 when closing. */
static int wait_armed(struct ceiling_serve *serve, uint64_t *seen)
{
	int closing;

	pthread_mutex_lock(&serve->lock);
	while (serve->generation == *seen && !serve->closing)
		pthread_cond_wait(&serve->changed, &serve->lock);
	*seen = serve->generation;
	closing = serve->closing;
	pthread_mutex_unlock(&serve->lock);
	return closing ? -1 : 0;
}

static void set_idle(struct ceiling_serve *serve)
{
	pthread_mutex_lock(&serve->lock);
	serve->busy--;
	pthread_cond_broadcast(&serve->changed);
	pthread_mutex_unlock(&serve->lock);
}

/* Serves window after window, until the client closes. */
static void *ceiling_serve_lane_main(void *arg)
{
	struct lane_arg *a = arg;
	uint64_t seen = 0;
	uint8_t byte = 0;
	int rc;

	if (a->serve->ping) {
		ceiling_ping_answer(a->lane->fd, a->lane->share, a->lane->bytes, a->serve->ping);
		return NULL;
	}
	do {
		rc = wait_armed(a->serve, &seen);
		if (rc)
			break;
		rc = move_window(a->lane);
		set_idle(a->serve);
		/* one byte confirms that the whole window has arrived */
		if (!rc && !a->lane->sends)
			rc = ceiling_send(a->lane->fd, &byte, 1);
	} while (!rc);
	return NULL;
}

/* Accepts a connection that knows the secret and closes any other. */
static void admit(struct ceiling_serve *serve, int fd)
{
	struct ceiling_hello hello;
	uint32_t index;

	ceiling_timeout(fd, 2);
	if (ceiling_receive(fd, &hello, sizeof(hello)) ||
	    !sys_equal_secret(hello.secret, serve->secret, CEILING_SECRET_BYTES)) {
		close(fd);
		return;
	}
	index = le32toh(hello.lane);
	if (index >= serve->end.count || serve->end.lanes[index].fd >= 0) {
		close(fd);
		return;
	}
	ceiling_timeout(fd, 0);
	serve->end.lanes[index].fd = fd;
	serve->accepted++;
}

static void *acceptor_main(void *arg)
{
	struct ceiling_serve *serve = arg;
	int64_t limit = clock_now_ns() + ACCEPT_NS;
	struct pollfd fds[LISTENERS_MAX];

	for (unsigned i = 0; i < serve->nlisteners; i++)
		fds[i] = (struct pollfd){.fd = serve->listeners[i], .events = POLLIN};
	while (serve->accepted < serve->end.count && clock_now_ns() < limit && !serve->stop) {
		poll(fds, serve->nlisteners, 100);
		for (unsigned i = 0; i < serve->nlisteners; i++) {
			int fd = -1;

			if (fds[i].revents)
				fd = accept4(fds[i].fd, NULL, NULL, SOCK_CLOEXEC);
			if (fd < 0)
				continue;
			ceiling_options(fd);
			admit(serve, fd);
		}
	}
	return NULL;
}

static int listen_at(const struct sockaddr_storage *address, uint16_t *out_port)
{
	struct sockaddr_storage addr = *address;
	socklen_t len = sys_addr_len(&addr);
	int fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	sys_addr_set_port(&addr, 0);
	if (bind(fd, (struct sockaddr *)&addr, len) || listen(fd, CEILING_LANES_MAX) ||
	    getsockname(fd, (struct sockaddr *)&addr, &len)) {
		int saved = errno;

		close(fd);
		errno = saved;
		return -1;
	}
	*out_port = sys_addr_port(&addr);
	return fd;
}

int ceiling_serve_open(unsigned sockets, unsigned directions, size_t working_set, size_t ring,
		       enum ceiling_ping ping, const uint8_t secret[CEILING_SECRET_BYTES],
		       const struct sockaddr_storage *addresses, unsigned count, uint16_t *ports,
		       struct ceiling_serve **out_serve)
{
	struct ceiling_serve *serve = calloc(1, sizeof(*serve));

	if (!serve)
		return -1;
	serve->ping = ping;
	memcpy(serve->secret, secret, CEILING_SECRET_BYTES);
	pthread_mutex_init(&serve->lock, NULL);
	pthread_cond_init(&serve->changed, NULL);
	if (ceiling_end_init(&serve->end, sockets, directions, working_set, ring, 1))
		goto fail;
	for (unsigned i = 0; i < count && i < LISTENERS_MAX; i++) {
		serve->listeners[i] = listen_at(&addresses[i], &ports[i]);
		if (serve->listeners[i] < 0)
			goto fail;
		serve->nlisteners++;
	}
	errno = pthread_create(&serve->acceptor, NULL, acceptor_main, serve);
	if (errno)
		goto fail;
	serve->accepting = 1;
	*out_serve = serve;
	return 0;
fail:
	ceiling_serve_close(serve);
	return -1;
}

/* Waits until every lane has finished the last window. Returns 0, or -1 if one does not or has
 * gone. */
static int wait_idle(struct ceiling_serve *serve)
{
	struct timespec limit;
	int rc = 0;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += IDLE_SECONDS;
	pthread_mutex_lock(&serve->lock);
	while (serve->busy && !rc)
		rc = pthread_cond_timedwait(&serve->changed, &serve->lock, &limit);
	pthread_mutex_unlock(&serve->lock);
	return rc ? -1 : 0;
}

static int start_lanes(struct ceiling_serve *serve)
{
	pthread_join(serve->acceptor, NULL);
	serve->accepting = 0;
	if (serve->accepted < serve->end.count)
		return -1;
	for (unsigned i = 0; i < serve->end.count; i++) {
		struct ceiling_lane *lane = &serve->end.lanes[i];

		serve->args[i] = (struct lane_arg){serve, lane};
		if (pthread_create(&lane->thread, NULL, ceiling_serve_lane_main, &serve->args[i]))
			return -1;
		lane->running = 1;
	}
	return 0;
}

int ceiling_serve_arm(struct ceiling_serve *serve, uint64_t seed, const struct perf_leave *leave)
{
	if (serve->accepting && start_lanes(serve))
		return -1;
	if (serve->ping)
		return 0;
	if (wait_idle(serve))
		return -1;
	if (ceiling_end_fill(&serve->end, 1, seed, leave) != TCPX_OK)
		return -1;
	pthread_mutex_lock(&serve->lock);
	serve->busy = serve->end.count;
	serve->generation++;
	pthread_cond_broadcast(&serve->changed);
	pthread_mutex_unlock(&serve->lock);
	serve->cpu_ns = perf_cpu_ns();
	return 0;
}

uint64_t ceiling_serve_end(struct ceiling_serve *serve)
{
	return perf_cpu_ns() - serve->cpu_ns;
}

void ceiling_serve_close(struct ceiling_serve *serve)
{
	int saved = errno;

	if (!serve)
		return;
	serve->stop = 1;
	if (serve->accepting)
		pthread_join(serve->acceptor, NULL);
	pthread_mutex_lock(&serve->lock);
	serve->closing = 1;
	pthread_cond_broadcast(&serve->changed);
	pthread_mutex_unlock(&serve->lock);
	for (unsigned i = 0; i < serve->end.count; i++) {
		struct ceiling_lane *lane = &serve->end.lanes[i];

		if (lane->fd >= 0)
			shutdown(lane->fd, SHUT_RDWR);
		if (lane->running)
			pthread_join(lane->thread, NULL);
	}
	for (unsigned i = 0; i < serve->nlisteners; i++)
		close(serve->listeners[i]);
	ceiling_end_fini(&serve->end);
	pthread_cond_destroy(&serve->changed);
	pthread_mutex_destroy(&serve->lock);
	free(serve);
	errno = saved;
}

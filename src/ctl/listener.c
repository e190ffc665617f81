/* SPDX-License-Identifier: Apache-2.0 */
/* Accepts connections and limits those that are not authenticated yet. */
#include "ctl/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "sys/addr.h"
#include "sys/fd.h"
#include "sys/sock.h"

#define BACKLOG 4096
#define ACCEPT_BATCH 16		/* most accepts per event, so that other sockets get their turn */
#define PREAUTH_MAX 128		/* most connections that are not authenticated yet */
#define PREAUTH_SOURCE_MAX 8	/* most connections of one source without a proven dial */
#define PREAUTH_LOOPBACK_MAX 64 /* PREAUTH_SOURCE_MAX for loopback */
#define PREAUTH_NS (2 * CLOCK_S_NS) /* time limit from accept to the proof */
/* for this time after its accept, a connection with a proven dial is not closed to make room,
 * unless it was refused */
#define PROVEN_NS (CLOCK_S_NS / 2)
#define RETRY_NS (CLOCK_S_NS / 10) /* pause after accept failed for lack of memory or descriptors */
/* Rate limit of a source, because each connection costs an HMAC: each connection is charged
 * DIAL_NS, and a source may be DIALS_AHEAD connections ahead. That allows 512 connections a second,
 * and 2048 at once (a peer has at most 65). The rate for loopback is LOOPBACK_TIMES times as
 * high. */
#define DIAL_NS (CLOCK_S_NS / 512)
#define DIALS_AHEAD 2048
#define LOOPBACK_TIMES 8

/* ---- limits ---- */

static int is_unproven(const struct ctl_preauth *s)
{
	return s->state == CTL_READ_DIAL;
}

/* Returns the oldest connection without a proven dial: of *source, or, if `source` is NULL, of the
 * source that has most such connections. Returns NULL if there is none. *out_count is the number of
 * such connections of that source. */
static struct ctl_preauth *oldest_unproven(struct ctl_listener *listener, const uint64_t *source,
					   unsigned *out_count)
{
	struct ctl_preauth *best = NULL;
	struct list_node *pos, *other;

	*out_count = 0;
	LIST_FOREACH(pos, &listener->preauths) {
		struct ctl_preauth *s = LIST_ENTRY(pos, struct ctl_preauth, node);
		unsigned same = 0;

		if (!is_unproven(s) || (source && s->source != *source))
			continue;
		LIST_FOREACH(other, &listener->preauths) {
			struct ctl_preauth *o = LIST_ENTRY(other, struct ctl_preauth, node);

			same += is_unproven(o) && o->source == s->source;
		}
		if (same > *out_count) {
			*out_count = same;
			best = s;
		}
		if (source)
			break;
	}
	return best;
}

int ctl_listener_room(struct ctl_listener *listener)
{
	struct ctl_preauth *victim;
	unsigned of_source;
	int64_t now_ns;

	if (listener->npreauths < PREAUTH_MAX)
		return 1;
	victim = oldest_unproven(listener, NULL, &of_source);
	if (!victim) {
		victim = LIST_ENTRY(listener->preauths.next, struct ctl_preauth, node);
		now_ns = clock_now_ns();
		if (victim->state != CTL_LINGER && now_ns - victim->since_ns < PROVEN_NS) {
			sys_watch_set(listener->loop, &listener->watch, 0);
			sys_timer_set(listener->loop, &listener->retry,
				      victim->since_ns + PROVEN_NS);
			return 0;
		}
	}
	ctl_preauth_reject(victim, TCPX_ERR_LIMIT, "too many connections before authentication");
	return 1;
}

/* Whether the source connects more often than it may. If not, charges the connection to the source.
 * Several sources may share an entry of the table; a source that takes over an entry starts from
 * zero. */
static bool exceeds_rate(struct ctl_listener *listener, uint64_t source, int64_t now_ns,
			 int64_t cost_ns)
{
	struct ctl_dials *dials = &listener->dials[source % CTL_DIAL_SOURCES];

	if (dials->source != source || dials->paid_ns < now_ns)
		*dials = (struct ctl_dials){source, now_ns};
	if (dials->paid_ns - now_ns > DIALS_AHEAD * cost_ns)
		return true;
	dials->paid_ns += cost_ns;
	return false;
}

/* Closes a connection of a source that connects too often. A reset tells the dialler to try
 * again. */
static void reset_connection(struct ctl_listener *listener, int fd,
			     const struct sockaddr_storage *addr)
{
	char text[SYS_ADDR_TEXT];

	atomic_fetch_add_explicit(&listener->counters->preauth_rejects, 1, memory_order_relaxed);
	if (log_allow(&listener->reject_log, 5))
		LOG_INFO("closed %s: it connects more than %d times a second",
			 sys_addr_text(addr, text), (int)(CLOCK_S_NS / DIAL_NS));
	sys_sock_reset_on_close(fd);
	sys_fd_close(fd);
}

void ctl_listener_take(struct ctl_listener *listener, int fd, const struct sockaddr_storage *addr)
{
	bool loopback = sys_addr_is_loopback(addr);
	unsigned limit = loopback ? PREAUTH_LOOPBACK_MAX : PREAUTH_SOURCE_MAX;
	uint64_t source = sys_addr_source(addr);
	struct ctl_preauth *victim;
	unsigned have;

	if (exceeds_rate(listener, source, clock_now_ns(),
			 loopback ? DIAL_NS / LOOPBACK_TIMES : DIAL_NS)) {
		reset_connection(listener, fd, addr);
		return;
	}
	victim = oldest_unproven(listener, &source, &have);
	if (victim && have >= limit)
		ctl_preauth_reject(victim, TCPX_ERR_LIMIT, "too many connections of one source");
	ctl_preauth_admit(listener, fd, addr);
}

/* ---- accepting ---- */

static void pause_accept(struct ctl_listener *listener)
{
	sys_watch_set(listener->loop, &listener->watch, 0);
	sys_timer_set(listener->loop, &listener->retry, clock_now_ns() + RETRY_NS);
}

static void on_retry(struct sys_timer *timer, int64_t now_ns)
{
	struct ctl_listener *listener = LIST_ENTRY(timer, struct ctl_listener, retry);

	(void)now_ns;
	if (listener->reserve < 0)
		listener->reserve = SYS_FD_OPEN(open("/dev/null", O_RDONLY | O_CLOEXEC));
	sys_watch_set(listener->loop, &listener->watch, EPOLLIN);
}

/* Called when no descriptor is left. A connection that is never accepted would wake the loop for
 * ever. Therefore this closes the reserve, accepts the connection with the freed descriptor, resets
 * it, and opens the reserve again. */
static void shed_connection(struct ctl_listener *listener)
{
	int fd;

	if (log_allow(&listener->resource_log, 2))
		LOG_WARN("out of file descriptors: refusing connections; raise 'ulimit -n'");
	if (listener->reserve >= 0) {
		sys_fd_close(listener->reserve);
		fd = SYS_FD_OPEN(
			accept4(listener->watch.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
		if (fd >= 0) {
			atomic_fetch_add_explicit(&listener->counters->preauth_rejects, 1,
						  memory_order_relaxed);
			sys_sock_reset_on_close(fd);
			sys_fd_close(fd);
		}
		listener->reserve = SYS_FD_OPEN(open("/dev/null", O_RDONLY | O_CLOEXEC));
	}
	if (listener->reserve < 0)
		pause_accept(listener);
}

/* Handles an error of accept(). Returns 1 to call accept() again at once, and 0 to wait for the
 * loop. */
static int accept_failed(struct ctl_listener *listener, int err)
{
	switch (err) {
	case EAGAIN:
		return 0;
	case EMFILE:
	case ENFILE:
		shed_connection(listener);
		return 0;
	case ENOMEM:
	case ENOBUFS:
		if (log_allow(&listener->resource_log, 2))
			LOG_WARN("no memory to accept connections: errno %d", err);
		pause_accept(listener);
		return 0;
	case EBADF:
	case EINVAL:
	case ENOTSOCK:
	case EOPNOTSUPP:
	case EFAULT:
		LOG_ERROR("the listening socket is broken: errno %d", err);
		sys_watch_del(listener->loop, &listener->watch);
		return 0;
	default: /* an error of this connection only: accept the next one */
		return 1;
	}
}

static void on_connection(struct sys_watch *watch, uint32_t events)
{
	struct ctl_listener *listener = LIST_ENTRY(watch, struct ctl_listener, watch);

	(void)events;
	listener->busy++;
	for (int i = 0; i < ACCEPT_BATCH && !listener->closed; i++) {
		struct sockaddr_storage addr = {0};
		socklen_t len = sizeof(addr);
		int fd;

		if (!ctl_listener_room(listener))
			break;
		fd = SYS_FD_OPEN(accept4(watch->fd, (struct sockaddr *)&addr, &len,
					 SOCK_CLOEXEC | SOCK_NONBLOCK));
		if (fd >= 0)
			ctl_listener_take(listener, fd, &addr);
		else if (!accept_failed(listener, errno))
			break;
	}
	if (!--listener->busy && listener->closed)
		free(listener);
}

tcpx_status ctl_listener_open(struct sys_loop *loop, const struct sockaddr_storage *addr,
			      const char *device, uint16_t *port, const struct ctl_accept_ops *ops,
			      void *arg, struct ctl_counters *counters,
			      struct ctl_listener **out_listener)
{
	struct ctl_listener *listener = calloc(1, sizeof(*listener));
	uint16_t in_use = *port;
	tcpx_status status;
	int fd;

	if (!listener)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a listener");
	status = sys_sock_listen(addr, sys_addr_is_loopback(addr) ? NULL : device, &in_use, BACKLOG,
				 &fd);
	if (status != TCPX_OK) {
		free(listener);
		return status;
	}
	/* Wakes the loop only when the dial of a connection has arrived, or after about 1 s, so
	 * that honest diallers in a burst do not count as unproven. */
	sys_sock_defer_accept(fd, 1);
	*listener = (struct ctl_listener){
		.loop = loop,
		.ops = ops,
		.arg = arg,
		.counters = counters,
		.watch = {.fd = fd, .events = EPOLLIN, .fn = on_connection},
		.retry = {.fn = on_retry},
		.preauth_ns = PREAUTH_NS,
	};
	list_init(&listener->preauths);
	listener->reserve = SYS_FD_OPEN(open("/dev/null", O_RDONLY | O_CLOEXEC));
	status = sys_watch_add(loop, &listener->watch);
	if (status != TCPX_OK) {
		sys_fd_close(fd);
		if (listener->reserve >= 0)
			sys_fd_close(listener->reserve);
		free(listener);
		return status;
	}
	*port = in_use;
	*out_listener = listener;
	return TCPX_OK;
}

void ctl_listener_close(struct ctl_listener *listener)
{
	struct list_node *pos, *tmp;

	if (!listener || listener->closed)
		return;
	listener->closed = 1;
	sys_watch_del(listener->loop, &listener->watch);
	sys_timer_del(listener->loop, &listener->retry);
	LIST_FOREACH_SAFE(pos, tmp, &listener->preauths)
		ctl_preauth_drop(LIST_ENTRY(pos, struct ctl_preauth, node), 1);
	sys_fd_close(listener->watch.fd);
	if (listener->reserve >= 0)
		sys_fd_close(listener->reserve);
	if (!listener->busy)
		free(listener);
}

void ctl_listener_set_preauth(struct ctl_listener *listener, int64_t deadline_ns)
{
	listener->preauth_ns = deadline_ns;
}

unsigned ctl_listener_preauths(const struct ctl_listener *listener)
{
	return listener->npreauths;
}

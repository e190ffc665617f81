/* SPDX-License-Identifier: Apache-2.0 */
/* The listening end of same-host channels: accepts connections on an abstract unix address and
 * reads a hello from each within a limited time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "net/local/local_priv.h"
#include "sys/crypto.h"
#include "sys/fd.h"

#define LISTEN_PENDING 64	   /* maximum number of connections without a complete hello */
#define LISTEN_NS (2 * CLOCK_S_NS) /* time that a connection has to send its complete hello */
/* pause after accept() failed for lack of descriptors or memory */
#define LISTEN_PAUSE_NS (100 * CLOCK_MS_NS)
#define LISTEN_BATCH 16 /* maximum number of connections accepted in one round of the loop */

struct local_listener {
	struct transport_listener base;
	struct sys_loop *loop;
	struct sys_watch watch;
	struct sys_timer timer;
	const struct transport_listen_ops *ops;
	void *arg;
	struct list_node pending; /* list of struct guest, oldest first */
	unsigned npending;
	int64_t resume_ns; /* time until which accepting is paused; 0 if it is not paused */
	struct log_limit limit;
};

/* A connection that has not sent its complete hello yet. */
struct guest {
	struct list_node node;
	struct sys_watch watch;
	struct local_listener *listener;
	int64_t deadline_ns;
	struct local_hello hello;
	size_t have; /* number of bytes of `hello` that have arrived */
	int memfd;   /* the descriptor that came with the hello; -1 if none has come yet */
	pid_t pid;   /* pid of the connecting process */
};

/* Sets the timer to the end of the pause or to the deadline of the oldest guest, whichever is
 * earlier. */
static void timer_update(struct local_listener *listener)
{
	int64_t due = listener->resume_ns;

	if (!list_empty(&listener->pending)) {
		struct guest *oldest = LIST_ENTRY(listener->pending.next, struct guest, node);

		if (!due || oldest->deadline_ns < due)
			due = oldest->deadline_ns;
	}
	if (due)
		sys_timer_set(listener->loop, &listener->timer, due);
	else
		sys_timer_del(listener->loop, &listener->timer);
}

/* Removes the guest from the listener and the loop, but keeps its struct and descriptors. */
static void guest_release(struct guest *guest)
{
	struct local_listener *listener = guest->listener;

	sys_watch_del(listener->loop, &guest->watch);
	list_remove(&guest->node);
	listener->npending--;
	timer_update(listener);
}

static void guest_close(struct guest *guest)
{
	guest_release(guest);
	if (guest->memfd >= 0)
		sys_fd_close(guest->memfd);
	sys_fd_close(guest->watch.fd);
	explicit_bzero(guest, sizeof(*guest));
	free(guest);
}

/* Closes a guest whose hello has not come or is refused, and logs the reason `why`. */
static void guest_drop(struct guest *guest, const char *why)
{
	if (log_allow(&guest->listener->limit, 5))
		LOG_WARN("local: connection dropped: %s", why);
	guest_close(guest);
}

/* Reads a part of the hello. Returns 1 if the hello is complete, 0 if bytes are missing, or -1 if
 * the connection has ended. */
static int guest_read(struct guest *guest)
{
	ssize_t n = local_pass_recv(guest->watch.fd, (char *)&guest->hello + guest->have,
				    sizeof(guest->hello) - guest->have, &guest->memfd);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (n == 0)
		return -1;
	guest->have += (size_t)n;
	return guest->have == sizeof(guest->hello);
}

/* Checks the complete hello of a channel. Returns what is wrong with it, or NULL if it is valid. */
static const char *hello_fault(const struct guest *guest)
{
	if (guest->hello.magic != LOCAL_MAGIC)
		return "it sent something else than a tcpx hello";
	if (guest->hello.version != LOCAL_VERSION)
		return "its hello is of another version";
	if (guest->memfd < 0)
		return "its hello passed no memory";
	return NULL;
}

/* Sends the answer to the dialler. The result of the send does not matter: a new socket has room
 * for one byte, and a dialler that has closed its end needs no answer. */
static void send_answer(int fd, char byte)
{
	(void)!send(fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Passes the descriptor that the guest asks for, if this process offers it, and closes the
 * guest. */
static void guest_pass_descriptor(struct guest *guest)
{
	struct local_listener *listener = guest->listener;
	int fd = -1;

	if (listener->ops->asked && guest->hello.version == LOCAL_VERSION)
		fd = listener->ops->asked(listener->arg, guest->hello.nonce,
					  guest->hello.ring_bytes);
	if (fd >= 0 && local_pass(guest->watch.fd, "", 1, fd) != TCPX_OK)
		LOG_DEBUG("local: cannot pass a descriptor: %s", error_last()->what);
	guest_close(guest);
}

/* Makes a channel from a guest whose hello is complete and passes it to ops->arrived. Drops the
 * guest if that is not possible. ops->arrived may close the listener, so the listener is not
 * accessed after that call. */
static void guest_arrive(struct guest *guest)
{
	struct local_listener *listener = guest->listener;
	const struct transport_listen_ops *ops = listener->ops;
	void *arg = listener->arg;
	const char *fault = hello_fault(guest);
	struct net_chan *chan = NULL;
	struct local_map *map = NULL;

	if (!fault && !ops->expected(arg, guest->hello.nonce))
		fault = "it is not expected";
	if (!fault && local_map_import(guest->memfd, guest->hello.ring_bytes, &map))
		fault = "its hello passed memory of a wrong shape";
	if (!fault && local_chan_create(guest->watch.fd, map, guest->hello.ring_bytes, 1, &chan)) {
		local_map_put(map);
		fault = "out of memory";
	}
	if (fault) {
		guest_drop(guest, fault);
		return;
	}
	guest_release(guest);
	/* The answer must come before any bell, and the channel's owner may send bells on this
	 * socket. */
	if (guest->hello.flags & LOCAL_WANTS_ANSWER)
		send_answer(guest->watch.fd, LOCAL_ANSWER_TAKEN);
	local_share_accept((struct local_chan *)chan, guest->memfd, &guest->hello);
	sys_fd_close(guest->memfd);
	if (!ops->arrived(arg, guest->hello.nonce, guest->hello.channel, guest->hello.epoch, chan))
		chan->ops->close(chan);
	explicit_bzero(guest, sizeof(*guest));
	free(guest);
}

static void guest_ready(struct sys_watch *watch, uint32_t events)
{
	struct guest *guest = LIST_ENTRY(watch, struct guest, watch);
	int rc = guest_read(guest);

	(void)events;
	if (rc > 0 && guest->hello.magic == LOCAL_FETCH_MAGIC)
		guest_pass_descriptor(guest);
	else if (rc > 0)
		guest_arrive(guest);
	else if (rc < 0)
		guest_drop(guest, "it ended before its hello was complete");
}

/* Returns the oldest guest of the process that has the most guests. */
static struct guest *guest_of_greediest(struct local_listener *listener)
{
	const struct list_node *pos, *other;
	struct guest *best = NULL;
	unsigned most = 0;

	LIST_FOREACH(pos, &listener->pending) {
		struct guest *guest = LIST_ENTRY(pos, struct guest, node);
		unsigned same = 0;

		LIST_FOREACH(other, &listener->pending)
			same += LIST_ENTRY(other, struct guest, node)->pid == guest->pid;
		if (same > most) {
			most = same;
			best = guest;
		}
	}
	return best;
}

/* Makes a guest from an accepted connection. If there are then more than LISTEN_PENDING guests,
 * drops the oldest guest of the process that has the most. */
static void guest_add(struct local_listener *listener, int fd)
{
	struct guest *guest = calloc(1, sizeof(*guest));
	struct ucred peer = {0};
	socklen_t len = sizeof(peer);

	if (!guest) {
		sys_fd_close(fd);
		return;
	}
	guest->listener = listener;
	guest->memfd = -1;
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		guest->pid = peer.pid;
	guest->deadline_ns = clock_now_ns() + LISTEN_NS;
	guest->watch = (struct sys_watch){.fd = fd, .events = EPOLLIN, .fn = guest_ready};
	if (sys_watch_add(listener->loop, &guest->watch)) {
		sys_fd_close(fd);
		free(guest);
		return;
	}
	list_push_back(&listener->pending, &guest->node);
	if (++listener->npending > LISTEN_PENDING)
		guest_drop(guest_of_greediest(listener),
			   "too many connections of its process wait");
	timer_update(listener);
}

/* Tells the dialler that it and this process belong to different users, and closes the connection.
 * The dialler's own check may have passed, because user ids differ between user namespaces. */
static void refuse_user(struct local_listener *listener, int fd, unsigned uid)
{
	send_answer(fd, LOCAL_ANSWER_REFUSED);
	sys_fd_close(fd);
	if (log_allow(&listener->limit, 5))
		LOG_INFO("local: no shared memory with a process of uid %u, this one has uid %u",
			 uid, (unsigned)geteuid());
}

static void listener_ready(struct sys_watch *watch, uint32_t events)
{
	struct local_listener *listener = LIST_ENTRY(watch, struct local_listener, watch);

	(void)events;
	for (int i = 0; i < LISTEN_BATCH; i++) {
		int fd = SYS_FD_OPEN(accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
		unsigned uid;

		if (fd >= 0) {
			if (local_same_user(fd, &uid))
				guest_add(listener, fd);
			else
				refuse_user(listener, fd, uid);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		/* EAGAIN: no connection waits. Any other errno: descriptors or memory are short.
		 * Accepting then pauses, because the waiting connection would wake the loop again
		 * and again. */
		if (errno != EAGAIN) {
			if (log_allow(&listener->limit, 5))
				LOG_WARN("local: accept failed: errno %d", errno);
			sys_watch_set(listener->loop, watch, 0);
			listener->resume_ns = clock_now_ns() + LISTEN_PAUSE_NS;
			timer_update(listener);
		}
		return;
	}
}

static void listener_timer(struct sys_timer *timer, int64_t now_ns)
{
	struct local_listener *listener = LIST_ENTRY(timer, struct local_listener, timer);

	if (listener->resume_ns && listener->resume_ns <= now_ns) {
		listener->resume_ns = 0;
		sys_watch_set(listener->loop, &listener->watch, EPOLLIN);
	}
	while (!list_empty(&listener->pending)) {
		struct guest *guest = LIST_ENTRY(listener->pending.next, struct guest, node);

		if (guest->deadline_ns > now_ns)
			break;
		guest_drop(guest, "no hello in time");
	}
	timer_update(listener);
}

static tcpx_status listener_socket(char name[LOCAL_NAME_MAX], int *out_fd)
{
	struct sockaddr_un addr;
	uint8_t random[16];
	tcpx_status status = sys_random(random, sizeof(random));
	int err, fd, at;

	if (status)
		return status;
	at = snprintf(name, LOCAL_NAME_MAX, "tcpx-");
	for (size_t i = 0; i < sizeof(random); i++)
		at += snprintf(name + at, LOCAL_NAME_MAX - (size_t)at, "%02x", random[i]);
	fd = SYS_FD_OPEN(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return error_set(errno == EMFILE || errno == ENFILE ? TCPX_ERR_NO_DESCRIPTORS
								    : TCPX_ERR_SYSTEM,
				 errno, "local listener");
	if (bind(fd, (struct sockaddr *)&addr, local_address(name, &addr)) || listen(fd, 256)) {
		err = errno;
		sys_fd_close(fd);
		return error_set(TCPX_ERR_SYSTEM, err, "local listener @%s", name);
	}
	*out_fd = fd;
	return TCPX_OK;
}

tcpx_status local_listener_open(struct sys_loop *loop, const struct transport_listen_ops *ops,
				void *arg, char name[LOCAL_NAME_MAX],
				struct transport_listener **out_listener)
{
	struct local_listener *listener = calloc(1, sizeof(*listener));
	tcpx_status status;
	int fd = -1;

	if (!listener)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "local listener");
	listener->base.ops = &transport_local;
	listener->loop = loop;
	listener->ops = ops;
	listener->arg = arg;
	listener->timer.fn = listener_timer;
	list_init(&listener->timer.node);
	list_init(&listener->pending);
	status = listener_socket(name, &fd);
	if (status)
		goto out;
	listener->watch = (struct sys_watch){.fd = fd, .events = EPOLLIN, .fn = listener_ready};
	status = sys_watch_add(loop, &listener->watch);
	if (status)
		goto out;
	*out_listener = &listener->base;
	return TCPX_OK;
out:
	if (fd >= 0)
		sys_fd_close(fd);
	free(listener);
	return status;
}

void local_listener_close(struct transport_listener *base)
{
	struct local_listener *listener = (struct local_listener *)base;

	if (!listener)
		return;
	while (!list_empty(&listener->pending))
		guest_drop(LIST_ENTRY(listener->pending.next, struct guest, node),
			   "the listener closes");
	sys_timer_del(listener->loop, &listener->timer);
	sys_watch_del(listener->loop, &listener->watch);
	sys_fd_close(listener->watch.fd);
	free(listener);
}

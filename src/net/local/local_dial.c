/* SPDX-License-Identifier: Apache-2.0 */
/* The dialling end of a same-host channel: connects to the peer's listener and passes it the shared
 * memory. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "net/local/local_priv.h"
#include "sys/fd.h"

#define ANSWER_NS (5 * CLOCK_S_NS) /* how long the listener's answer may take */

/* A dialled channel whose listener has not answered yet. */
struct local_dial {
	struct transport_dial base;
	struct sys_watch watch;
	struct sys_timer timer;
	struct sys_loop *loop;
	struct net_chan *chan;
	transport_dialled_fn dialled;
	void *arg;
};

bool local_same_user(int fd, unsigned *out_uid)
{
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		peer.uid = (uid_t)-1;
	*out_uid = peer.uid;
	return peer.uid == geteuid();
}

unsigned local_address(const char *name, struct sockaddr_un *out_addr)
{
	size_t len = strnlen(name, LOCAL_NAME_MAX);

	memset(out_addr, 0, sizeof(*out_addr));
	out_addr->sun_family = AF_UNIX;
	memcpy(out_addr->sun_path + 1, name, len); /* a leading NUL byte: an abstract address */
	return (unsigned)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

/* Sets and returns the error for a failed connection to the listener called `name`. `err` is the
 * errno of the connection. */
static tcpx_status dial_error(int err, const char *name)
{
	tcpx_status status = TCPX_ERR_SYSTEM;

	if (err == ECONNREFUSED || err == ENOENT)
		status = TCPX_ERR_UNREACHABLE; /* no listener has this name in this namespace */
	else if (err == EACCES || err == EPERM)
		status = TCPX_ERR_REFUSED;
	else if (err == EAGAIN)
		status = TCPX_ERR_AGAIN;
	else if (err == EMFILE || err == ENFILE)
		status = TCPX_ERR_NO_DESCRIPTORS;
	return error_set(status, err, "connecting to local address @%.*s", LOCAL_NAME_MAX, name);
}

/* Sets and returns the error that says that the peer's process belongs to another user. */
static tcpx_status other_user_error(unsigned uid)
{
	error_set(TCPX_ERR_REFUSED, 0,
		  "no shared memory between processes of two users: uid %u here, uid %u there",
		  (unsigned)geteuid(), uid);
	return error_next("run both as the same user, or use tcp");
}

tcpx_status local_dial_socket(const char *name, int *out_fd)
{
	struct sockaddr_un addr;
	socklen_t len = local_address(name, &addr);
	int err, fd = SYS_FD_OPEN(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	unsigned uid;

	if (fd < 0)
		return dial_error(errno, name);
	if (connect(fd, (struct sockaddr *)&addr, len)) {
		err = errno;
		sys_fd_close(fd);
		return dial_error(err, name);
	}
	if (!local_same_user(fd, &uid)) { /* checked before the nonce is sent */
		sys_fd_close(fd);
		return other_user_error(uid);
	}
	*out_fd = fd;
	return TCPX_OK;
}

/* Connects to the listener, makes the shared memory and the channel, and sends the hello. */
static tcpx_status dial_chan(const char *name, const uint8_t nonce[LOCAL_NONCE_BYTES],
			     uint16_t channel, uint16_t flags, uint32_t epoch, size_t ring_bytes,
			     struct net_chan **out_chan)
{
	struct local_hello hello = {.magic = LOCAL_MAGIC,
				    .version = LOCAL_VERSION,
				    .epoch = epoch,
				    .ring_bytes = ring_bytes,
				    .channel = channel,
				    .flags = flags};
	struct local_map *map = NULL;
	struct net_chan *chan = NULL;
	int fd = -1, memfd = -1;
	tcpx_status status;

	if (!local_ring_bytes_ok(ring_bytes))
		return error_set(TCPX_ERR_INVALID, 0, "ring of %zu bytes", ring_bytes);
	memcpy(hello.nonce, nonce, sizeof(hello.nonce));
	status = local_dial_socket(name, &fd);
	if (status)
		return status;
	status = local_map_create(ring_bytes, &memfd, &map);
	if (status)
		goto out_fd;
	status = local_chan_create(fd, map, ring_bytes, 0, &chan);
	if (status)
		goto out_map;
	local_share_dial((struct local_chan *)chan, memfd, &hello);
	status = local_pass(fd, &hello, sizeof(hello), memfd);
	sys_fd_close(memfd);
	if (status)
		chan->ops->close(chan); /* closes fd and unmaps the memory too */
	else
		*out_chan = chan;
	return status;
out_map:
	sys_fd_close(memfd);
	local_map_put(map);
out_fd:
	sys_fd_close(fd);
	return status;
}

tcpx_status local_dial(const char *name, const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
		       uint32_t epoch, size_t ring_bytes, struct net_chan **out_chan)
{
	return dial_chan(name, nonce, channel, 0, epoch, ring_bytes, out_chan);
}

static void dial_free(struct local_dial *dial)
{
	sys_timer_del(dial->loop, &dial->timer);
	sys_watch_del(dial->loop, &dial->watch);
	free(dial);
}

void local_dial_cancel(struct transport_dial *base)
{
	struct local_dial *dial = (struct local_dial *)base;
	struct net_chan *chan = dial->chan;

	dial_free(dial);
	chan->ops->close(chan);
}

/* Frees the dial and calls its `dialled`: with the channel if `status` is OK, else with NULL after
 * closing the channel. */
static void dial_end(struct local_dial *dial, tcpx_status status)
{
	transport_dialled_fn dialled = dial->dialled;
	struct net_chan *chan = dial->chan;
	void *arg = dial->arg;

	if (status == TCPX_OK)
		dial_free(dial);
	else
		local_dial_cancel(&dial->base);
	dialled(arg, status, status == TCPX_OK ? chan : NULL);
}

/* Ends the dial by the listener's answer. Called when the socket is readable: its first byte is the
 * answer; later bytes are bells. */
static void dial_answered(struct sys_watch *watch, uint32_t events)
{
	struct local_dial *dial = LIST_ENTRY(watch, struct local_dial, watch);
	char answer = 0;
	ssize_t n = recv(watch->fd, &answer, 1, MSG_DONTWAIT);
	unsigned uid;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 1 && answer == LOCAL_ANSWER_TAKEN) {
		dial_end(dial, TCPX_OK);
	} else if (n == 1 && answer == LOCAL_ANSWER_REFUSED) {
		(void)local_same_user(watch->fd, &uid);
		dial_end(dial, other_user_error(uid));
	} else {
		dial_end(dial, error_set(TCPX_ERR_PEER_CLOSED, n < 0 ? errno : 0,
					 "the peer did not accept the shared memory"));
	}
}

static void dial_late(struct sys_timer *timer, int64_t now_ns)
{
	struct local_dial *dial = LIST_ENTRY(timer, struct local_dial, timer);

	(void)now_ns;
	dial_end(dial, error_set(TCPX_ERR_AGAIN, 0, "the peer accepted no shared memory in time"));
}

tcpx_status local_dial_start(struct sys_loop *loop, const char *name,
			     const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
			     uint32_t epoch, size_t ring_bytes, transport_dialled_fn dialled,
			     void *arg, struct transport_dial **out_dial)
{
	struct local_dial *dial = calloc(1, sizeof(*dial));
	tcpx_status status;

	if (!dial)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "dial of a local channel");
	*dial = (struct local_dial){
		.base.ops = &transport_local, .loop = loop, .dialled = dialled, .arg = arg};
	dial->timer.fn = dial_late;
	list_init(&dial->timer.node);
	status =
		dial_chan(name, nonce, channel, LOCAL_WANTS_ANSWER, epoch, ring_bytes, &dial->chan);
	if (status == TCPX_OK) {
		dial->watch = (struct sys_watch){.fd = dial->chan->ops->fd(dial->chan),
						 .events = EPOLLIN,
						 .fn = dial_answered};
		status = sys_watch_add(loop, &dial->watch);
		if (status != TCPX_OK)
			dial->chan->ops->close(dial->chan);
	}
	if (status != TCPX_OK) {
		free(dial);
		return status;
	}
	sys_timer_set(loop, &dial->timer, clock_now_ns() + ANSWER_NS);
	*out_dial = &dial->base;
	return TCPX_OK;
}

tcpx_status local_dial_target(struct sys_loop *loop, const struct transport_target *target,
			      transport_dialled_fn dialled, void *arg,
			      struct transport_dial **out_dial, struct net_chan **out_chan)
{
	if (!target->answers)
		return local_dial(target->name, target->nonce, target->channel, target->epoch,
				  LOCAL_RING_BYTES, out_chan);
	return local_dial_start(loop, target->name, target->nonce, target->channel, target->epoch,
				LOCAL_RING_BYTES, dialled, arg, out_dial);
}

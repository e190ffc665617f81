/* SPDX-License-Identifier: Apache-2.0 */
/* The dialling end of a same-host channel. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "net/local/local_priv.h"

int local_same_user(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return 0;
	return peer.uid == geteuid() || peer.uid == 0;
}

unsigned local_address(const char *name, struct sockaddr_un *out_addr)
{
	size_t len = strnlen(name, LOCAL_NAME_MAX);

	memset(out_addr, 0, sizeof(*out_addr));
	out_addr->sun_family = AF_UNIX;
	memcpy(out_addr->sun_path + 1, name, len); /* a leading NUL byte: abstract */
	return (unsigned)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

static tcpx_status dial_failed(int err, const char *name)
{
	tcpx_status status = TCPX_ERR_SYSTEM;

	if (err == ECONNREFUSED || err == ENOENT)
		status = TCPX_ERR_UNREACHABLE; /* nobody of that name in this namespace */
	else if (err == EACCES || err == EPERM)
		status = TCPX_ERR_REFUSED;
	else if (err == EAGAIN)
		status = TCPX_ERR_AGAIN;
	else if (err == EMFILE || err == ENFILE)
		status = TCPX_ERR_NO_DESCRIPTORS;
	return error_set(status, err, "connecting to local address @%.*s", LOCAL_NAME_MAX, name);
}

tcpx_status local_dial_socket(const char *name, int *out_fd)
{
	struct sockaddr_un addr;
	socklen_t len = local_address(name, &addr);
	int err, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return dial_failed(errno, name);
	if (connect(fd, (struct sockaddr *)&addr, len)) {
		err = errno;
		close(fd);
		return dial_failed(err, name);
	}
	if (!local_same_user(fd)) { /* before it sees the nonce */
		close(fd);
		return error_set(TCPX_ERR_REFUSED, 0, "local address @%.*s belongs to another user",
				 LOCAL_NAME_MAX, name);
	}
	*out_fd = fd;
	return TCPX_OK;
}

tcpx_status local_dial(const char *name, const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
		       uint32_t epoch, size_t ring_bytes, struct net_chan **out_chan)
{
	struct local_hello hello = {.magic = LOCAL_MAGIC,
				    .version = LOCAL_VERSION,
				    .epoch = epoch,
				    .ring_bytes = ring_bytes,
				    .channel = channel};
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
	close(memfd);
	if (status)
		chan->ops->close(chan); /* with fd and map */
	else
		*out_chan = chan;
	return status;
out_map:
	close(memfd);
	local_map_put(map);
out_fd:
	close(fd);
	return status;
}

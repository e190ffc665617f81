/* SPDX-License-Identifier: Apache-2.0 */
/* Plain blocking sockets, one thread each. */
#include "ceiling_lane.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/config.h"
#include "sys/sock.h"

#define PAGE_BYTES 4096u

static uint8_t *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Buffers are page-aligned: the kernel copies from an odd address at a tenth of its speed. */
static size_t even_part(size_t bytes, unsigned parts)
{
	size_t part = bytes / parts;

	return part < PAGE_BYTES ? part : part / PAGE_BYTES * PAGE_BYTES;
}

static void cut(struct ceiling_end *end, unsigned first, uint8_t *buffer, int sends)
{
	size_t share = even_part(end->working_set, end->sockets);
	size_t part = even_part(end->buffer_bytes, end->sockets);

	for (unsigned i = 0; i < end->sockets; i++) {
		struct ceiling_lane *lane = &end->lanes[first + i];

		lane->sends = sends;
		lane->share = buffer + i * part;
		lane->share_bytes = i + 1 < end->sockets ? part : end->buffer_bytes - i * part;
		lane->bytes = i + 1 < end->sockets ? share : end->working_set - i * share;
	}
}

int ceiling_end_init(struct ceiling_end *end, unsigned sockets, unsigned directions,
		     size_t working_set, size_t ring, int is_server)
{
	unsigned first = 0;

	memset(end, 0, sizeof(*end));
	end->sockets = sockets;
	end->directions = directions;
	end->working_set = working_set;
	end->buffer_bytes = ring && ring < working_set ? ring : working_set;
	for (unsigned i = 0; i < CEILING_LANES_MAX; i++)
		end->lanes[i].fd = -1;
	if (directions & 1) {
		end->to_server = map(end->buffer_bytes);
		if (!end->to_server)
			return -1;
		cut(end, first, end->to_server, !is_server);
		first += sockets;
	}
	if (directions & 2) {
		end->to_client = map(end->buffer_bytes);
		if (!end->to_client) {
			ceiling_end_fini(end);
			return -1;
		}
		cut(end, first, end->to_client, is_server);
		first += sockets;
	}
	end->count = first;
	return 0;
}

void ceiling_end_fini(struct ceiling_end *end)
{
	int saved = errno;

	for (unsigned i = 0; i < end->count; i++)
		if (end->lanes[i].fd >= 0)
			close(end->lanes[i].fd);
	if (end->to_server)
		munmap(end->to_server, end->buffer_bytes);
	if (end->to_client)
		munmap(end->to_client, end->buffer_bytes);
	memset(end, 0, sizeof(*end));
	errno = saved;
}

tcpx_status ceiling_end_fill(struct ceiling_end *end, int is_server, uint64_t seed,
			     const struct perf_leave *leave)
{
	uint8_t *source = is_server ? end->to_client : end->to_server;
	uint8_t *destination = is_server ? end->to_server : end->to_client;

	return perf_fill(source, destination, end->buffer_bytes, seed, leave);
}

int ceiling_send(int fd, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len) {
		size_t want = len < CEILING_CALL_BYTES ? len : CEILING_CALL_BYTES;
		ssize_t n = send(fd, p, want, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int ceiling_receive(int fd, void *data, size_t len)
{
	uint8_t *p = data;

	while (len) {
		size_t want = len < CEILING_CALL_BYTES ? len : CEILING_CALL_BYTES;
		ssize_t n = recv(fd, p, want, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n ? errno : 0;
			return -1;
		}
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int ceiling_lane_send(const struct ceiling_lane *lane)
{
	for (size_t left = lane->bytes, part; left; left -= part) {
		part = left < lane->share_bytes ? left : lane->share_bytes;
		if (ceiling_send(lane->fd, lane->share, part))
			return -1;
	}
	return 0;
}

int ceiling_lane_receive(const struct ceiling_lane *lane)
{
	for (size_t left = lane->bytes, part; left; left -= part) {
		part = left < lane->share_bytes ? left : lane->share_bytes;
		if (ceiling_receive(lane->fd, lane->share, part))
			return -1;
	}
	return 0;
}

void ceiling_timeout(int fd, int seconds)
{
	struct timeval tv = {.tv_sec = seconds};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
}

void ceiling_options(int fd)
{
	sys_sock_nodelay(fd); /* else the last bytes of a share would wait for an acknowledgement */
	sys_sock_congestion_fit(fd, config_text(CONFIG_CONGESTION));
}

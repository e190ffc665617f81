/* SPDX-License-Identifier: Apache-2.0 */
/* Creation, queries and end of a same-host channel, and its shared memory. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/law.h"
#include "net/local/local_priv.h"
#include "sys/fd.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

int local_ring_bytes_ok(uint64_t ring_bytes)
{
	return ring_bytes >= LOCAL_RING_MIN && ring_bytes <= LOCAL_RING_MAX &&
	       !(ring_bytes & (ring_bytes - 1));
}

/* Returns the size of a channel's memfd: the header and two rings. */
static size_t map_bytes(size_t ring_bytes)
{
	return LOCAL_HEADER_BYTES + 2 * ring_bytes;
}

/* Maps the memfd; the new map has one reference. */
static tcpx_status map_memory(int memfd, size_t bytes, struct local_map **out_map)
{
	struct local_map *map = calloc(1, sizeof(*map));

	if (!map)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "local channel");
	map->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	if (map->base == MAP_FAILED) {
		int err = errno;

		free(map);
		return error_set(TCPX_ERR_NO_MEMORY, err, "mapping %zu bytes for a local channel",
				 bytes);
	}
	/* Keep the mapping out of forked children and core dumps. */
	madvise(map->base, bytes, MADV_DONTFORK);
	madvise(map->base, bytes, MADV_DONTDUMP);
	map->bytes = bytes;
	atomic_init(&map->refs, 1);
	*out_map = map;
	return TCPX_OK;
}

/* Makes a memfd that can be sealed. Returns -1 with errno if that fails. */
static int memfd_make(void)
{
	int fd = SYS_FD_OPEN(
		memfd_create("tcpx-local", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));

	if (fd < 0 && errno == EINVAL) /* before Linux 6.3: no MFD_NOEXEC_SEAL */
		fd = SYS_FD_OPEN(memfd_create("tcpx-local", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	return fd;
}

tcpx_status local_map_create(size_t ring_bytes, int *out_memfd, struct local_map **out_map)
{
	size_t bytes = map_bytes(ring_bytes);
	int err, memfd = memfd_make();
	tcpx_status status;

	if (memfd < 0)
		return error_set(errno == EMFILE || errno == ENFILE ? TCPX_ERR_NO_DESCRIPTORS
								    : TCPX_ERR_SYSTEM,
				 errno, "memfd for a local channel");
	if (ftruncate(memfd, (off_t)bytes) ||
	    fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		err = errno;
		sys_fd_close(memfd);
		return error_set(TCPX_ERR_SYSTEM, err, "memfd of %zu bytes", bytes);
	}
	status = map_memory(memfd, bytes, out_map);
	if (status)
		sys_fd_close(memfd);
	else
		*out_memfd = memfd;
	return status;
}

tcpx_status local_map_import(int memfd, uint64_t ring_bytes, struct local_map **out_map)
{
	struct statfs fs;
	struct stat st;
	int seals;

	if (!local_ring_bytes_ok(ring_bytes))
		return error_set(TCPX_ERR_PROTOCOL, 0, "local hello requests rings of %llu bytes",
				 (unsigned long long)ring_bytes);
	/* Memory that could shrink, or whose file system could fail to provide a page, could raise
	 * SIGBUS later. Memory that is sealed against writing cannot be mapped for it. */
	seals = fcntl(memfd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || seals & F_SEAL_WRITE)
		return error_set(TCPX_ERR_PROTOCOL, 0, "local hello with an unsealed descriptor");
	if (fstat(memfd, &st) || st.st_size != (off_t)map_bytes(ring_bytes) ||
	    fstatfs(memfd, &fs) || fs.f_type != TMPFS_MAGIC)
		return error_set(TCPX_ERR_PROTOCOL, 0, "local hello with a memfd of a wrong shape");
	return map_memory(memfd, map_bytes(ring_bytes), out_map);
}

void local_map_put(struct local_map *map)
{
	if (atomic_fetch_sub(&map->refs, 1) != 1)
		return;
	munmap(map->base, map->bytes);
	free(map);
}

tcpx_status local_chan_create(int fd, struct local_map *map, size_t ring_bytes, int side,
			      struct net_chan **out_chan)
{
	struct local_header *header = (struct local_header *)map->base;
	uint8_t *rings = map->base + LOCAL_HEADER_BYTES;
	struct local_chan *chan = aligned_alloc(LOCAL_LINE, sizeof(*chan));

	if (!chan)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "local channel");
	memset(chan, 0, sizeof(*chan));
	chan->base.ops = &local_ops;
	chan->fd = fd;
	chan->ring_bytes = ring_bytes;
	chan->map = map;
	chan->out = &header->lane[side];
	chan->in = &header->lane[!side];
	chan->out_ring = rings + (side ? ring_bytes : 0);
	chan->in_ring = rings + (side ? 0 : ring_bytes);
	chan->rx.mark = 1;
	chan->side = side;
	atomic_flag_clear(&chan->bell.draining);
	*out_chan = &chan->base;
	return TCPX_OK;
}

static int local_fd(const struct net_chan *base)
{
	return ((const struct local_chan *)base)->fd;
}

static void local_recv_mark(struct net_chan *base, size_t bytes)
{
	struct local_chan *chan = (struct local_chan *)base;

	if (bytes < 1)
		bytes = 1;
	if (bytes > chan->ring_bytes / 2) /* local_room_mark says why */
		bytes = chan->ring_bytes / 2;
	atomic_store_explicit(&chan->rx.mark, bytes, memory_order_relaxed);
}

static void local_shutdown(struct net_chan *base)
{
	law_free("local_shutdown");
	local_die((struct local_chan *)base, TCPX_ERR_DISCONNECTED);
}

static void local_close(struct net_chan *base)
{
	struct local_chan *chan = (struct local_chan *)base;

	if (atomic_load(&chan->end) != TCPX_ERR_PROTOCOL)
		local_die(chan, TCPX_ERR_DISCONNECTED);
	sys_fd_close(chan->fd);
	local_share_end(chan);
	local_map_put(chan->map);
	free(chan);
}

/* Returns how many loans of this side the consumer has not finished. *out_head is the number of
 * loans that this side has made. May be called by any thread. */
static unsigned loans_open(const struct local_chan *chan, uint64_t *out_head)
{
	unsigned open = 0;

	*out_head = 0;
	if (!chan->lend_to)
		return 0;
	*out_head = atomic_load_explicit(&chan->lend_to->head, memory_order_acquire);
	for (unsigned i = 0; i < LOCAL_LOANS; i++) {
		uint32_t state =
			atomic_load_explicit(&chan->lend_to->loan[i].state, memory_order_acquire);

		open += state != LOAN_NONE && state != LOAN_OVER;
	}
	return open;
}

static void local_info(const struct net_chan *base, struct net_chan_info *out_info)
{
	struct local_chan *chan = (struct local_chan *)base;
	uint64_t tail = atomic_load_explicit(&chan->out->tail, memory_order_acquire);
	uint64_t head = atomic_load_explicit(&chan->out->head, memory_order_acquire);
	int64_t now = clock_now_ns();
	uint64_t loans, moved;
	unsigned open = loans_open(chan, &loans);

	law_free("local_info");
	memset(out_info, 0, sizeof(*out_info));
	if (head - tail <= chan->ring_bytes)
		out_info->unacked_bytes = head - tail;
	out_info->unacked_bytes += open; /* a loan counts as a byte, so that it is not overlooked */
	out_info->copy = local_share_name(chan);
	out_info->same_process = chan->copy == COPY_DIRECT &&
				 atomic_load_explicit(chan->lend_ok, memory_order_acquire);
	moved = tail + loans - open;
	/* progress.ns is the time of the first call of this function, or of the last call at which
	 * the peer had made progress or nothing was under way. */
	if (atomic_exchange(&chan->progress.moved, moved) != moved || (head == tail && !open) ||
	    !atomic_load(&chan->progress.ns))
		atomic_store(&chan->progress.ns, now);
	out_info->last_ack_ms = (uint64_t)(now - atomic_load(&chan->progress.ns)) / CLOCK_MS_NS;
}

static void local_trim(struct net_chan *base)
{
	struct local_chan *chan = (struct local_chan *)base;

	/* If the peer has read all bytes in this side's ring, return the ring's pages to the
	 * system. No bytes arrive meanwhile, because only this side writes to the ring. */
	if (base->ops != &local_ops || chan->tx.punched == chan->tx.head ||
	    local_room(chan) != chan->ring_bytes)
		return;
	if (!madvise(chan->out_ring, chan->ring_bytes, MADV_REMOVE))
		chan->tx.punched = chan->tx.head;
}

static const struct net_loan_ops local_loan_ops = {
	.lends = local_lends,
	.lend = local_lend,
	.lent = local_lent,
	.torn = local_torn,
};

static const struct net_reading_ops local_reading_ops = {
	.set = local_reading_set,
	.peer = local_reading_peer,
};

const struct net_ops local_ops = {
	.name = "local",
	.caps = NET_CAP_DOORBELL,
	.send = local_send,
	.recv = local_recv,
	.arm = local_arm,
	.fd = local_fd,
	.recv_mark = local_recv_mark,
	.shutdown = local_shutdown,
	.close = local_close,
	.info = local_info,
	.trim = local_trim,
	.loan = &local_loan_ops,
	.reading = &local_reading_ops,
};

const struct transport_ops transport_local = {
	.name = "local",
	.listen = local_listener_open,
	.unlisten = local_listener_close,
	.dial = local_dial_target,
	.cancel = local_dial_cancel,
};

tcpx_status local_pair(size_t ring_bytes, struct net_chan **out_a, struct net_chan **out_b)
{
	struct local_map *map = NULL;
	int memfd = -1, fds[2], failed;
	tcpx_status status;

	if (!local_ring_bytes_ok(ring_bytes))
		return error_set(TCPX_ERR_INVALID, 0, "ring of %zu bytes", ring_bytes);
	sys_fd_begin();
	failed = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds);
	if (!failed)
		sys_fd_own(fds[0]);
	sys_fd_end(failed ? -1 : fds[1]);
	if (failed)
		return error_set(TCPX_ERR_NO_DESCRIPTORS, errno, "socketpair");
	status = local_map_create(ring_bytes, &memfd, &map);
	if (status)
		goto out_fds;
	sys_fd_close(memfd);
	status = local_chan_create(fds[0], map, ring_bytes, 0, out_a);
	if (status)
		goto out_map;
	status = local_chan_create(fds[1], map, ring_bytes, 1, out_b);
	if (status) {
		free(*out_a);
		goto out_map;
	}
	atomic_store(&map->refs, 2);
	return TCPX_OK;
out_map:
	local_map_put(map);
out_fds:
	sys_fd_close(fds[0]);
	sys_fd_close(fds[1]);
	return status;
}

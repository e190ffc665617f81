/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of sending without a copy share: the kernel's calls, which they make fail (link with
 * --wrap), memory to send, a receiver that takes odd amounts. */
#ifndef UNIT_PAGES_RIG_H
#define UNIT_PAGES_RIG_H

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "net_pair.h"
#include "net/tcp/pages.h"

#define HELD_BYTES (1u << 20)

struct kernel {
	uint64_t spliced, vmspliced; /* bytes; the difference is in pipes */
	unsigned pipes;
	int pipe_err, size_err, pages_err, splice_err; /* the call fails; 0: it does not */
	int size_said;				       /* F_GETPIPE_SZ; 0: what it is */
	unsigned turn; /* of splice: every so many calls is interrupted and the next one is short */
	unsigned calls;
	int err_after; /* splice moves a part, and the next call fails so */
	int err_once;
	int signal_after;	/* and the signal is raised by the one that moves a part */
	struct net_chan *shuts; /* shut down when a receive has begun */
};

static struct kernel kernel;

int __real_pipe2(int fd[2], int flags);
int __wrap_pipe2(int fd[2], int flags);
int __real_fcntl64(int fd, int cmd, ...);
int __wrap_fcntl64(int fd, int cmd, ...);
ssize_t __real_vmsplice(int fd, const struct iovec *iov, size_t count, unsigned flags);
ssize_t __wrap_vmsplice(int fd, const struct iovec *iov, size_t count, unsigned flags);
ssize_t __real_splice(int from, off64_t *at, int to, off64_t *to_at, size_t bytes, unsigned flags);
ssize_t __wrap_splice(int from, off64_t *at, int to, off64_t *to_at, size_t bytes, unsigned flags);
ssize_t __real_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);

ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	if (kernel.shuts)
		kernel.shuts->ops->shutdown(kernel.shuts);
	return __real_recvmsg(fd, msg, flags);
}

static int fails(int err)
{
	errno = err;
	return err != 0;
}

int __wrap_pipe2(int fd[2], int flags)
{
	if (fails(kernel.pipe_err))
		return -1;
	kernel.pipes++;
	return __real_pipe2(fd, flags);
}

int __wrap_fcntl64(int fd, int cmd, ...)
{
	va_list args;
	long value;

	va_start(args, cmd);
	value = va_arg(args, long);
	va_end(args);
	if (cmd == F_SETPIPE_SZ && fails(kernel.size_err))
		return -1;
	if (cmd == F_GETPIPE_SZ && kernel.size_said)
		return kernel.size_said;
	return __real_fcntl64(fd, cmd, value);
}

ssize_t __wrap_vmsplice(int fd, const struct iovec *iov, size_t count, unsigned flags)
{
	ssize_t put;

	if (fails(kernel.pages_err))
		return -1;
	put = __real_vmsplice(fd, iov, count, flags);
	if (put > 0)
		kernel.vmspliced += (uint64_t)put;
	return put;
}

ssize_t __wrap_splice(int from, off64_t *at, int to, off64_t *to_at, size_t bytes, unsigned flags)
{
	ssize_t n;

	if (fails(kernel.splice_err))
		return -1;
	if (fails(kernel.err_once)) {
		kernel.err_once = 0;
		return -1;
	}
	if (kernel.turn && ++kernel.calls % kernel.turn == 0 && fails(EINTR))
		return -1;
	if ((kernel.turn && kernel.calls % kernel.turn == 1) || kernel.err_after)
		bytes = bytes / 3 + 1;
	n = __real_splice(from, at, to, to_at, bytes, flags);
	if (n > 0)
		kernel.spliced += (uint64_t)n;
	if (n > 0 && kernel.err_after) {
		if (kernel.signal_after)
			pthread_kill(pthread_self(), SIGPIPE); /* as the kernel's own */
		kernel.err_once = kernel.err_after;
		kernel.err_after = 0;
	}
	return n;
}

/* No byte is 0, so that what a send of zeros added can be told. */
static inline uint8_t *nonzero(size_t bytes, uint64_t seed)
{
	uint8_t *memory = aligned_alloc(4096, bytes);
	struct rng rng;

	MUST(memory);
	rng_seed(&rng, seed);
	for (size_t i = 0; i < bytes; i++)
		memory[i] = (uint8_t)(1 + rng_below(&rng, 255));
	return memory;
}

/* Takes what is there, in odd amounts. */
static inline void take(struct net_chan *chan, struct rng *rng, uint8_t *to, uint64_t *at,
			uint64_t end)
{
	while (*at < end) {
		uint64_t most = 1 + rng_below(rng, rng_one_in(rng, 4) ? 5000 : 300000);
		struct iovec iov = {to + *at, most < end - *at ? most : end - *at};
		size_t moved = 0;
		tcpx_status status = chan->ops->recv(chan, &iov, 1, &moved);

		if (status == TCPX_IN_PROGRESS)
			return;
		MUST(status == TCPX_OK && chan->ops->zerocopy->intact(chan));
		*at += moved;
	}
}

static inline int setup(void **state)
{
	(void)state;
	kernel = (struct kernel){0};
	return 0;
}

#define CASE(name) cmocka_unit_test_setup(name, setup)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Sends pages without a copy: vmsplice puts them into a pipe, and splice moves them from the pipe
 * to the socket. No other call of Linux sends user pages to a receiver on the same host without a
 * copy; MSG_ZEROCOPY copies on loopback (docs/design/zerocopy.md). */
#include "net/tcp/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "sys/fd.h"

/* size of the pipe in bytes: a call's bytes (NET_CALL_BYTES) if they begin at a page boundary */
#define PIPE_BYTES (512u << 10)
#define PIPE_LEAST (64u << 10) /* smallest usable pipe, in bytes */

void tcp_pages_init(struct tcp_pages *pages)
{
	*pages = (struct tcp_pages){.fd = {-1, -1}, .impossible = !config_bool(CONFIG_TCP_SPLICE)};
}

void tcp_pages_close(struct tcp_pages *pages)
{
	if (pages->fd[0] < 0)
		return;
	sys_fd_close(pages->fd[0]);
	sys_fd_close(pages->fd[1]);
	pages->fd[0] = pages->fd[1] = -1;
	pages->filled = 0;
}

/* Closes the pipe. From now on this channel sends everything by copies. `what` is the reason, for
 * the log. */
static void fall_back_to_copies(struct tcp_pages *pages, const char *what)
{
	static struct log_limit limit;

	if (log_allow(&limit, 3))
		LOG_INFO("sending by copies: %s: errno %d", what, errno);
	tcp_pages_close(pages);
	pages->impossible = 1;
}

/* Opens the pipe if it is not open. Returns 0, or -1 after fall_back_to_copies(). A new pipe may be
 * too small, because the kernel limits the pages that a user may have in pipes. */
static int pages_open(struct tcp_pages *pages, int sock)
{
	int size, flags, failed;

	if (pages->fd[0] >= 0)
		return 0;
	/* SPLICE_F_NONBLOCK applies to the pipe only, so the socket must be nonblocking as well. */
	flags = fcntl(sock, F_GETFL);
	if (flags < 0 || (!(flags & O_NONBLOCK) && fcntl(sock, F_SETFL, flags | O_NONBLOCK))) {
		fall_back_to_copies(pages, "the socket blocks");
		return -1;
	}
	sys_fd_begin();
	failed = pipe2(pages->fd, O_CLOEXEC | O_NONBLOCK);
	if (!failed)
		sys_fd_own(pages->fd[0]);
	sys_fd_end(failed ? -1 : pages->fd[1]);
	if (failed) {
		pages->fd[0] = pages->fd[1] = -1;
		fall_back_to_copies(pages, "no pipe");
		return -1;
	}
	size = fcntl(pages->fd[1], F_SETPIPE_SZ, (int)PIPE_BYTES);
	if (size < 0)
		size = fcntl(pages->fd[1], F_GETPIPE_SZ);
	if (size < (int)PIPE_LEAST) {
		fall_back_to_copies(pages, "a pipe is too small");
		return -1;
	}
	return 0;
}

/* Like splice, but raises no SIGPIPE; splice has no MSG_NOSIGNAL. splice calls the socket for 16
 * pages at a time, so it can raise SIGPIPE even if it has moved some of the bytes. A SIGPIPE that
 * was pending before the call stays pending. */
static ssize_t splice_quietly(int from, int sock, size_t bytes, unsigned flags)
{
	const struct timespec now = {0, 0};
	sigset_t pipe, old, pending;
	ssize_t n;
	int err;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, &old);
	sigpending(&pending);
	n = splice(from, NULL, sock, NULL, bytes, flags);
	err = errno;
	if ((n < 0 ? err == EPIPE : (size_t)n < bytes) && !sigismember(&pending, SIGPIPE))
		while (sigtimedwait(&pipe, NULL, &now) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = err;
	return n;
}

long tcp_pages_drain(struct tcp_pages *pages, int sock, int more)
{
	unsigned flags = SPLICE_F_NONBLOCK | (more ? SPLICE_F_MORE : 0u);
	size_t sum = 0;
	ssize_t n = 0;

	pages->err = 0;
	while (pages->filled) {
		n = splice_quietly(pages->fd[0], sock, pages->filled, flags);
		if (n > 0) {
			pages->filled -= (size_t)n;
			sum += (size_t)n;
		} else if (n == 0 || errno != EINTR) {
			break;
		}
	}
	if (n == 0 || (n < 0 && (errno == EINVAL || errno == ENOSYS || errno == EPERM))) {
		fall_back_to_copies(
			pages,
			"splice to the socket failed"); /* the caller offers the rest again */
		return (long)sum;
	}
	if (n < 0 && sum)
		pages->err = errno;
	return n > 0 || sum ? (long)sum : -1;
}

/* Fills the empty pipe with the first bytes of the piece. Returns 0, or -1 if that is impossible;
 * tcp_send_held() then copies the piece, in this call or in the next. The copy also reports memory
 * that is not mapped. */
static int pages_fill(struct tcp_pages *pages, int sock, const struct iovec *piece)
{
	ssize_t put;

	if (pages_open(pages, sock))
		return -1;
	do
		put = vmsplice(pages->fd[1], piece, 1, SPLICE_F_NONBLOCK);
	while (put < 0 && errno == EINTR);
	if (put <= 0) {
		fall_back_to_copies(pages, "vmsplice failed");
		return -1;
	}
	pages->filled = (size_t)put;
	return 0;
}

long tcp_pages_send(struct tcp_pages *pages, int sock, const struct iovec *piece, int more)
{
	size_t sum = 0;

	pages->err = 0;
	while (sum < piece->iov_len) {
		struct iovec rest = {(char *)piece->iov_base + sum, piece->iov_len - sum};
		long went;

		if (!pages->filled && pages_fill(pages, sock, &rest))
			break;
		went = tcp_pages_drain(pages, sock, more || pages->filled < rest.iov_len);
		if (went < 0 && !sum)
			return -1;
		if (went < 0)
			pages->err = errno;
		else
			sum += (size_t)went;
		if (went <= 0 || pages->filled || pages->err || pages->impossible)
			break; /* the socket is full or closed, or pages do not work */
	}
	return (long)sum;
}

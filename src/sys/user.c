/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies from and to memory of the application with process_vm_readv() and process_vm_writev() on
 * this process. The user's memory is always the local side, which the kernel accesses as in any
 * other system call; so memory of devices works. The library's memory is the remote side, whose
 * pages the kernel looks up. If a sandbox forbids these calls, a pipe is used.
 */
#include "sys/user.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sys/fd.h"

#define PIPE_PART (64u << 10) /* default capacity of a pipe */

_Atomic int sys_user_by_pipe;

/* Writes at most `n` bytes from `from` to the pipe and reads them into `to`. Returns the number of
 * bytes read. If that is less than `n`, the caller must close the pipe, because it may contain
 * bytes. */
static size_t copy_part_by_pipe(const int fd[2], void *to, const void *from, size_t n)
{
	ssize_t in, got;
	size_t out = 0;

	do
		in = write(fd[1], from, n);
	while (in < 0 && errno == EINTR);
	while (in > 0 && out < (size_t)in) {
		got = read(fd[0], (char *)to + out, (size_t)in - out);
		if (got > 0)
			out += (size_t)got;
		else if (got == 0 || errno != EINTR)
			break;
	}
	return out;
}

static size_t copy_by_pipe(void *to, const void *from, size_t n)
{
	size_t done = 0;
	int fd[2];

	if (pipe2(fd, O_CLOEXEC | O_NONBLOCK))
		return 0;
	while (done < n) {
		size_t part = n - done < PIPE_PART ? n - done : PIPE_PART;
		size_t moved =
			copy_part_by_pipe(fd, (char *)to + done, (const char *)from + done, part);

		done += moved;
		if (moved < part)
			break;
	}
	sys_fd_close(fd[0]);
	sys_fd_close(fd[1]);
	return done;
}

/* Copies `n` bytes from `ours` to `user` if to_user is 1, otherwise from `user` to `ours`. Returns
 * the number of bytes copied. */
static size_t copy_by_kernel(void *user, void *ours, size_t n, int to_user)
{
	int saved = errno;
	size_t done = 0;

	while (done < n && !atomic_load_explicit(&sys_user_by_pipe, memory_order_relaxed)) {
		struct iovec local = {(char *)user + done, n - done};
		struct iovec remote = {(char *)ours + done, n - done};
		ssize_t got = to_user ? process_vm_readv(getpid(), &local, 1, &remote, 1, 0)
				      : process_vm_writev(getpid(), &local, 1, &remote, 1, 0);

		if (got > 0) {
			done += (size_t)got;
		} else if (got == 0 || errno == EFAULT) {
			errno = saved;
			return done;
		} else if (errno != EINTR && errno != ENOMEM) {
			atomic_store(&sys_user_by_pipe, 1);
		}
	}
	if (done < n)
		done += to_user ? copy_by_pipe((char *)user + done, (char *)ours + done, n - done)
				: copy_by_pipe((char *)ours + done, (char *)user + done, n - done);
	errno = saved;
	return done;
}

size_t sys_user_read(void *ours, const void *user, size_t n)
{
	return copy_by_kernel((void *)(uintptr_t)user, ours, n, 0);
}

size_t sys_user_write(void *user, const void *ours, size_t n)
{
	return copy_by_kernel(user, (void *)(uintptr_t)ours, n, 1);
}

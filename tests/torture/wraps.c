/* SPDX-License-Identifier: Apache-2.0 */
/* Stands before malloc and the system calls (linker option --wrap) and fails the chosen one. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "torture.h"

struct torture *torture;
bool torture_recording;
uintptr_t torture_victim;
uint32_t torture_nth;

static _Atomic uint32_t victim_calls;

static void record(uintptr_t address, const char *call)
{
	uint32_t n = atomic_load(&torture->nsites);

	for (uint32_t i = 0; i < n; i++) {
		if (atomic_load(&torture->site[i].address) == address) {
			atomic_fetch_add(&torture->site[i].count, 1);
			return;
		}
	}
	n = atomic_fetch_add(&torture->nsites, 1);
	if (n >= SITES_MAX)
		return;
	torture->site[n].call = call;
	atomic_store(&torture->site[n].address, address);
}

/* True when this call shall fail. */
static bool fails(void *address, const char *call)
{
	if (torture_recording)
		record((uintptr_t)address, call);
	if (!torture_victim || torture_victim != (uintptr_t)address)
		return false;
	if (atomic_fetch_add(&victim_calls, 1) + 1 != torture_nth)
		return false;
	atomic_store(&torture->fired, 1);
	return true;
}

/* WRAP(result, name, failure value, errno, (parameters), (arguments)) */
#define WRAP(type, name, value, err, params, args)                                                 \
	type __real_##name params;                                                                 \
	type __wrap_##name params;                                                                 \
	type __wrap_##name params                                                                  \
	{                                                                                          \
		if (fails(__builtin_return_address(0), #name)) {                                   \
			errno = err;                                                               \
			return value;                                                              \
		}                                                                                  \
		return __real_##name args;                                                         \
	}

/* Taking a descriptor out needs nothing from the kernel: it fails when the descriptor is not in any
 * more, never with the descriptor left in. The others may run out of memory or of watches. */
int __real_epoll_ctl(int fd, int op, int target, struct epoll_event *event);
int __wrap_epoll_ctl(int fd, int op, int target, struct epoll_event *event);
int __wrap_epoll_ctl(int fd, int op, int target, struct epoll_event *event)
{
	bool failing = fails(__builtin_return_address(0), "epoll_ctl");

	if (failing && op != EPOLL_CTL_DEL) {
		errno = ENOSPC;
		return -1;
	}
	if (__real_epoll_ctl(fd, op, target, event))
		return -1;
	errno = failing ? ENOENT : errno;
	return failing ? -1 : 0;
}

WRAP(void *, malloc, NULL, ENOMEM, (size_t size), (size))
WRAP(void *, calloc, NULL, ENOMEM, (size_t count, size_t size), (count, size))
WRAP(void *, realloc, NULL, ENOMEM, (void *ptr, size_t size), (ptr, size))
WRAP(char *, strdup, NULL, ENOMEM, (const char *text), (text))
WRAP(void *, aligned_alloc, NULL, ENOMEM, (size_t align, size_t size), (align, size))
WRAP(int, posix_memalign, ENOMEM, 0, (void **ptr, size_t align, size_t size), (ptr, align, size))
WRAP(void *, mmap, MAP_FAILED, ENOMEM,
     (void *addr, size_t len, int prot, int flags, int fd, off_t off),
     (addr, len, prot, flags, fd, off))
WRAP(int, memfd_create, -1, EMFILE, (const char *name, unsigned flags), (name, flags))
WRAP(int, ftruncate, -1, EFBIG, (int fd, off_t size), (fd, size))
WRAP(int, socket, -1, EMFILE, (int family, int type, int protocol), (family, type, protocol))
WRAP(int, socketpair, -1, EMFILE, (int family, int type, int protocol, int fds[2]),
     (family, type, protocol, fds))
WRAP(int, bind, -1, EADDRINUSE, (int fd, const struct sockaddr *addr, socklen_t len),
     (fd, addr, len))
WRAP(int, listen, -1, EADDRINUSE, (int fd, int backlog), (fd, backlog))
WRAP(int, accept4, -1, EMFILE, (int fd, struct sockaddr *addr, socklen_t *len, int flags),
     (fd, addr, len, flags))
WRAP(int, connect, -1, ENETUNREACH, (int fd, const struct sockaddr *addr, socklen_t len),
     (fd, addr, len))
WRAP(int, getsockname, -1, ENOBUFS, (int fd, struct sockaddr *addr, socklen_t *len),
     (fd, addr, len))
WRAP(int, getpeername, -1, ENOTCONN, (int fd, struct sockaddr *addr, socklen_t *len),
     (fd, addr, len))
WRAP(int, setsockopt, -1, ENOMEM, (int fd, int level, int name, const void *value, socklen_t len),
     (fd, level, name, value, len))
WRAP(int, getsockopt, -1, ENOBUFS, (int fd, int level, int name, void *value, socklen_t *len),
     (fd, level, name, value, len))
WRAP(ssize_t, send, -1, ECONNRESET, (int fd, const void *buf, size_t len, int flags),
     (fd, buf, len, flags))
WRAP(ssize_t, recv, -1, ECONNRESET, (int fd, void *buf, size_t len, int flags),
     (fd, buf, len, flags))
WRAP(ssize_t, sendmsg, -1, ECONNRESET, (int fd, const struct msghdr *msg, int flags),
     (fd, msg, flags))
WRAP(ssize_t, recvmsg, -1, ECONNRESET, (int fd, struct msghdr *msg, int flags), (fd, msg, flags))
WRAP(ssize_t, readv, -1, ECONNRESET, (int fd, const struct iovec *iov, int n), (fd, iov, n))
WRAP(ssize_t, writev, -1, ECONNRESET, (int fd, const struct iovec *iov, int n), (fd, iov, n))
WRAP(int, epoll_create1, -1, EMFILE, (int flags), (flags))
WRAP(int, eventfd, -1, EMFILE, (unsigned value, int flags), (value, flags))
WRAP(int, pthread_create, EAGAIN, 0,
     (pthread_t * thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg),
     (thread, attr, fn, arg))
WRAP(ssize_t, getrandom, -1, EAGAIN, (void *buf, size_t len, unsigned flags), (buf, len, flags))

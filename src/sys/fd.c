/* SPDX-License-Identifier: Apache-2.0 */
/* A bitmap of the library's descriptors, and a gate that keeps a fork from happening between a call
 * that opens one and its record. */
#include "sys/fd.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/law.h"

#define FD_LIMIT (1u << 20) /* default of fs.nr_open; descriptors above it stay open in a child */
#define WORD_BITS 64u
/* Longest wait at the gate, of a fork for threads that are opening or closing a descriptor, and of
 * these for a fork. It is limited, because the fork handler of another library may wait for a lock
 * that our caller holds, and a signal handler may fork in the middle of a call. After that time a
 * child may keep one descriptor. */
#define GATE_NS (100 * CLOCK_MS_NS)

static _Atomic uint64_t table[FD_LIMIT / WORD_BITS];
static _Atomic uint32_t words; /* words of the table that were ever used */
/* inside: threads between a call that opens or closes a descriptor and its record; forking: forks
 * under way. */
static _Atomic uint32_t inside, forking;

static void wait_until_zero(_Atomic uint32_t *count)
{
	int64_t until = clock_now_ns() + GATE_NS;

	while (atomic_load(count) && clock_now_ns() < until)
		sched_yield();
}

void sys_fd_begin(void)
{
	atomic_fetch_add(&inside, 1);
	if (!atomic_load(&forking))
		return;
	/* Each side adds to its counter before it reads the other's, so at least one of them sees
	 * the other and waits. */
	atomic_fetch_sub(&inside, 1);
	wait_until_zero(&forking);
	atomic_fetch_add(&inside, 1);
}

void sys_fd_own(int fd)
{
	uint32_t word = (uint32_t)fd / WORD_BITS, used = atomic_load(&words);

	if (fd < 0 || (uint32_t)fd >= FD_LIMIT)
		return;
	while (used <= word && !atomic_compare_exchange_weak(&words, &used, word + 1))
		;
	atomic_fetch_or(&table[word], UINT64_C(1) << (uint32_t)fd % WORD_BITS);
}

int sys_fd_end(int fd)
{
	sys_fd_own(fd);
	atomic_fetch_sub(&inside, 1); /* no system call, so errno stays that of the opening one */
	return fd;
}

void sys_fd_close(int fd)
{
	int err = errno;

	law_free("close");
	sys_fd_begin();
	/* Before close(): after it another thread may open a descriptor with the same number, whose
	 * record would be removed. */
	if (fd >= 0 && (uint32_t)fd < FD_LIMIT)
		atomic_fetch_and(&table[(uint32_t)fd / WORD_BITS],
				 ~(UINT64_C(1) << (uint32_t)fd % WORD_BITS));
	close(fd);
	atomic_fetch_sub(&inside, 1);
	errno = err;
}

void sys_fd_before_fork(void)
{
	atomic_fetch_add(&forking, 1);
	wait_until_zero(&inside);
}

void sys_fd_in_parent(void)
{
	atomic_fetch_sub(&forking, 1);
}

/* Closes the recorded descriptors by close(), which drops only the child's reference. shutdown()
 * would end the parent's connection. */
void sys_fd_in_child(void)
{
	uint32_t used = atomic_load(&words);
	int err = errno;

	for (uint32_t word = 0; word < used; word++) {
		uint64_t bits = atomic_exchange(&table[word], 0);

		for (; bits; bits &= bits - 1)
			close((int)(word * WORD_BITS + (uint32_t)__builtin_ctzll(bits)));
	}
	atomic_store(&inside, 0); /* the threads that it counts do not exist in the child */
	atomic_store(&forking, 0);
	errno = err;
}

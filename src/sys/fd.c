/* SPDX-License-Identifier: Apache-2.0 */
/* Records the library's descriptors in a bitmap. A gate prevents a fork between the call that opens
 * a descriptor and the record of the descriptor. */
#include "sys/fd.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/law.h"

#define FD_LIMIT (1u << 20) /* default of fs.nr_open; larger descriptors stay open in a child */
#define WORD_BITS 64u
/* The longest wait at the gate. A fork waits until no thread is opening or closing a descriptor,
 * and a thread waits for a fork under way before it opens or closes one. The wait is limited,
 * because the fork handler of another library may wait for a lock that this library's caller holds,
 * and because a signal handler may fork in the middle of a call. If the limit is reached, a child
 * may keep a descriptor open. */
#define GATE_NS (100 * CLOCK_MS_NS)

static _Atomic uint64_t table[FD_LIMIT / WORD_BITS];
static _Atomic uint32_t words; /* number of words at the start of `table` that were ever used */
/* `inside` counts the threads between opening or closing a descriptor and changing its record,
 * `forking` the forks under way. */
static _Atomic uint32_t inside, forking;

static void wait_until_zero(_Atomic uint32_t *count)
{
	int64_t until = clock_now_ns() + GATE_NS;

	while (atomic_load(count) && clock_now_ns() < until)
		sched_yield();
}

void sys_fd_begin(void)
{
	int64_t until = 0;

	/* A fork and a thread each add to their own counter before they read the other's. At least
	 * one of them therefore sees the other and waits. This thread waits uncounted, so that the
	 * fork does not wait for it. */
	for (;;) {
		atomic_fetch_add(&inside, 1);
		if (!atomic_load(&forking) || (until && clock_now_ns() >= until))
			return;
		if (!until)
			until = clock_now_ns() + GATE_NS;
		atomic_fetch_sub(&inside, 1);
		wait_until_zero(&forking);
	}
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
	atomic_fetch_sub(&inside, 1); /* does not change errno of the call that opened fd */
	return fd;
}

void sys_fd_close(int fd)
{
	int err = errno;

	law_free("close");
	sys_fd_begin();
	/* The record is removed before close(). After close() another thread may open and record a
	 * descriptor with the same number. */
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

/* Closes the recorded descriptors in a forked child. close() drops only the child's reference,
 * while shutdown() would end the parent's connection. */
void sys_fd_in_child(void)
{
	uint32_t used = atomic_load(&words);
	int err = errno;

	for (uint32_t word = 0; word < used; word++) {
		uint64_t bits = atomic_exchange(&table[word], 0);

		for (; bits; bits &= bits - 1)
			close((int)(word * WORD_BITS + (uint32_t)__builtin_ctzll(bits)));
	}
	atomic_store(&inside, 0); /* the threads that were counted do not exist in the child */
	atomic_store(&forking, 0);
	errno = err;
}

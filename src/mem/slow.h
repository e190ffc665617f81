/* SPDX-License-Identifier: Apache-2.0 */
/* The test kind "slow": host memory with copies that end late and out of order; and functions
 * shared by kinds on host memory. */
#ifndef MEM_SLOW_H
#define MEM_SLOW_H

#include "mem/kind.h"

extern const struct mem_kind mem_slow;

/* Tests: while on, no copy starts or ends; the call returns after running ones have ended. Off
 * continues. Not from a done callback; any other thread. */
void mem_slow_hold(int on);

/* Tests: number of copies that started and have not ended. mem_slow_await returns when there are
 * that many; use it while the hold is on. Any thread. */
unsigned mem_slow_pending(void);
void mem_slow_await(unsigned pending);

/* Tests: returns when no copy is left, with the hold off. */
void mem_slow_settle(void);

/* Moves the bytes of a copy between host addresses. */
tcpx_status mem_copy_run(const struct mem_copy *copy);

void *mem_slot_alloc(size_t bytes, uint32_t device);
void mem_slot_free(void *slot, size_t bytes, uint32_t device);

#endif

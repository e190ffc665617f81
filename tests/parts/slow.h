/* SPDX-License-Identifier: Apache-2.0 */
/* The test kind "slow": host memory with copies that end late and out of order. Its number is
 * MEM_KIND_TEST. */
#ifndef PARTS_SLOW_H
#define PARTS_SLOW_H

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

#endif

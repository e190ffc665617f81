/* SPDX-License-Identifier: Apache-2.0 */
/* The test kind "slow": host memory behind copies that end late and out of order. Its number is
 * MEM_KIND_TEST. */
#ifndef PARTS_SLOW_H
#define PARTS_SLOW_H

#include "mem/kind.h"

extern const struct mem_kind mem_slow;

/* Tests: while on, no copy starts or ends; those under way end first. The call returns when that is
 * so. Off lets them go on. Not from a done callback. Any other thread. */
void mem_slow_hold(int on);

/* Tests: copies started and not yet ended. mem_slow_await returns when there are that many; while
 * none may end, that is. Any thread. */
unsigned mem_slow_pending(void);
void mem_slow_await(unsigned pending);

/* Tests: returns when none is left, the hold being over. */
void mem_slow_settle(void);

#endif

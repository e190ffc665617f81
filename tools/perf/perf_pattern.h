/* SPDX-License-Identifier: Apache-2.0 */
/* Test data: each byte depends on its source position and on the window's key. */
#ifndef TOOLS_PERF_PATTERN_H
#define TOOLS_PERF_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

#define PERF_POISON 0xdb

/* Asked between pieces of long work on memory: TCPX_OK, or why to stop, also as the last error. */
struct perf_leave {
	tcpx_status (*ask)(const void *arg);
	const void *arg;
};

#define PERF_PIECE_BYTES (32ull << 20) /* some milliseconds */

/* The key of one window in one direction (0: client to server, 1: back). */
uint64_t perf_pattern_key(uint64_t seed, uint64_t window, unsigned direction);

/* Writes what belongs at source positions pos .. pos + len - 1. */
void perf_pattern_fill(void *buf, uint64_t pos, size_t len, uint64_t key);

/* All of a source buffer, and all of a destination, in pieces; NULL is no buffer. */
tcpx_status perf_fill(uint8_t *src, uint8_t *dst, uint64_t length, uint64_t key,
		      const struct perf_leave *leave);

/* How many of the bytes differ from what belongs at pos; *first is the offset in buf of the first
 * one, untouched when there is none. */
uint64_t perf_pattern_check(const void *buf, uint64_t pos, size_t len, uint64_t key, size_t *first);

/* How many of the bytes are not PERF_POISON. */
uint64_t perf_poison_check(const void *buf, size_t len, size_t *first);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Test data: each byte depends on its source position and on the window's key. */
#ifndef TOOLS_PERF_PATTERN_H
#define TOOLS_PERF_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

#define PERF_POISON 0xdb

/* Called between pieces of long work on memory. Returns TCPX_OK, or why to stop, also as the
 * last error. */
struct perf_leave {
	tcpx_status (*ask)(const void *arg);
	const void *arg;
};

#define PERF_PIECE_BYTES (32ull << 20) /* takes some milliseconds */

/* The key of one window in one direction (0: client to server, 1: back). */
uint64_t perf_pattern_key(uint64_t seed, uint64_t window, unsigned direction);

/* Writes the pattern of source positions pos .. pos + len - 1. */
void perf_pattern_fill(void *buf, uint64_t pos, size_t len, uint64_t key);

/* Fills a source with the pattern and a destination with poison, in pieces; NULL: no buffer. */
tcpx_status perf_fill(uint8_t *src, uint8_t *dst, uint64_t length, uint64_t key,
		      const struct perf_leave *leave);

/* Returns how many bytes differ from the pattern at pos; *first is the offset of the first one
 * in buf, unchanged if there is none. */
uint64_t perf_pattern_check(const void *buf, uint64_t pos, size_t len, uint64_t key, size_t *first);

/* Returns how many bytes are not PERF_POISON. */
uint64_t perf_poison_check(const void *buf, size_t len, size_t *first);

#endif

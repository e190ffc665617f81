/* SPDX-License-Identifier: Apache-2.0 */
/* Searches the writable memory of this process for a secret, without a copy of it. */
#ifndef UNIT_SECRET_SEARCH_H
#define UNIT_SECRET_SEARCH_H

#include "unit.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#define SECRET_PART 16u /* the allocator writes over the start of freed memory: parts count */
#define SECRET_MAX 64u
#define SECRET_MASK 0xa5u
#define SECRET_PIECE (1u << 20)
#define SECRET_MAP_MAX (1ull << 30) /* larger ones are a sanitizer's */

struct secret {
	uint8_t masked[SECRET_MAX];
	size_t len;
};

static inline struct secret secret_of(const void *bytes, size_t len)
{
	const volatile uint8_t *from = bytes; /* no vector register holds more than a byte */
	struct secret secret = {.len = len};

	assert_true(len <= SECRET_MAX && len % SECRET_PART == 0);
	for (size_t i = 0; i < len; i++)
		secret.masked[i] = from[i] ^ SECRET_MASK;
	return secret;
}

static inline bool secret_part_at(const struct secret *secret, size_t part,
				  const volatile uint8_t *at)
{
	for (size_t i = 0; i < SECRET_PART; i++)
		if ((at[i] ^ SECRET_MASK) != secret->masked[part + i])
			return false;
	return true;
}

/* Parts of it in len bytes that were read from address. */
static inline unsigned secret_in(const struct secret *secret, const uint8_t *bytes, size_t len,
				 uint64_t address, const char *what)
{
	unsigned found = 0;

	for (size_t part = 0; part < secret->len; part += SECRET_PART) {
		int first = secret->masked[part] ^ SECRET_MASK;
		const uint8_t *at = bytes, *end = bytes + len - SECRET_PART + 1;

		while (at < end && (at = memchr(at, first, (size_t)(end - at)))) {
			if (secret_part_at(secret, part, at)) {
				found++;
				if (what)
					print_message("%s, bytes from %zu: at 0x%llx\n", what, part,
						      (unsigned long long)address +
							      (size_t)(at - bytes));
			}
			at++;
		}
	}
	return found;
}

static inline unsigned secret_in_map(const struct secret *secret, int mem, uint64_t from,
				     uint64_t to, uint8_t *buf, const char *what)
{
	unsigned found = 0;

	for (uint64_t at = from; at < to; at += SECRET_PIECE - SECRET_PART) {
		size_t want = to - at < SECRET_PIECE ? (size_t)(to - at) : SECRET_PIECE;
		ssize_t got = pread(mem, buf, want, (off_t)at);

		if (got >= (ssize_t)SECRET_PART)
			found += secret_in(secret, buf, (size_t)got, at, what);
	}
	memset(buf, 0, SECRET_PIECE); /* it would be found here */
	return found;
}

/* How many parts of it there are; what: each place is told by this name, NULL: none is. */
static inline unsigned secret_count(const struct secret *secret, const char *what)
{
	uint8_t *buf = mmap(NULL, SECRET_PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned found = 0;
	char line[512];

	assert_true(buf != MAP_FAILED && mem >= 0 && maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long long from, to;
		char rights[5];

		if (sscanf(line, "%llx-%llx %4s", &from, &to, rights) != 3 || rights[0] != 'r' ||
		    rights[1] != 'w' || to - from > SECRET_MAP_MAX)
			continue;
		/* The buffer is in one of them, maybe in the middle. */
		if (from < (uintptr_t)buf && to > (uintptr_t)buf)
			found += secret_in_map(secret, mem, from, (uintptr_t)buf, buf, what);
		if (from <= (uintptr_t)buf && to > (uintptr_t)buf)
			from = (uintptr_t)buf + SECRET_PIECE;
		if (from < to)
			found += secret_in_map(secret, mem, from, to, buf, what);
	}
	fclose(maps);
	close(mem);
	munmap(buf, SECRET_PIECE);
	return found;
}

#endif

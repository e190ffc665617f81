/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzz target is: a function of bytes that ends the process when a promise is broken. */
#ifndef FUZZ_TARGET_H
#define FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(cond)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #cond);         \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* Random bytes never hit a checksum: a target gives its input as it is and with a right one. */
static inline void fuzz_fix_crc(uint8_t *bytes, size_t covers)
{
	uint32_t crc = crc32c(0, bytes, covers);

	for (int i = 0; i < 4; i++)
		bytes[covers + (size_t)i] = (uint8_t)(crc >> (8 * i));
}

#endif

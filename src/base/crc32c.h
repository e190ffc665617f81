/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C (Castagnoli), incremental: crc32c(crc32c(0, a), b) is the CRC of a followed by b. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the CRC of the data. `crc` is 0, or the CRC of the data that precedes it. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/* Computes the same value as crc32c(), but always by tables. Tests compare the two functions. */
uint32_t crc32c_table(uint32_t crc, const void *data, size_t len);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4, a keyed hash of short inputs. It makes region keys, proves that the parts of a
 * notification leave no gap, and matches the traces of a connection's two ends. */
#ifndef BASE_SIPHASH_H
#define BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

#define SIPHASH_KEY_BYTES 16

uint64_t siphash(const uint8_t key[SIPHASH_KEY_BYTES], const void *data, size_t len);

#endif

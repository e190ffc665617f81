/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One fragment of a received message: where it lies in a bounce pool, and where it belongs. Laid
 * out as an ncclNet plugin of the UNPACK kind writes it (its loadMeta).
 */
#ifndef BASE_FRAG_H
#define BASE_FRAG_H

#include <stdint.h>

struct base_frag {
	uint32_t src; /* bytes from the begin of the pool */
	uint32_t len; /* bytes */
	uint64_t dst; /* bytes from the begin of the message's memory */
};

#ifndef __cplusplus
_Static_assert(sizeof(struct base_frag) == 16, "a plugin writes it so");
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One fragment of a received message: where its bytes lie in the bounce pages, and where they
 * belong in the message. The layout is that of NCCL's loadMeta, in which an ncclNet plugin with
 * device queues of type UNPACK describes fragments.
 */
#ifndef BASE_FRAG_H
#define BASE_FRAG_H

#include <stdint.h>

struct base_frag {
	uint32_t src; /* offset of the bytes in the pool of bounce pages */
	uint32_t len; /* bytes */
	uint64_t dst; /* offset of the bytes in the message */
};

#ifndef __cplusplus
_Static_assert(sizeof(struct base_frag) == 16, "a plugin writes it so");
#endif

#endif

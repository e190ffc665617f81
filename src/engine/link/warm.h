/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetches the small pieces of a send or receive call. Hardware prefetchers stop at page borders,
 * so the kernel's copy would otherwise wait for memory at the start of each piece
 * (docs/experiments.md). */
#ifndef ENGINE_LINK_WARM_H
#define ENGINE_LINK_WARM_H

#include <stdint.h>
#include <sys/uio.h>

#define WARM_PIECE_MAX (16u << 10) /* longer pieces are left to the hardware */
#define WARM_BYTES 256u		   /* how much of each piece is prefetched; more was not faster */
#define WARM_LINE 64u
/* most pieces of a receive that are prefetched; the receive may use only the first ones */
#define WARM_AHEAD 64u

static inline size_t warm_bytes(const struct iovec *piece)
{
	if (piece->iov_len > WARM_PIECE_MAX)
		return 0;
	return piece->iov_len < WARM_BYTES ? piece->iov_len : WARM_BYTES;
}

static inline void warm_read(const struct iovec *iov, uint32_t n)
{
	for (uint32_t i = 0; n > 2 && i < n; i++)
		for (size_t at = 0; at < warm_bytes(&iov[i]); at += WARM_LINE)
			__builtin_prefetch((const char *)iov[i].iov_base + at, 0, 2);
}

static inline void warm_write(const struct iovec *iov, uint32_t n)
{
	for (uint32_t i = 0; n > 2 && i < n && i < WARM_AHEAD; i++)
		for (size_t at = 0; at < warm_bytes(&iov[i]); at += WARM_LINE)
			__builtin_prefetch((const char *)iov[i].iov_base + at, 1, 2);
}

#endif

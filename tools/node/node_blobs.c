/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of many ranks in one piece: their sizes, then the bytes, by rank. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "node_control.h"

/* Alignment of every blob, and so of structs inside blobs. */
#define ALIGN sizeof(uint64_t)

static size_t padded(size_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

void *node_blobs_pack(const struct node_blob *blobs, uint32_t count, size_t *out_bytes)
{
	size_t bytes = count * sizeof(uint64_t);
	uint64_t *sizes;
	uint8_t *at;

	for (uint32_t i = 0; i < count; i++)
		bytes += padded(blobs[i].bytes);
	sizes = calloc(1, bytes);
	if (!sizes)
		return NULL;
	at = (uint8_t *)(sizes + count);
	for (uint32_t i = 0; i < count; i++) {
		sizes[i] = blobs[i].bytes;
		if (sizes[i])
			memcpy(at, blobs[i].data, sizes[i]);
		at += padded(sizes[i]);
	}
	*out_bytes = bytes;
	return sizes;
}

tcpx_status node_blobs_unpack(const void *data, size_t bytes, uint32_t count,
			      struct node_blob *out_blobs)
{
	const uint8_t *sizes = data, *at = sizes + count * sizeof(uint64_t);
	size_t left = bytes;

	if (left < count * sizeof(uint64_t))
		return error_set(TCPX_ERR_PROTOCOL, 0, "%zu bytes of %u ranks", bytes, count);
	left -= count * sizeof(uint64_t);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t size;

		memcpy(&size, sizes + i * sizeof(size), sizeof(size));
		if (size > left || padded(size) > left)
			return error_set(TCPX_ERR_PROTOCOL, 0, "rank %u's %llu bytes are not there",
					 i, (unsigned long long)size);
		if (out_blobs)
			out_blobs[i] = (struct node_blob){at, size};
		at += padded(size);
		left -= padded(size);
	}
	return left ? error_set(TCPX_ERR_PROTOCOL, 0, "%zu bytes too many", left) : TCPX_OK;
}

bool node_blob_text(const char *text, size_t cap)
{
	return memchr(text, '\0', cap) != NULL;
}

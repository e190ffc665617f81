/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that vanishes while a request uses it, for example because its file is truncated: copies
 * that fail instead of crashing, and the error text. */
#include "engine/link/vanish.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "sys/user.h"

bool vanish_gather(const struct chan_tx *tx, const struct iovec *iov, uint32_t n, uint8_t *out)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!tx->vanishing)
			memcpy(out, iov[i].iov_base, iov[i].iov_len);
		else if (sys_user_read(out, iov[i].iov_base, iov[i].iov_len) < iov[i].iov_len)
			return false;
		out += iov[i].iov_len;
	}
	return true;
}

/* Returns the first byte that cannot be read. If all bytes can be read, because a write has failed
 * or the memory is there again after a failed read, returns the first byte of `iov`. Returns NULL
 * if `iov` has no entry. */
static const uint8_t *vanish_first_gone(const struct iovec *iov, uint32_t n)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *at = iov[i].iov_base, *end = at + iov[i].iov_len;
		uint8_t byte;

		for (; at < end; at += page - ((uintptr_t)at & (page - 1)))
			if (!sys_user_read(&byte, at, 1))
				return at;
	}
	return n ? iov[0].iov_base : NULL;
}

static bool region_has(const struct mem_region *region, const uint8_t *at)
{
	return at >= region->base && (uint64_t)(at - region->base) < region->length;
}

static const struct mem_region *segs_region_of(const struct core_segs *segs, const uint8_t *at)
{
	for (uint32_t i = 0; segs && i < segs->nlocal; i++)
		if (region_has(segs->local[i], at))
			return segs->local[i];
	return NULL;
}

/* Logs that the memory at `at` has vanished, and stores the place for the request's error text.
 * `xfer` is the transfer of a request of this side, or NULL if the request is the peer's. */
static void vanish_tell(struct engine_chan *chan, struct core_xfer *xfer,
			const struct mem_region *region, const uint8_t *at, const char *verb)
{
	static struct log_limit limit;
	struct engine_peer *peer = chan->peer;
	uint64_t offset = region ? (uint64_t)(at - region->base) : 0;

	if (xfer && region) {
		struct engine_request *request = LIST_ENTRY(xfer, struct engine_request, xfer);

		link_lock(&peer->link);
		request->gone.offset = offset;
		request->gone.base = (uintptr_t)region->base;
		link_unlock_only(&peer->link);
	}
	if (!log_allow(&limit, 3))
		return;
	LOG_WARN("peer '%s': memory %p, at offset %" PRIu64 " of the region of %" PRIu64
		 " bytes at %p, cannot be %s any more: %s ends; next: keep memory mapped, and "
		 "files as long as they are, until it is deregistered",
		 peer->who.name, (const void *)at, offset, region ? region->length : 0,
		 region ? (const void *)region->base : NULL, verb,
		 xfer ? "the request" : "the peer's request");
}

void vanish_source(struct engine_chan *chan, const struct iovec *iov, uint32_t n)
{
	const struct core_tx *frame = &chan->tx.frame;
	const uint8_t *at = vanish_first_gone(iov, n);
	struct core_xfer *xfer;

	link_lock(&chan->peer->link);
	xfer = core_tx_xfer(&chan->peer->link.core, chan->index);
	link_unlock_only(&chan->peer->link);
	if (frame->segs && at)
		vanish_tell(chan, xfer, segs_region_of(frame->segs, at), at, "read");
}

void vanish_sink(struct engine_chan *chan, const struct iovec *iov, uint32_t n)
{
	const struct chan_rx *rx = &chan->rx;
	const uint8_t *at = vanish_first_gone(iov, n);
	const struct mem_region *region = NULL;

	if (!at)
		return;
	if (rx->core.kind == CORE_RX_SEGS)
		region = segs_region_of(rx->core.segs, at);
	for (uint32_t i = 0; i < rx->nheld && !region; i++)
		if (region_has(rx->held[i].region, at))
			region = rx->held[i].region;
	vanish_tell(chan, rx->core.kind == CORE_RX_SEGS ? rx->core.xfer : NULL, region, at,
		    "written");
}

void vanish_words(const struct engine_request *request, char *out, size_t bytes)
{
	const struct core_xfer *xfer = &request->xfer;

	*out = '\0';
	if (xfer->status == TCPX_ERR_INVALID && request->gone.base)
		snprintf(out, bytes,
			 ", whose memory is gone at offset %" PRIu64 " of the region at 0x%" PRIx64,
			 request->gone.offset, request->gone.base);
}

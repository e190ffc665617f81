/* SPDX-License-Identifier: Apache-2.0 */
/* The frame that a channel is sending and the frame that it is receiving. Only the owner of a
 * direction accesses the struct of that direction, and the control thread once the channel has
 * stopped. Exceptions are atomic fields, and two accesses under link.lock: chan_rx_forget() changes
 * chan_rx while no receive call is under way, and the end of a copy (staged_fill_done()) changes
 * chan_tx while `filling` is set. */
#ifndef ENGINE_LINK_CHAN_FRAMES_H
#define ENGINE_LINK_CHAN_FRAMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/frame.h"
#include "core/chan.h"
#include "core/job.h"
#include "core/link.h"
#include "wire/table.h"

#define ENGINE_CHUNK_BYTES (512u << 10) /* size of a chunk, unless one side requests another size */
#define ENGINE_FILLED_CHUNK_BYTES (2u << 20)
#define ENGINE_CHUNK_MIN 4096u
#define ENGINE_CHUNK_MAX (16u << 20)
/* size of chan_tx.buf: enough for a batch of frames, for the largest table, and for a copied
 * payload */
#define ENGINE_TX_BUFFER (128u << 10)
#define ENGINE_RX_BUFFER (FRAME_TABLE_MAX + 4096)
#define ENGINE_COPY_BYTES CORE_SMALL_BYTES /* largest payload that is copied into chan_tx.buf */

struct engine_stage;
struct mem_region;
struct path_ops;
struct prefill_slice;

/* most slices from which one payload is sent: those of 16 MiB, and one at each end; a payload in
 * more slices is copied once more, into a slot of its own */
#define CHAN_SLICES_MAX (ENGINE_CHUNK_MAX / CORE_FILL_BYTES + 2)

struct chan_tx {
	/* headers of a batch of frames, with tables, copied payloads and trailers */
	uint8_t *buf;
	uint32_t start, end; /* the bytes of `buf` that are still to be sent */
	/* the payload of the last frame in `buf` is in `iov`, which is sent after `buf` */
	bool big;
	/* path->load() has returned PATH_LATER for the frame; load() is called again when the
	 * channel can send */
	bool posting;
	bool aborted; /* zeros are sent in place of the rest of the payload */
	struct core_tx frame;
	/* how the frame's payload travels; NULL before the first frame */
	const struct path_ops *path;
	struct iovec *iov;
	uint32_t niov, at;
	uint64_t left;
	uint8_t trailer[FRAME_TRAILER_BYTES];
	uint32_t trailer_sent;
	/* the slices that hold the payload, if the source is staged */
	struct prefill_slice *slices[CHAN_SLICES_MAX];
	uint32_t nslices;
	/* the payload is sent without a copy from pages that may vanish (vanish.h) */
	bool vanishing;
	/* the slot that the channel fills itself, if the source is staged and in no slice */
	struct engine_stage *stage;
	/* the copy into the slot has not ended; if the channel ends first, `orphan` takes over the
	 * frame */
	_Atomic int filling;
	struct core_io *orphan;
	/* sent without a copy: the slices are pinned until the peer has taken the frame */
	bool held;
	/* the payload is not valid and the peer notices it, even if the trailer says FRAME_VALID */
	bool torn;
	/* memory of the frame is on loan to the peer, so core_tx_pause() is not called yet */
	_Atomic int lent;
};

/* A region that the received chunk is written to. The struct holds an io reference to the region,
 * in which `pieces` consecutive pieces of the chunk lie. */
struct chan_held {
	struct mem_region *region;
	uint64_t key, pieces;
};

enum chan_rx_state { RX_HEADER = 0, RX_PAYLOAD, RX_TRAILER };

struct chan_rx {
	enum chan_rx_state state;
	/* `message`: memory for the payload of an eager SEND, and scratch memory */
	uint8_t *buf, *message;
	uint32_t used, have; /* bytes in `buf`: handled so far; received so far */
	struct frame frame;
	const struct path_ops *path; /* how the frame's payload travels */
	struct core_rx core;
	struct iovec *iov;
	uint32_t niov, at;
	/* of a segment list: the first piece that has no entry in `iov` yet */
	struct core_cursor next;
	uint64_t beyond; /* bytes of the payload from `next` on */
	uint64_t left;
	/* aborted: the rest of the payload goes to scratch memory; vanishing: pages that `iov`
	 * points to may vanish */
	bool aborted, vanishing;
	/* the last frame was large, so a receive call reads little beyond the payload */
	bool bulk;
	tcpx_status verdict; /* why the payload was refused; TCPX_OK: it was not */
	struct chan_held *held;
	uint32_t nheld, cap_held;
	/* the sender took back a part of the payload, or that part could not be read; the frame is
	 * treated as aborted */
	bool torn;
	/* the slot that receives the payload, if the destination is staged */
	struct engine_stage *stage;
	/* the slot to copy to the destination; the copy begins after core_rx_end() */
	struct engine_stage *commit;
};

#endif

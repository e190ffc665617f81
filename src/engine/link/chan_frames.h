/* SPDX-License-Identifier: Apache-2.0 */
/* The frame under way in each direction of a channel. Only the owner of the direction touches
 * it. */
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
/* holds a batch of frames; the largest table; a payload that is copied */
#define ENGINE_TX_BUFFER (128u << 10)
#define ENGINE_RX_BUFFER (FRAME_TABLE_MAX + 4096)
#define ENGINE_COPY_BYTES CORE_SMALL_BYTES /* largest payload that may be copied */

struct engine_stage;
struct mem_region;
struct path_ops;
struct prefill_slice;

/* Most slices that a chunk may lie in: those of a chunk of 16 MiB, and one at each end. */
#define CHAN_SLICES_MAX (ENGINE_CHUNK_MAX / CORE_FILL_BYTES + 2)

struct chan_tx {
	/* headers of a batch of frames, with tables, copied payloads and trailers */
	uint8_t *buf;
	uint32_t start, end; /* the bytes of `buf` that are still to be sent */
	/* the payload of the last frame in `buf` is not copied into it: `iov` follows `buf` */
	bool big;
	/* path->load() has returned PATH_LATER for the frame, and is called again when the channel
	 * can send */
	bool posting;
	bool aborted; /* the rest of the payload is sent from scratch memory */
	struct core_tx frame;
	const struct path_ops *path; /* how the frame's payload travels; NULL: no frame yet */
	struct iovec *iov;
	uint32_t niov, at;
	uint64_t left;
	uint8_t trailer[FRAME_TRAILER_BYTES];
	uint32_t trailer_sent;
	/* the source is staged: the slices that hold the payload */
	struct prefill_slice *slices[CHAN_SLICES_MAX];
	uint32_t nslices;
	/* the source's pages may vanish, and the payload is sent from there without a copy */
	bool vanishing;
	/* the source is staged but in no slice: the slot that the channel fills */
	struct engine_stage *stage;
	/* the slot is being filled; `orphan` takes over the frame if the channel ends meanwhile */
	_Atomic int filling;
	struct core_io *orphan;
	bool held; /* zero-copy: the slices are pinned until the peer has taken the frame */
	/* the peer was told that the frame is aborted, whatever the trailer says */
	bool torn;
	/* the peer reads the frame's memory, so the core's send call stays open */
	_Atomic int lent;
};

/* A region that the chunk is written to, with an io reference, and how many consecutive pieces of
 * the chunk lie in it. */
struct chan_held {
	struct mem_region *region;
	uint64_t key, pieces;
};

enum chan_rx_state { RX_HEADER = 0, RX_PAYLOAD, RX_TRAILER };

struct chan_rx {
	enum chan_rx_state state;
	/* message: the payload of an eager SEND, or bytes of a refused chunk */
	uint8_t *buf, *message;
	uint32_t used, have; /* bytes of `buf`: handled; received */
	struct frame frame;
	const struct path_ops *path; /* how the frame's payload travels */
	struct core_rx core;
	struct iovec *iov;
	uint32_t niov, at;
	/* of an sg list: the first piece for which iov has no entry left */
	struct core_cursor next;
	uint64_t beyond; /* bytes of the payload from `next` on */
	uint64_t left;
	/* aborted: the rest goes to scratch memory; vanishing: pages of the memory in iov may
	 * vanish */
	bool aborted, vanishing;
	/* the last frame was large, so little is read beyond the next one */
	bool bulk;
	tcpx_status verdict; /* why the payload was refused, or OK */
	struct chan_held *held;
	uint32_t nheld, cap_held;
	/* the sender took back a part of the payload, so the frame is treated as aborted */
	bool torn;
	/* the destination is staged: the slot that receives the payload */
	struct engine_stage *stage;
	/* the slot whose copy to the destination begins after core_rx_end() */
	struct engine_stage *commit;
};

#endif

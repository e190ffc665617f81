/* SPDX-License-Identifier: Apache-2.0 */
/* The frame under way in each direction of a channel. Its direction's owner alone touches it. */
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

#define ENGINE_CHUNK_BYTES (512u << 10) /* where neither side has a wish */
#define ENGINE_FILLED_CHUNK_BYTES (2u << 20)
#define ENGINE_CHUNK_MIN 4096u
#define ENGINE_CHUNK_MAX (16u << 20)
#define ENGINE_TX_BUFFER (128u << 10) /* a batch, the largest tables, a copied payload */
#define ENGINE_RX_BUFFER (FRAME_TABLE_MAX + 4096)
#define ENGINE_COPY_BYTES CORE_SMALL_BYTES /* up to here a payload is copied, above never */

struct engine_stage;
struct mem_region;
struct path_ops;
struct prefill_slice;

/* Slices that one chunk may lie in: those of a chunk of 16 MiB, and one at each end. */
#define CHAN_SLICES_MAX (ENGINE_CHUNK_MAX / CORE_FILL_BYTES + 2)

struct chan_tx {
	uint8_t *buf;
	uint32_t start, end;
	bool big;     /* a frame whose payload is not copied ends the batch */
	bool posting; /* its path has not taken the frame yet */
	bool aborted; /* the rest of it comes from scratch */
	struct core_tx frame;
	const struct path_ops *path; /* of the frame; NULL: there was none yet */
	struct iovec *iov;
	uint32_t niov, at;
	uint64_t left;
	uint8_t trailer[FRAME_TRAILER_BYTES];
	uint32_t trailer_sent;
	struct prefill_slice *slices[CHAN_SLICES_MAX]; /* staged source: where it was filled */
	uint32_t nslices;
	bool vanishing;		    /* the source may vanish, and is sent from where it lies */
	struct engine_stage *stage; /* staged source: a slot of its own */
	_Atomic int filling; /* into the slot; orphan then takes the frame if its channel goes */
	struct core_io *orphan;
	bool held;	  /* the slices stay as they are until the peer has taken the frame */
	bool torn;	  /* the peer knows the frame for aborted, whatever its trailer says */
	_Atomic int lent; /* the peer may read the frame's memory now: the call stays open */
};

/* A region that a chunk is written to, with an io reference; its key, and pieces in a row. */
struct chan_held {
	struct mem_region *region;
	uint64_t key, pieces;
};

enum chan_rx_state { RX_HEADER = 0, RX_PAYLOAD, RX_TRAILER };

struct chan_rx {
	enum chan_rx_state state;
	uint8_t *buf, *message;
	uint32_t used, have;
	struct frame frame;
	const struct path_ops *path; /* of the frame */
	struct core_rx core;
	struct iovec *iov;
	uint32_t niov, at;
	struct core_cursor next; /* of a program: the first piece that iov has no room for */
	uint64_t beyond;	 /* bytes from there on */
	uint64_t left;
	bool aborted, vanishing; /* the rest goes to scratch; iov is memory that may vanish */
	bool bulk;		 /* the last frame was large: read little ahead */
	tcpx_status verdict;	 /* of a DATA frame's access */
	struct chan_held *held;
	uint32_t nheld, cap_held;
	bool torn; /* some of it was taken back by the sender: the frame counts as aborted */
	struct engine_stage *stage;  /* staged destination: its slot */
	struct engine_stage *commit; /* to be started behind core_rx_end */
};

#endif

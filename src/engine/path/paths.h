/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the payload of a request travels: a table of ways, which are asked in its order. The ends of
 * a transfer choose by themselves; what both must know of it is the core's path, which the frames
 * say. Several ways may use the stream, for different memory.
 */
#ifndef ENGINE_PATH_PATHS_H
#define ENGINE_PATH_PATHS_H

#include "engine/engine.h"

enum path_loaded {
	PATH_LATER,  /* not now; load is called again when the channel has room */
	PATH_APART,  /* nothing follows the header on the channel */
	PATH_INLINE, /* the payload is in tx->iov */
	PATH_FILLED, /* the same, or it will be when tx->filling is 0 */
};

/*
 * A way. NULL: it has no part in that. The owner of a channel's direction calls without a lock,
 * unless a line says otherwise.
 */
struct path_ops {
	const char *name;
	enum core_path core;
	bool apart; /* nothing of the payload follows the header on its channel */

	/* Post, peer.lock: whether a request may go this way, if that is not the stream. */
	bool (*carries)(struct engine_request *request);
	/* READ's answer; asked: the reader wants this way. keys: by which it named the regions of
	 * push->prog. ERR_REMOTE: it cannot have it so. */
	tcpx_status (*serve)(struct engine_peer *peer, struct core_push *push, const uint64_t *keys,
			     bool asked);
	/* peer.lock: the region goes away. */
	void (*forget)(struct engine_peer *peer, struct mem_region *region);

	/* Sender. peer.lock: whether the payload of a frame that was just cut is of such memory. */
	bool (*sources)(const struct core_tx *frame);
	/* peer.lock: takes hold of what load needs. */
	void (*claim)(struct engine_chan *chan);
	/* Puts the header into tx->buf, and sets tx->iov. *out_valid: of PATH_APART; false: the
	 * frame is aborted. */
	enum path_loaded (*load)(struct engine_chan *chan, bool *out_valid);
	/* The frame is with the transport, or never will be. */
	void (*unload)(struct engine_chan *chan);

	/* Receiver: whether the frame that begins is for it. One that is not apart looks at the
	 * destination: rx->held, or prog. */
	bool (*sinks)(const struct engine_chan *chan, const struct core_prog *prog);
	/* Sets rx->iov, and rx->stage where something is to be done when the payload has come.
	 * sources: what the frame's table says of where it lies. Any error but ERR_PROTOCOL refuses
	 * the chunk alone. */
	tcpx_status (*receive)(struct engine_chan *chan, const struct core_prog *prog,
			       const uint8_t *sources, uint32_t bytes);
	/* The core knows that the chunk has come: does what is left, by copies_start() with the end
	 * stage_commit_done. */
	void (*commit)(struct engine_chan *chan, struct engine_stage *stage);
	/* The chunk was refused or aborted, or needs no commit. */
	void (*discard)(struct engine_chan *chan);
};

extern const struct path_ops path_reference, path_message, path_staged, path_stream;

/* peer.lock, at each post: sets the path of request->xfer, and whether its ends are staged. */
void path_choose(struct engine_request *request);
/* The answer to the READ that frame asks for; see path_ops.serve. */
tcpx_status path_serve(struct engine_peer *peer, struct core_push *push, const struct frame *frame,
		       const uint64_t *keys);
void path_forget(struct engine_peer *peer, struct mem_region *region); /* peer.lock */
/* Of a frame that was just cut. peer.lock. */
const struct path_ops *path_of_source(const struct core_tx *frame);
/* Of a frame that begins: one that is apart, or the stream. */
const struct path_ops *path_of_frame(const struct engine_chan *chan);
/* The same when its destination is known: in rx->held, or prog. */
const struct path_ops *path_of_sink(const struct engine_chan *chan, const struct core_prog *prog);

/* tx owner. For load: header and table behind what tx->buf holds already. sources: says in a table
 * of its own where the payload lies; or NULL. */
void path_header(struct chan_tx *tx, uint32_t (*sources)(const struct core_tx *tx, uint8_t *out));
/* The frame under way, if there is one, needs nothing any more. No lock. */
void path_unload(struct engine_chan *chan);
/* rx owner, in a call: the next pieces of a program, when those in rx->iov are used up. */
void path_more(struct chan_rx *rx);
/* The addresses of a program's local side: *bytes bytes from *at on, at most max pieces, which *at
 * and *bytes move past. Returns how many. */
uint32_t path_map(const struct core_prog *prog, struct core_cursor *at, uint64_t *bytes,
		  struct iovec *iov, uint32_t max);

/* For tests: one more way, asked before the others, before any session is there. */
void path_enrol(const struct path_ops *path);

#endif

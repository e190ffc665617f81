/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the payload of a request travels: a table of paths, which are asked in its order. Each end of
 * a transfer chooses for itself; both know the core's path, which the frames state. Several paths
 * may use the stream, for different kinds of memory.
 */
#ifndef ENGINE_PATH_PATHS_H
#define ENGINE_PATH_PATHS_H

#include "engine/link/engine.h"

enum path_loaded {
	PATH_LATER,  /* not now; load is called again when the channel has room */
	PATH_APART,  /* nothing follows the header on the channel */
	PATH_INLINE, /* the payload is in tx->iov */
	PATH_FILLED, /* the same, once tx->filling is 0 */
};

/*
 * What a path does apart from its frames. A member may be NULL if there is nothing to do. Any
 * thread, no lock, unless its comment says otherwise.
 */
struct path_extra {
	/* The runtime starts. It stops: the control thread has ended. */
	void (*start)(struct engine_runtime *runtime);
	void (*stop)(struct engine_runtime *runtime);
	void (*registered)(struct engine_session *session, uint64_t region); /* a handle */
	/* Those flags WIRE_TOKEN_ of the region's tokens that concern this path. */
	uint8_t (*token)(const struct engine_session *session, const struct mem_region *region);
	/* The request is prepared: notes whether its memory suits the path, and readies it. */
	void (*prepared)(struct engine_request *request);

	/* A request for data begins to arrive. */
	void (*asked)(struct engine_peer *peer);

	/* link.lock, from the core: see struct core_ops. */
	void (*fill)(struct engine_peer *peer);
	void (*fill_drop)(struct engine_peer *peer, struct core_job *job);
	/* One path has it, and it takes SENDs to any memory. */
	tcpx_status (*deliver)(struct engine_peer *peer, struct engine_request *recv,
			       const void *data, uint64_t bytes);
	/* No lock: does what was deferred; link.prefill.due is set. */
	void (*flush)(struct engine_peer *peer);
};

/*
 * A path. A member may be NULL if there is nothing to do. The owner of a channel's direction calls
 * it without a lock, unless its comment says otherwise.
 */
struct path_ops {
	const struct path_extra *extra; /* or NULL */
	enum core_path core;
	bool apart; /* the payload does not follow the header on the channel */

	/* Post, link.lock: whether a request may use this path, if that is not the stream. */
	bool (*carries)(struct engine_request *request);
	/* The answer to a READ; asked: the reader requests this path. keys: those by which it named
	 * the regions of push->prog. ERR_REMOTE: the path cannot be used. */
	tcpx_status (*serve)(struct engine_peer *peer, struct core_push *push, const uint64_t *keys,
			     bool asked);
	/* link.lock: the region is deregistered. */
	void (*forget)(struct engine_peer *peer, struct mem_region *region);

	/* Sender. link.lock: whether the payload of a frame that was just cut is in memory of this
	 * path. */
	bool (*sources)(const struct core_tx *frame);
	/* link.lock: takes the references that load needs. */
	void (*claim)(struct engine_chan *chan);
	/* Puts the header into tx->buf, and sets tx->iov. *out_valid, for PATH_APART: false: the
	 * frame is aborted. */
	enum path_loaded (*load)(struct engine_chan *chan, bool *out_valid);
	/* The transport has the frame, or will never get it. */
	void (*unload)(struct engine_chan *chan);

	/* Receiver: whether this path takes the frame that begins. A path that is not apart checks
	 * the destination: rx->held, or prog. */
	bool (*sinks)(const struct engine_chan *chan, const struct core_prog *prog);
	/* Sets rx->iov, and rx->stage if there is work once the payload has come. sources: the part
	 * of the frame's table that says where the payload is. Any error but ERR_PROTOCOL refuses
	 * only the chunk. */
	tcpx_status (*receive)(struct engine_chan *chan, const struct core_prog *prog,
			       const uint8_t *sources, uint32_t bytes);
	/* The core knows that the chunk has come: does the rest by copies_start(), with
	 * stage_commit_done() at the end. */
	void (*commit)(struct engine_chan *chan, struct engine_stage *stage);
	/* The chunk was refused or aborted, or needs no commit. */
	void (*discard)(struct engine_chan *chan);
};

extern const struct path_ops path_reference, path_message, path_staged, path_stream;

/* link.lock, at each post: sets the path of request->xfer, and whether its ends are staged. */
void path_choose(struct engine_request *request);
/* Chooses the path of the answer to the READ in frame; see path_ops.serve. */
tcpx_status path_serve(struct engine_peer *peer, struct core_push *push, const struct frame *frame,
		       const uint64_t *keys);
void path_forget(struct engine_peer *peer, struct mem_region *region); /* link.lock */
/* The members of path_extra of the same name, of all paths. */
void path_start(struct engine_runtime *runtime);
void path_stop(struct engine_runtime *runtime);
void path_registered(struct engine_session *session, uint64_t region);
uint8_t path_token(const struct engine_session *session, const struct mem_region *region);
void path_prepared(struct engine_request *request);
void path_asked(struct engine_peer *peer);
void path_fill(struct engine_peer *peer);
void path_fill_drop(struct engine_peer *peer, struct core_job *job);
tcpx_status path_deliver(struct engine_peer *peer, struct engine_request *recv, const void *data,
			 uint64_t bytes);
void path_flush(struct engine_peer *peer);
/* The path of a frame that was just cut. link.lock. */
const struct path_ops *path_of_source(const struct core_tx *frame);
/* The path of a frame that begins: one that is apart, or the stream. */
const struct path_ops *path_of_frame(const struct engine_chan *chan);
/* The same once its destination is known: rx->held, or prog. */
const struct path_ops *path_of_sink(const struct engine_chan *chan, const struct core_prog *prog);

/* tx owner, for load: appends header and table to tx->buf. sources, or NULL: writes a table that
 * says where the payload is. */
void path_header(struct chan_tx *tx, uint32_t (*sources)(const struct core_tx *tx, uint8_t *out));
/* Releases what the frame under way needed, if there is one. No lock. */
void path_unload(struct engine_chan *chan);
/* rx owner, in a call: loads the next pieces of an sg list when those in rx->iov are used up. */
void path_more(struct chan_rx *rx);
/* The addresses of the local side of an sg list: *bytes bytes from *at on, at most max pieces.
 * Advances *at and *bytes, and returns the number of pieces. */
uint32_t path_map(const struct core_prog *prog, struct core_cursor *at, uint64_t *bytes,
		  struct iovec *iov, uint32_t max);

/* For tests: adds a path that is asked before the others. Only before the first session. */
void path_enrol(const struct path_ops *path);

#endif

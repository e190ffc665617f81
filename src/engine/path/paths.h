/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the payload of a request travels: a table of paths, which are asked in the order of the
 * table. Each end of a transfer chooses for itself; both know the core's path (enum core_path),
 * which the frames state. Several paths may use the stream, for different kinds of memory.
 */
#ifndef ENGINE_PATH_PATHS_H
#define ENGINE_PATH_PATHS_H

#include "engine/link/engine.h"

enum path_loaded {
	PATH_LATER,  /* not now; load is called again when the channel has room */
	PATH_APART,  /* nothing follows the header on the channel */
	PATH_INLINE, /* the payload is in tx->iov */
	PATH_FILLED, /* the payload is in tx->iov once tx->filling is 0 */
};

/*
 * What a path does apart from its frames. A member may be NULL if there is nothing to do. Any
 * thread, no lock, unless its comment says otherwise.
 */
struct path_extra {
	/* start: the runtime starts. stop: it stops, and the control thread has ended. */
	void (*start)(struct engine_runtime *runtime);
	void (*stop)(struct engine_runtime *runtime);
	/* A region was registered; region is its handle. */
	void (*registered)(struct engine_session *session, uint64_t region);
	/* The WIRE_TOKEN_ flags in the region's tokens that concern this path. */
	uint8_t (*token)(const struct engine_session *session, const struct mem_region *region);
	/* The request is prepared: notes whether its memory suits the path, and prepares the
	 * memory. */
	void (*prepared)(struct engine_request *request);

	/* A READ request begins to arrive. */
	void (*asked)(struct engine_peer *peer);

	/* Called by the core, with link.lock held: see struct core_ops. */
	void (*fill)(struct engine_peer *peer);
	void (*fill_drop)(struct engine_peer *peer, struct core_job *job);
	/* Delivers the data of a SEND to the memory of recv. Only one path has this member, which
	 * takes memory of any kind. */
	tcpx_status (*deliver)(struct engine_peer *peer, struct engine_request *recv,
			       const void *data, uint64_t bytes);
	/* Does the work that was deferred until link.lock is free. Called if link.prefill.due is
	 * set, with no lock held. */
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

	/* Called at each post, with link.lock held: whether the request may use this path. Paths
	 * that use the stream have NULL. */
	bool (*carries)(struct engine_request *request);
	/* Prepares the answer to a READ. asked: the reader requests this path. keys: those by which
	 * it named the regions of push->prog. ERR_REMOTE: the path cannot be used. */
	tcpx_status (*serve)(struct engine_peer *peer, struct core_push *push, const uint64_t *keys,
			     bool asked);
	/* The region is deregistered. Called with link.lock held. */
	void (*forget)(struct engine_peer *peer, struct mem_region *region);

	/* Sender, with link.lock held: whether the payload of a frame that was just cut is in
	 * memory of this path. */
	bool (*sources)(const struct core_tx *frame);
	/* Takes the references that load needs. Called with link.lock held. */
	void (*claim)(struct engine_chan *chan);
	/* Puts the header into tx->buf, and sets tx->iov to the payload. If it returns PATH_APART,
	 * *out_valid false means that the frame is aborted. */
	enum path_loaded (*load)(struct engine_chan *chan, bool *out_valid);
	/* The transport has the frame, or will never get it. */
	void (*unload)(struct engine_chan *chan);

	/* Receiver: whether this path takes the frame that begins to arrive. A path that is not
	 * apart checks the destination: rx->held, or prog. */
	bool (*sinks)(const struct engine_chan *chan, const struct core_prog *prog);
	/* Sets rx->iov, and rx->stage if there is work after the payload has come. sources: the
	 * part of the frame's table that says where the payload is, bytes long. Any error but
	 * ERR_PROTOCOL refuses only the chunk. */
	tcpx_status (*receive)(struct engine_chan *chan, const struct core_prog *prog,
			       const uint8_t *sources, uint32_t bytes);
	/* Called after the core learned that the chunk has come: starts the remaining copies by
	 * copies_start(), which end by stage_commit_done(). */
	void (*commit)(struct engine_chan *chan, struct engine_stage *stage);
	/* The chunk was refused or aborted, or needs no commit. */
	void (*discard)(struct engine_chan *chan);
};

extern const struct path_ops path_reference, path_message, path_staged, path_stream;

/* Called at each post, with link.lock held: sets the path of request->xfer, and whether its ends
 * are staged. */
void path_choose(struct engine_request *request);
/* Chooses the path of the answer to the READ in frame; see path_ops.serve. */
tcpx_status path_serve(struct engine_peer *peer, struct core_push *push, const struct frame *frame,
		       const uint64_t *keys);
void path_forget(struct engine_peer *peer, struct mem_region *region); /* link.lock held */
/* Each calls the members of path_extra of its name, of all paths. */
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
/* The path of a frame that was just cut. The caller holds link.lock. */
const struct path_ops *path_of_source(const struct core_tx *frame);
/* The path of a frame that begins to arrive: one that is apart, or the stream. */
const struct path_ops *path_of_frame(const struct engine_chan *chan);
/* The path of the same frame once its destination is known: rx->held, or prog. */
const struct path_ops *path_of_sink(const struct engine_chan *chan, const struct core_prog *prog);

/* For load, called by the tx owner: appends header and table to tx->buf. sources, if not NULL,
 * writes a table that says where the payload is. */
void path_header(struct chan_tx *tx, uint32_t (*sources)(const struct core_tx *tx, uint8_t *out));
/* Releases what the frame under way needed, if there is a frame. The caller holds no lock. */
void path_unload(struct engine_chan *chan);
/* Called by the rx owner when the pieces in rx->iov are used up: loads the next pieces of the sg
 * list. */
void path_more(struct chan_rx *rx);
/* Writes the addresses of the local side of an sg list into iov: *bytes bytes from *at on, at most
 * max pieces. Advances *at and *bytes, and returns the number of pieces. */
uint32_t path_map(const struct core_prog *prog, struct core_cursor *at, uint64_t *bytes,
		  struct iovec *iov, uint32_t max);

/* For tests: adds a path that is asked before the others. Call it only before the first session is
 * opened. */
void path_enrol(const struct path_ops *path);

#endif

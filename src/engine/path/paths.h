/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the payload of a request travels: a table of paths, which are asked in the order of the
 * table. Each end of a transfer chooses for itself, but both use the same enum core_path, which
 * the frames state. Several paths may have the same enum core_path, for different kinds of memory:
 * path_stream and path_staged have CORE_PATH_STREAM.
 */
#ifndef ENGINE_PATH_PATHS_H
#define ENGINE_PATH_PATHS_H

#include "engine/link/engine.h"

/* What path_ops.load returns. */
enum path_loaded {
	PATH_LATER,  /* the payload cannot be sent yet; load is called for the frame again later */
	PATH_APART,  /* nothing follows the header on the channel */
	PATH_INLINE, /* the payload is in tx->iov */
	PATH_FILLED, /* the payload is in tx->iov once tx->filling is 0 */
};

/*
 * What a path does apart from its frames. A member may be NULL if there is nothing to do. Members
 * are called on any thread, with no lock held, unless a comment says otherwise.
 */
struct path_extra {
	/* start: called when the runtime starts. stop: called when the runtime stops and the
	 * control thread has ended. */
	void (*start)(struct engine_runtime *runtime);
	void (*stop)(struct engine_runtime *runtime);
	/* Called when a region was registered; `region` is its handle. */
	void (*registered)(struct engine_session *session, uint64_t region);
	/* Returns the WIRE_TOKEN_ flags of this path for a token of the region; 0: none. */
	uint8_t (*token)(const struct engine_session *session, const struct mem_region *region);
	/* Called when the request was prepared: notes in request->local whether its memory suits
	 * the path, and may begin to make it ready. */
	void (*prepared)(struct engine_request *request);

	/* Called by the rx owner when the header of a READ request has arrived, before the answer
	 * is prepared. */
	void (*asked)(struct engine_peer *peer);

	/* Called by the core, with link.lock held: core_ops.fill and fill_drop. */
	void (*fill)(struct engine_peer *peer);
	void (*fill_drop)(struct engine_peer *peer, struct core_job *job);
	/* Delivers the data of an eager SEND to the memory of recv, whatever its kind. Called
	 * with link.lock held. Returns IN_PROGRESS or an error. Only one path has this member. */
	tcpx_status (*deliver)(struct engine_peer *peer, struct engine_request *recv,
			       const void *data, uint64_t bytes);
	/* Does the work that was deferred until link.lock is free. Called if link.prefill.due is
	 * set, with no lock held. */
	void (*flush)(struct engine_peer *peer);
};

/*
 * A path. A member may be NULL if there is nothing to do. Members are called by the owner of a
 * channel's direction, with no lock held, unless a comment says otherwise.
 */
struct path_ops {
	const struct path_extra *extra; /* or NULL */
	enum core_path core;
	bool apart; /* the payload does not follow the header on the channel */

	/* Called at each post, with link.lock held: whether the request may use this path. NULL
	 * in paths that use the stream: they are asked for each frame (sources, sinks). */
	bool (*carries)(struct engine_request *request);
	/* Prepares the answer to a READ. asked: the reader requests this path. keys: the keys by
	 * which the reader named the regions of resp->segs. ERR_REMOTE: the path is requested and
	 * cannot be used. */
	tcpx_status (*serve)(struct engine_peer *peer, struct core_resp *resp, const uint64_t *keys,
			     bool asked);
	/* Called when the region is deregistered, with link.lock held. */
	void (*forget)(struct engine_peer *peer, struct mem_region *region);

	/* Sender, called with link.lock held: whether the payload of a frame that the core has
	 * just returned is in memory of this path. */
	bool (*sources)(const struct core_tx *frame);
	/* Takes the references that load needs. Called with link.lock held, after sources. */
	void (*claim)(struct engine_chan *chan);
	/* Puts the header into tx->buf, and sets tx->iov to the payload unless it returns
	 * PATH_LATER or PATH_APART. *out_valid is true before; a path that is apart sets it to
	 * false if the payload will never be sent, so that the frame counts as aborted. */
	enum path_loaded (*load)(struct engine_chan *chan, bool *out_valid);
	/* Called when the transport has the whole frame, or will never get it: releases what
	 * claim and load took. */
	void (*unload)(struct engine_chan *chan);

	/* Receiver: whether this path takes the frame whose header has arrived. NULL: yes. A path
	 * that is apart is also asked before the destination is known, with segs NULL; others
	 * look at the destination: rx->held, or segs. */
	bool (*sinks)(const struct engine_chan *chan, const struct core_segs *segs);
	/* Receiver: sets rx->iov to the destination, and rx->stage if there is work after the
	 * payload has arrived. sources, bytes: the part of the frame's table that says where the
	 * payload is. ERR_PROTOCOL ends the peer; any other error refuses only the chunk. */
	tcpx_status (*receive)(struct engine_chan *chan, const struct core_segs *segs,
			       const uint8_t *sources, uint32_t bytes);
	/* Called after the core has been told that the chunk arrived: starts the remaining copies
	 * by copies_start(). They end with stage_commit_done(). */
	void (*commit)(struct engine_chan *chan, struct engine_stage *stage);
	/* Called instead of commit if the chunk was refused or aborted, or needs no commit. */
	void (*discard)(struct engine_chan *chan);
};

extern const struct path_ops path_reference, path_message, path_staged, path_stream;

/* Called at each post, with link.lock held: sets path, direct, local_staged and remote_staged of
 * request->xfer. */
void path_choose(struct engine_request *request);
/* Chooses the path of the answer to the READ that frame requests; see path_ops.serve. Result: OK,
 * or why the READ is refused. */
tcpx_status path_serve(struct engine_peer *peer, struct core_resp *resp, const struct frame *frame,
		       const uint64_t *keys);
void path_forget(struct engine_peer *peer, struct mem_region *region); /* link.lock held */
/* Each of these calls, in all paths, the member of path_extra with its name. */
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
/* The path of a frame that the core has just returned to be sent. The caller holds link.lock. */
const struct path_ops *path_of_source(const struct core_tx *frame);
/* The path of a frame whose header has arrived: one that is apart, or else the stream for now. */
const struct path_ops *path_of_frame(const struct engine_chan *chan);
/* The path of an arriving frame after its destination is known: rx->held, or segs. */
const struct path_ops *path_of_sink(const struct engine_chan *chan, const struct core_segs *segs);

/* For load, called by the tx owner: appends the frame's header and table to tx->buf. sources, if
 * not NULL, appends a table that says where the payload is, and returns its length. */
void path_header(struct chan_tx *tx, uint32_t (*sources)(const struct core_tx *tx, uint8_t *out));
/* Releases what the frame that is being sent needed, if there is one. No lock held. */
void path_unload(struct engine_chan *chan);
/* Called by the rx owner when the pieces in rx->iov are used up: sets rx->iov to the next pieces
 * of the sg list. */
void path_more(struct chan_rx *rx);
/* Writes the addresses of the local side of an sg list into iov, for *bytes bytes from *at on,
 * but at most max pieces. Advances *at, reduces *bytes by what it wrote, and returns the number
 * of pieces. */
uint32_t path_map(const struct core_segs *segs, struct core_cursor *at, uint64_t *bytes,
		  struct iovec *iov, uint32_t max);

/* For tests: adds a path that is asked before the others. May be called only before the first
 * session is opened. */
void path_enrol(const struct path_ops *path);

#endif

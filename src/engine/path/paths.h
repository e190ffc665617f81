/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the payload of a request travels: a table of paths, which are tried in order. A frame states
 * its enum core_path, so both ends use the same one. Paths for different kinds of memory may have
 * the same core_path (path_stream and path_staged); each end then chooses one of them itself.
 */
#ifndef ENGINE_PATH_PATHS_H
#define ENGINE_PATH_PATHS_H

#include "engine/link/engine.h"

/* What path_ops.load returns. */
enum path_loaded {
	PATH_LATER,  /* the payload cannot be sent yet; `load` will be called for the frame again */
	PATH_APART,  /* no payload follows the header on the channel */
	PATH_INLINE, /* tx->iov holds the payload */
	PATH_FILLED, /* tx->iov holds the payload as soon as tx->filling is 0 */
};

/*
 * Functions of a path that do not concern a single frame. A member may be NULL if there is nothing
 * to do. Members are called on any thread, with no lock held, unless a comment says otherwise.
 */
struct path_extra {
	/* Called when the runtime starts or stops: runtime.lock held, no control thread runs. */
	void (*start)(struct engine_runtime *runtime);
	void (*stop)(struct engine_runtime *runtime);
	/* Called after a region was registered. `region` is the handle of the region. */
	void (*registered)(struct engine_session *session, uint64_t region);
	/* Returns the WIRE_TOKEN_ flags that this path sets in a token of the region, or 0. */
	uint8_t (*token)(const struct engine_session *session, const struct mem_region *region);
	/* Called after the request was prepared. May record in request->local whether the request's
	 * memory suits the path, and may start to make that memory ready. */
	void (*prepared)(struct engine_request *request);

	/* Called by the rx owner when the header of a READ request has arrived, so that the path
	 * can wake what will fill staging before the answer is prepared. */
	void (*asked)(struct engine_peer *peer);

	/* The functions of the same names in core_ops. Called by the core, with link.lock held. */
	void (*fill)(struct engine_peer *peer);
	void (*fill_drop)(struct engine_peer *peer, struct core_job *job);
	/* Delivers the data of an eager SEND to `recv`, whose memory may be of any kind. link.lock
	 * is held. Returns IN_PROGRESS or an error. Exactly one path has this member. */
	tcpx_status (*deliver)(struct engine_peer *peer, struct engine_request *recv,
			       const void *data, uint64_t bytes);
	/* Does the work that was deferred until link.lock was free. Called with no lock held, if
	 * link.prefill.due is set. */
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

	/* Returns whether the request may use this path. link.lock is held. NULL in paths with
	 * CORE_PATH_STREAM: `sources` and `sinks` choose among these for each frame. */
	bool (*carries)(struct engine_request *request);
	/* Prepares the answer to a READ. `asked` says whether the reader requests this path. `keys`
	 * are the keys by which the reader named the regions of resp->segs. Returns ERR_REMOTE if
	 * the path is requested and cannot be used. */
	tcpx_status (*serve)(struct engine_peer *peer, struct core_resp *resp, const uint64_t *keys,
			     bool asked);
	/* Ends the path's use of a deregistered region. Any thread, with link.lock held. */
	void (*forget)(struct engine_peer *peer, struct mem_region *region);

	/* Sender: returns whether this path sends the payload of a frame that the core has just
	 * returned. NULL stands for yes. Called with link.lock held. */
	bool (*sources)(const struct core_tx *frame);
	/* Sender: takes the references that `load` needs. Called with link.lock held, after
	 * `sources`. */
	void (*claim)(struct engine_chan *chan);
	/* Sender: appends the header to tx->buf, unless it returns PATH_LATER. Also sets tx->iov
	 * for PATH_INLINE and PATH_FILLED. *out_valid is true on entry; a path that is `apart`
	 * clears it if the payload will never be sent, and the frame then counts as aborted. */
	enum path_loaded (*load)(struct engine_chan *chan, bool *out_valid);
	/* Sender: releases what `claim` and `load` took. Called when tx->buf holds all that the
	 * channel sends of the frame, when the frame was sent, or by the thread that drops it. */
	void (*unload)(struct engine_chan *chan);

	/* Receiver: returns whether this path takes a frame whose header has arrived. NULL stands
	 * for yes. A path that is `apart` decides without the destination. Other paths examine the
	 * destination, which is `segs` or, if that is NULL, rx->held. */
	bool (*sinks)(const struct engine_chan *chan, const struct core_segs *segs);
	/* Receiver: prepares the destination. Sets rx->stage if copies are needed when the frame is
	 * complete. A path that is not `apart` sets rx->iov to the memory to receive into. One that
	 * is `apart` gets in `sources` the part of the frame's table that says where the payload
	 * is. ERR_PROTOCOL ends the peer; any other error refuses only the chunk. */
	tcpx_status (*receive)(struct engine_chan *chan, const struct core_segs *segs,
			       const uint8_t *sources, uint32_t bytes);
	/* Receiver: starts the copies of `stage`, at once or later, by copies_start(). Called after
	 * core_rx_end() for the chunk. When the copies end, stage_commit_done() is called. */
	void (*commit)(struct engine_chan *chan, struct engine_stage *stage);
	/* Called instead of `commit` if the chunk was refused or aborted, or needs no copies. */
	void (*discard)(struct engine_chan *chan);
};

extern const struct path_ops path_reference, path_message, path_staged, path_stream;

/* Chooses the path of a request: sets path, direct, local_staged and remote_staged of
 * request->xfer. Called with link.lock held, when a posted request is given to the core. */
void path_choose(struct engine_request *request);
/* Prepares the answer to the READ that `frame` requests, and chooses its path (path_ops.serve).
 * Returns OK, or why the READ is refused. */
tcpx_status path_serve(struct engine_peer *peer, struct core_resp *resp, const struct frame *frame,
		       const uint64_t *keys);
/* Each calls the member of path_ops or path_extra with its name, in all paths that have one. */
void path_forget(struct engine_peer *peer, struct mem_region *region); /* link.lock held */
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
/* Returns the path of a frame that the core has just returned to be sent. link.lock is held. */
const struct path_ops *path_of_source(const struct core_tx *frame);
/* Returns the `apart` path that takes a frame whose header has arrived. If none does, returns
 * path_stream; once the destination is known, path_of_sink() chooses. */
const struct path_ops *path_of_frame(const struct engine_chan *chan);
/* Returns the path of an arriving frame whose destination is known: `segs`, or rx->held if NULL. */
const struct path_ops *path_of_sink(const struct engine_chan *chan, const struct core_segs *segs);

/* Helper for `load`, called by the tx owner: appends the frame's header and table to tx->buf.
 * where(), if not NULL, writes a table that says where the payload is; it returns its length. */
void path_header(struct chan_tx *tx, uint32_t (*where)(const struct core_tx *tx, uint8_t *out));
/* Calls `unload` of the path of the frame that is being sent, if there is one. No lock held. */
void path_unload(struct engine_chan *chan);
/* Called by the rx owner when the pieces in rx->iov are used up: sets rx->iov to the next pieces of
 * rx->core.segs. */
void path_more(struct chan_rx *rx);
/* Writes the addresses of the local side of a segment list into `iov`: at most `max` pieces, for
 * *bytes bytes from *at on. Advances *at, reduces *bytes by the length of the pieces, and returns
 * their number. */
uint32_t path_map(const struct core_segs *segs, struct core_cursor *at, uint64_t *bytes,
		  struct iovec *iov, uint32_t max);

/* For tests: adds a path that is tried first. Must be called before a session is opened. */
void path_enrol(const struct path_ops *path);

#endif

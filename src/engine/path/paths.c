/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the path of a payload, and calls the functions of the paths. */
#include "engine/path/paths.h"

#include "engine/link/tx_table.h"
#include "wire/frame_codec.h"

/* most paths in the table, with those that tests add */
#define PATHS_MAX 8

/* The paths in the order in which they are tried; NULL ends the table. The last path takes every
 * payload that no other path takes. */
static const struct path_ops *paths[PATHS_MAX + 1] = {
	&path_reference,
	&path_message,
	&path_staged,
	&path_stream,
};

void path_enrol(const struct path_ops *path)
{
	uint32_t n = 0;

	while (paths[n])
		n++;
	for (; n < PATHS_MAX && n; n--)
		paths[n] = paths[n - 1];
	paths[0] = path;
}

void path_choose(struct engine_request *request)
{
	struct core_xfer *xfer = &request->xfer;
	bool moves = xfer->op == TCPX_OP_WRITE || xfer->op == TCPX_OP_READ;
	const struct path_ops **path = paths;

	while (path[1] && !((*path)->carries && (*path)->carries(request)))
		path++;
	xfer->path = (*path)->core;
	xfer->direct = request->way.direct != NULL;
	/* Staging is recorded only if the path is the stream. For a SEND or RECV it is recorded
	 * with any path, because the peer may still choose the stream. */
	xfer->local_staged = request->local.staged && (xfer->path == CORE_PATH_STREAM || !moves);
	xfer->remote_staged = request->remote.staged && (xfer->path == CORE_PATH_STREAM || !moves);
}

tcpx_status path_serve(struct engine_peer *peer, struct core_resp *resp, const struct frame *frame,
		       const uint64_t *keys)
{
	enum core_path asked = core_path_of(frame);
	tcpx_status status = TCPX_OK;

	for (uint32_t i = 0; paths[i] && status == TCPX_OK; i++)
		if (paths[i]->serve)
			status = paths[i]->serve(peer, resp, keys, paths[i]->core == asked);
	return status;
}

void path_forget(struct engine_peer *peer, struct mem_region *region)
{
	for (uint32_t i = 0; paths[i]; i++)
		if (paths[i]->forget)
			paths[i]->forget(peer, region);
}

/* Calls the function `member` of path_extra for each path that has it. */
#define PATHS_EACH(member, ...)                                                                    \
	do {                                                                                       \
		for (uint32_t i = 0; paths[i]; i++)                                                \
			if (paths[i]->extra && paths[i]->extra->member)                            \
				paths[i]->extra->member(__VA_ARGS__);                              \
	} while (0)

void path_start(struct engine_runtime *runtime)
{
	PATHS_EACH(start, runtime);
}

void path_stop(struct engine_runtime *runtime)
{
	PATHS_EACH(stop, runtime);
}

void path_registered(struct engine_session *session, uint64_t region)
{
	PATHS_EACH(registered, session, region);
}

uint8_t path_token(const struct engine_session *session, const struct mem_region *region)
{
	uint8_t flags = 0;

	for (uint32_t i = 0; paths[i]; i++)
		if (paths[i]->extra && paths[i]->extra->token)
			flags |= paths[i]->extra->token(session, region);
	return flags;
}

void path_prepared(struct engine_request *request)
{
	PATHS_EACH(prepared, request);
}

void path_asked(struct engine_peer *peer)
{
	PATHS_EACH(asked, peer);
}

void path_fill(struct engine_peer *peer)
{
	PATHS_EACH(fill, peer);
}

void path_fill_drop(struct engine_peer *peer, struct core_job *job)
{
	PATHS_EACH(fill_drop, peer, job);
}

tcpx_status path_deliver(struct engine_peer *peer, struct engine_request *recv, const void *data,
			 uint64_t bytes)
{
	uint32_t i = 0;

	while (!paths[i]->extra || !paths[i]->extra->deliver)
		i++;
	return paths[i]->extra->deliver(peer, recv, data, bytes);
}

void path_flush(struct engine_peer *peer)
{
	if (atomic_load_explicit(&peer->link.prefill.due, memory_order_relaxed))
		PATHS_EACH(flush, peer);
}

const struct path_ops *path_of_source(const struct core_tx *frame)
{
	enum core_path core = core_path_of_payload(&frame->frame);
	const struct path_ops **path = paths;

	if (!frame->segs || !frame->frame.payload_bytes)
		return &path_stream;
	while (path[1] && ((*path)->core != core || ((*path)->sources && !(*path)->sources(frame))))
		path++;
	return *path;
}

const struct path_ops *path_of_frame(const struct engine_chan *chan)
{
	enum core_path core = core_path_of(&chan->rx.frame);

	for (uint32_t i = 0; paths[i]; i++)
		if (paths[i]->apart && paths[i]->core == core &&
		    (!paths[i]->sinks || paths[i]->sinks(chan, NULL)))
			return paths[i];
	return &path_stream;
}

const struct path_ops *path_of_sink(const struct engine_chan *chan, const struct core_segs *segs)
{
	const struct path_ops *path = path_of_frame(chan);

	for (uint32_t i = 0; paths[i] && !path->apart; i++)
		if (!paths[i]->apart && (!paths[i]->sinks || paths[i]->sinks(chan, segs)))
			return paths[i];
	return path;
}

uint32_t path_map(const struct core_segs *segs, struct core_cursor *at, uint64_t *bytes,
		  struct iovec *iov, uint32_t max)
{
	struct core_piece piece;
	uint32_t n = 0;

	while (n < max && core_piece_next(segs, at, bytes, &piece)) {
		const struct mem_region *region = segs->local[piece.seg->local];

		iov[n].iov_base = region->base + piece.seg->local_off + piece.off;
		iov[n++].iov_len = piece.length;
	}
	return n;
}

/* rx->core.segs still exists: the core keeps it until the frame has ended or is aborted. */
void path_more(struct chan_rx *rx)
{
	rx->at = 0;
	rx->niov = path_map(rx->core.segs, &rx->next, &rx->beyond, rx->iov, CORE_PIECES_MAX);
}

void path_header(struct chan_tx *tx, uint32_t (*where)(const struct core_tx *tx, uint8_t *out))
{
	struct frame *frame = &tx->frame.frame;
	uint8_t *out = tx->buf + tx->end;

	if (tx->frame.table)
		frame->table_bytes = tx_table_encode(&tx->frame, out + FRAME_HEADER_BYTES);
	if (where) {
		frame->follows = where(&tx->frame, out + FRAME_HEADER_BYTES + frame->table_bytes);
		frame->table_bytes += frame->follows;
	}
	wire_frame_encode(frame, out);
	tx->end += FRAME_HEADER_BYTES + frame->table_bytes;
}

void path_unload(struct engine_chan *chan)
{
	if (chan->tx.path && chan->tx.path->unload)
		chan->tx.path->unload(chan);
}

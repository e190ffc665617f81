/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and handles SHARE frames. The end that has a region offers it, and the peer maps the region
 * and answers. When the region is deregistered, that end sends REVOKE, and the peer answers GONE as
 * soon as it no longer maps the region. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "core/status.h"
#include "engine/path/share.h"
#include "sys/fd.h"

#define MAPS_MAX 65536u	    /* most mappings of one peer's memory */
#define AGAIN_NS CLOCK_S_NS /* shortest pause before an offer that was given up is made again */

/* Whether both ends of the channel are in this process, as the channel's set-up has found out. */
static int same_process(const struct engine_chan *chan)
{
	struct net_chan_info info = {0};

	chan->net->ops->info(chan->net, &info);
	return info.same_process;
}

/* Gives up the offer: the region's bytes are sent, and a deregister does not wait for the peer.
 * Returns the descriptor that the caller must close after unlocking, or -1. The caller holds
 * link.lock. */
static int share_refuse(struct engine_share *share)
{
	share->state = SHARE_REFUSED;
	mem_region_io_put(share->region);
	return share_fd_end(share);
}

/* What share_why_log() logs. `peer` is NULL if there is nothing to log, else has a reference. */
struct share_told {
	struct engine_peer *peer;
	bool first; /* no reason of the link was logged before */
	char why[sizeof(((struct engine_shares *)NULL)->why)];
};

/* Stores why GPU memory of one end is not mapped by the other. The caller holds link.lock, and must
 * call share_why_log() after unlocking. */
static void share_why(struct engine_peer *peer, const char *what, const tcpx_error *error,
		      struct share_told *out_told)
{
	char *why = peer->shared->why;

	out_told->first = !*why;
	text_format(why, sizeof(peer->shared->why), "%s: %s%s%s", what, error->what,
		    *error->next ? "; next: " : "", error->next);
	memcpy(out_told->why, why, sizeof(out_told->why));
	out_told->peer = peer;
	peer_get(peer);
}

static void share_why_log(struct share_told *told)
{
	if (!told->peer)
		return;
	if (told->first)
		LOG_WARN("peer '%s': %s; bytes go through host memory", told->peer->who.name,
			 told->why);
	else
		LOG_DEBUG("peer '%s': %s", told->peer->who.name, told->why);
	peer_put(told->peer);
}

/* Called when the memory kind has exported the region or failed to. Lets share_run() send the
 * offer, or after a failure gives the offer up; if descriptors were lacking, only for a while. If
 * the region was deregistered or the link has ended, frees the share instead. */
static void share_export_done(struct mem_share *job, tcpx_status status)
{
	struct engine_share *share = (struct engine_share *)job;
	struct engine_peer *peer = share->peer;
	struct share_told told = {0};
	tcpx_error why = *error_last();
	bool over;
	int fd = -1;

	link_lock(&peer->link);
	over = share->retired || peer->link.core_done;
	if (status != TCPX_OK && status != TCPX_ERR_NO_DESCRIPTORS && !over)
		share_why(peer, "the peer cannot map GPU memory of this end", &why, &told);
	share->by_fd = share->job.fd >= 0;
	if (!share->by_fd)
		(void)share_fd_end(share); /* no descriptor to pass, so another export may begin */
	if (!over && status == TCPX_OK) {
		share->state = SHARE_TELL;
		share_due(share);
	} else if (!over) {
		fd = share_refuse(share);
		if (status == TCPX_ERR_NO_DESCRIPTORS)
			share->again_ns = clock_after(AGAIN_NS);
	}
	link_unlock(&peer->link);
	share_why_log(&told);
	share_fd_close(fd);
	if (over)
		share_free(share);
}

static void share_export_start(struct engine_share *share)
{
	struct mem_region *region = share->region;
	tcpx_status status;

	share->job = (struct mem_share){.op = MEM_SHARE_EXPORT,
					.same = same_process(share->chan),
					.addr = region->base,
					.length = region->length,
					.device = region->device,
					.fd = -1,
					.done = share_export_done};
	status = region->kind->share(&share->job);
	if (status != TCPX_OK)
		share_export_done(&share->job, status);
}

/* Gives up an offer because this end has no listener from which the peer could fetch the
 * descriptor. A use of the region after AGAIN_NS offers it again. */
static void share_offer_later(struct engine_share *share)
{
	int fd = -1;

	link_lock(&share->peer->link);
	if (share->state == SHARE_OFFERED) {
		fd = share_refuse(share);
		share->again_ns = clock_after(AGAIN_NS);
	}
	link_unlock(&share->peer->link);
	share_fd_close(fd);
}

static void share_offer(struct engine_share *share, uint64_t key)
{
	struct frame frame = {.type = FRAME_SHARE,
			      .key = FRAME_SHARE_OFFER,
			      .seq = share->by_fd ? FRAME_SHARE_FD : FRAME_SHARE_BYTES,
			      .xfer = share->region->serial,
			      .offset = key,
			      .linear = share->chan->index,
			      .epoch = share->chan->epoch,
			      .payload_bytes = share->job.handle_bytes};

	if (share->by_fd && !share_fd_tell(share->peer)) {
		share_offer_later(share);
		return;
	}
	link_tell(&share->peer->link, &frame, share->job.handle);
}

static void share_tell(struct engine_peer *peer, enum frame_share what, uint64_t id,
		       tcpx_status status)
{
	struct frame frame = {
		.type = FRAME_SHARE, .key = what, .xfer = id, .linear = core_status_pack(status)};

	if (what == FRAME_SHARE_ANSWER && status == TCPX_OK) {
		frame.offset = CORE_REF_MOST;
		frame.seq = share_moves_lists() ? FRAME_SHARE_LISTS : 0;
	}
	link_tell(&peer->link, &frame, NULL);
}

/* Takes the next step of a share that is due: begins its export, sends its offer or REVOKE, or
 * frees the share. */
static void share_tell_due(struct engine_share *share)
{
	struct engine_peer *peer = share->peer;
	enum share_state state;
	uint64_t id = share->region->serial, key;
	bool retired;

	link_lock(&peer->link);
	state = share->state;
	retired = share->retired;
	key = share->key;
	if (state == SHARE_NEW && !retired && !share_fd_begin(share)) {
		link_unlock(&peer->link);
		return;
	}
	if (state == SHARE_NEW && !retired)
		share->state = SHARE_EXPORTING;
	else if (state == SHARE_TELL && !retired)
		share->state = SHARE_OFFERED;
	else if (state == SHARE_REVOKE)
		share->state = SHARE_REVOKED;
	link_unlock(&peer->link);
	if (retired)
		share_free(share);
	else if (state == SHARE_NEW)
		share_export_start(share);
	else if (state == SHARE_REVOKE || state == SHARE_REVOKED)
		share_tell(peer, FRAME_SHARE_REVOKE, id, TCPX_OK);
	else if (state != SHARE_REFUSED)
		share_offer(share, key);
}

void share_map_free(struct engine_map *map)
{
	struct engine_peer *peer = map->peer;

	link_lock(&peer->link);
	list_remove(&map->node);
	list_remove(&map->key_node);
	list_remove(&map->due);
	peer->shared->nin--;
	if (peer->shared->last == map)
		peer->shared->last = NULL;
	link_unlock(&peer->link);
	map->chan->net->ops->reading->set(map->chan->net, 0);
	chan_put(map->chan);
	free(map);
	peer_put(peer);
}

/* Queues the mapping, so that share_run() sends the frame that is due about it. The caller holds
 * link.lock. */
static void map_due(struct engine_map *map)
{
	list_remove(&map->due);
	list_push_back(&map->peer->shared->in_due, &map->due);
	link_wake(&map->peer->link);
}

/* Sends the frame that is due about a mapping: GONE, or the answer to the offer. No answer is sent
 * after a REVOKE. Then frees the mapping if it was closed or could not be opened. */
static void map_tell_due(struct engine_map *map)
{
	struct engine_peer *peer = map->peer;
	enum map_state state;
	tcpx_status status;
	bool revoked;

	link_lock(&peer->link);
	state = map->state;
	status = map->status;
	revoked = map->revoked;
	link_unlock_only(&peer->link);
	if (state == MAP_CLOSED || (state == MAP_FAILED && revoked))
		share_tell(peer, FRAME_SHARE_GONE, map->id, TCPX_OK);
	else if (!revoked)
		share_tell(peer, FRAME_SHARE_ANSWER, map->id, status);
	if (state == MAP_CLOSED || state == MAP_FAILED)
		share_map_free(map);
}

void share_run(struct engine_peer *peer)
{
	for (;;) {
		struct list_node *out = NULL, *in = NULL;

		link_lock(&peer->link);
		if (peer->shared && peer->control.link && !peer->died) {
			out = list_pop_front(&peer->shared->out_due);
			in = out ? NULL : list_pop_front(&peer->shared->in_due);
		}
		link_unlock(&peer->link);
		if (out)
			share_tell_due(LIST_ENTRY(out, struct engine_share, due));
		else if (in)
			map_tell_due(LIST_ENTRY(in, struct engine_map, due));
		else
			return;
	}
}

/* Lets share_run() send again the frames that the peer has not answered, because they may have been
 * lost with the control link. A frame that arrives twice does no harm. */
void share_again(struct engine_peer *peer)
{
	struct list_node *pos;

	for (uint32_t i = 0; peer->shared && i < ENGINE_SHARE_BUCKETS; i++) {
		LIST_FOREACH(pos, &peer->shared->out[i]) {
			struct engine_share *share = LIST_ENTRY(pos, struct engine_share, node);

			if (share->state == SHARE_OFFERED || share->state == SHARE_REVOKED ||
			    (share->state == SHARE_OPEN && share->counted))
				share_due(share);
		}
	}
	link_wake(&peer->link);
}

static void map_close_done(struct mem_share *job, tcpx_status status)
{
	struct engine_map *map = (struct engine_map *)job;
	struct engine_peer *peer = map->peer;
	bool dead;

	(void)status;
	link_lock(&peer->link);
	dead = peer->link.core_done; /* after the link's end, `map` is freed below */
	if (!dead) {
		map->state = MAP_CLOSED;
		map_due(map);
	}
	link_unlock(&peer->link);
	if (dead)
		share_map_free(map);
}

void share_map_close(struct engine_map *map)
{
	const struct mem_kind *kind = mem_kind_get(TCPX_MEM_CUDA);

	map->job = (struct mem_share){
		.op = MEM_SHARE_CLOSE, .mapping = map->mapping, .done = map_close_done};
	/* After an error the memory stays mapped, and GONE is never sent. */
	if (kind->share(&map->job) != TCPX_OK)
		LOG_WARN("peer '%s': its GPU memory stays mapped: %s", map->peer->who.name,
			 error_last()->what);
}

/* Called when the peer's region was mapped or could not be. Lets share_run() send the answer. If
 * the region was revoked or the link ended in the meantime, closes the mapping, or frees it if it
 * is not open. */
static void map_open_done(struct mem_share *job, tcpx_status status)
{
	struct engine_map *map = (struct engine_map *)job;
	struct engine_peer *peer = map->peer;
	struct share_told told = {0};
	tcpx_error why = *error_last();
	bool idle = false, dead;

	if (status == TCPX_OK)
		LOG_DEBUG("peer '%s': %llu bytes of its GPU memory are read from here%s",
			  peer->who.name, (unsigned long long)job->length,
			  map->counted ? ", by a descriptor" : "");
	link_lock(&peer->link);
	dead = peer->link.core_done;
	map->revoked |= dead;
	share_fetch_end(map);
	map->status = status;
	map->mapping = job->mapping;
	map->length = job->length;
	if (status == TCPX_OK) {
		map->state = MAP_OPEN;
		idle = share_map_idle(map);
	} else if (!dead) { /* if `dead` is set, `map` is freed below */
		map->state = MAP_FAILED;
		if (status != TCPX_ERR_AGAIN)
			share_why(peer, "GPU memory of the peer cannot be mapped here", &why,
				  &told);
	}
	if (!idle && !dead)
		map_due(map);
	link_unlock(&peer->link);
	share_why_log(&told);
	if (idle)
		share_map_close(map);
	else if (dead)
		share_map_free(map);
}

/* Returns the channel that the frame names, with a reference. Returns NULL if there is no such
 * channel, or if its transport cannot tell the peer that this end reads. The caller holds
 * link.lock. */
static struct engine_chan *chan_meant(struct engine_peer *peer, const struct frame *frame)
{
	struct engine_chan *chan = NULL;

	if (frame->linear < CORE_CHANNELS_MAX && share_chan(peer))
		chan = peer->link.chan[frame->linear];
	if (!chan || chan->epoch != frame->epoch || !chan->net->ops->reading)
		return NULL;
	chan_get(chan);
	return chan;
}

/* Sets the key by which requests name the mapped region, unless `key` is 0 or the mapping has a
 * key. The caller holds link.lock. */
static void map_key(struct engine_map *map, uint64_t key)
{
	if (!key || map->key)
		return;
	map->key = key;
	list_push_back(&map->peer->shared->keys[key % ENGINE_SHARE_BUCKETS], &map->key_node);
}

/* Adds a mapping for an offered region to the peer's table. If it returns NULL, *out_status is the
 * answer to the offer: NO_MEMORY, LIMIT, or AGAIN if a later offer may succeed. The caller holds
 * link.lock. */
static struct engine_map *map_make(struct engine_peer *peer, const struct frame *frame,
				   tcpx_status *out_status)
{
	struct engine_shares *table = share_table(peer, true);
	struct engine_chan *chan = NULL;
	struct engine_map *map = NULL;

	*out_status = TCPX_ERR_NO_MEMORY;
	if (!mem_kind_get(TCPX_MEM_CUDA) || (table && table->nin >= MAPS_MAX))
		*out_status = TCPX_ERR_LIMIT;
	else if (table && !(chan = chan_meant(peer, frame)))
		*out_status = TCPX_ERR_AGAIN;
	else if (table)
		map = calloc(1, sizeof(*map));
	if (map && frame->seq == FRAME_SHARE_FD && !share_fetch_begin(map, table)) {
		*out_status = TCPX_ERR_AGAIN;
		free(map);
		map = NULL;
	}
	if (!map) {
		if (chan)
			chan_put(chan);
		return NULL;
	}
	map->peer = peer;
	map->chan = chan;
	map->id = frame->xfer;
	list_init(&map->due);
	list_init(&map->key_node);
	map_key(map, frame->offset);
	list_push_back(&table->in[map->id % ENGINE_SHARE_BUCKETS], &map->node);
	table->nin++;
	peer_get(peer);
	chan->net->ops->reading->set(chan->net, 1);
	return map;
}

void share_map_open(struct engine_map *map, tcpx_status status)
{
	if (status == TCPX_OK)
		status = mem_kind_get(TCPX_MEM_CUDA)->share(&map->job);
	else
		map->job.fd = -1;
	if (status == TCPX_OK)
		return;
	if (map->job.fd >= 0)
		sys_fd_close(map->job.fd);
	map_open_done(&map->job, status);
}

static tcpx_status share_take_offer(struct engine_peer *peer, const struct frame *frame,
				    const void *payload)
{
	struct engine_map *map;
	tcpx_status status = TCPX_OK;

	if (!frame->payload_bytes || frame->payload_bytes > MEM_HANDLE_MAX)
		return TCPX_ERR_PROTOCOL;
	if (frame->seq > FRAME_SHARE_FD) { /* a form of offer that only later versions know */
		share_tell(peer, FRAME_SHARE_ANSWER, frame->xfer, TCPX_ERR_UNSUPPORTED);
		return TCPX_OK;
	}
	link_lock(&peer->link);
	map = share_map_find(peer, frame->xfer);
	if (map) { /* a repeated offer: to add the key, or since the answer was lost */
		map_key(map, frame->offset);
		if (map->state == MAP_OPEN && !map->revoked)
			map_due(map);
		link_unlock(&peer->link);
		return TCPX_OK;
	}
	map = map_make(peer, frame, &status);
	link_unlock(&peer->link);
	if (!map) {
		share_tell(peer, FRAME_SHARE_ANSWER, frame->xfer, status);
		return TCPX_OK;
	}
	map->job = (struct mem_share){.op = MEM_SHARE_OPEN,
				      .same = same_process(map->chan),
				      .handle_bytes = frame->payload_bytes,
				      .fd = -1,
				      .done = map_open_done};
	memcpy(map->job.handle, payload, frame->payload_bytes);
	if (!map->counted)
		share_map_open(map, TCPX_OK);
	else if ((status = share_fetch_start(map)) != TCPX_OK)
		share_map_open(map, status);
	return TCPX_OK;
}

static void share_take_answer(struct engine_peer *peer, const struct frame *frame)
{
	static const tcpx_error refused = {.what = "it says why in its own log and query"};
	struct share_told told = {0};
	struct engine_share *share;
	int fd = -1;

	link_lock(&peer->link);
	share = share_find(peer, frame->xfer);
	if (share && (share->state == SHARE_OFFERED || share->state == SHARE_OPEN)) {
		if (!frame->linear) {
			share->state = SHARE_OPEN;
			core_link_refs(&peer->link.core, frame->offset);
			peer->shared->peer_lists = frame->seq == FRAME_SHARE_LISTS;
			fd = share_fd_end(share);
		} else {
			fd = share_refuse(share);
			if (frame->linear == core_status_pack(TCPX_ERR_AGAIN))
				share->again_ns = clock_after(AGAIN_NS);
			else if (!*peer->shared->why) /* no reason of this end is known */
				share_why(peer, "the peer cannot map GPU memory of this end",
					  &refused, &told);
		}
	}
	link_unlock(&peer->link);
	share_why_log(&told);
	share_fd_close(fd);
}

static void share_take_revoke(struct engine_peer *peer, const struct frame *frame)
{
	struct engine_map *map;
	bool idle = false;

	link_lock(&peer->link);
	map = share_map_find(peer, frame->xfer);
	if (map) {
		map->revoked = true;
		idle = share_map_idle(map);
		if (share_fetch_stop(map))
			map_due(map);
	}
	link_unlock(&peer->link);
	if (map)
		share_fetch_cancel(map);
	if (idle)
		share_map_close(map);
	if (!map)
		share_tell(peer, FRAME_SHARE_GONE, frame->xfer, TCPX_OK);
}

static void share_take_gone(struct engine_peer *peer, const struct frame *frame)
{
	struct engine_share *share;

	link_lock(&peer->link);
	share = share_find(peer, frame->xfer);
	if (share && share->state != SHARE_REVOKED)
		share = NULL;
	link_unlock(&peer->link);
	if (share)
		share_free(share);
}

tcpx_status share_take(struct engine_peer *peer, const struct frame *frame, const void *payload)
{
	if (frame->key != FRAME_SHARE_OFFER && frame->payload_bytes)
		return TCPX_ERR_PROTOCOL;
	switch (frame->key) {
	case FRAME_SHARE_OFFER:
		return share_take_offer(peer, frame, payload);
	case FRAME_SHARE_ANSWER:
		share_take_answer(peer, frame);
		return TCPX_OK;
	case FRAME_SHARE_REVOKE:
		share_take_revoke(peer, frame);
		return TCPX_OK;
	case FRAME_SHARE_GONE:
		share_take_gone(peer, frame);
		return TCPX_OK;
	default:
		return TCPX_ERR_PROTOCOL;
	}
}

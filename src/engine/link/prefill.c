/* SPDX-License-Identifier: Apache-2.0 */
/* Fills slices of staged sources ahead of the channels (prefill.h). A slice is begun when staging
 * memory is free, then filled by a copy, sent, and released. */
#include "engine/link/engine.h"
#include "engine/link/hold.h"
#include "engine/link/prefill.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/link/rouse.h"
#include "engine/link/stage.h"

/* a filled slice that is not sent for this long is given up if clients of the pool wait
 * (decisions.md, 23) */
#define FILL_STALE_NS (100 * CLOCK_MS_NS)
/* if no slice was begun for this long, the workers are assumed to sleep */
#define FILL_REST_NS (1 * CLOCK_MS_NS)

struct prefill_slice {
	struct list_node node; /* entry in job->fill.slices or link.prefill.dropped */
	struct engine_peer *peer;
	struct core_job *job; /* exists at least until the fill has ended */
	struct stage_block *block;
	uint64_t linear;
	uint32_t bytes;
	/* under link.lock: the copy has succeeded; the job has given the slice up */
	bool ready, dropped;
	int64_t ready_ns;
	_Atomic uint32_t refs;
	struct stage_copies copies;
};

static uint8_t *slice_addr(const struct prefill_slice *slice)
{
	return slice->block->addr + (slice->linear - slice->block->linear);
}

void prefill_get(struct prefill_slice *slice)
{
	atomic_fetch_add(&slice->refs, 1);
}

void prefill_put(struct prefill_slice *slice)
{
	if (atomic_fetch_sub(&slice->refs, 1) != 1)
		return;
	copies_free(&slice->copies);
	if (slice->block)
		block_put(slice->block);
	free(slice);
}

void prefill_spend(struct engine_peer *peer, struct stage_block *block)
{
	list_push_back(&peer->link.prefill.spent, &block->node);
	atomic_store(&peer->link.prefill.due, true);
}

void prefill_defer(struct engine_peer *peer, struct engine_stage *stage)
{
	list_push_back(&peer->link.prefill.deliveries, &stage->node);
	atomic_store(&peer->link.prefill.due, true);
}

void prefill_asked(struct engine_peer *peer)
{
	const struct stage_share *share;

	link_lock(&peer->link);
	share = peer->link.blocks.shares;
	link_unlock_only(&peer->link);
	if (share)
		mem_staging_rouse(share->stager.pool);
}

/* Called under link.lock. Releases the job's current block, into which no more slices will go. */
static void block_spent(struct engine_peer *peer, struct core_job *job)
{
	struct stage_block *block = job->fill.block;

	if (!block)
		return;
	job->fill.block = NULL;
	prefill_spend(peer, block);
}

void prefill_hook_due(struct engine_peer *peer)
{
	atomic_store(&peer->link.prefill.due, true);
}

void prefill_hook_drop(struct engine_peer *peer, struct core_job *job)
{
	struct list_node *node;

	while ((node = list_pop_front(&job->fill.slices))) {
		LIST_ENTRY(node, struct prefill_slice, node)->dropped = true;
		list_push_back(&peer->link.prefill.dropped, node);
		atomic_store(&peer->link.prefill.due, true);
	}
	block_spent(peer, job);
}

/* Called under link.lock. Returns the end of the job's bytes that are filled without a gap. */
static uint64_t ready_upto(const struct core_job *job)
{
	uint64_t ready = job->fill.ready;
	struct list_node *pos;

	LIST_FOREACH(pos, &job->fill.slices) {
		const struct prefill_slice *slice = LIST_ENTRY(pos, struct prefill_slice, node);

		if (!slice->ready)
			break;
		ready = slice->linear + slice->bytes;
	}
	return ready;
}

/* Called when the copy of a slice has ended: tells the core up to where the job is filled. Runs on
 * a thread of the memory kind, or on the thread in prefill_pump() if the kind copies at once. */
static void slice_filled(struct stage_copies *copies, tcpx_status status)
{
	struct prefill_slice *slice = LIST_ENTRY(copies, struct prefill_slice, copies);
	struct engine_peer *peer = slice->peer;
	struct core_job *job = slice->job;
	int64_t now = clock_now_ns();

	link_lock(&peer->link);
	slice->ready = status == TCPX_OK;
	slice->ready_ns = now;
	core_fill_end(&peer->link.core, job, slice->dropped ? 0 : ready_upto(job), status);
	link_unlock_only(&peer->link);
	copies_wake_later(peer);
	prefill_put(slice);
	peer_put(peer);
}

static bool block_fits(const struct stage_block *block, const struct mem_region *region,
		       const struct core_fill *fill)
{
	return block && block->kind == region->kind && block->device == region->device &&
	       fill->linear + fill->bytes <= block->linear + block->bytes;
}

/* Called under link.lock. Returns the block for the slice, with a reference: the job's current
 * block, a new current block, or a block for this slice alone. Returns NULL if there is no memory,
 * and sets *out_waits to true if the peer must wait for the pool. */
static struct stage_block *slice_room(struct engine_peer *peer, const struct core_fill *fill,
				      bool *out_waits)
{
	const struct mem_region *region = copies_staged_in(fill->job->segs, fill->at, fill->pieces);
	struct core_job *job = fill->job;
	struct stage_share *share = block_share(peer, region->kind, region->device);
	uint64_t bytes = MEM_SLOT_MAX - (job->linear_base + fill->linear) % MEM_SLOT_MAX;
	enum block_want want = BLOCK_ANYHOW;

	if (!block_fits(job->fill.block, region, fill))
		block_spent(peer, job);
	if (share)
		share->ahead = fill->ahead;
	if (bytes > job->end - fill->linear)
		bytes = job->end - fill->linear;
	if (!job->fill.block && bytes > fill->bytes && !job->fill.unpulled)
		job->fill.block = block_open(peer, region->kind, region->device, MEM_OUT,
					     fill->linear, bytes, share, BLOCK_OR_NOTHING, NULL);
	if (job->fill.block) {
		block_get(job->fill.block);
		return job->fill.block;
	}
	/* A peer that holds no block, neither of the pool nor of ordinary memory, gets ordinary
	 * memory if the pool has none free, instead of waiting for others. A fill that is not
	 * urgent (`ahead`) waits for the pool even then. */
	if (share && (fill->ahead || share->spilled || mem_stager_held(&share->stager)))
		want = BLOCK_OR_WAIT;
	return block_open(peer, region->kind, region->device, MEM_OUT, fill->linear, fill->bytes,
			  share, want, out_waits);
}

/* Called under link.lock. Makes the slice, and tells the core that the slice's copy begins. Returns
 * NULL if there is no memory, and sets *out_waits to true if the peer waits for some. */
static struct prefill_slice *slice_begin(struct engine_peer *peer, const struct core_fill *fill,
					 bool *out_waits)
{
	struct prefill_slice *slice = calloc(1, sizeof(*slice));

	if (slice)
		slice->block = slice_room(peer, fill, out_waits);
	if (!slice || !slice->block) {
		free(slice);
		return NULL;
	}
	slice->peer = peer;
	peer_get(peer); /* released when the fill has ended */
	slice->job = fill->job;
	slice->linear = fill->linear;
	slice->bytes = fill->bytes;
	atomic_store(&slice->refs, 2); /* one reference for the job, one for the fill */
	list_push_back(&fill->job->fill.slices, &slice->node);
	core_fill_begin(&peer->link.core, fill);
	if (fill->linear + fill->bytes == slice->block->linear + slice->block->bytes)
		block_spent(peer, fill->job);
	return slice;
}

/* Called under link.lock. Begins the next slice and returns it. Returns NULL if no slice may begin
 * now. A job fails if there is no memory at all for its slice. */
static struct prefill_slice *slice_begin_next(struct engine_peer *peer, struct core_fill *out_fill,
					      bool *out_waits)
{
	while (peer->link.core_ready && core_fill_next(&peer->link.core, out_fill)) {
		struct prefill_slice *slice = slice_begin(peer, out_fill, out_waits);

		if (slice || *out_waits)
			return slice;
		core_fill_begin(&peer->link.core, out_fill);
		core_fill_end(&peer->link.core, out_fill->job, 0, TCPX_ERR_NO_MEMORY);
	}
	return NULL;
}

/* Begins all slices that may begin now, in the order of core_fill_next(). Only one thread at a time
 * does so, so that neighbouring bytes are copied next to each other. */
void prefill_pump(struct engine_peer *peer)
{
	struct prefill_slice *slice;
	struct core_fill fill;
	bool waits = false;
	uint64_t bytes = 0;
	int64_t now_ns;

	link_lock(&peer->link);
	if (peer->link.prefill.pumping) {
		link_unlock_only(&peer->link);
		return; /* the thread that pumps checks for more slices before it ends */
	}
	peer->link.prefill.pumping = true;
	while ((slice = slice_begin_next(peer, &fill, &waits))) {
		tcpx_status status;

		link_unlock_only(&peer->link);
		status = copies_init(&slice->copies, slice_addr(slice), fill.pieces, slice_filled);
		if (status == TCPX_OK)
			status = copies_add_local(&slice->copies, fill.job->segs, fill.at,
						  fill.bytes);
		copies_start(&slice->copies, true, status);
		bytes += fill.bytes;
		link_lock(&peer->link);
	}
	peer->link.prefill.pumping = false;
	if (bytes) {
		now_ns = clock_now_ns();
		/* waking the workers takes about as long as the device's copies, so both should run
		 * at the same time */
		if (now_ns - peer->link.prefill.begun_ns > FILL_REST_NS)
			rouse_senders(peer, bytes);
		peer->link.prefill.begun_ns = now_ns;
	}
	link_unlock_only(&peer->link);
}

/* Called under link.lock. Returns whether this thread may start the deferred deliveries
 * (prefill_defer()). A delivery copies into the application's memory and may wait for a page, so
 * the control thread starts none. Instead the worker of a channel is asked to start them; without a
 * channel they wait for one. The deliveries of a dead link touch no memory, so any thread may start
 * them. */
static bool deliveries_run_here(struct engine_peer *peer)
{
	if (!runtime_is_control() || peer->link.core.dead ||
	    list_empty(&peer->link.prefill.deliveries))
		return true;
	atomic_store(&peer->link.prefill.due, true);
	for (uint32_t i = 0; i < CORE_CHANNELS_MAX; i++) {
		if (!peer->link.chan[i])
			continue;
		worker_look(peer->link.chan[i]);
		break;
	}
	return false;
}

void prefill_flush(struct engine_peer *peer)
{
	struct list_node slices, blocks, deliveries, *node;
	tcpx_status status;

	if (!atomic_load_explicit(&peer->link.prefill.due, memory_order_relaxed) ||
	    !atomic_exchange(&peer->link.prefill.due, false))
		return;
	list_init(&slices);
	list_init(&blocks);
	list_init(&deliveries);
	link_lock(&peer->link);
	list_splice(&slices, &peer->link.prefill.dropped);
	list_splice(&blocks, &peer->link.prefill.spent);
	if (deliveries_run_here(peer))
		list_splice(&deliveries, &peer->link.prefill.deliveries);
	/* the deliveries of a dead link copy nothing: given an error, they only end */
	status = peer->link.core.dead ? peer->link.core.dead_status : TCPX_OK;
	link_unlock_only(&peer->link);
	hold_flush(peer);
	while ((node = list_pop_front(&slices)))
		prefill_put(LIST_ENTRY(node, struct prefill_slice, node));
	while ((node = list_pop_front(&blocks)))
		block_put(LIST_ENTRY(node, struct stage_block, node));
	while ((node = list_pop_front(&deliveries)))
		stage_deliver_start(LIST_ENTRY(node, struct engine_stage, node), status);
	prefill_pump(peer);
}

uint32_t prefill_claim(const struct core_tx *tx, struct prefill_slice **slices, struct iovec *iov)
{
	uint64_t at = core_cursor_linear(tx->segs, tx->at), end = at + tx->frame.payload_bytes;
	struct list_node *pos;
	uint32_t n = 0, i;

	for (pos = tx->job->fill.slices.next; pos != &tx->job->fill.slices && at < end;
	     pos = pos->next) {
		struct prefill_slice *slice = LIST_ENTRY(pos, struct prefill_slice, node);
		uint64_t till = slice->linear + slice->bytes;

		if (till <= at)
			continue;
		if (slice->linear > at || !slice->ready || n == CHAN_SLICES_MAX)
			return 0;
		if (till > end)
			till = end;
		iov[n] = (struct iovec){slice_addr(slice) + (at - slice->linear), till - at};
		slices[n++] = slice;
		at = till;
	}
	for (i = 0; i < n && at == end; i++)
		if (slices[i]->linear + slices[i]->bytes <= tx->job->linear)
			/* all bytes of the slice are cut: the caller gets the reference of the
			 * job */
			list_remove(&slices[i]->node);
		else
			prefill_get(slices[i]);
	return at == end ? n : 0;
}

/* Called under link.lock. Returns whether memory of the job's slices would help a waiting client of
 * the pool. Patient clients (mem/staging.h) do not count. */
static bool slices_in_the_way(const struct core_job *job)
{
	struct list_node *pos;

	LIST_FOREACH(pos, &job->fill.slices) {
		const struct stage_block *block =
			LIST_ENTRY(pos, struct prefill_slice, node)->block;

		if (block->pool && block->share &&
		    mem_staging_short(block->pool, &block->share->stager))
			return true;
	}
	return false;
}

/* Called under link.lock. Gives up all slices of a job if the first one has been filled for more
 * than FILL_STALE_NS and is still not sent, and if their memory would help a waiting client
 * (slices_in_the_way()). */
static void stale_look_job(struct engine_peer *peer, struct core_job *job, int64_t now_ns)
{
	const struct prefill_slice *first;

	if (!job->fills || list_empty(&job->fill.slices))
		return;
	first = LIST_ENTRY(job->fill.slices.next, struct prefill_slice, node);
	if (first->ready && now_ns - first->ready_ns > FILL_STALE_NS && slices_in_the_way(job) &&
	    core_fill_back(&peer->link.core, job))
		LOG_DEBUG("peer '%s': gives up bytes from %llu on that were staged and not sent",
			  peer->who.name, (unsigned long long)job->linear);
}

/* Gives up the peer's stale slices. Returns true if staging memory that the peer holds would help a
 * waiting client of the pool. Patient clients (mem/staging.h) do not count. */
static bool stale_look_peer(struct engine_peer *peer, int64_t now_ns)
{
	struct stage_share *share;
	struct core_xfer *xfer = NULL;
	struct core_resp *resp = NULL;
	bool wanted = false;

	link_lock(&peer->link);
	for (share = peer->link.blocks.shares; share; share = share->next)
		wanted |= mem_staging_short(share->stager.pool, &share->stager);
	if (wanted && peer->link.core_ready) {
		while ((xfer = core_xfer_after(&peer->link.core, xfer)))
			stale_look_job(peer, &xfer->job, now_ns);
		while ((resp = core_resp_after(&peer->link.core, resp)))
			stale_look_job(peer, &resp->job, now_ns);
	}
	link_unlock(&peer->link);
	return wanted;
}

/* Called by a timer on the control thread. Gives up the stale slices of all peers. Sets the timer
 * again if stale_look_peer() returned true for any of them. */
static void stale_look(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_runtime *runtime = LIST_ENTRY(timer, struct engine_runtime, prefill_timer);
	struct engine_peer *peer;
	struct list_node *at;
	bool wanted = false;

	/* cleared first: a peer that begins to wait from now on sets the timer again */
	atomic_store(&runtime->prefill_watched, false);
	LIST_FOREACH(at, &runtime->sessions) {
		struct engine_session *session = LIST_ENTRY(at, struct engine_session, node);

		for (peer = session_next_peer(session, NULL); peer;
		     peer = session_next_peer(session, peer))
			wanted |= stale_look_peer(peer, now_ns);
	}
	if (wanted)
		prefill_watch();
}

static void stale_watch(struct sys_post *post)
{
	struct engine_runtime *runtime = LIST_ENTRY(post, struct engine_runtime, prefill_post);

	sys_timer_set(&runtime->loop, &runtime->prefill_timer, clock_now_ns() + FILL_STALE_NS / 2);
}

void prefill_watch(void)
{
	if (!atomic_exchange(&engine_runtime.prefill_watched, true))
		sys_loop_post(&engine_runtime.loop, &engine_runtime.prefill_post);
}

void prefill_init(struct engine_runtime *runtime)
{
	list_init(&runtime->prefill_timer.node);
	runtime->prefill_timer.fn = stale_look;
	list_init(&runtime->prefill_post.node);
	runtime->prefill_post.fn = stale_watch;
	atomic_store(&runtime->prefill_watched, false);
	atomic_store(&mem_staging_grown, block_offer);
}

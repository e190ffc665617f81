/* SPDX-License-Identifier: Apache-2.0 */
/* Registers a region with the comm that sends, when the first message from the region is sent. Ends
 * that registration when the region is deregistered. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/channel/comms.h"

/* pause before checking again whether the plugin has ended a region's last message */
#define LOOK_NS CLOCK_MS_NS

/* The registration of a region with the comm that sends from it. comms->lock guards `node`, `state`
 * and the fields that are marked with its name. */
struct comms_mem {
	struct list_node node; /* entry in engine_comms.mems */
	struct mem_region *region;
	/* STUCK: the plugin did not deregister; only the close of the comm releases the region */
	enum { MEM_NEW = 0, MEM_STARTED, MEM_READY, MEM_FAILED, MEM_ENDING, MEM_STUCK } state;
	bool retired; /* comms->lock: the region is being deregistered */
	/* comms->lock: number of the last message sent from the region; a comm's first message has
	 * number 1 */
	uint64_t last;
	struct net_setup *op; /* in MEM_STARTED and MEM_ENDING: the operation under way */
	struct net_mr *mr;    /* in MEM_READY: the plugin's registration */
	/* when comms_mem_step() must run even if no operation has ended; 0: never */
	int64_t due_ns;
	tcpx_error error; /* in MEM_FAILED: why */
};

/* Returns the comm's entry for a region, or NULL if the region has no entry. The caller holds
 * comms->lock. */
static struct comms_mem *mem_find(struct engine_comms *comms, const struct mem_region *region)
{
	struct list_node *pos;

	LIST_FOREACH(pos, &comms->mems) {
		struct comms_mem *mem = LIST_ENTRY(pos, struct comms_mem, node);

		if (mem->region == region)
			return mem;
	}
	return NULL;
}

/* Adds a registration in state MEM_NEW, with an io reference of the region. Returns NULL on
 * failure; the last error says why. The caller holds comms->lock. */
static struct comms_mem *mem_new(struct engine_comms *comms, struct mem_region *region)
{
	struct comms_mem *mem = calloc(1, sizeof(*mem));

	if (!mem) {
		(void)error_set(TCPX_ERR_NO_MEMORY, 0, "registration with plugin channel %u",
				comms->channel);
		return NULL;
	}
	if (!mem_region_io_get(region)) {
		free(mem);
		(void)error_set(TCPX_ERR_DEREGISTERED, 0,
				"a local region of the request was deregistered");
		return NULL;
	}
	mem_region_hold(region);
	mem->region = region;
	list_push_back(&comms->mems, &mem->node);
	return mem;
}

static void mem_free(struct comms_mem *mem)
{
	list_remove(&mem->node);
	mem_region_access_end(mem->region);
	free(mem);
}

/* Finds the registration of the frame's memory, or begins it. If the registration *out_mem is
 * ready, counts a message from the region as posted and returns OK. Returns IN_PROGRESS while the
 * region is being registered, after which the channel is kicked, or while the registration ends.
 * Returns another status if the region cannot be registered. */
static tcpx_status mem_use(struct engine_chan *chan, struct mem_region *region,
			   struct comms_mem **out_mem)
{
	struct engine_comms *comms = chan->comms;
	tcpx_status status = TCPX_IN_PROGRESS;
	struct comms_mem *mem;
	bool fresh;

	pthread_mutex_lock(&comms->lock);
	mem = mem_find(comms, region);
	fresh = !mem;
	if (fresh)
		mem = mem_new(comms, region);
	if (!mem) {
		status = error_last()->status;
	} else if (mem->state == MEM_FAILED) {
		status = error_raise(&mem->error);
	} else if (mem->state == MEM_READY) {
		/* from here on no deregistration begins before this message has ended */
		mem->last = ++comms->posted;
		status = TCPX_OK;
	}
	pthread_mutex_unlock(&comms->lock);
	if (fresh && mem)
		link_wake(&chan->peer->link);
	*out_mem = mem;
	return status;
}

/* Gives the payload to the plugin. Returns OK if the payload is posted. Returns IN_PROGRESS if the
 * plugin takes nothing at the moment; the channel is kicked to try again. With any other status the
 * channel has failed. */
static tcpx_status mem_post(struct engine_chan *chan, struct comms_mem *mem, const void *data)
{
	struct engine_comms *comms = chan->comms;
	tcpx_status status;

	status = chan->net->ops->message->post(chan->net, mem->mr, data, &chan->tx.frame.frame);
	if (status == TCPX_OK) {
		worker_again(chan); /* the plugin makes progress only when it is polled */
		return TCPX_OK;
	}
	pthread_mutex_lock(&comms->lock);
	mem->last = --comms->posted; /* the message was not posted */
	pthread_mutex_unlock(&comms->lock);
	if (status == TCPX_IN_PROGRESS)
		/* to try again in the worker's next round, since plugins report no events */
		worker_kick(chan);
	else
		chan_fail(chan, status, 0);
	return status;
}

/* Turns the frame into a NOP with the same sequence number. The payload of the frame will never be
 * posted, but the peer must not miss a sequence number. */
static void frame_blank(struct frame *frame)
{
	*frame = (struct frame){.type = FRAME_NOP,
				.flags = frame->flags & FRAME_F_ACK,
				.epoch = frame->epoch,
				.seq = frame->seq};
}

bool comms_post(struct engine_chan *chan, bool *out_valid)
{
	struct core_tx *tx = &chan->tx.frame;
	const struct core_seg *seg = &tx->segs->seg[tx->at.seg];
	struct mem_region *region = tx->segs->local[seg->local];
	struct engine_peer *peer = chan->peer;
	struct comms_mem *mem;
	tcpx_status status = TCPX_ERR_CANCELLED;
	bool refused = false;

	link_lock(&peer->link);
	*out_valid = !core_tx_resume(&peer->link.core, chan->index);
	link_unlock_only(&peer->link);
	if (*out_valid) {
		status = mem_use(chan, region, &mem);
		refused = status < 0;
		if (status == TCPX_OK)
			status = mem_post(chan, mem, region->base + seg->local_off + tx->at.off);
	}
	link_lock(&peer->link);
	if (refused)
		core_tx_spoiled(&peer->link.core, chan->index, status);
	else if (status == TCPX_IN_PROGRESS)
		core_tx_pause(&peer->link.core, chan->index);
	link_unlock_only(&peer->link);
	*out_valid &= !refused;
	if (!*out_valid)
		frame_blank(&tx->frame);
	return status == TCPX_OK || !*out_valid;
}

void comms_forget(struct engine_peer *peer, struct mem_region *region)
{
	bool some = false;

	for (uint32_t i = 0; peer->comms && i < peer->comms->count; i++) {
		struct engine_comms *comms = peer->comms->slots[i].comms;
		struct comms_mem *mem;

		if (!comms)
			continue;
		pthread_mutex_lock(&comms->lock);
		mem = mem_find(comms, region);
		if (mem)
			mem->retired = some = true;
		pthread_mutex_unlock(&comms->lock);
	}
	if (some)
		link_wake(&peer->link);
}

/* Sets mem->due_ns to the deadline of an operation on mem that begins now, and returns the
 * options of the operation. */
static struct net_setup_opts mem_op_begin(struct engine_comms *comms, struct comms_mem *mem)
{
	mem->due_ns = clock_now_ns() + comms->peer->link.session->plugin->setup_ns;
	return comms_opts(comms, mem->due_ns);
}

static void mem_failed(struct comms_mem *mem)
{
	mem->error = *error_last();
	mem->state = MEM_FAILED;
}

static void mem_register(struct engine_comms *comms, struct comms_mem *mem)
{
	struct net_setup_opts opts = mem_op_begin(comms, mem);
	struct mem_region *region = mem->region;
	uintptr_t base = (uintptr_t)region->base;
	uint64_t bytes = region->length;
	int type = NCCLNET_PTR_HOST;

	mem->state = MEM_STARTED;
	if (region->kind->kind == TCPX_MEM_CUDA) {
		type = NCCLNET_PTR_CUDA;
		bytes = comms_cover(region, &base);
	}
	if (net_register_start(&opts, comms->out, (void *)base, bytes, type, &mem->op) != TCPX_OK)
		mem_failed(mem);
}

/* Begins to deregister mem. If the plugin has not ended the last message from the region, checks
 * again after LOOK_NS instead: the plugin may use a message for a moment after the peer has
 * acknowledged it. */
static tcpx_status mem_deregister(struct engine_comms *comms, struct comms_mem *mem)
{
	struct net_setup_opts opts;
	tcpx_status status;

	if (net_comm_ended(comms->out) < mem->last) {
		mem->due_ns = clock_now_ns() + LOOK_NS;
		return TCPX_OK;
	}
	opts = mem_op_begin(comms, mem);
	status = net_deregister_start(&opts, mem->mr, &mem->op);
	mem->state = status == TCPX_OK ? MEM_ENDING : MEM_STUCK;
	return status;
}

/* Takes the next step of a registration or deregistration, and frees mem after the last one. Sets
 * *out_moved if the registration has succeeded or failed, so that a waiting sender must be kicked.
 * Returns an error if the deregistration failed. The caller holds comms->lock. */
static tcpx_status mem_step(struct engine_comms *comms, struct comms_mem *mem, bool *out_moved)
{
	struct net_setup_result result;
	tcpx_status status = TCPX_OK;

	if (mem->state == MEM_NEW)
		mem_register(comms, mem);
	if (mem->op) {
		status = net_setup_finish(mem->op, &result);
		if (status == TCPX_IN_PROGRESS)
			return TCPX_OK;
		mem->op = NULL;
		mem->due_ns = 0;
	}
	if (mem->state == MEM_STARTED && status == TCPX_OK) {
		mem->mr = result.mr;
		mem->state = MEM_READY;
		*out_moved = true;
	} else if (mem->state == MEM_STARTED) {
		mem_failed(mem);
	}
	if (mem->state == MEM_FAILED)
		*out_moved = true;
	if (mem->state == MEM_READY && mem->retired)
		return mem_deregister(comms, mem);
	if (mem->state == MEM_ENDING && status != TCPX_OK) {
		mem->state = MEM_STUCK;
		return status;
	}
	if (mem->state == MEM_ENDING || (mem->state == MEM_FAILED && mem->retired))
		mem_free(mem);
	return TCPX_OK;
}

void comms_mem_step(struct engine_comms *comms)
{
	struct engine_chan *chan = comms->peer->link.chan[comms->channel];
	struct list_node *pos, *tmp;
	tcpx_status status = TCPX_OK;
	int64_t next_ns = 0;
	bool moved = false;

	pthread_mutex_lock(&comms->lock);
	LIST_FOREACH_SAFE(pos, tmp, &comms->mems)
		if (status == TCPX_OK)
			status = mem_step(comms, LIST_ENTRY(pos, struct comms_mem, node), &moved);
	LIST_FOREACH(pos, &comms->mems) {
		int64_t due_ns = LIST_ENTRY(pos, struct comms_mem, node)->due_ns;

		if (due_ns && (!next_ns || due_ns < next_ns))
			next_ns = due_ns;
	}
	pthread_mutex_unlock(&comms->lock);
	if (next_ns)
		sys_timer_set(&engine_runtime.loop, &comms->timer, next_ns);
	if (!chan)
		return;
	if (status != TCPX_OK) /* from now on only the close of the comm releases the region */
		chan_fail(chan, TCPX_ERR_CHANNEL_LOST, 0);
	else if (moved)
		worker_kick(chan);
}

bool comms_mem_begins(struct engine_comms *comms)
{
	struct list_node *pos;
	bool some = false;

	pthread_mutex_lock(&comms->lock);
	LIST_FOREACH(pos, &comms->mems)
		some |= LIST_ENTRY(pos, struct comms_mem, node)->state <= MEM_STARTED;
	pthread_mutex_unlock(&comms->lock);
	return some;
}

void comms_mem_stop(struct engine_comms *comms)
{
	struct list_node *pos;

	LIST_FOREACH(pos, &comms->mems) {
		struct comms_mem *mem = LIST_ENTRY(pos, struct comms_mem, node);

		if (mem->op)
			net_setup_abandon(mem->op);
		mem->op = NULL;
	}
}

void comms_mem_drop(struct engine_comms *comms)
{
	while (!list_empty(&comms->mems))
		mem_free(LIST_ENTRY(comms->mems.next, struct comms_mem, node));
}

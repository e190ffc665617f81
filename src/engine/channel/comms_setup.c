/* SPDX-License-Identifier: Apache-2.0 */
/* Sets up the comms of a channel, one for each direction: each end listens for the comm in which it
 * receives and connects the one in which it sends. For this the ends exchange COMM frames over the
 * control link. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/channel/comms_gpu.h"

/* after so many failed attempts in a row the channel is not dialled again */
#define TRIES 4
/* No attempt begins while more comms of the peer are closing than CLOSING_MAX times the number of
 * the peer's plugin channels. */
#define CLOSING_MAX 4u
#define LATE_TEXT "its setup takes too long; it may come up later"

static struct net_setup_opts setup_opts(const struct engine_comms *comms, enum comms_op op)
{
	struct net_setup_opts opts = comms_opts(comms, comms->deadline_ns);

	comms_where(comms, op, opts.where, sizeof(opts.where));
	return opts;
}

/* Returns the options for operations of the receiving comm: while they run, the GPU into whose
 * memory the comm receives is current. */
static struct net_setup_opts landing_opts(const struct engine_comms *comms, enum comms_op op)
{
	struct net_setup_opts opts = setup_opts(comms, op);

	opts.gpu = comms_nic(comms)->landing;
	return opts;
}

uint32_t comms_next_epoch(struct engine_peer *peer, uint32_t channel)
{
	struct comms_slot *slot = comms_slot(peer, channel);
	uint32_t epoch;

	link_lock(&peer->link);
	epoch = core_chan_epoch(&peer->link.core, channel);
	link_unlock_only(&peer->link);
	if (!slot)
		return epoch + 1;
	slot->dialled = 1 + (slot->epoch > epoch ? slot->epoch : epoch);
	return slot->dialled;
}

static bool any_slot_told(const struct engine_peer *peer)
{
	for (uint32_t i = 0; i < peer->comms->count; i++)
		if (peer->comms->slots[i].told)
			return true;
	return false;
}

/* Lets the peer come up without the channel, records why, and logs it unless a failure of the
 * channel was logged already. If `late` is true, the setup has not failed but takes long, and the
 * channel may still come up. */
static void slot_give_up(struct engine_peer *peer, struct comms_slot *slot, const char *why,
			 bool late)
{
	/* WARN is only for the peer's first late channel and for its first failed one. */
	bool again = late ? comms_given_up(peer) : any_slot_told(peer);

	link_lock(&peer->link);
	if (!late || !*peer->comms->missing)
		text_format(peer->comms->missing, sizeof(peer->comms->missing), "%s", why);
	link_unlock(&peer->link);
	if (!slot->told)
		LOG(again ? TCPX_LOG_INFO : TCPX_LOG_WARN,
		    "peer '%s': plugin channel %u is not up: %s", peer->who.name,
		    peer->comms->first + (uint32_t)(slot - peer->comms->slots), why);
	slot->told |= !late;
	slot->given_up = true;
	peer->link.events->settled(&peer->link);
}

/* Ends an attempt that failed: closes its comms and lets the peer come up without the channel. The
 * dialler dials the channel again, unless TRIES attempts in a row failed. comms may be freed. */
static void attempt_over(struct engine_comms *comms, const char *why)
{
	struct engine_peer *peer = comms->peer;
	struct comms_slot *slot = comms_slot(peer, comms->channel);
	uint32_t channel = comms->channel;

	comms_slot_set(peer, channel, NULL);
	slot->tries++;
	comms_close(comms, false); /* comms may be freed by this call */
	if (peer->died)
		return;
	slot_give_up(peer, slot, why, false);
	if (peer->dialler && slot->tries < TRIES && !peer->died)
		peer->link.events->dial_later(&peer->link, channel);
}

void comms_fail(struct engine_comms *comms, const char *why)
{
	struct engine_peer *peer = comms->peer;
	char said[COMMS_REASON_BYTES + 1];

	comms_named(comms, why, said,
		    sizeof(said)); /* a copy, since why may be the thread's last error */
	comms_tell(comms, FRAME_COMM_FAILED, said, (uint32_t)strlen(said));
	if (!peer->died)
		attempt_over(comms, said);
}

static void comms_fail_last(struct engine_comms *comms)
{
	comms_fail(comms, error_last()->what);
}

bool comms_result(struct engine_comms *comms, enum comms_op which, struct net_setup_result *result)
{
	tcpx_status status;

	if (!comms->setup.op[which])
		return false;
	status = net_setup_finish(comms->setup.op[which], result);
	if (status == TCPX_IN_PROGRESS)
		return false;
	comms->setup.op[which] = NULL;
	if (status == TCPX_OK)
		return true;
	comms_fail_last(comms);
	return false;
}

static void comms_setup_due(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_comms *comms = LIST_ENTRY(timer, struct engine_comms, timer);

	(void)now_ns;
	/* comms_run() then takes the step that is due: of a setup, a registration or a close */
	link_wake(&comms->peer->link);
}

/* Puts a new attempt in the channel's comms_slot and starts its deadline. Returns NULL if memory is
 * short. */
static struct engine_comms *attempt_new(struct engine_peer *peer, uint32_t channel, uint32_t epoch)
{
	struct comms_slot *slot = comms_slot(peer, channel);
	struct engine_comms *comms = calloc(1, sizeof(*comms));

	if (!comms) {
		(void)error_set(TCPX_ERR_NO_MEMORY, 0, "plugin channel %u", channel);
		return NULL;
	}
	peer_get(peer);
	comms->peer = peer;
	comms->channel = channel;
	comms->epoch = epoch;
	comms->deadline_ns = clock_now_ns() + peer->link.session->plugin->setup_ns;
	comms->timer.fn = comms_setup_due;
	list_init(&comms->node);
	list_init(&comms->timer.node);
	list_init(&comms->mems);
	list_init(&comms->jobs);
	pthread_mutex_init(&comms->lock, NULL);
	comms_slot_set(peer, channel, comms);
	slot->epoch = epoch;
	sys_timer_set(&engine_runtime.loop, &comms->timer, comms->deadline_ns + CLOCK_MS_NS);
	return comms;
}

/* Whether so many comms of the peer are closing that no attempt may begin (CLOSING_MAX). */
static bool attempts_too_many(const struct engine_peer *peer)
{
	const struct list_node *pos;
	uint32_t count = 0;

	LIST_FOREACH(pos, &peer->comms->closing)
		count++;
	return count > CLOSING_MAX * peer->comms->count;
}

/* Returns the attempt with this epoch. If the epoch is new, begins the attempt: ends an older one
 * and starts to listen. Returns NULL if the attempt has ended or failed, or may not begin; the last
 * error says why. */
static struct engine_comms *attempt_of(struct engine_peer *peer, uint32_t channel, uint32_t epoch)
{
	struct comms_slot *slot = comms_slot(peer, channel);
	struct engine_comms *comms = slot->comms;
	struct net_setup_opts opts;

	if (comms && comms->epoch == epoch)
		return comms;
	if (epoch <= slot->epoch || (comms && comms->state != COMMS_SETUP) ||
	    attempts_too_many(peer) || (peer->dialler && epoch != slot->dialled)) {
		(void)error_set(TCPX_ERR_STALE, 0, "channel %u: attempt %u has ended", channel,
				epoch);
		return NULL;
	}
	if (comms) { /* a newer attempt has begun, so this one is obsolete */
		comms_slot_set(peer, channel, NULL);
		comms_close(comms, false);
	}
	comms = attempt_new(peer, channel, epoch);
	if (!comms)
		return NULL;
	opts = landing_opts(comms, COMMS_LISTEN);
	if (net_listen_start(&opts, &comms->setup.op[COMMS_LISTEN]) == TCPX_OK)
		return comms;
	comms_fail_last(comms);
	return NULL;
}

tcpx_status comms_guide(struct engine_peer *peer, uint32_t channel, uint32_t epoch,
			struct net_chan *guide)
{
	struct engine_comms *comms = attempt_of(peer, channel, epoch);

	if (!comms || comms->state != COMMS_SETUP || comms->setup.guide) {
		guide->ops->close(guide);
		return TCPX_ERR_STALE;
	}
	comms->setup.guide = guide;
	link_wake(&peer->link);
	return TCPX_OK;
}

/*
 * Handles a COMM frame that arrived on the control link. A LISTEN frame carries the handle to
 * connect to. A FAILED frame carries a reason as text; a LOST frame, a reason or message counts as
 * text. Other COMM frames have no payload.
 *
 * A LISTEN, CONNECT or READY frame begins its attempt if the attempt is new; it is ignored if the
 * attempt has ended.
 */
tcpx_status comms_frame(struct engine_peer *peer, const struct frame *frame, const void *payload)
{
	bool failed = frame->key == FRAME_COMM_FAILED;
	struct comms_slot *slot = frame->linear < CORE_CHANNELS_MAX
					  ? comms_slot(peer, (uint32_t)frame->linear)
					  : NULL;
	struct engine_comms *comms;
	bool text = failed || frame->key == FRAME_COMM_LOST;
	char why[COMMS_REASON_BYTES + 1] = "", there[sizeof(why) + 16];

	if (!slot || frame->key < FRAME_COMM_LISTEN || frame->key > FRAME_COMM_LOST ||
	    (frame->key == FRAME_COMM_LISTEN
		     ? frame->payload_bytes != NCCLNET_HANDLE_BYTES
		     : frame->payload_bytes > (text ? COMMS_REASON_BYTES : 0)))
		return TCPX_ERR_PROTOCOL;
	if (text)
		memcpy(why, payload, frame->payload_bytes);
	if (frame->key == FRAME_COMM_LOST) {
		if (frame->epoch <= slot->epoch)
			comms_lost_there(peer, (uint32_t)frame->linear, why);
		return TCPX_OK;
	}
	if (failed && !frame->epoch) { /* epoch 0: no attempt; the peer gives the channel up */
		slot_give_up(peer, slot, why, false);
		return TCPX_OK;
	}
	/* the attempt has ended at this end, too: the peer's reason is only logged and kept */
	if (failed && !slot->comms && frame->epoch == slot->epoch)
		comms_lost_there(peer, (uint32_t)frame->linear, why);
	comms = failed ? slot->comms : attempt_of(peer, (uint32_t)frame->linear, frame->epoch);
	if (!comms || comms->epoch != frame->epoch || comms->state != COMMS_SETUP)
		return TCPX_OK; /* the frame belongs to an attempt that has ended */
	switch (frame->key) {
	case FRAME_COMM_LISTEN:
		if (comms_take_handle(comms, payload) != TCPX_OK) {
			comms_fail_last(comms);
			return TCPX_OK;
		}
		break;
	case FRAME_COMM_CONNECT:
		comms->setup.connect_came = true;
		break;
	case FRAME_COMM_READY:
		comms->setup.ready_came = true;
		break;
	default:
		text_format(there, sizeof(there), "at the peer: %s", why);
		attempt_over(comms, there);
		return TCPX_OK;
	}
	link_wake(&peer->link);
	return TCPX_OK;
}

void comms_give_up(struct engine_peer *peer, uint32_t channel, const char *why)
{
	struct frame frame = {.type = FRAME_COMM,
			      .key = FRAME_COMM_FAILED,
			      .linear = channel,
			      .payload_bytes = (uint32_t)strlen(why)};

	link_tell(&peer->link, &frame, why);
	if (!peer->died)
		slot_give_up(peer, comms_slot(peer, channel), why, false);
}

static void attempt_late_text(const struct engine_comms *comms, char *out_text, size_t size)
{
	char awaits[COMMS_REASON_BYTES], why[COMMS_REASON_BYTES];

	comms_awaits(comms, awaits, sizeof(awaits));
	text_format(why, sizeof(why), LATE_TEXT ": %s", awaits);
	comms_named(comms, why, out_text, size);
}

bool comms_hurry(struct engine_peer *peer)
{
	bool some = false;
	char why[COMMS_REASON_BYTES + 1];

	for (uint32_t i = 0; peer->comms && i < peer->comms->count && !peer->died; i++) {
		struct comms_slot *slot = &peer->comms->slots[i];

		if (slot->given_up || (slot->comms && slot->comms->state == COMMS_UP))
			continue;
		some = true;
		if (slot->comms)
			attempt_late_text(slot->comms, why, sizeof(why));
		slot_give_up(peer, slot, slot->comms ? why : LATE_TEXT, true);
	}
	return some && peer->counted_up;
}

/* Whether the attempt has ended. comms may be freed, so only its address is compared. */
static bool attempt_gone(const struct engine_peer *peer, uint32_t channel,
			 const struct engine_comms *comms)
{
	return comms_slot(peer, channel)->comms != comms;
}

/* For plugins that carry host memory: allocates memory for a window of received messages, and
 * begins to register it with the receiving comm. */
static tcpx_status setup_register(struct engine_comms *comms)
{
	const struct engine_peer_comms *table = comms->peer->comms;
	uint64_t bytes = (uint64_t)table->window * table->message_bytes;
	struct net_setup_opts opts = setup_opts(comms, COMMS_REGISTER);

	comms->bounce = malloc(bytes);
	if (!comms->bounce)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "%llu bytes for received messages",
				 (unsigned long long)bytes);
	return net_register_start(&opts, comms->in, comms->bounce, bytes, NCCLNET_PTR_HOST,
				  &comms->setup.op[COMMS_REGISTER]);
}

/* Begins each operation whose conditions are met: the connect, after the peer's handle has come;
 * the accept, after the peer has said that it connects; then the preparation of the memory for
 * receives. For a GPU, the GPU's part of the comm is opened first, and its memory is registered
 * when that has ended. Returns an error if the caller must end the attempt. */
static tcpx_status setup_begin(struct engine_comms *comms)
{
	struct engine_peer *peer = comms->peer;
	const struct engine_plugin *plugin = peer->link.session->plugin;
	struct net_setup_opts opts = setup_opts(comms, COMMS_CONNECT);
	struct net_setup_opts landing = landing_opts(comms, COMMS_ACCEPT);
	tcpx_status status = TCPX_OK;

	if (comms->setup.handle_came && !comms->setup.connect_begun) {
		comms->setup.connect_begun = true;
		comms_tell(comms, FRAME_COMM_CONNECT, NULL, 0);
		if (peer->died)
			return TCPX_OK;
		status = net_connect_start(&opts, comms->setup.handle,
					   &comms->setup.op[COMMS_CONNECT]);
	}
	if (status == TCPX_OK && comms->setup.connect_came && comms->setup.listener &&
	    !comms->setup.accept_begun) {
		comms->setup.accept_begun = true;
		status = net_accept_start(&landing, comms->setup.listener,
					  &comms->setup.op[COMMS_ACCEPT]);
		if (status == TCPX_OK)
			comms->setup.listener = NULL; /* belongs to the accept now */
	}
	if (status == TCPX_OK && comms->in && !comms->setup.memory_begun) {
		comms->setup.memory_begun = true;
		status = plugin->gpu < 0 ? setup_register(comms) : comms_gpu_open(comms);
	}
	if (status == TCPX_OK && comms->gpu_op && !comms->gpu) {
		status = comms_gpu_opened(comms);
		if (status == TCPX_OK)
			status = net_register_start(
				&landing, comms->in, comms->gpu->landing, comms->gpu->landing_bytes,
				plugin->host_recv ? NCCLNET_PTR_HOST : NCCLNET_PTR_CUDA,
				&comms->setup.op[COMMS_REGISTER]);
	}
	return status < 0 ? status : TCPX_OK;
}

/* Called when the setup is complete: makes the plugin channel from the comms and the guide, and
 * attaches it to the link. */
static void setup_attach(struct engine_comms *comms)
{
	const struct engine_peer_comms *table = comms->peer->comms;
	struct net_messages_opts opts = {
		.guide = comms->setup.guide,
		.out = comms->out,
		.in = comms->in,
		.window = table->window,
		.message_bytes = table->message_bytes,
		.bounce = comms->bounce,
		.bounce_mr = comms->bounce_mr,
		.timeout_ns = comms->peer->link.session->plugin->message_ns,
	};
	struct engine_peer *peer = comms->peer;
	struct comms_slot *slot = comms_slot(peer, comms->channel);
	struct net_chan *net;

	if (comms->gpu) {
		opts.meta = comms->gpu->meta;
		opts.pool = comms->gpu->pool;
		opts.pool_bytes = comms->gpu->pool_bytes;
		opts.landing = comms->gpu->landing;
	}
	if (peer->link.session->plugin->host_recv) {
		opts.bounce = comms->gpu->landing;
		opts.whole = true;
	}
	if (net_messages_open(&opts, &net) != TCPX_OK) {
		comms_fail_last(comms);
		return;
	}
	comms->setup.guide = NULL;
	comms->state = COMMS_UP;
	sys_timer_del(&engine_runtime.loop, &comms->timer);
	if (peer->link.events->attach(&peer->link, comms->channel, comms->epoch, net) != TCPX_OK) {
		comms_slot_set(peer, comms->channel, NULL);
		comms_close(comms, false);
		return;
	}
	slot->tries = 0;
	slot->given_up = slot->told = slot->warned = false;
	sys_timer_del(&engine_runtime.loop, &peer->comms->strand);
	peer->link.events->settled(&peer->link);
}

/* Takes the results of operations that have ended, sends the COMM frames that the peer waits for,
 * begins the next operations, and attaches the channel when all are done. If the deadline has
 * passed, ends the attempt. Afterwards comms may be freed. */
static void setup_step(struct engine_comms *comms)
{
	struct engine_peer *peer = comms->peer;
	uint32_t channel = comms->channel;
	struct net_setup_result result;
	tcpx_status status;

	if (comms_result(comms, COMMS_LISTEN, &result)) {
		comms->setup.listener = result.listener;
		memcpy(comms->setup.own_handle, net_listener_handle(result.listener),
		       sizeof(comms->setup.own_handle));
		comms_tell(comms, FRAME_COMM_LISTEN, net_listener_handle(comms->setup.listener),
			   NCCLNET_HANDLE_BYTES);
	}
	if (!attempt_gone(peer, channel, comms) && comms_result(comms, COMMS_CONNECT, &result))
		comms->out = result.comm;
	if (!attempt_gone(peer, channel, comms) && comms_result(comms, COMMS_ACCEPT, &result))
		comms->in = result.comm;
	if (!attempt_gone(peer, channel, comms) && comms_result(comms, COMMS_REGISTER, &result)) {
		comms->bounce_mr = result.mr;
		comms->setup.ready_told = true;
		comms_tell(comms, FRAME_COMM_READY, NULL, 0);
	}
	if (peer->died || attempt_gone(peer, channel, comms))
		return;
	status = setup_begin(comms);
	if (peer->died)
		return;
	if (status != TCPX_OK)
		comms_fail_last(comms);
	else if (comms->out && comms_first(comms) && comms->setup.guide)
		setup_attach(comms);
	else if (peer->died || attempt_gone(peer, channel, comms))
		return;
	else if (clock_now_ns() >= comms->deadline_ns)
		comms_fail(comms, comms->setup.guide
					  ? "the peer did not finish its part of the setup in time"
					  : "its guide connection did not come up in time");
}

void comms_run(struct engine_peer *peer)
{
	struct engine_peer_comms *table = peer->comms;
	struct list_node *pos, *tmp;

	for (uint32_t i = 0; table && i < table->count && !peer->died; i++) {
		struct engine_comms *comms = table->slots[i].comms;

		if (!comms)
			continue;
		if (comms->state == COMMS_SETUP)
			setup_step(comms);
		else
			comms_mem_step(comms);
	}
	if (!table)
		return;
	LIST_FOREACH_SAFE(pos, tmp, &table->closing)
		comms_close_step(LIST_ENTRY(pos, struct engine_comms, node));
}

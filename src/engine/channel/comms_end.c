/* SPDX-License-Identifier: Apache-2.0 */
/* Closes comms when their channel has stopped, their setup has failed, or their peer has died.
 * Reports why channels are lost, and finds channels whose messages are not acknowledged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/channel/comms_gpu.h"
#include "engine/path/share.h"

/* time that the plugin has to close comms, counted from the end of the last copy of their
 * messages */
#define CLOSE_NS (5 * CLOCK_S_NS)
#define BARREN_MAX 4u  /* so many losses in a row without data stop the dialling for a while */
#define LOST_LINES 64u /* most log lines in 10 s that one peer's LOST frames may cause */
#define CAUSE_NS (10 * CLOCK_S_NS) /* equal reasons within this time count as one cause */
#define DIGITS "0123456789"
#define LOOK_NS CLOCK_MS_NS /* interval between two checks whether a GPU's copies have ended */

/* The list of comms that could not be closed. The plugin may use their memory for ever, so they
 * are never freed. Control thread. */
static struct list_node *unclosed_list(void)
{
	static struct list_node lost;

	if (!lost.next)
		list_init(&lost);
	return &lost;
}

void comms_slot_set(struct engine_peer *peer, uint32_t channel, struct engine_comms *comms)
{
	link_lock(&peer->link);
	comms_slot(peer, channel)->comms = comms;
	link_unlock(&peer->link);
}

static bool any_channel_up(const struct engine_peer_comms *table)
{
	for (uint32_t i = 0; i < table->count; i++)
		if (table->slots[i].comms && table->slots[i].comms->state == COMMS_UP)
			return true;
	return false;
}

/* Runs when the time that comms_strand_later() set is over: fails requests that need a plugin
 * channel, unless one is up. */
static void comms_strand_due(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_peer_comms *table = LIST_ENTRY(timer, struct engine_peer_comms, strand);
	struct engine_peer *peer = table->peer;

	(void)now_ns;
	if (any_channel_up(table))
		return;
	LOG_WARN("peer '%s': no plugin channel came back in time: requests that need one fail",
		 peer->who.name);
	link_lock(&peer->link);
	core_link_strand(&peer->link.core, TCPX_ERR_CHANNEL_LOST);
	link_unlock(&peer->link);
}

void comms_strand_later(struct engine_peer *peer)
{
	struct engine_peer_comms *table = peer->comms;

	if (any_channel_up(table))
		return;
	table->strand.fn = comms_strand_due;
	sys_timer_set(&engine_runtime.loop, &table->strand,
		      clock_now_ns() + peer->link.session->plugin->message_ns);
}

void comms_free(struct engine_comms *comms)
{
	pthread_mutex_destroy(&comms->lock);
	free(comms->bounce);
	free(comms);
}

static void comm_close_start(struct engine_comms *comms, struct net_comm **comm,
			     struct net_setup **op)
{
	struct net_setup_opts opts = comms_opts(comms, comms->deadline_ns);

	if (comm == &comms->in)
		opts.gpu = comms_nic(comms)->landing;
	if (*comm && net_close_start(&opts, *comm, op) == TCPX_OK)
		*comm = NULL; /* the comm belongs to the operation now */
}

/* Abandons a setup: ends its operations, its listener and its guide connection. */
static void comms_abandon_setup(struct engine_comms *comms)
{
	struct net_setup_opts opts = comms_opts(comms, comms->deadline_ns);
	struct net_setup *end;

	opts.gpu = comms_nic(comms)->landing;
	for (int i = 0; i < COMMS_OPS; i++) {
		if (comms->setup.op[i])
			net_setup_abandon(comms->setup.op[i]);
		comms->setup.op[i] = NULL;
	}
	if (comms->setup.listener &&
	    net_unlisten_start(&opts, comms->setup.listener, &end) == TCPX_OK)
		net_setup_abandon(end);
	comms->setup.listener = NULL;
	if (comms->setup.guide)
		comms->setup.guide->ops->close(comms->setup.guide);
	comms->setup.guide = NULL;
}

void comms_close(struct engine_comms *comms, bool lost)
{
	comms->state = COMMS_CLOSING;
	comms->end.lost = lost;
	comms->deadline_ns = clock_now_ns() + CLOSE_NS;
	comms_abandon_setup(comms);
	comms_mem_stop(comms);
	list_push_back(&comms->peer->comms->closing, &comms->node);
	comms_close_step(comms);
}

/* Whether the close of a comm has ended or was never begun. Sets *out_stuck if the close did not
 * end in time. */
static bool comm_close_ended(struct net_setup **op, bool *out_stuck)
{
	tcpx_status status;

	if (!*op)
		return true;
	status = net_setup_finish(*op, NULL);
	if (status == TCPX_IN_PROGRESS)
		return false;
	*op = NULL;
	*out_stuck |= status == TCPX_ERR_TIMED_OUT;
	return true;
}

/* Tells the core that the channel is lost, if the comms were closed because of that loss and the
 * peer is not dead. */
static void core_tell_lost(struct engine_comms *comms)
{
	struct engine_peer *peer = comms->peer;

	if (!comms->end.lost || peer->died)
		return;
	link_lock(&peer->link);
	core_chan_lost(&peer->link.core, comms->channel);
	link_unlock(&peer->link);
}

/* Begins to close both comms, unless the GPU's part is still being opened or a copy of their
 * messages is under way. In these cases the close is tried again later. Returns whether the close
 * has begun. */
static bool comms_close_begin(struct engine_comms *comms)
{
	int64_t now_ns = clock_now_ns();

	if (comms->end.begun)
		return true;
	/* The plugin frees its device queue with the comm. A thread that still opens the GPU's part
	 * of the comm (comms_gpu.c) reads that queue. When that thread ends, it wakes this link,
	 * and the close is tried again. */
	if (comms_gpu_opens(comms))
		return false;
	comms_gpu_abandon(comms);
	if (comms->gpu && comms_unpack_run(comms, NULL)) {
		sys_timer_set(&engine_runtime.loop, &comms->timer, now_ns + LOOK_NS);
		return false;
	}
	comms->end.begun = true;
	comms->deadline_ns = now_ns + CLOSE_NS;
	comm_close_start(comms, &comms->out, &comms->end.out);
	comm_close_start(comms, &comms->in, &comms->end.in);
	sys_timer_set(&engine_runtime.loop, &comms->timer, comms->deadline_ns + CLOCK_MS_NS);
	return true;
}

void comms_close_step(struct engine_comms *comms)
{
	struct engine_peer *peer = comms->peer;
	bool stuck;

	if (!comms_close_begin(comms))
		return;
	stuck = comms->out || comms->in;
	if (!comm_close_ended(&comms->end.out, &stuck) || !comm_close_ended(&comms->end.in, &stuck))
		return;
	list_remove(&comms->node);
	sys_timer_del(&engine_runtime.loop, &comms->timer);
	if (stuck) {
		LOG_WARN("peer '%s': plugin channel %u does not close: memory that is registered "
			 "with it is not released",
			 peer->who.name, comms->channel);
		list_push_back(unclosed_list(), &comms->node);
	} else {
		comms_mem_drop(comms);
		comms_gpu_close(comms);
	}
	core_tell_lost(comms);
	if (peer->died)
		share_lease_over(peer);
	if (stuck)
		comms->peer = NULL;
	else
		comms_free(comms);
	peer_put(peer);
}

/* Whether two reasons are equal apart from numbers. Such reasons of several channels have one
 * cause. */
static bool loss_same_cause(const char *a, const char *b)
{
	for (;; a++, b++) {
		a += strspn(a, DIGITS);
		b += strspn(b, DIGITS);
		if (*a != *b)
			return false;
		if (!*a)
			return true;
	}
}

/* Whether a loss is logged as a warning: that of the first channel that is lost for a cause. Those
 * of the others are logged at INFO. */
static bool loss_warns(struct engine_peer_comms *table, const char *why)
{
	int64_t now_ns = clock_now_ns();
	bool again = loss_same_cause(why, table->cause) && now_ns - table->cause_ns < CAUSE_NS;

	if (again)
		return false;
	text_format(table->cause, sizeof(table->cause), "%s", why);
	table->cause_ns = now_ns;
	return true;
}

/* Sends the peer the reason `why`, unless it is NULL, and this end's message counts. Logs the
 * counts at `level`. The peer does the same with its own counts. If the counts of the two ends do
 * not match, a message was lost. */
static void loss_tell_peer(struct engine_comms *comms, const char *why, enum tcpx_log_level level,
			   const struct net_message_counts *counts)
{
	char text[COMMS_REASON_BYTES + 1];

	if (why) {
		text_format(text, sizeof(text), "%s", why);
		comms_tell(comms, FRAME_COMM_LOST, text, (uint32_t)strlen(text));
	}
	text_format(text, sizeof(text),
		    "sends posted %llu, done %llu; receives posted %llu, done %llu, unpacked %llu, "
		    "consumed %llu",
		    (unsigned long long)counts->sends_posted,
		    (unsigned long long)counts->sends_done, (unsigned long long)counts->posted,
		    (unsigned long long)counts->done, (unsigned long long)counts->unpacked,
		    (unsigned long long)counts->consumed);
	LOG(level, "peer '%s': channel %u, here: %s", comms->peer->who.name, comms->channel, text);
	comms_tell(comms, FRAME_COMM_LOST, text, (uint32_t)strlen(text));
}

/* Called when a channel is lost. Counts the losses in a row at which nothing had got through in a
 * direction that was used. After BARREN_MAX such losses the dialler does not dial the channel for a
 * while. If dialled at once, the channel would get the same transfers and be lost again, for
 * ever. */
static void loss_count_barren(struct engine_peer *peer, struct comms_slot *slot, uint32_t channel,
			      const struct net_message_counts *counts)
{
	/* longer than the time of comms_strand_later(), so that waiting requests fail first */
	int64_t rest = 2 * peer->link.session->plugin->message_ns;
	uint32_t unacked;

	link_lock(&peer->link);
	unacked = core_tx_messages(&peer->link.core, channel);
	link_unlock_only(&peer->link);
	if ((!counts->sends_posted || unacked < counts->sends_posted) &&
	    (!counts->posted || counts->consumed)) {
		if (counts->sends_posted || counts->posted)
			slot->barren = 0;
		return;
	}
	if (++slot->barren < BARREN_MAX || !peer->dialler)
		return;
	rest = rest > peer->link.session->plugin->rest_ns ? rest
							  : peer->link.session->plugin->rest_ns;
	slot->rests_ns = clock_now_ns() + rest;
	LOG_WARN("peer '%s': channel %u, NIC %s: nothing arrived %u times in a row: it is not "
		 "dialled for %lld ms",
		 peer->who.name, channel, comms_nic_name(slot->comms), slot->barren,
		 (long long)(rest / CLOCK_MS_NS));
}

bool comms_peer_ended_first(struct engine_comms *comms)
{
	static const tcpx_status ends[] = {TCPX_ERR_CHANNEL_LOST, TCPX_ERR_PEER_CLOSED,
					   TCPX_ERR_PEER_RESET};
	bool same;

	pthread_mutex_lock(&comms->lock);
	/* If this end has recorded no reason, a fence of the peer reported the loss. */
	same = !*comms->why;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		same |= !strcmp(comms->why, error_status_text(ends[i]));
	pthread_mutex_unlock(&comms->lock);
	return same;
}

/* Keeps the reason of a loss for tcpx_request_error(). If `first` is true, this end noticed the
 * failure before the peer reported it; then `why` replaces the reason kept before, even that of
 * another channel. Otherwise `why` is kept only if there is no reason yet. */
static void loss_keep_reason(struct engine_peer *peer, const char *why, bool first)
{
	link_lock(&peer->link);
	if (first || !*peer->comms->lost)
		text_format(peer->comms->lost, sizeof(peer->comms->lost), "%s", why);
	link_unlock(&peer->link);
}

void comms_lost_there(struct engine_peer *peer, uint32_t channel, const char *why)
{
	bool counts = strncmp(why, "channel ", 8) != 0;
	struct comms_slot *slot = comms_slot(peer, channel);

	if (slot->told) /* already logged why the channel is not up */
		slot->warned = false;
	else if (!counts)
		slot->warned = loss_warns(peer->comms, why);
	if (log_allow(&peer->comms->lost_log, LOST_LINES))
		LOG(comms_loss_level(slot), "peer '%s': channel %u, at the peer: %s",
		    peer->who.name, channel, why);
	if (counts)
		return;
	link_lock(&peer->link);
	text_format(peer->comms->lost, sizeof(peer->comms->lost), "at the peer: %s", why);
	link_unlock(&peer->link);
}

bool comms_rests(const struct engine_peer *peer, uint32_t channel)
{
	const struct comms_slot *slot = comms_slot(peer, channel);

	return slot && slot->rests_ns > clock_now_ns();
}

bool comms_stopped(struct engine_chan *chan, const char *why)
{
	const struct net_ops *ops = chan->net->ops;
	struct engine_peer *peer = chan->peer;
	uint32_t channel = chan->index;
	struct comms_slot *slot = comms_slot(peer, channel);
	struct engine_comms *comms = slot ? slot->comms : NULL;
	struct net_chan_info info = {{0}};
	bool first;

	if (!comms)
		return false;
	first = !comms_peer_ended_first(comms);
	loss_keep_reason(peer, why, first);
	if (first)
		slot->warned = loss_warns(peer->comms, why);
	ops->info(chan->net, &info);
	loss_count_barren(peer, slot, channel, &info.messages);
	comms_slot_set(peer, channel, NULL);
	if (info.stuck_ns > (uint64_t)peer->link.session->plugin->message_ns / 2) {
		link_lock(&peer->link);
		core_chan_stuck(&peer->link.core, channel, TCPX_ERR_CHANNEL_LOST);
		link_unlock(&peer->link);
	}
	/* If the peer noticed the loss first, the caller logs one line for all channels. The peer's
	 * reason sets slot->warned, and the peer's counts may still come. */
	loss_tell_peer(comms, first ? why : NULL, first ? comms_loss_level(slot) : TCPX_LOG_INFO,
		       &info.messages);
	if (!peer->died)
		comms_strand_later(peer);
	comms_close(comms, true);
	return true;
}

/* Called when the peer dies. If plugin channels are being set up, logs what the first of them waits
 * for, unless it was logged already why a channel could not be set up. */
static void peer_left_early(const struct engine_peer *peer)
{
	const struct engine_peer_comms *table = peer->comms;
	char awaits[COMMS_REASON_BYTES], why[COMMS_WHY_BYTES];

	if (*table->missing)
		return; /* the reason is logged already */
	for (uint32_t i = 0; i < table->count; i++) {
		const struct engine_comms *comms = table->slots[i].comms;

		if (!comms || comms->state != COMMS_SETUP)
			continue;
		comms_awaits(comms, awaits, sizeof(awaits));
		comms_named(comms, awaits, why, sizeof(why));
		LOG_WARN("peer '%s' left before a plugin channel came up: %s", peer->who.name, why);
		return;
	}
}

void comms_call_pending(struct engine_comms *comms)
{
	if (!comms)
		return;
	comms->end.stays = true;
	comms->peer->comms->staying++;
}

void comms_call_returned(struct engine_comms *comms)
{
	if (!comms)
		return;
	comms->end.stays = false;
	comms->peer->comms->staying--;
}

void comms_peer_dead(struct engine_peer *peer)
{
	struct engine_peer_comms *table = peer->comms;

	if (!table)
		return;
	sys_timer_del(&engine_runtime.loop, &table->strand);
	peer_left_early(peer);
	for (uint32_t i = 0; i < table->count; i++) {
		struct engine_comms *comms = table->slots[i].comms;

		if (!comms)
			continue;
		comms_slot_set(peer, table->first + i, NULL);
		if (!comms->end.stays)
			comms_close(comms, false);
	}
}

void comms_beat(struct engine_peer *peer, int64_t now_ns)
{
	for (uint32_t i = 0; peer->comms && i < peer->comms->count; i++) {
		struct engine_comms *comms = peer->comms->slots[i].comms;
		uint32_t channel = peer->comms->first + i;
		uint64_t acked;
		bool waits;

		if (!comms || comms->state != COMMS_UP)
			continue;
		link_lock(&peer->link);
		acked = core_tx_acked(&peer->link.core, channel);
		waits = core_tx_messages(&peer->link.core, channel) && acked == comms->acked.seq;
		comms->acked.seq = acked;
		link_unlock_only(&peer->link);
		waits = waits && !comms_mem_begins(comms); /* a registration has its own deadline */
		if (!waits || !comms->acked.waits) /* the time counts from this heartbeat on */
			comms->acked.since_ns = now_ns;
		comms->acked.waits = waits;
		if (now_ns - comms->acked.since_ns <= peer->link.session->plugin->message_ns)
			continue;
		(void)error_set(TCPX_ERR_CHANNEL_LOST, 0,
				"what was sent from frame %llu on was not acknowledged within %lld "
				"ms",
				(unsigned long long)comms->acked.seq + 1,
				(long long)(peer->link.session->plugin->message_ns / CLOCK_MS_NS));
		chan_fail(peer->link.chan[comms->channel], TCPX_ERR_CHANNEL_LOST, 0);
	}
}

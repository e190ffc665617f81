/* SPDX-License-Identifier: Apache-2.0 */
/* The state of plugin channels: the comms of each channel, and a peer's table of them. The rules
 * are in channel/comms.h. */
#ifndef ENGINE_LINK_COMMS_STATE_H
#define ENGINE_LINK_COMMS_STATE_H

#include "engine/link/plugin_state.h"

#define COMMS_WHY_BYTES 320u /* size of a stored reason, with its terminating 0 */

enum comms_op {
	COMMS_LISTEN = 0,
	COMMS_CONNECT,
	COMMS_ACCEPT,
	COMMS_REGISTER,
	COMMS_FIRST_OUT, /* sends this end's first message: comms_first.c */
	COMMS_FIRST_IN,	 /* receives the peer's first message */
	COMMS_OPS
};

enum comms_state {
	COMMS_SETUP = 0,
	COMMS_UP,      /* a channel uses the comms */
	COMMS_CLOSING, /* no channel uses the comms any more */
};

/* How far the setup of a channel's comms has come: comms_setup.c, comms_first.c. */
struct comms_setup {
	struct net_chan *guide; /* the guide connection, until the channel owns it */
	struct net_setup *op[COMMS_OPS];
	struct net_listener *listener;
	/* handles of the plugin's listeners, to which the other end connects: this end's; the
	 * peer's */
	uint8_t own_handle[NCCLNET_HANDLE_BYTES], handle[NCCLNET_HANDLE_BYTES];
	bool handle_came, connect_came, ready_came; /* which COMM frames of the peer have arrived */
	bool connect_begun, accept_begun, memory_begun, ready_told;
	/* the send of this end's first message was posted; the receive of the peer's first message
	 * was posted */
	bool first_out_begun, first_in_begun;
	/* the send of this end's first message has ended; the peer's first message has arrived */
	bool first_out, first_in;
};

/* How the comms are closed: comms_end.c. */
struct comms_end {
	struct net_setup *out, *in; /* the operations that close the comms; NULL: none under way */
	/* closing has begun, after the last copy out of the comms' messages ended */
	bool begun;
	/* the channel was lost: core_chan_lost() is called when the comms are closed */
	bool lost;
	/* the channel is stopped, but a call on its comms has not returned */
	bool stays;
};

/* State at the last heartbeat: the peer had acknowledged the channel's frames up to `seq`. */
struct comms_acked {
	uint64_t seq;
	int64_t since_ns; /* since when `waits` has been true */
	/* messages were in flight, and none had been acknowledged since the previous heartbeat */
	bool waits;
};

/* The comms of one channel, from their setup to their end. */
struct engine_comms {
	struct engine_peer *peer; /* the comms hold a reference */
	uint32_t channel, epoch;
	enum comms_state state;
	struct list_node node; /* entry in peer->comms->closing */
	struct comms_setup setup;
	struct net_comm *out, *in; /* the comm that sends and the comm that receives */
	struct net_mr *bounce_mr;
	/* host memory that receives messages; NULL: gpu->landing receives them */
	uint8_t *bounce;
	struct comms_gpu *gpu;
	struct comms_gpu_op *gpu_op;
	/* list of comms_job; used by the worker, and by the control thread once the channel has
	 * stopped */
	struct list_node jobs;
	struct comms_acked acked;
	/* when the setup must have ended; while the comms are being closed: when that must have
	 * ended */
	int64_t deadline_ns;
	struct sys_timer timer;
	pthread_mutex_t lock;	   /* guards why, posted and mems */
	char why[COMMS_WHY_BYTES]; /* the first reason why the channel failed */
	uint64_t posted;	   /* number of messages posted for sending */
	struct list_node mems;
	struct comms_end end;
};

/* A plugin channel of a peer, whether or not it is up. */
struct comms_slot {
	struct engine_comms *comms; /* in state SETUP or UP, or NULL; written under link.lock */
	uint32_t epoch;		    /* epoch of the last attempt to set the channel up */
	/* on the dialling side: the last epoch that this side chose; this side accepts no other
	 * epoch */
	uint32_t dialled;
	uint32_t tries; /* failed attempts in a row */
	bool given_up;	/* the peer may come up without this channel */
	bool told;	/* a failure of the setup was logged; cleared when the channel is up */
	/* the loss of the channel was logged as a warning, and so are the peer's counts; cleared
	 * when the channel is up */
	bool warned;
	/* number of losses in a row; before each loss, messages were posted in one direction and
	 * none of them arrived */
	uint32_t barren;
	int64_t rests_ns; /* the channel is not dialled before this time */
};

/* Returns the level at which the last loss of the channel is logged. */
static inline enum tcpx_log_level comms_loss_level(const struct comms_slot *slot)
{
	return slot->warned ? TCPX_LOG_WARN : TCPX_LOG_INFO;
}

/* The plugin channels of a peer. */
struct engine_peer_comms {
	uint32_t first, count; /* index of the first plugin channel; number of plugin channels */
	uint32_t message_bytes, window;
	bool begin_empty; /* both ends agreed to begin each comm with an empty message */
	struct comms_slot *slots;
	char lost[COMMS_WHY_BYTES];    /* under link.lock: why a channel was last lost */
	char missing[COMMS_WHY_BYTES]; /* under link.lock: why a channel could not be set up */
	struct list_node closing;
	uint32_t staying; /* number of engine_comms whose end.stays is set */
	struct engine_peer *peer;
	/* runs from the loss of the last plugin channel until one is up again; when it expires,
	 * requests that need such a channel fail */
	struct sys_timer strand;
	struct log_limit lost_log;
	char cause[COMMS_WHY_BYTES]; /* reason and time of the last loss logged as a warning */
	int64_t cause_ns;
};

/* Returns whether comms that no channel uses any more may still read memory of requests, because
 * some are not closed yet or a call on them has not returned. Comms in use do not count. Called by
 * the control thread. */
static inline bool comms_lend(const struct engine_peer *peer)
{
	return peer->comms && (peer->comms->staying || !list_empty(&peer->comms->closing));
}

#endif

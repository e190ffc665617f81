/* SPDX-License-Identifier: Apache-2.0 */
/* The state of plugin channels: their comms, and a peer's table of them. Rules: comms.h. */
#ifndef ENGINE_LINK_COMMS_STATE_H
#define ENGINE_LINK_COMMS_STATE_H

#include "engine/link/plugin_state.h"

#define COMMS_WHY_BYTES 320u /* of a reason that is kept, its terminating 0 included */

enum comms_op {
	COMMS_LISTEN = 0,
	COMMS_CONNECT,
	COMMS_ACCEPT,
	COMMS_REGISTER,
	COMMS_FIRST_OUT, /* sends our first message: comms_first.c */
	COMMS_FIRST_IN,	 /* receives the peer's first message */
	COMMS_OPS
};

enum comms_state {
	COMMS_SETUP = 0,
	COMMS_UP,      /* a channel uses the comms */
	COMMS_CLOSING, /* no channel uses the comms any more */
};

/* How far setting up the comms has come: comms_setup.c, comms_first.c. */
struct comms_setup {
	struct net_chan *guide; /* the guide connection, until the channel owns it */
	struct net_setup *op[COMMS_OPS];
	struct net_listener *listener;
	uint8_t own_handle[NCCLNET_HANDLE_BYTES], handle[NCCLNET_HANDLE_BYTES];
	bool handle_came, connect_came, ready_came; /* what the peer's COMM frames have told */
	bool connect_begun, accept_begun, memory_begun, ready_told;
	bool first_out_begun, first_in_begun; /* the first message was posted */
	/* first_out: the peer's side took our first message; first_in: the peer's first one has
	 * arrived */
	bool first_out, first_in;
};

/* How the comms are closed: comms_end.c. */
struct comms_end {
	struct net_setup *out, *in; /* the closes of the two comms */
	/* no copy uses the memory of their messages any more, so closing has begun */
	bool begun;
	/* the channel was lost: the core is told when the comms are closed */
	bool lost;
	/* the channel is stopped, but one of its calls has not returned */
	bool stays;
};

/* Up to which sequence the peer had acknowledged the channel's frames at the last heartbeat. */
struct comms_acked {
	uint64_t seq;
	int64_t since_ns; /* since when `waits` has been set */
	/* at the last heartbeat messages were in flight, and none had been acknowledged since the
	 * heartbeat before */
	bool waits;
};

/* The comms of one channel, from their setup to their end. */
struct engine_comms {
	struct engine_peer *peer; /* with a reference */
	uint32_t channel, epoch;
	enum comms_state state;
	struct list_node node; /* peer->comms->closing */
	struct comms_setup setup;
	struct net_comm *out, *in; /* the comm that sends and the comm that receives */
	struct net_mr *bounce_mr;
	/* host memory that messages are received into; NULL: memory of `gpu` is used */
	uint8_t *bounce;
	struct comms_gpu *gpu;
	struct comms_gpu_op *gpu_op;
	/* comms_job; used by the worker, and after the channel's stop by the control thread */
	struct list_node jobs;
	struct comms_acked acked;
	int64_t deadline_ns; /* when the setup, or later the closing, must be done */
	struct sys_timer timer;
	pthread_mutex_t lock;	   /* guards the next three fields */
	char why[COMMS_WHY_BYTES]; /* the first reason why the channel failed */
	uint64_t posted;	   /* number of messages sent */
	struct list_node mems;
	struct comms_end end;
};

/* A plugin channel of a peer, whether it is up or not. */
struct comms_slot {
	struct engine_comms *comms; /* in SETUP or UP; written under link.lock */
	uint32_t epoch;		    /* epoch of the last attempt to set the channel up */
	/* at the dialler: the last epoch that it chose; it accepts no other */
	uint32_t dialled;
	uint32_t tries;	  /* failed attempts in a row */
	bool given_up;	  /* the peer may come up without this channel */
	bool told;	  /* it is logged already why the channel is not up */
	uint32_t barren;  /* losses in a row of a channel on which nothing had arrived */
	int64_t rests_ns; /* the channel is not dialled before this time */
};

/* The plugin channels of a peer. */
struct engine_peer_comms {
	uint32_t first, count; /* the peer's plugin channels: index of the first one, number */
	uint32_t message_bytes, window;
	bool begin_empty; /* both ends agreed that comms begin with an empty message */
	struct comms_slot *slots;
	char lost[COMMS_WHY_BYTES];    /* under link.lock: why a channel was lost last */
	char missing[COMMS_WHY_BYTES]; /* under link.lock: why a channel could not be set up */
	struct list_node closing;
	uint32_t staying; /* number of engine_comms whose end.stays is set */
	struct engine_peer *peer;
	/* set while no plugin channel is up; when it fires, requests that need one fail */
	struct sys_timer strand;
	struct log_limit lost_log;
	enum tcpx_log_level level;   /* the level at which the last loss was logged */
	char cause[COMMS_WHY_BYTES]; /* the last loss that was logged as a warning, and when */
	int64_t cause_ns;
};

/* Whether comms that no channel uses any more may still read memory of requests: some are not
 * closed yet, or a call on them has not returned. Does not look at comms in use. Control thread. */
static inline bool comms_lend(const struct engine_peer *peer)
{
	return peer->comms && (peer->comms->staying || !list_empty(&peer->comms->closing));
}

#endif

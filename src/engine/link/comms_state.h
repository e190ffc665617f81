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
	COMMS_FIRST_OUT, /* the first messages: comms_first.c */
	COMMS_FIRST_IN,
	COMMS_OPS
};

enum comms_state {
	COMMS_SETUP = 0,
	COMMS_UP,      /* its channel is attached */
	COMMS_CLOSING, /* no channel uses the comms any more */
};

/* How far a setup has come: comms_setup.c, comms_first.c. */
struct comms_setup {
	struct net_chan *guide; /* the guide connection, until the channel owns it */
	struct net_setup *op[COMMS_OPS];
	struct net_listener *listener;
	uint8_t own_handle[NCCLNET_HANDLE_BYTES], handle[NCCLNET_HANDLE_BYTES];
	bool handle_came, connect_came, ready_came; /* by the peer's frames COMM */
	bool connect_begun, accept_begun, memory_begun, ready_told;
	bool first_out_begun, first_in_begun; /* the first messages */
	bool first_out, first_in;	      /* and whether they got through */
};

/* How the comms end: comms_end.c. */
struct comms_end {
	struct net_setup *out, *in; /* the closes of the two comms */
	bool begun;		    /* no copy uses their messages any more */
	bool lost;		    /* the core hears of the loss once they are closed */
	bool stays;		    /* the channel is stopped, and a call of it has not returned */
};

/* What the core had acknowledged at the last heartbeat. */
struct comms_acked {
	uint64_t seq;
	int64_t since_ns;
	bool waits; /* messages were outstanding, and nothing new was acknowledged */
};

/* The comms of one channel, from their setup to their end. */
struct engine_comms {
	struct engine_peer *peer; /* with a reference */
	uint32_t channel, epoch;
	enum comms_state state;
	struct list_node node; /* peer->comms->closing */
	struct comms_setup setup;
	struct net_comm *out, *in;
	struct net_mr *bounce_mr;
	uint8_t *bounce; /* host memory that receives come into; NULL: that of gpu */
	struct comms_gpu *gpu;
	struct comms_gpu_op *gpu_op;
	struct list_node jobs; /* comms_job; the worker's, then the control thread's */
	struct comms_acked acked;
	int64_t deadline_ns; /* of the setup, then of the close */
	struct sys_timer timer;
	pthread_mutex_t lock;	   /* guards the three below */
	char why[COMMS_WHY_BYTES]; /* the first reason why the channel failed */
	uint64_t posted;	   /* number of messages sent */
	struct list_node mems;
	struct comms_end end;
};

/* A plugin channel of a peer, whether it is up or not. */
struct comms_slot {
	struct engine_comms *comms; /* in SETUP or UP; written under link.lock */
	uint32_t epoch;		    /* of the last attempt */
	uint32_t dialled;	    /* dialler: the last epoch that it chose; it accepts no other */
	uint32_t tries;		    /* failed attempts in a row */
	bool given_up;		    /* the peer may come up without it */
	bool told;		    /* the log has said why it is not up */
	uint32_t barren;	    /* losses in a row before anything had arrived */
	int64_t rests_ns;	    /* it is not dialled before this time */
};

/* The plugin channels of a peer. */
struct engine_peer_comms {
	uint32_t first, count; /* its channels */
	uint32_t message_bytes, window;
	bool begin_empty; /* comms begin with an empty message, as both ends agreed */
	struct comms_slot *slots;
	char lost[COMMS_WHY_BYTES];    /* why the last channel was lost; link.lock */
	char missing[COMMS_WHY_BYTES]; /* why one was not set up; link.lock */
	struct list_node closing;
	uint32_t staying; /* number of comms with end.stays */
	struct engine_peer *peer;
	struct sys_timer strand; /* set while none is up; then requests that need one fail */
	struct log_limit lost_log;
	enum tcpx_log_level level; /* at which the last loss is logged */
	char cause[COMMS_WHY_BYTES];
	int64_t cause_ns;
};

/* Whether a comm may still read memory of requests. Control thread. */
static inline bool comms_lend(const struct engine_peer *peer)
{
	return peer->comms && (peer->comms->staying || !list_empty(&peer->comms->closing));
}

#endif

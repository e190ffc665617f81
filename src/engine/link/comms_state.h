/* SPDX-License-Identifier: Apache-2.0 */
/* What channels of messages consist of: a session's plugin, comms, slots. Rules: comms.h. */
#ifndef ENGINE_LINK_COMMS_STATE_H
#define ENGINE_LINK_COMMS_STATE_H

#include "base/error.h"
#include "engine/engine.h"
#include "mem/unpack.h"
#include "plugin/plugin.h"

#define COMMS_NICS_MAX 16
#define COMMS_WHY_BYTES 320u /* of one that is kept, with its end */

struct engine_nic {
	unsigned dev; /* of the plugin */
	int landing;  /* the GPU whose pages receives come into; -1: host memory */
};

/* What a session wants of its plugin; constant after open. */
struct engine_plugin {
	struct net_plugin *plugin;
	struct engine_nic nics[COMMS_NICS_MAX]; /* of the channels in turn */
	unsigned nnics;
	uint32_t channels, message_bytes, sends, receives;
	uint64_t message_above; /* up to here a transfer goes over tcp: messages cost more */
	uint32_t chunk;		/* what the plugin cuts messages into; 0: it does not */
	int64_t setup_ns, message_ns, rest_ns;
	bool host; /* host memory goes as messages */
	int gpu;   /* or that of this GPU; -1 */
	enum mem_unpack_mode unpack;
	bool chosen;	/* by the caller, or his environment: no other takes its place */
	bool host_recv; /* messages for the GPU come into host memory, and are copied */
	_Atomic uint32_t uncovered; /* regions whose pages the driver does not give out */
};

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
	COMMS_CLOSING, /* nobody calls its comms any more */
};

/* Memory of a region that is registered with the comm that sends. */
struct comms_mem {
	struct list_node node; /* engine_comms.mems */
	struct mem_region *region;
	enum { MEM_NEW = 0, MEM_STARTED, MEM_READY, MEM_FAILED, MEM_ENDING } state;
	bool retired;	      /* it is to be deregistered; lock */
	uint64_t last;	      /* the number of the last message from it, from 1; lock */
	struct net_setup *op; /* STARTED, ENDING */
	struct net_mr *mr;    /* READY */
	int64_t due_ns;	      /* when it is to be looked at without being told; 0: never */
	tcpx_error error;     /* FAILED */
};

/* The comms of one channel, from their setup to their end. */
struct engine_comms {
	struct engine_peer *peer; /* with a reference */
	uint32_t channel, epoch;
	enum comms_state state;
	struct list_node node;	/* peer->comms->closing */
	struct net_chan *guide; /* SETUP: once it is there */
	struct net_setup *op[COMMS_OPS], *close_out, *close_in;
	struct net_listener *listener;
	struct net_comm *out, *in;
	struct net_mr *bounce_mr;
	uint8_t *bounce; /* host memory; else gpu */
	struct comms_gpu *gpu;
	struct comms_gpu_op *gpu_op;
	struct list_node jobs; /* comms_job; the worker's, behind it the control thread's */
	uint8_t own_handle[NCCLNET_HANDLE_BYTES], handle[NCCLNET_HANDLE_BYTES];
	bool handle_came, connect_came, ready_came; /* what the peer told */
	bool connect_begun, accept_begun, memory_begun, ready_told;
	bool first_out_begun, first_in_begun, first_out, first_in; /* begun; through */
	bool closes;		   /* that has begun: no copy uses its messages */
	bool lost;		   /* the core is to be told so when it is closed */
	bool stays;		   /* its channel is stopped, and a call of it not over */
	char why[COMMS_WHY_BYTES]; /* its channel failed; lock */
	bool waits;		   /* at the last look nothing new was acknowledged */
	uint64_t acked_seq;	   /* as the core had it then, and since when */
	int64_t acked_ns;
	uint64_t posted; /* messages that were sent; lock */
	int64_t deadline_ns;
	struct sys_timer timer;
	pthread_mutex_t lock; /* guards mems, and what says so */
	struct list_node mems;
};

/* Of one message channel of a peer. */
struct comms_slot {
	struct engine_comms *comms; /* SETUP or UP; written under peer.lock */
	uint32_t epoch;		    /* the last that was tried */
	uint32_t dialled;	    /* the dialler: the last that it chose; no other is taken */
	uint32_t tries;		    /* that failed, one after the other */
	bool given_up;		    /* the peer is up without it */
	bool told;		    /* the log says why */
	uint32_t barren;	    /* times in a row that it was lost and nothing had arrived */
	int64_t rests_ns;	    /* it is not dialled before */
};

struct engine_peer_comms {
	uint32_t first, count; /* its channels */
	uint32_t message_bytes, window;
	bool begin_empty; /* comms begin with an empty message: both ends know that */
	struct comms_slot *slots;
	char lost[COMMS_WHY_BYTES];    /* why the last channel was; peer.lock */
	char missing[COMMS_WHY_BYTES]; /* why one was not set up; peer.lock */
	struct list_node closing;
	uint32_t staying; /* comms that stay */
	struct engine_peer *peer;
	struct sys_timer strand; /* no channel of messages is up: what waits for one ends */
	struct log_limit lost_log;
	enum tcpx_log_level level; /* of what is said of the last loss */
	char cause[COMMS_WHY_BYTES];
	int64_t cause_ns;
};

/* May memory of the region go as messages? Any thread. */
static inline bool comms_takes(const struct engine_session *session,
			       const struct mem_region *region)
{
	const struct engine_plugin *plugin = session->plugin;

	if (!plugin)
		return false;
	/* A plugin reads memory by itself, and may not bear that it vanishes. */
	if (plugin->host && !region->kind->staged)
		return !mem_region_vanishes(region);
	return region->kind->kind == TCPX_MEM_CUDA && plugin->gpu == (int)region->device &&
	       atomic_load_explicit(&region->cover, memory_order_relaxed) == MEM_COVER_GIVEN;
}

/* A comm may still read memory of requests. Control thread. */
static inline bool comms_lend(const struct engine_peer *peer)
{
	return peer->comms && (peer->comms->staying || !list_empty(&peer->comms->closing));
}

#endif

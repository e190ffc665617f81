/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What takes its time in a plugin: listen, connect, accept, regMr, deregMr, close. Each is an
 * operation on a thread of its own with a deadline: start it, be told that it ended, take what came
 * out. A thread that does not come back is abandoned with all memory that it or the plugin may
 * touch, and counted (net_plugin_info.abandoned); comes it back later, it cleans up.
 *
 * A listener or handle whose accept or connect timed out between two calls is left as it is on
 * purpose, and counted (leaked): closing it would free what the plugin's own thread still uses.
 */
#ifndef PLUGIN_SETUP_H
#define PLUGIN_SETUP_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include <tcpx/types.h>

#include "abi/ncclnet.h"

#define NET_SETUPS_ABANDONED_MAX 256 /* threads of a plugin's; with more nothing new begins */

struct net_comm;
struct net_listener;
struct net_mr;
struct net_plugin;
struct net_setup;

#define NET_MR_PAGE 4096u	     /* CUDA memory: address and size are multiples of it */
#define NET_MR_PIECE (1ull << 30)    /* memory is registered in pieces of so much, */
#define NET_MR_OVERLAP (16ull << 20) /* and so much more: a message lies in one piece */

/* The GPU's owner makes a GPU current for the plugin's calls, on the thread that makes them. enter
 * is called before, and leave after, every single call of an operation that has a gpu >= 0; leave
 * restores what was current. arg outlives the process's plugins. */
struct net_gpu_ops {
	tcpx_status (*enter)(void *arg, int gpu, void **out_before);
	void (*leave)(void *arg, int gpu, void *before);
};

/* Who it is for, and until when. Copied by start. */
struct net_setup_opts {
	struct net_plugin *plugin;
	unsigned dev;
	int gpu; /* to be made current; -1: none */
	const struct net_gpu_ops *gpu_ops;
	void *gpu_arg;
	int64_t deadline_ns; /* clock_now_ns()'s */
	unsigned channel;    /* for texts */
	char peer[64];	     /* for texts */
	char where[160];     /* for texts: " (to ADDRESS from ADDRESS)", or "" */
	unsigned window;     /* connect, accept: most requests of the comm, 1 to 16 */
	/* Optional: the operation has ended. Called on its thread, under a lock: it wakes somebody
	 * and returns. Not called any more once finish, wait or abandon has taken the result. */
	void (*ended)(void *arg);
	void *ended_arg;
};

/* What came out; the member of the operation. */
struct net_setup_result {
	struct net_listener *listener; /* listen */
	struct net_comm *comm;	       /* connect, accept */
	struct net_mr *mr;	       /* register */
};

/* Each starts one and returns at once. What it takes (listener, comm, mr) is the operation's then,
 * whatever becomes of it; on an error of start it is still the caller's. ERR_LIMIT, of what makes
 * something new: too many threads are abandoned in the plugin. */
tcpx_status net_listen_start(const struct net_setup_opts *opts,
			     struct net_setup **out_setup) TCPX_MUST_CHECK;
tcpx_status net_connect_start(const struct net_setup_opts *opts,
			      const uint8_t handle[NCCLNET_HANDLE_BYTES],
			      struct net_setup **out_setup) TCPX_MUST_CHECK;
/* Only when the peer is going to connect: there is no way back. The listener is for one comm. */
tcpx_status net_accept_start(const struct net_setup_opts *opts, struct net_listener *listener,
			     struct net_setup **out_setup) TCPX_MUST_CHECK;
/* Of a listener that nobody accepted on. */
tcpx_status net_unlisten_start(const struct net_setup_opts *opts, struct net_listener *listener,
			       struct net_setup **out_setup) TCPX_MUST_CHECK;
/* Memory is registered in so many pieces. Piece i begins at i * NET_MR_PIECE and overlaps the next,
 * so that a message lies in one; so many bytes of it. */
unsigned net_mr_pieces(uint64_t bytes);
uint64_t net_mr_piece(uint64_t bytes, unsigned i);
/* Memory for the comm, which it must not outlive; data calls may go on beside it. ERR_INVALID: CUDA
 * memory not of whole pages; ERR_UNSUPPORTED: of a type that the device does not take. */
tcpx_status net_register_start(const struct net_setup_opts *opts, struct net_comm *comm, void *base,
			       uint64_t bytes, int type,
			       struct net_setup **out_setup) TCPX_MUST_CHECK;
tcpx_status net_deregister_start(const struct net_setup_opts *opts, struct net_mr *mr,
				 struct net_setup **out_setup) TCPX_MUST_CHECK;
/*
 * The comm's first message, an empty one, sent and received: both ends call the plugin until it is
 * through. A plugin that moves only in its calls, and makes its connections in them, has this one
 * from then on. It takes no page and is not counted: the next message has number 0. The data
 * calls are another thread's afterwards. recv: mr is memory of the comm's. */
tcpx_status net_first_send_start(const struct net_setup_opts *opts, struct net_comm *comm,
				 struct net_setup **out_setup) TCPX_MUST_CHECK;
tcpx_status net_first_recv_start(const struct net_setup_opts *opts, struct net_comm *comm,
				 struct net_mr *mr, struct net_setup **out_setup) TCPX_MUST_CHECK;
/* The comm and what is registered with it, requests under way or not. Nobody is in a call of the
 * comm, and no copy out of its received messages runs. OK: the plugin uses no memory of it any
 * more. ERR_TIMED_OUT: it may, for ever. */
tcpx_status net_close_start(const struct net_setup_opts *opts, struct net_comm *comm,
			    struct net_setup **out_setup) TCPX_MUST_CHECK;

/* IN_PROGRESS, or the end of it: setup is gone. OK: *out_result is filled (out_result may be NULL
 * where nothing comes out). ERR_TIMED_OUT: the deadline is over. ERR_CHANNEL_LOST: the plugin says
 * no. Never blocks. */
tcpx_status net_setup_finish(struct net_setup *setup,
			     struct net_setup_result *out_result) TCPX_MUST_CHECK;

/* finish, but waits for the end or the deadline. */
tcpx_status net_setup_wait(struct net_setup *setup,
			   struct net_setup_result *out_result) TCPX_MUST_CHECK;

/* It is not wanted any more: what comes out is closed when it comes; a registration goes with its
 * comm. setup is gone. */
void net_setup_abandon(struct net_setup *setup);

/* Before the handle of another process is used, which a plugin takes for its own. Of TCPX all is
 * checked, and what is local to a process is zeroed; of other plugins nothing can be, and only a
 * trusted peer's is taken. same_host: its addresses may be of loopback. ERR_PROTOCOL: not valid;
 * ERR_AUTH: not trusted. Any thread. */
tcpx_status net_handle_check(const struct net_plugin *plugin, bool trusted, bool same_host,
			     uint8_t handle[NCCLNET_HANDLE_BYTES]) TCPX_MUST_CHECK;
bool net_handle_is_known(const struct net_plugin *plugin); /* it is checked */

/* For the peer; NCCLNET_HANDLE_BYTES. */
const uint8_t *net_listener_handle(const struct net_listener *listener);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of a plugin that may block: listen, connect, accept, regMr, deregMr, close. Each is an
 * operation on a thread of its own with a deadline: the caller starts it, is told when it ends, and
 * takes the result. A thread that does not return is abandoned, together with all memory that it or
 * the plugin may touch, and counted (net_plugin_info.abandoned). If it returns later, it cleans up.
 *
 * connect and accept may have to be called several times until they return a comm. If the deadline
 * passes between two calls, the handle or the listener is left open on purpose, and counted
 * (leaked): closing it would free memory that the plugin's own thread still uses.
 */
#ifndef PLUGIN_SETUP_H
#define PLUGIN_SETUP_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include <tcpx/types.h>

#include "abi/ncclnet.h"

/* With that many stuck threads in a plugin only operations that close or deregister still start. */
#define NET_SETUPS_ABANDONED_MAX 256

struct net_comm;
struct net_listener;
struct net_mr;
struct net_plugin;
struct net_setup;

#define NET_MR_PAGE 4096u /* address and size of CUDA memory are multiples of it */
/* Memory is registered in pieces: the distance between their starts, and the bytes by which they
 * overlap, so that each message of at most NET_MR_OVERLAP bytes lies in one piece. */
#define NET_MR_PIECE (1ull << 30)
#define NET_MR_OVERLAP (16ull << 20)

/* Makes a GPU current for calls of the plugin. An operation with gpu >= 0 calls enter before and
 * leave after each single call of the plugin, on the same thread; leave restores what was current
 * before. arg lives as long as the process. */
struct net_gpu_ops {
	tcpx_status (*enter)(void *arg, int gpu, void **out_before);
	void (*leave)(void *arg, int gpu, void *before);
};

/* What every operation needs. Copied when an operation is started. */
struct net_setup_opts {
	struct net_plugin *plugin;
	unsigned dev; /* index of the device */
	int gpu;      /* made current around each call; -1: none */
	const struct net_gpu_ops *gpu_ops;
	void *gpu_arg;
	int64_t deadline_ns; /* of clock_now_ns() */
	unsigned channel;    /* for error texts */
	char peer[64];	     /* for error texts */
	char where[160];     /* for error texts: " (to ADDRESS from ADDRESS)", or "" */
	unsigned window;     /* connect, accept: most requests of the comm at a time, 1 to 16 */
	/* Optional: called when the operation has ended, on its thread and under a lock, so it may
	 * only wake the caller. Not called after finish or wait has returned a result, or after
	 * abandon. */
	void (*ended)(void *arg);
	void *ended_arg;
};

/* The result of an operation: only the member of that operation is set. */
struct net_setup_result {
	struct net_listener *listener; /* listen */
	struct net_comm *comm;	       /* connect, accept */
	struct net_mr *mr;	       /* register */
};

/* Each of the functions below starts an operation and returns at once; any status but OK means that
 * nothing was started. A listener that is accepted on or closed, a comm that is closed and an mr
 * that is deregistered belong to the operation from then on, however it ends; if the start fails,
 * they still belong to the caller. ERR_LIMIT: too many threads are abandoned in the plugin;
 * unlisten, deregister and close start all the same. */

/* Makes a listener. Its handle must be sent to the peer, which connects with it. */
tcpx_status net_listen_start(const struct net_setup_opts *opts,
			     struct net_setup **out_setup) TCPX_MUST_CHECK;
/* Connects to the listener that has this handle. The result is a comm that sends. */
tcpx_status net_connect_start(const struct net_setup_opts *opts,
			      const uint8_t handle[NCCLNET_HANDLE_BYTES],
			      struct net_setup **out_setup) TCPX_MUST_CHECK;
/* Accepts a comm that receives, and closes the listener, which serves one comm. To be called only
 * when the peer is going to connect, because an accept cannot be taken back. */
tcpx_status net_accept_start(const struct net_setup_opts *opts, struct net_listener *listener,
			     struct net_setup **out_setup) TCPX_MUST_CHECK;
/* Closes a listener on which no accept was started. */
tcpx_status net_unlisten_start(const struct net_setup_opts *opts, struct net_listener *listener,
			       struct net_setup **out_setup) TCPX_MUST_CHECK;
/* The number of pieces that memory is registered in. Piece i begins at i * NET_MR_PIECE. */
unsigned net_mr_pieces(uint64_t bytes);
uint64_t net_mr_piece(uint64_t bytes, unsigned i); /* bytes of piece i */
/* Registers memory with a comm, which must outlive the registration and still belongs to the
 * caller. Data calls may run meanwhile. ERR_INVALID: an empty range, or CUDA memory that is not
 * whole pages; ERR_UNSUPPORTED: the device does not support that type of memory (enum
 * ncclnet_pointers). */
tcpx_status net_register_start(const struct net_setup_opts *opts, struct net_comm *comm, void *base,
			       uint64_t bytes, int type,
			       struct net_setup **out_setup) TCPX_MUST_CHECK;
/* Deregisters and frees mr. */
tcpx_status net_deregister_start(const struct net_setup_opts *opts, struct net_mr *mr,
				 struct net_setup **out_setup) TCPX_MUST_CHECK;
/*
 * Sends and receives the first message of a comm, an empty one: both ends call the plugin until the
 * message has arrived. A plugin that makes its connections and progresses only within calls is
 * connected after that. The message takes no page and is not counted: the next one has number 0.
 * Another thread may make the data calls afterwards. The comm still belongs to the caller. mr:
 * memory that is registered with the comm.
 */
tcpx_status net_first_send_start(const struct net_setup_opts *opts, struct net_comm *comm,
				 struct net_setup **out_setup) TCPX_MUST_CHECK;
tcpx_status net_first_recv_start(const struct net_setup_opts *opts, struct net_comm *comm,
				 struct net_mr *mr, struct net_setup **out_setup) TCPX_MUST_CHECK;
/* Closes a comm and its registrations, even with requests under way. The caller makes sure that
 * no data call of the comm and no copy out of its received messages is running. OK: the plugin no
 * longer uses memory of the comm. ERR_TIMED_OUT: the plugin may use that memory for ever. */
tcpx_status net_close_start(const struct net_setup_opts *opts, struct net_comm *comm,
			    struct net_setup **out_setup) TCPX_MUST_CHECK;

/* Returns IN_PROGRESS while the operation runs. Otherwise returns the status with which it ended,
 * and frees setup. OK: *out_result is filled (may be NULL for operations without a result).
 * ERR_TIMED_OUT: the deadline has passed. ERR_CHANNEL_LOST: a call of the plugin returned an error.
 * Never blocks. */
tcpx_status net_setup_finish(struct net_setup *setup,
			     struct net_setup_result *out_result) TCPX_MUST_CHECK;

/* As net_setup_finish, but waits until the operation ends or its deadline passes. */
tcpx_status net_setup_wait(struct net_setup *setup,
			   struct net_setup_result *out_result) TCPX_MUST_CHECK;

/* Gives up an operation whose result is no longer wanted: the result is closed as soon as the
 * operation ends; a registration is closed with its comm. The caller must not use setup again. */
void net_setup_abandon(struct net_setup *setup);

/* Checks the handle of another process before it is given to the plugin, which trusts it. A TCPX
 * handle is checked completely, and fields that are local to a process are zeroed. The layout of
 * other plugins' handles is unknown, so such a handle is accepted only if the peer is trusted.
 * same_host: the addresses may be loopback addresses. ERR_PROTOCOL: not valid; ERR_AUTH: the peer
 * is not trusted. Any thread. */
tcpx_status net_handle_check(const struct net_plugin *plugin, bool trusted, bool same_host,
			     uint8_t handle[NCCLNET_HANDLE_BYTES]) TCPX_MUST_CHECK;
bool net_handle_is_known(const struct net_plugin *plugin); /* whether the layout is known */

/* The handle to send to the peer: NCCLNET_HANDLE_BYTES bytes. */
const uint8_t *net_listener_handle(const struct net_listener *listener);

#endif

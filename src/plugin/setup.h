/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of a plugin that may block: listen, connect, accept, regMr, deregMr, close. Each is an
 * operation on a thread of its own with a deadline: the caller starts it, is notified when it ends,
 * and takes the result. A thread that does not return in time is abandoned, together with all
 * memory that the thread or the plugin may access, and counted (net_plugin_info.abandoned). If the
 * thread returns later, it cleans up.
 *
 * connect and accept may have to be called several times until they return a comm. If the deadline
 * passes between two calls, the handle (connect) or listener (accept) is kept for ever, because the
 * plugin's own thread still uses its memory. net_plugin_info.leaked counts the operation.
 */
#ifndef PLUGIN_SETUP_H
#define PLUGIN_SETUP_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include <tcpx/types.h>

#include "abi/ncclnet.h"

/* If so many operations of a plugin are abandoned, only closes and deregistrations may start. */
#define NET_SETUPS_ABANDONED_MAX 256

struct net_comm;
struct net_listener;
struct net_mr;
struct net_plugin;
struct net_setup;

#define NET_MR_PAGE 4096u /* CUDA memory is registered in whole pages of this size */
/* Memory is registered in pieces, which start every NET_MR_PIECE bytes. A piece overlaps the next
 * one by NET_MR_OVERLAP bytes, so that each message of up to that size lies in one piece. */
#define NET_MR_PIECE (1ull << 30)
#define NET_MR_OVERLAP (16ull << 20)

/* Makes a GPU current for the plugin's listen, connect, accept, regMr, deregMr and close. An
 * operation with gpu >= 0 calls `enter` before and `leave` after each such call, on the same
 * thread. `leave` restores what was current before. `arg` is gpu_arg; it must never be freed. */
struct net_gpu_ops {
	tcpx_status (*enter)(void *arg, int gpu, void **out_before);
	void (*leave)(void *arg, int gpu, void *before);
};

/* What every operation needs. Copied when an operation is started. */
struct net_setup_opts {
	struct net_plugin *plugin;
	unsigned dev; /* index of the device */
	int gpu;      /* made current for each call; -1 for none */
	const struct net_gpu_ops *gpu_ops;
	void *gpu_arg;
	int64_t deadline_ns; /* in the time of clock_now_ns() */
	unsigned channel;    /* for error texts */
	char peer[64];	     /* for error texts */
	char where[160];     /* for error texts: " (to ADDRESS from ADDRESS)", or "" */
	unsigned window;     /* connect, accept: most messages of the comm at a time, 1 to 16 */
	/* Optional: called when the operation has ended, on its thread and under a lock, so it may
	 * only wake the caller. Not called after net_setup_finish() or net_setup_wait() has
	 * returned anything but IN_PROGRESS, or after net_setup_abandon(). */
	void (*ended)(void *arg);
	void *ended_arg;
};

/* The result of an operation: only the member of that operation is set. */
struct net_setup_result {
	struct net_listener *listener; /* listen */
	struct net_comm *comm;	       /* connect, accept */
	struct net_mr *mr;	       /* register */
};

/* Each function net_..._start starts an operation and returns at once; an error means that nothing
 * was started. Once started, the operation owns its arguments: a listener that is accepted on or
 * closed, a comm that is closed, an mr that is deregistered. If the start fails, they still belong
 * to the caller. Functions other than those for unlisten, deregister and close return ERR_LIMIT if
 * too many operations of the plugin are abandoned. */

/* Makes a listener. Its handle must be sent to the peer, which connects with it. */
tcpx_status net_listen_start(const struct net_setup_opts *opts,
			     struct net_setup **out_setup) TCPX_MUST_CHECK;
/* Connects to the listener that has this handle. The result is a comm that sends. */
tcpx_status net_connect_start(const struct net_setup_opts *opts,
			      const uint8_t handle[NCCLNET_HANDLE_BYTES],
			      struct net_setup **out_setup) TCPX_MUST_CHECK;
/* Accepts a comm that receives, and closes the listener, which serves one comm only. The caller
 * must be sure that the peer is going to connect, because an accept cannot be taken back. */
tcpx_status net_accept_start(const struct net_setup_opts *opts, struct net_listener *listener,
			     struct net_setup **out_setup) TCPX_MUST_CHECK;
/* Closes a listener on which no accept was started. */
tcpx_status net_unlisten_start(const struct net_setup_opts *opts, struct net_listener *listener,
			       struct net_setup **out_setup) TCPX_MUST_CHECK;
/* Returns the number of pieces for so many bytes. Piece i begins at i * NET_MR_PIECE. */
unsigned net_mr_pieces(uint64_t bytes);
uint64_t net_mr_piece(uint64_t bytes, unsigned i); /* bytes of piece i */
/* Registers memory with a comm, which must outlive the registration and still belongs to the
 * caller. Data calls may run at the same time. Returns ERR_INVALID if the range is empty, or is
 * CUDA memory that is not whole pages. Returns ERR_UNSUPPORTED if `type` is neither
 * NCCLNET_PTR_HOST nor NCCLNET_PTR_CUDA, or the device does not support it. */
tcpx_status net_register_start(const struct net_setup_opts *opts, struct net_comm *comm, void *base,
			       uint64_t bytes, int type,
			       struct net_setup **out_setup) TCPX_MUST_CHECK;
/* Deregisters and frees mr. */
tcpx_status net_deregister_start(const struct net_setup_opts *opts, struct net_mr *mr,
				 struct net_setup **out_setup) TCPX_MUST_CHECK;
/*
 * Exchanges the first, empty message of a comm: the sending end calls the plugin until the message
 * is sent, the receiving end until it has arrived. This connects a plugin that makes its
 * connections only within calls. The message uses no page and is not counted, so the next message
 * has number 0. Another thread may make the data calls afterwards. The comm still belongs to the
 * caller. `mr` is a registration with the comm.
 */
tcpx_status net_first_send_start(const struct net_setup_opts *opts, struct net_comm *comm,
				 struct net_setup **out_setup) TCPX_MUST_CHECK;
tcpx_status net_first_recv_start(const struct net_setup_opts *opts, struct net_comm *comm,
				 struct net_mr *mr, struct net_setup **out_setup) TCPX_MUST_CHECK;
/* Closes a comm and its registrations, even with messages under way. No data call of the comm and
 * no copy out of its received messages may run. If the operation ends with ERR_TIMED_OUT, the
 * plugin may use memory of the comm for ever; otherwise the plugin's close has returned. */
tcpx_status net_close_start(const struct net_setup_opts *opts, struct net_comm *comm,
			    struct net_setup **out_setup) TCPX_MUST_CHECK;

/* Returns IN_PROGRESS while the operation runs and its deadline has not passed. Otherwise returns
 * the status with which it ended, or abandons it and returns ERR_TIMED_OUT; the caller must not use
 * `setup` again. If OK, *out_result is filled (out_result may be NULL for operations without a
 * result). ERR_CHANNEL_LOST means that a call of the plugin returned an error. Never blocks. */
tcpx_status net_setup_finish(struct net_setup *setup,
			     struct net_setup_result *out_result) TCPX_MUST_CHECK;

/* Waits until the operation ends or its deadline passes, then returns as net_setup_finish does. */
tcpx_status net_setup_wait(struct net_setup *setup,
			   struct net_setup_result *out_result) TCPX_MUST_CHECK;

/* Abandons an operation whose result is no longer wanted. The result is closed as soon as the
 * operation ends; a registration is closed with its comm. The caller must not use `setup` again. */
void net_setup_abandon(struct net_setup *setup);

/* Checks a handle from another process before it is given to the plugin, which trusts it. A TCPX
 * handle is checked completely, and its fields that are local to a process are zeroed. The layout
 * of other plugins' handles is unknown, so such a handle is accepted only if the peer is trusted.
 * `same_host` permits loopback addresses. Returns ERR_PROTOCOL if the handle is not valid, or
 * ERR_AUTH if the peer is not trusted. Any thread. */
tcpx_status net_handle_check(const struct net_plugin *plugin, bool trusted, bool same_host,
			     uint8_t handle[NCCLNET_HANDLE_BYTES]) TCPX_MUST_CHECK;
bool net_handle_is_known(const struct net_plugin *plugin); /* whether the layout is known */

/* Returns the handle to send to the peer, NCCLNET_HANDLE_BYTES bytes. */
const uint8_t *net_listener_handle(const struct net_listener *listener);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of plugin/ share for operations that run on threads of their own. */
#ifndef PLUGIN_SETUP_PRIV_H
#define PLUGIN_SETUP_PRIV_H

#include "plugin/priv.h"

enum net_setup_state { NET_SETUP_RUNNING, NET_SETUP_ENDED, NET_SETUP_ABANDONED };

struct net_setup {
	struct list_node node; /* in plugin->lost, if the operation was abandoned or leaks */
	struct net_setup_opts opts;
	const char *stage; /* name of the operation, for error texts */
	/* The operation itself. Runs on the thread, and returns the status of the operation. */
	tcpx_status (*body)(struct net_setup *setup);
	/* Optional: closes the result of a `body` that returned OK, if the result is no longer
	 * wanted. */
	void (*undo)(struct net_setup *setup);
	unsigned warned; /* net_plugin_warnings() when the operation was made */
	/* Arguments and working state of body. */
	struct net_listener *listener;
	struct net_comm *comm;
	struct net_mr *mr;
	void *base;
	uint64_t bytes;
	int type;
	bool leaks;	 /* the plugin still uses objects of the operation, so they stay open */
	bool makes_pool; /* an accept: the call that completes it makes the GPU's bounce pages */
	/* What the operation's thread is doing, for the error text of a late operation. */
	_Atomic bool waits;	     /* the thread waits for its turn with the GPU */
	_Atomic int64_t called_ns;   /* start of the current call of the plugin, or 0 */
	_Atomic(const char *) lacks; /* what `body` has waited for since lacks_ns, or NULL */
	int64_t lacks_ns;
	struct net_setup_result result;
	pthread_mutex_t lock; /* guards the members below */
	pthread_cond_t changed;
	enum net_setup_state state;
	tcpx_status status;
	tcpx_error error;
};

/* In setup.c. net_setup_new makes an operation, or returns NULL and sets the last error.
 * net_setup_run starts the operation's thread; on an error it frees `setup`, but not the objects
 * that `body` uses. */
struct net_setup *net_setup_new(const struct net_setup_opts *opts, const char *stage,
				tcpx_status (*body)(struct net_setup *setup),
				void (*undo)(struct net_setup *setup));
tcpx_status net_setup_run(struct net_setup *setup, struct net_setup **out_setup);
void net_setup_free(struct net_setup *setup);
void net_cond_init(pthread_cond_t *cond); /* with the monotonic clock */
/* Waits until `cond` is signalled or the deadline passes. Returns -1 after the deadline, else 0. */
int net_cond_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline_ns);
/* Called by `body` between calls of the plugin. Returns 1 if `body` must end, because the operation
 * was abandoned or its deadline has passed. */
int net_setup_over(struct net_setup *setup);
/* Sets and returns the error for a call of the plugin that returned `rc`. */
tcpx_status net_setup_refused(struct net_setup *setup, ncclnet_result rc);
tcpx_status net_setup_late(struct net_setup *setup); /* sets and returns ERR_TIMED_OUT */
/* In setup_ops.c. Logs that a call of the plugin failed; the caller continues. Does nothing if `rc`
 * is 0. */
void net_setup_warn(struct net_setup *setup, const char *call, ncclnet_result rc);
/* Checks whether an operation with these options may start. Returns ERR_LIMIT if too many
 * operations of the plugin are abandoned. Returns ERR_INVALID if there is no such device, the GPU
 * number is NET_PLUGIN_GPUS or more, or a GPU is given without gpu_ops. Does not check the
 * window. */
tcpx_status net_opts_check(const struct net_setup_opts *opts);
/* In setup_mr.c. The comm is not closed between net_comm_use and net_comm_unuse. net_comm_unuse
 * also adds `mr`, a registration, to the comm's list, unless `mr` is NULL. */
void net_comm_use(struct net_comm *comm);
void net_comm_unuse(struct net_comm *comm, struct net_mr *mr);
/* Deregisters the pieces of `mr`, which is in no list, and frees `mr`. Called on the thread of an
 * operation. Returns the error of the first piece that failed. If net_gpu_enter() fails, returns
 * its error, and the remaining pieces stay registered. */
tcpx_status net_mr_drop(struct net_setup *setup, struct net_mr *mr);
/* In setup_gpu.c. net_gpu_enter and net_gpu_leave surround each listen, connect, accept, regMr,
 * deregMr and close of the plugin. net_gpu_enter waits for the operation's turn with the GPU and
 * makes the GPU current. If it returns an error, the caller must not call net_gpu_leave. */
struct net_gpu_scope {
	void *before;
	bool entered, turn;
};
tcpx_status net_gpu_enter(struct net_setup *setup, struct net_gpu_scope *out_scope);
void net_gpu_leave(struct net_setup *setup, struct net_gpu_scope *scope);
/* Reports that an accept has completed, so that calls with the GPU may run at the same time from
 * now on. Called before net_gpu_leave. */
void net_gpu_ready(struct net_setup *setup);
/* Writes `what`, followed by what the operation's thread waits for, as the error text of a late
 * operation. */
void net_gpu_state(struct net_setup *setup, const char *what, char *out, size_t size);

#endif

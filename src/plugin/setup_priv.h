/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of plugin/ share about operations that run on threads of their own. */
#ifndef PLUGIN_SETUP_PRIV_H
#define PLUGIN_SETUP_PRIV_H

#include "plugin/priv.h"

enum net_setup_state { NET_SETUP_RUNNING, NET_SETUP_ENDED, NET_SETUP_ABANDONED };

struct net_setup {
	struct list_node node; /* in plugin->lost */
	struct net_setup_opts opts;
	const char *stage;
	tcpx_status (*body)(struct net_setup *setup);
	/* Closes the result of a body that returned OK, when it is no longer wanted. */
	void (*undo)(struct net_setup *setup);
	unsigned warned;
	/* Arguments and working state of body. */
	struct net_listener *listener;
	struct net_comm *comm;
	struct net_mr *mr;
	void *base;
	uint64_t bytes;
	int type;
	bool leaks;	 /* body gave up between two calls: its objects stay open */
	bool makes_pool; /* an accept: the call that completes it makes the GPU's page pool */
	/* Where its thread is, for the error of a late operation. */
	_Atomic bool waits;	     /* for its turn with the GPU */
	_Atomic int64_t called_ns;   /* start of its call of the plugin; 0: it is in none */
	_Atomic(const char *) lacks; /* what body waits for since lacks_ns; or NULL */
	int64_t lacks_ns;
	struct net_setup_result result;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t changed;
	enum net_setup_state state;
	tcpx_status status;
	tcpx_error error;
};

/* setup.c. new: NULL with the last error set. run: starts the thread, or frees setup on an
 * error. */
struct net_setup *net_setup_new(const struct net_setup_opts *opts, const char *stage,
				tcpx_status (*body)(struct net_setup *setup),
				void (*undo)(struct net_setup *setup));
tcpx_status net_setup_run(struct net_setup *setup, struct net_setup **out_setup);
void net_setup_free(struct net_setup *setup);
void net_cond_init(pthread_cond_t *cond); /* with the monotonic clock */
/* Waits until signalled, or until the deadline: -1. */
int net_cond_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline_ns);
/* 1: it was abandoned, or the deadline has passed. Called by its body. */
int net_setup_over(struct net_setup *setup);
/* Sets and returns the error for a call of the plugin that returned rc. */
tcpx_status net_setup_refused(struct net_setup *setup, ncclnet_result rc);
tcpx_status net_setup_late(struct net_setup *setup); /* ERR_TIMED_OUT */
/* Logs a result that has no other effect; rc 0: nothing. */
void net_setup_warn(struct net_setup *setup, const char *call, ncclnet_result rc);
tcpx_status net_opts_check(const struct net_setup_opts *opts);
/* setup_mr.c: between use and unuse the comm is not closed. mr: a registration to enter into the
 * comm's list, or NULL. */
void net_comm_use(struct net_comm *comm);
void net_comm_unuse(struct net_comm *comm, struct net_mr *mr);
/* Deregisters the pieces of mr, which is in no list, and frees it. On an operation's thread. */
tcpx_status net_mr_drop(struct net_setup *setup, struct net_mr *mr);
/* setup_gpu.c: around each call of the plugin. */
struct net_gpu_scope {
	void *before;
	bool entered, turn;
};
tcpx_status net_gpu_enter(struct net_setup *setup, struct net_gpu_scope *out_scope);
void net_gpu_leave(struct net_setup *setup, struct net_gpu_scope *scope);
/* An accept has completed: calls with the GPU may run at the same time from now on. Before
 * leave. */
void net_gpu_ready(struct net_setup *setup);
/* Writes what, followed by where the operation's thread is. */
void net_gpu_state(struct net_setup *setup, const char *what, char *out, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of plugin/ share about operations that run on threads of their own. */
#ifndef PLUGIN_SETUP_PRIV_H
#define PLUGIN_SETUP_PRIV_H

#include "plugin/priv.h"

enum net_setup_state { NET_SETUP_RUNNING, NET_SETUP_ENDED, NET_SETUP_ABANDONED };

struct net_setup {
	struct list_node node; /* of the plugin's lost ones */
	struct net_setup_opts opts;
	const char *stage;
	tcpx_status (*body)(struct net_setup *setup);
	/* Ends what body gave when nobody wants it any more; body has returned OK. */
	void (*undo)(struct net_setup *setup);
	unsigned warned;
	/* What body works with, and what it gives. */
	struct net_listener *listener;
	struct net_comm *comm;
	struct net_mr *mr;
	void *base;
	uint64_t bytes;
	int type;
	bool leaks;	 /* body gave up between two calls: what it worked with stays */
	bool makes_pool; /* an accept: its completing call makes the GPU's page pool */
	/* Where its thread is, for the error of one that is late. */
	_Atomic bool waits;	   /* for its turn with the GPU */
	_Atomic int64_t called_ns; /* since when it is in a call of the plugin; 0: it is in none */
	_Atomic(const char *) lacks; /* what its body waits for, since: */
	int64_t lacks_ns;
	struct net_setup_result result;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t changed;
	enum net_setup_state state;
	tcpx_status status;
	tcpx_error error;
};

/* setup.c. new: NULL and ERR_NO_MEMORY; run: it is under way, or it is freed and its error told. */
struct net_setup *net_setup_new(const struct net_setup_opts *opts, const char *stage,
				tcpx_status (*body)(struct net_setup *setup),
				void (*undo)(struct net_setup *setup));
tcpx_status net_setup_run(struct net_setup *setup, struct net_setup **out_setup);
void net_setup_free(struct net_setup *setup);
void net_cond_init(pthread_cond_t *cond); /* of the monotonic clock */
/* 0, or -1: the deadline is over. */
int net_cond_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline_ns);
/* 1: nobody waits for it any more, or the deadline is over. On its thread. */
int net_setup_over(struct net_setup *setup);
/* A call of the plugin answered rc: the error of the operation. */
tcpx_status net_setup_refused(struct net_setup *setup, ncclnet_result rc);
tcpx_status net_setup_late(struct net_setup *setup); /* ERR_TIMED_OUT */
void net_setup_warn(struct net_setup *setup, const char *call, ncclnet_result rc); /* if rc */
tcpx_status net_opts_check(const struct net_setup_opts *opts);
/* setup_mr.c: an operation works with the comm, which is not closed meanwhile. mr: to be the
 * comm's, or NULL. */
void net_comm_use(struct net_comm *comm);
void net_comm_unuse(struct net_comm *comm, struct net_mr *mr);
/* Deregisters its pieces and frees it; it is in no list. On a setup's thread. */
tcpx_status net_mr_drop(struct net_setup *setup, struct net_mr *mr);
/* setup_gpu.c: around each call of the plugin. */
struct net_gpu_scope {
	void *before;
	bool entered, turn;
};
tcpx_status net_gpu_enter(struct net_setup *setup, struct net_gpu_scope *out_scope);
void net_gpu_leave(struct net_setup *setup, struct net_gpu_scope *scope);
/* An accept has given its comm: from now on calls with the GPU go side by side. Before leave. */
void net_gpu_ready(struct net_setup *setup);
/* what, and where its thread is. */
void net_gpu_state(struct net_setup *setup, const char *what, char *out, size_t size);

#endif

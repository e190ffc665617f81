/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of ncclnet/ share: an image, its adapter, a comm, an operation's frame. */
#ifndef NET_NCCLNET_PRIV_H
#define NET_NCCLNET_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/list.h"
#include "net/ncclnet/adapter.h"
#include "net/ncclnet/comm.h"
#include "net/ncclnet/plugin.h"
#include "net/ncclnet/setup.h"

#define NET_PLUGIN_IMAGES 32   /* most images of a process; each has a logger of its own */
#define NET_DEVICE_STORAGE 512 /* what a plugin may write into a device handle, generously */

/* The lines of a plugin's log that are kept for error texts. */
struct net_plugin_log {
	pthread_mutex_t lock; /* guards what follows */
	unsigned warnings;
	bool unshown; /* the filter kept the last one back */
	char last[NET_PLUGIN_LINE_BYTES];
	char file[64];
	struct log_limit limit;
};

/* The one call of the plugin with a GPU that is not ready yet. */
struct net_gpu_turn {
	const struct net_setup *holder; /* NULL: none */
	int64_t since_ns, until_ns;	/* until_ns: from then on it is taken for stuck */
};

struct net_plugin {
	struct list_node node; /* of the images of the process */
	void *dl;
	const struct net_adapter *adapter;
	const void *table; /* the plugin's own */
	void *context;	   /* v11 and newer: init's */
	tcpx_error failed; /* TCPX_OK: it is usable */
	struct log_limit late_log;
	bool started;  /* init was called */
	bool shared;   /* the object was in the process before we loaded it */
	unsigned slot; /* of its logger */
	char path[NET_PLUGIN_PATH_BYTES], resolved[NET_PLUGIN_PATH_BYTES];
	char name[64];
	uint32_t exported;
	unsigned ndevices;
	struct net_plugin_device devices[NET_PLUGIN_DEVICES];
	_Atomic unsigned refs, abandoned, leaked;
	pthread_mutex_t lost_lock; /* guards lost; abandoned changes under it */
	pthread_cond_t lost_other; /* abandoned has changed */
	struct list_node lost;	   /* operations that were abandoned: memory that stays */
	/* Plugins initialise a GPU at its first use without a lock of their own: setup_gpu.c. */
	pthread_mutex_t first_lock; /* guards turns */
	pthread_cond_t first_free;  /* one of them is over */
	struct net_gpu_turn turns[NET_PLUGIN_GPUS];
	_Atomic uint64_t gpus_ready; /* bit: an accept with that GPU has completed */
	struct net_plugin_log log;
};

/* plugin_log.c: a logger that knows its image; which one is set before init. */
ncclnet_logger net_plugin_logger(unsigned slot, struct net_plugin_log *log);
/* The last WARN since the count was since, as "; it says: ..."; "" when there is none. */
void net_plugin_said(struct net_plugin *plugin, unsigned since, char *out, size_t bytes);
unsigned net_plugin_warnings(struct net_plugin *plugin);

/* props.c: reads and checks a device's properties. Called on a thread of ours. */
tcpx_status net_plugin_properties(struct net_plugin *plugin, int dev,
				  struct net_plugin_device *out_device);

const char *net_plugin_result(ncclnet_result rc); /* "2 (system error)" */

struct net_mr {
	struct list_node node; /* of its comm's mrs */
	struct net_comm *comm;
	char *base;
	uint64_t bytes;
	int type;
	unsigned npieces;
	void *pieces[];
};

struct net_request {
	void *request; /* the plugin's */
	size_t room;
};

struct net_comm {
	/* The plugin may write to these two as long as it has the comm, or tries to make it. */
	_Alignas(16) unsigned char storage[NET_DEVICE_STORAGE];
	_Alignas(16) unsigned char handle[NCCLNET_HANDLE_BYTES];
	struct net_plugin *plugin;
	const struct net_adapter *calls; /* of plugin */
	const void *table;
	void *comm; /* the plugin's */
	bool sends;
	unsigned window, dev, channel;
	char peer[64];
	unsigned warned; /* lines of level WARN when it came up */
	struct ncclnet_device_handle device;
	_Atomic bool driven;
	pthread_t driver; /* valid when driven */
	struct net_comm_counts counts;
	uint64_t before; /* messages of the plugin's comm that are not in counts: the first one */
	_Atomic uint64_t ended; /* counts.done, for others */
	tcpx_error failed;	/* the comm is lost since */
	struct net_request ring[NET_COMM_WINDOW];
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t idle;  /* users is 0 */
	unsigned users;	      /* registrations under way: they are in the comm */
	struct list_node mrs;
};

struct net_listener {
	_Alignas(16) unsigned char handle[NCCLNET_HANDLE_BYTES];
	struct net_plugin *plugin;
	void *listener; /* the plugin's */
};

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

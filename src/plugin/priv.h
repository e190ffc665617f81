/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of plugin/ share: an image, a comm, a listener, a registration. */
#ifndef PLUGIN_PRIV_H
#define PLUGIN_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/list.h"
#include "plugin/adapter.h"
#include "plugin/comm.h"
#include "plugin/image.h"
#include "plugin/setup.h"

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

#endif

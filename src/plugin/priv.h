/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that the files of plugin/ share: an image, a comm, a listener, a registration. */
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

/* most images in a process that have a table; each has its own logger function */
#define NET_PLUGIN_IMAGES 32
/* Bytes for a device handle, which the plugin writes. More than any plugin needs. */
#define NET_DEVICE_STORAGE 512

/* State of the log of one image. */
struct net_plugin_log {
	pthread_mutex_t lock;		  /* guards `warnings`, `unshown` and `last` */
	unsigned warnings;		  /* number of warnings so far */
	bool unshown;			  /* the filter suppressed the last warning */
	char last[NET_PLUGIN_LINE_BYTES]; /* the last warning, for error texts; "" if none */
	char file[64];			  /* name of the object's file */
	struct log_limit limit;		  /* limits the lines that are logged */
};

/* The turn to call the plugin with a GPU that is not ready yet. Calls with such a GPU take turns
 * (setup_gpu.c). */
struct net_gpu_turn {
	const struct net_setup *holder; /* NULL if the turn is free */
	int64_t since_ns, until_ns;	/* after until_ns the holder counts as stuck */
};

struct net_plugin {
	struct list_node node; /* in the list of images */
	void *dl;
	const struct net_adapter *adapter;
	const void *table;	   /* the plugin's table, or a struct traced (traced.c) */
	void *context;		   /* v11 and newer: returned by init */
	tcpx_error failed;	   /* why loading or the start failed; status OK if neither did */
	struct log_limit late_log; /* limits log lines about abandoned operations */
	bool started;		   /* init was called */
	bool shared;		   /* the object was already loaded in the process */
	unsigned slot;		   /* index of the image's logger function */
	char path[NET_PLUGIN_PATH_BYTES], resolved[NET_PLUGIN_PATH_BYTES];
	char name[64];
	uint32_t exported;
	unsigned ndevices;
	/* devices[0] to devices[ndevices - 1] are valid. */
	struct net_plugin_device devices[NET_PLUGIN_DEVICES];
	_Atomic unsigned refs, abandoned, leaked;
	pthread_mutex_t lost_lock; /* guards `lost` and changes of `abandoned` */
	pthread_cond_t lost_other; /* signalled when abandoned changes */
	struct list_node lost;	   /* operations that were abandoned or leak (setup_keep) */
	/* A TCPX plugin makes a GPU's bounce pages in an accept, without a lock. So calls with the
	 * GPU take turns until it is ready (setup_gpu.c). */
	pthread_mutex_t first_lock; /* guards `turns` */
	pthread_cond_t first_free;  /* signalled when a turn ends */
	struct net_gpu_turn turns[NET_PLUGIN_GPUS];
	_Atomic uint64_t gpus_ready; /* bit g is set after an accept with GPU g has completed */
	struct net_plugin_log log;
};

/* In plugin_log.c. Returns logger function number `slot`, from 0. The caller passes the function to
 * init. From this call on, lines of that logger go to `log`. */
ncclnet_logger net_plugin_logger(unsigned slot, struct net_plugin_log *log);
/* Writes "; it says: ..." with the last warning, if the plugin has logged a warning since
 * net_plugin_warnings() returned `since`. Otherwise writes "". */
void net_plugin_said(struct net_plugin *plugin, unsigned since, char *out, size_t bytes);
/* Returns the number of warnings that the plugin has logged since it was loaded. */
unsigned net_plugin_warnings(struct net_plugin *plugin);

/* In props.c. Reads and checks a device's properties. Returns ERR_UNSUPPORTED if the plugin's call
 * fails, or ERR_VERSION if the properties are not plausible. Must run on an operation's thread,
 * because it calls the plugin. */
tcpx_status net_plugin_properties(struct net_plugin *plugin, int dev,
				  struct net_plugin_device *out_device);

const char *net_plugin_result(ncclnet_result rc); /* such as "rc 2 (system error)" */

/* A registration of memory with a comm. */
struct net_mr {
	struct list_node node; /* in the list `mrs` of its comm */
	struct net_comm *comm;
	char *base;
	uint64_t bytes;
	int type;
	unsigned npieces;
	void *pieces[]; /* the plugin's own registration of each piece */
};

struct net_request {
	void *request; /* the plugin's own request */
	size_t room;   /* bytes sent, or the size of the receive's buffer */
};

struct net_comm {
	/* The plugin may write to `storage` and `handle` from connect or accept until close. */
	_Alignas(16) unsigned char storage[NET_DEVICE_STORAGE];
	_Alignas(16) unsigned char handle[NCCLNET_HANDLE_BYTES];
	struct net_plugin *plugin;
	const struct net_adapter *calls; /* plugin->adapter */
	const void *table;
	void *comm; /* the plugin's own comm */
	bool sends;
	unsigned window, dev, channel;
	char peer[64];	 /* for error texts */
	unsigned warned; /* net_plugin_warnings() when the comm was made */
	struct ncclnet_device_handle device;
	_Atomic bool driven;
	pthread_t driver; /* valid if `driven` is set */
	struct net_comm_counts counts;
	/* messages posted before message 0: 1 if the first, empty message was exchanged, else 0 */
	uint64_t before;
	_Atomic uint64_t ended; /* a copy of counts.done for other threads */
	tcpx_error failed;	/* its status is not OK if the comm is lost */
	struct net_request ring[NET_COMM_WINDOW];
	pthread_mutex_t lock; /* guards the members below */
	pthread_cond_t idle;  /* signalled when `users` becomes 0 */
	unsigned users;	      /* operations that use the comm, such as registrations */
	struct list_node mrs;
};

struct net_listener {
	_Alignas(16) unsigned char handle[NCCLNET_HANDLE_BYTES];
	struct net_plugin *plugin;
	void *listener; /* the plugin's own listener */
};

#endif

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

#define NET_PLUGIN_IMAGES 32 /* images of a process; each has a logger function of its own */
/* Bytes of memory for a device handle that the plugin writes; more than any plugin needs. */
#define NET_DEVICE_STORAGE 512

/* What is kept of a plugin's log lines, for error texts. */
struct net_plugin_log {
	pthread_mutex_t lock; /* guards what follows */
	unsigned warnings;
	bool unshown; /* the filter suppressed the last warning */
	char last[NET_PLUGIN_LINE_BYTES];
	char file[64];
	struct log_limit limit;
};

/* The turn with a GPU that is not ready yet: only its holder may be in a call of the plugin with
 * that GPU (setup_gpu.c). */
struct net_gpu_turn {
	const struct net_setup *holder; /* NULL: none */
	int64_t since_ns, until_ns;	/* until_ns: after that time the holder counts as stuck */
};

struct net_plugin {
	struct list_node node; /* in the list of images */
	void *dl;
	const struct net_adapter *adapter;
	const void *table;	   /* the plugin's table, of the adapter's version */
	void *context;		   /* v11 and newer: returned by init */
	tcpx_error failed;	   /* status TCPX_OK: usable */
	struct log_limit late_log; /* limits log lines about abandoned operations */
	bool started;		   /* init was called */
	bool shared;		   /* the object was in the process before it was loaded here */
	unsigned slot;		   /* index of the image's logger function */
	char path[NET_PLUGIN_PATH_BYTES], resolved[NET_PLUGIN_PATH_BYTES];
	char name[64];
	uint32_t exported;
	unsigned ndevices;
	/* devices[0] to devices[ndevices - 1] are valid. */
	struct net_plugin_device devices[NET_PLUGIN_DEVICES];
	_Atomic unsigned refs, abandoned, leaked;
	pthread_mutex_t lost_lock; /* guards lost; abandoned changes under it */
	pthread_cond_t lost_other; /* signalled when abandoned changes */
	struct list_node lost;	   /* abandoned operations, whose memory stays allocated */
	/* Plugins initialise a GPU at its first use without a lock, so the first uses take turns
	 * (setup_gpu.c). */
	pthread_mutex_t first_lock; /* guards turns */
	pthread_cond_t first_free;  /* signalled when a turn ends */
	struct net_gpu_turn turns[NET_PLUGIN_GPUS];
	_Atomic uint64_t gpus_ready; /* bit g: an accept with GPU g has completed */
	struct net_plugin_log log;
};

/* plugin_log.c: returns the logger function with the index `slot`, whose lines go to `log` from
 * this call on. The caller passes the function to init. */
ncclnet_logger net_plugin_logger(unsigned slot, struct net_plugin_log *log);
/* Writes "; it says: ..." with the last warning if the number of warnings is not `since`, an
 * earlier result of net_plugin_warnings; otherwise writes "". */
void net_plugin_said(struct net_plugin *plugin, unsigned since, char *out, size_t bytes);
/* The number of warnings that the plugin has logged since it was loaded. */
unsigned net_plugin_warnings(struct net_plugin *plugin);

/* props.c: reads and checks a device's properties. ERR_UNSUPPORTED: the plugin does not give them;
 * ERR_VERSION: they are not plausible. Calls the plugin, so it runs on an operation's thread. */
tcpx_status net_plugin_properties(struct net_plugin *plugin, int dev,
				  struct net_plugin_device *out_device);

const char *net_plugin_result(ncclnet_result rc); /* "rc 2 (system error)" */

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
	pthread_t driver; /* valid when driven */
	struct net_comm_counts counts;
	/* messages posted before number 0: 1 if the first, empty message was exchanged, else 0 */
	uint64_t before;
	_Atomic uint64_t ended; /* counts.done, for other threads */
	tcpx_error failed;	/* status not TCPX_OK: the comm is lost */
	struct net_request ring[NET_COMM_WINDOW];
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t idle;  /* signalled when users becomes 0 */
	unsigned users;	      /* operations that use the comm, such as registrations */
	struct list_node mrs;
};

struct net_listener {
	_Alignas(16) unsigned char handle[NCCLNET_HANDLE_BYTES];
	struct net_plugin *plugin;
	void *listener; /* the plugin's own listener */
};

#endif

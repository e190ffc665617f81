/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of ncclNet plugins: one for each loaded object, for the life of the process. A plugin may
 * block or hang in any call but the data calls (comm.h), so all others run with a deadline on
 * threads made for them: dlopen and init here, the rest in setup.h.
 */
#ifndef PLUGIN_IMAGE_H
#define PLUGIN_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

#include "abi/ncclnet.h"

#define NET_PLUGIN_DEVICES 32 /* devices of a plugin that are used; others are ignored */
#define NET_PLUGIN_GPUS 64    /* GPUs whose first uses are made one at a time (setup_gpu.c) */
#define NET_PLUGIN_PATH_BYTES 1024
#define NET_PLUGIN_LINE_BYTES 192 /* bytes of a plugin's log line that are kept */

struct net_plugin;

/* The checked properties of a device. A property that the plugin's version does not have has the
 * value that NCCL assumes for it. */
struct net_plugin_device {
	char name[64];
	char pci_path[256]; /* "": a virtual device */
	uint64_t guid;
	uint32_t ptr_support; /* enum ncclnet_pointers */
	uint32_t speed_mbps;  /* 0: the plugin does not know */
	int port, max_comms, max_recvs;
	int device_type, device_version; /* enum ncclnet_device_types */
	float latency_us;
	size_t message_max; /* bytes of the largest message in this version of the table */
};

/* What net_plugin_describe() tells of an image, for 'tcpx info --plugin' and for tests. */
struct net_plugin_info {
	char path[NET_PLUGIN_PATH_BYTES];     /* the path of the request that loaded the image */
	char resolved[NET_PLUGIN_PATH_BYTES]; /* the file to which path leads */
	char name[64];			      /* the plugin's name for itself */
	int version;			      /* version of the table in use */
	uint32_t exported;		      /* bit v: the object exports a table of version v */
	int has_consumed, has_device_mr;
	unsigned devices, refs;
	unsigned abandoned; /* threads that are stuck in the plugin now */
	unsigned leaked;    /* listeners and handles that were left open, see setup.h */
	unsigned warnings;  /* log lines of level WARN so far */
	char last_warning[NET_PLUGIN_LINE_BYTES];
};

struct net_plugin_opts {
	/* NULL or "": TCPX_PLUGIN_PATH; if that is not set, the first of two usual places where a
	 * file is */
	const char *path;
	/* limit for loading, and again for init; waiting for other callers does not count */
	int64_t timeout_ns;
	/* Optional: called with the plugin's name before init; not called if init was called
	 * earlier. An error prevents init and is returned; a later net_plugin_get may try again. */
	tcpx_status (*before_start)(void *arg, const char *name);
	void *arg;
};

/*
 * Loads a plugin and starts it, or finds the image of an earlier call. One object has one image,
 * whatever path leads to it, because some plugins refuse a second init. Blocks; any thread.
 * ERR_NOT_FOUND: no such file; ERR_UNSUPPORTED: the object cannot be loaded, init failed, or the
 * plugin has no device; ERR_VERSION: no table of a known version, an incomplete one, or one that
 * does not match its symbol; ERR_TIMED_OUT: a call of the plugin did not return; ERR_LIMIT: too
 * many different plugins, or too long a path; ERR_FORKED: a plugin was loaded before fork(). An
 * image whose loading timed out, or that failed in init or in the reading of its devices, fails
 * again with the same error.
 */
tcpx_status net_plugin_get(const struct net_plugin_opts *opts,
			   struct net_plugin **out_plugin) TCPX_MUST_CHECK;

/* Drops a reference. The image stays loaded, because its detached helper threads run its code. */
void net_plugin_put(struct net_plugin *plugin);

/* Copies what is known of the plugin. May be called by any thread. */
void net_plugin_describe(struct net_plugin *plugin, struct net_plugin_info *out_info);

/* For tests: blocks until exactly that number of threads is stuck in the plugin. With 0, all have
 * returned, and everything that they leak is counted. May be called by any thread. */
void net_plugin_wait(struct net_plugin *plugin, unsigned abandoned);

/* Returns the device with that index, or NULL past the last one. A device never changes. */
const struct net_plugin_device *net_plugin_device(const struct net_plugin *plugin, unsigned dev);

/* Finds the device with that name; *out_dev is its index. ERR_NOT_FOUND: the error lists the names
 * of all devices. */
tcpx_status net_plugin_find(const struct net_plugin *plugin, const char *name,
			    unsigned *out_dev) TCPX_MUST_CHECK;

#endif

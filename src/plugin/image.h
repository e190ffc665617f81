/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of ncclNet plugins: one for each loaded object. An image that net_plugin_get() has
 * returned lasts as long as the process. A plugin may block or hang in any call except the data
 * calls (comm.h). So all other calls are made on threads of their own, with a deadline: dlopen,
 * init, devices and getProperties in image.c, the others in setup.h.
 */
#ifndef PLUGIN_IMAGE_H
#define PLUGIN_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

#include "abi/ncclnet.h"

#define NET_PLUGIN_DEVICES 32 /* most devices of a plugin that are used */
#define NET_PLUGIN_GPUS 64    /* GPUs that a plugin may use have lower numbers than this */
#define NET_PLUGIN_PATH_BYTES 1024
#define NET_PLUGIN_LINE_BYTES 192 /* bytes of a plugin's log line that are kept */

struct net_plugin;

/* The checked properties of a device. A property that the plugin's version lacks has the value that
 * NCCL assumes for it. */
struct net_plugin_device {
	char name[64];
	char pci_path[256]; /* "" for a virtual device */
	uint64_t guid;
	uint32_t ptr_support; /* enum ncclnet_pointers */
	uint32_t speed_mbps;  /* 0 if not known */
	int port, max_comms, max_recvs;
	int device_type, device_version; /* device_type: enum ncclnet_device_types */
	float latency_us;
	size_t message_max; /* size of the largest message, in bytes */
};

/* What net_plugin_describe() tells of an image, for tcpx_plugin_query() and for tests. */
struct net_plugin_info {
	char path[NET_PLUGIN_PATH_BYTES];     /* the path by which the image was loaded */
	char resolved[NET_PLUGIN_PATH_BYTES]; /* `path` without symbolic links */
	char name[64];			      /* the plugin's name for itself */
	int version;			      /* version of the table in use */
	uint32_t exported;		      /* bit v: the object exports a table of version v */
	int has_consumed, has_device_mr;
	unsigned devices, refs;
	unsigned abandoned; /* abandoned operations that have not ended yet (setup.h) */
	unsigned leaked;    /* operations that keep a listener, handle or comm for ever (setup.h) */
	unsigned warnings;  /* log lines of level WARN so far */
	char last_warning[NET_PLUGIN_LINE_BYTES];
};

struct net_plugin_opts {
	/* Path of the plugin. NULL or "": the value of TCPX_PLUGIN_PATH, or, if that is not set,
	 * the first of two usual paths that leads to a file. */
	const char *path;
	/* Time limit for loading. Init and the reading of the devices together have the same limit
	 * again. The wait for other callers does not count. */
	int64_t timeout_ns;
	/* Optional: called with the plugin's name before init, unless init was called earlier. An
	 * error prevents init and is returned; a later net_plugin_get() may try again. */
	tcpx_status (*before_start)(void *arg, const char *name);
	void *arg;
};

/*
 * Loads a plugin and starts it, or finds the image of an earlier call. One object has one image,
 * whatever path leads to the object, because some plugins refuse a second init. Blocks. May be
 * called by any thread.
 *
 * Returns ERR_NOT_FOUND if there is no such file. Returns ERR_UNSUPPORTED if the object cannot be
 * loaded, init fails, or the plugin has no device or cannot describe one. Returns ERR_VERSION if
 * there is no table of a known version, or the table is incomplete or does not match its symbol.
 * Returns ERR_TIMED_OUT if loading or init is not finished in time, ERR_LIMIT if too many plugins
 * are loaded or the path is too long, and ERR_FORKED if a plugin was loaded before fork(). If
 * loading timed out, or if init or the reading of the devices failed in any way, every later call
 * for the image returns the same error.
 */
tcpx_status net_plugin_get(const struct net_plugin_opts *opts,
			   struct net_plugin **out_plugin) TCPX_MUST_CHECK;

/* Drops the reference of one net_plugin_get(). The image stays loaded, because the plugin's own
 * threads run its code. */
void net_plugin_put(struct net_plugin *plugin);

/* Copies what is known of the plugin. Any thread. */
void net_plugin_describe(struct net_plugin *plugin, struct net_plugin_info *out_info);

/* For tests: blocks until net_plugin_info.abandoned is exactly `abandoned`. If that is 0, all
 * abandoned operations have ended, and everything that they leak is counted. Any thread. */
void net_plugin_wait(struct net_plugin *plugin, unsigned abandoned);

/* Returns the device with that index, or NULL past the last one. A device never changes. */
const struct net_plugin_device *net_plugin_device(const struct net_plugin *plugin, unsigned dev);

/* Finds the device with that name, and sets *out_dev to its index. If no device has that name,
 * returns ERR_NOT_FOUND with an error that lists the devices' names, as many as fit. */
tcpx_status net_plugin_find(const struct net_plugin *plugin, const char *name,
			    unsigned *out_dev) TCPX_MUST_CHECK;

#endif

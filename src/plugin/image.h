/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncclNet plugins: one image per loaded object, for the life of the process. A plugin is written
 * for a process that is its own, so everything but the data calls runs on threads that are made
 * for it, with a deadline: dlopen and init here, the rest in setup.h. The data calls are comm.h's.
 */
#ifndef PLUGIN_IMAGE_H
#define PLUGIN_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

#include "abi/ncclnet.h"

#define NET_PLUGIN_DEVICES 32 /* most devices of a plugin that we look at */
#define NET_PLUGIN_GPUS 64    /* whose first use is serialised */
#define NET_PLUGIN_PATH_BYTES 1024
#define NET_PLUGIN_LINE_BYTES 192 /* of a plugin's log line that is kept */

struct net_plugin;

/* One device: what the properties of any version say, checked. What a version lacks has the value
 * that NCCL takes for it. */
struct net_plugin_device {
	char name[64];
	char pci_path[256]; /* "": a virtual device */
	uint64_t guid;
	uint32_t ptr_support; /* enum ncclnet_pointers */
	uint32_t speed_mbps;  /* 0: the plugin does not know */
	int port, max_comms, max_recvs;
	int device_type, device_version; /* enum ncclnet_device_types */
	float latency_us;
	size_t message_max; /* most bytes of a message in this version of the table */
};

/* For the query that 'tcpx info --plugin' prints. */
struct net_plugin_info {
	char path[NET_PLUGIN_PATH_BYTES];     /* as it was asked for first */
	char resolved[NET_PLUGIN_PATH_BYTES]; /* the file behind it */
	char name[64];			      /* the plugin's own */
	int version;			      /* the table in use */
	uint32_t exported;		      /* bit v: there is a table of version v */
	int has_consumed, has_device_mr;
	unsigned devices, refs;
	unsigned abandoned; /* threads that are stuck in the plugin at this moment */
	unsigned leaked;    /* listeners and handles left as they are, see setup.h */
	unsigned warnings;  /* lines of level WARN so far */
	char last_warning[NET_PLUGIN_LINE_BYTES];
};

struct net_plugin_opts {
	const char *path;   /* NULL or "": the first of the places where TCPX is installed */
	int64_t timeout_ns; /* of loading, and as much of starting; not of waiting for others */
	/* Optional: asked with the plugin's name before it is started, if it is not yet. An error
	 * keeps it from that, and is the answer; it may be tried again. */
	tcpx_status (*before_start)(void *arg, const char *name);
	void *arg;
};

/*
 * Loads a plugin and starts it, or finds it loaded: the same object by whatever path gives the same
 * image, for a second init is refused by some. Blocks, any thread.
 * ERR_NOT_FOUND: no such file; ERR_UNSUPPORTED: not loadable, or init failed, or no device;
 * ERR_VERSION: no table that we know, or one that is not what its name says; ERR_TIMED_OUT: the
 * plugin is stuck in there; ERR_LIMIT: too many different plugins; ERR_FORKED. What failed once in
 * or after init fails again with the same words: a plugin is started once.
 */
tcpx_status net_plugin_get(const struct net_plugin_opts *opts,
			   struct net_plugin **out_plugin) TCPX_MUST_CHECK;

/* The user is gone. An image is not unloaded: its helper threads are detached and run its code. */
void net_plugin_put(struct net_plugin *plugin);

/* Any thread. */
void net_plugin_describe(struct net_plugin *plugin, struct net_plugin_info *out_info);

/* Blocks until so many threads are stuck in the plugin, however long that takes: for tests. 0: all
 * have come back, and what they leak is counted. Any thread. */
void net_plugin_wait(struct net_plugin *plugin, unsigned abandoned);

/* A device; NULL past the end. Constant. */
const struct net_plugin_device *net_plugin_device(const struct net_plugin *plugin, unsigned dev);

/* The device with the name; ERR_NOT_FOUND, with the names that there are. */
tcpx_status net_plugin_find(const struct net_plugin *plugin, const char *name,
			    unsigned *out_dev) TCPX_MUST_CHECK;

#endif

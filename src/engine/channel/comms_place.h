/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a plugin's devices and the process's GPUs are: sysfs, the interfaces and RxDM, asked once
 * for each opening of a session. One owner, any thread.
 */
#ifndef ENGINE_CHANNEL_COMMS_PLACE_H
#define ENGINE_CHANNEL_COMMS_PLACE_H

#include <stdbool.h>

#include "plugin/plugin.h"
#include "sys/iface.h"
#include "topo/pairing.h"

#define COMMS_IFACES_MAX 256

struct sys_cuda;

struct comms_place {
	struct topo *topo;
	struct topo_pairs pairs;
	char rxdm_error[160]; /* "": it answered, or was not asked */
	struct sys_iface *list;
	const char *ifaces[COMMS_IFACES_MAX]; /* each name once */
	unsigned nifaces;
	/* Behind comms_place_plugin. */
	pci_addr nics[NET_PLUGIN_DEVICES]; /* the plugin's devices, in its order */
	unsigned nnics;
	pci_addr gpus[TOPO_GPUS_MAX]; /* visible ones, in the driver's order */
	uint32_t ngpus;
	const struct sys_cuda *api;
};

/* ERR_NO_MEMORY, or why sysfs or the interfaces cannot be read. */
tcpx_status comms_place_get(struct comms_place **out_place) TCPX_MUST_CHECK;
void comms_place_free(struct comms_place *place); /* NULL: nothing */
/* The plugin's devices and the GPUs of this process come in; nobody's context is made for that.
 * ERR_UNSUPPORTED: no driver. */
tcpx_status comms_place_plugin(struct comms_place *place,
			       const struct net_plugin *plugin) TCPX_MUST_CHECK;
bool comms_place_has_iface(const struct comms_place *place, const char *name);
/* getenv, as src/plugin asks for it. */
const char *comms_place_getenv(void *arg, const char *name);

#endif

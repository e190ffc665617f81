/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a plugin's devices and this process's GPUs are, according to sysfs, the list of network
 * interfaces and RxDM. comms_place_get() reads these sources. An object may be used by any thread,
 * but only by one thread at a time.
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
	char rxdm_error[160];	/* why RxDM failed; "" if it did not or was not asked */
	struct sys_iface *list; /* holds the names in ifaces */
	const char *ifaces[COMMS_IFACES_MAX]; /* each name once */
	unsigned nifaces;
	/* The fields below are set by comms_place_plugin(). */
	pci_addr nics[NET_PLUGIN_DEVICES]; /* the plugin's devices, in its order */
	unsigned nnics;
	pci_addr gpus[TOPO_GPUS_MAX]; /* visible GPUs, in the driver's order */
	uint32_t ngpus;
	const struct sys_cuda *api;
};

/* Collects everything except what comms_place_plugin() adds. Fails with ERR_NO_MEMORY, or if sysfs
 * or the interfaces cannot be read. */
tcpx_status comms_place_get(struct comms_place **out_place) TCPX_MUST_CHECK;
void comms_place_free(struct comms_place *place); /* does nothing for NULL */
/* Adds the plugin's devices and the GPUs of this process, without creating a CUDA context. Returns
 * ERR_UNSUPPORTED if there is no CUDA driver. */
tcpx_status comms_place_plugin(struct comms_place *place,
			       const struct net_plugin *plugin) TCPX_MUST_CHECK;
bool comms_place_has_iface(const struct comms_place *place, const char *name);
/* getenv() with the parameters that functions of src/plugin pass. */
const char *comms_place_getenv(void *arg, const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Collects what plugin channels need to know about this machine: its NICs, GPUs and interfaces, and
 * which NIC belongs to which GPU. */
#include "engine/channel/comms_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/text.h"
#include "plugin/plugin.h"
#include "sys/cuda.h"
#include "topo/rxdm_client.h"

/* how long RxDM may take to answer */
#define RXDM_NS (2 * CLOCK_S_NS)

const char *comms_place_getenv(void *arg, const char *name)
{
	(void)arg;
	return getenv(name);
}

bool comms_place_has_iface(const struct comms_place *place, const char *name)
{
	for (unsigned i = 0; i < place->nifaces; i++)
		if (!strcmp(place->ifaces[i], name))
			return true;
	return false;
}

static tcpx_status place_find_ifaces(struct comms_place *place)
{
	unsigned count = 0;
	tcpx_status status = sys_iface_list(&place->list, &count);

	for (unsigned i = 0; status == TCPX_OK && i < count && place->nifaces < COMMS_IFACES_MAX;
	     i++) /* the list has one entry per address, so it may repeat a name */
		if (!comms_place_has_iface(place, place->list[i].name))
			place->ifaces[place->nifaces++] = place->list[i].name;
	return status;
}

/* Finds out which GPU belongs to which NIC. If RxDM was asked and failed, rxdm_error says why. */
static void place_ask_rxdm(struct comms_place *place)
{
	struct topo_rxdm_asker asker = {.prefix = gpudirect_env_prefix(comms_place_getenv, NULL),
					.deadline_ns = clock_now_ns() + RXDM_NS};

	topo_pairs_build(place->topo, topo_rxdm_ask, &asker, &place->pairs);
	if (asker.status != TCPX_OK)
		text_format(place->rxdm_error, sizeof(place->rxdm_error), "%s",
			    error_status_text(asker.status));
}

void comms_place_free(struct comms_place *place)
{
	if (!place)
		return;
	topo_free(place->topo);
	free(place->list);
	free(place);
}

tcpx_status comms_place_get(struct comms_place **out_place)
{
	struct comms_place *place = calloc(1, sizeof(*place));
	tcpx_status status;

	if (!place)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "place of a plugin");
	status = topo_scan(config_text(CONFIG_SYSFS), &place->topo);
	if (status == TCPX_OK)
		status = place_find_ifaces(place);
	if (status != TCPX_OK) {
		comms_place_free(place);
		return status;
	}
	place_ask_rxdm(place);
	*out_place = place;
	return TCPX_OK;
}

static void place_add_nics(struct comms_place *place, const struct net_plugin *plugin)
{
	const struct net_plugin_device *device;

	while ((device = net_plugin_device(plugin, place->nnics)) != NULL) {
		const char *slash = strrchr(device->pci_path, '/');
		pci_addr *pci = &place->nics[place->nnics++];

		*pci = PCI_NONE;
		(void)pci_parse(slash ? slash + 1 : device->pci_path, pci);
		if (*pci != PCI_NONE)
			(void)topo_add_nic(place->topo, *pci, device->name);
	}
}

static void place_add_gpus(struct comms_place *place)
{
	char text[PCI_TEXT_MAX] = "";
	cuda_device device;

	for (uint32_t i = 0; i < (uint32_t)place->api->devices && i < TOPO_GPUS_MAX; i++) {
		pci_addr *pci = &place->gpus[place->ngpus++];

		*pci = PCI_NONE;
		if (place->api->device_get(&device, (int)i) == CUDA_OK &&
		    place->api->device_pci(text, sizeof(text), device) == CUDA_OK)
			(void)pci_parse(text, pci);
		if (*pci != PCI_NONE)
			(void)topo_add_gpu(place->topo, *pci);
	}
}

tcpx_status comms_place_plugin(struct comms_place *place, const struct net_plugin *plugin)
{
	unsigned known = place->topo->nnics + place->topo->ngpus;

	place->api = sys_cuda_driver();
	if (!place->api)
		return error_last()->status;
	place_add_nics(place, plugin);
	place_add_gpus(place);
	/* if devices that sysfs does not list were added, the pairs are built again */
	if (place->topo->nnics + place->topo->ngpus != known)
		place_ask_rxdm(place);
	return TCPX_OK;
}

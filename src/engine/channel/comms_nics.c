/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the NICs of a plugin for a session, and for each NIC the GPU into which it receives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "engine/channel/comms_gpu.h"
#include "engine/channel/comms_place.h"
#include "sys/cuda.h"

static int gpu_ordinal(const struct comms_place *place, pci_addr gpu)
{
	for (uint32_t i = 0; i < place->ngpus; i++)
		if (place->gpus[i] == gpu)
			return (int)i;
	return -1;
}

static int gpu_is_visible(void *arg, pci_addr gpu)
{
	return gpu_ordinal(arg, gpu) >= 0;
}

static int gpu_can_reach(void *arg, pci_addr from, pci_addr to)
{
	const struct comms_place *place = arg;
	cuda_device a, b;
	int can = 0;

	return place->api->device_get(&a, gpu_ordinal(place, from)) == CUDA_OK &&
	       place->api->device_get(&b, gpu_ordinal(place, to)) == CUDA_OK &&
	       place->api->device_can_access(&can, a, b) == CUDA_OK && can;
}

static tcpx_status nics_add(struct engine_plugin *plugin, unsigned dev, int landing)
{
	if (plugin->nnics == COMMS_NICS_MAX)
		return error_set(TCPX_ERR_LIMIT, 0, "more than %d NICs for a plugin: name fewer",
				 COMMS_NICS_MAX);
	plugin->nics[plugin->nnics++] = (struct engine_nic){.dev = dev, .landing = landing};
	return TCPX_OK;
}

/* Adds the NIC `dev` for the session's GPU. A NIC that belongs to that GPU receives into it.
 * Another NIC receives into one of its own GPUs, from which messages are copied to the session's
 * GPU (a relay). Returns an error if there is no such route. */
static tcpx_status nics_add_route(struct engine_plugin *plugin, struct comms_place *place,
				  unsigned dev)
{
	const struct topo_gpus gpus = {gpu_is_visible, gpu_can_reach, place};
	pci_addr gpu = place->gpus[plugin->gpu];
	char at[PCI_TEXT_MAX], to[PCI_TEXT_MAX];
	struct topo_route route;
	tcpx_status status;

	if (plugin->host_recv) /* nic_unsteer() chooses the GPU later */
		return nics_add(plugin, dev, plugin->gpu);
	if (!config_bool(CONFIG_PAIRING)) {
		/* With a wrong NIC the plugin may end the process at the first message, so the
		 * warning is logged before. */
		if (topo_pairing_check(&place->pairs, place->nics[dev], gpu) != TCPX_OK)
			LOG_WARN("NIC %s is used for GPU %d because TCPX_PAIRING is off: %s",
				 net_plugin_device(plugin->plugin, dev)->name, plugin->gpu,
				 error_last()->what);
		return nics_add(plugin, dev, plugin->gpu);
	}
	status = topo_route(&place->pairs, &gpus, place->nics[dev], gpu, &route);
	if (status != TCPX_OK)
		return status;
	if (route.landing != gpu)
		LOG_INFO("NIC %s is not GPU %d's: receives land on GPU %s and are relayed to %s",
			 net_plugin_device(plugin->plugin, dev)->name, plugin->gpu,
			 pci_format(route.landing, at), pci_format(gpu, to));
	return nics_add(plugin, dev, gpu_ordinal(place, route.landing));
}

/* For host-recv: sets nic->landing to a GPU that belongs to another NIC, because `nic` does not
 * steer flows of such a GPU into GPU memory. */
static tcpx_status nic_unsteer(const struct engine_plugin *plugin, const struct comms_place *place,
			       struct engine_nic *nic)
{
	pci_addr owner;

	for (uint32_t i = 0; i < place->ngpus; i++) {
		if (topo_pairing(&place->pairs, place->gpus[i], &owner) != TCPX_OK ||
		    owner == place->nics[nic->dev])
			continue;
		nic->landing = (int)i;
		return TCPX_OK;
	}
	(void)error_set(TCPX_ERR_UNSUPPORTED, 0,
			"host-recv: NIC %s steers flows of every visible GPU into GPU memory",
			net_plugin_device(plugin->plugin, nic->dev)->name);
	return error_next("make a GPU of another NIC visible (CUDA_VISIBLE_DEVICES), or take "
			  "another unpack mode");
}

/* Adds the NIC that belongs to the session's GPU. If the plugin has no such NIC, returns an error,
 * or, with pairing off, adds the plugin's first device. */
static tcpx_status nics_add_owner(struct engine_plugin *plugin, struct comms_place *place)
{
	pci_addr nic;
	tcpx_status status = topo_pairing(&place->pairs, place->gpus[plugin->gpu], &nic);

	if (status != TCPX_OK && config_bool(CONFIG_PAIRING))
		return status;
	for (unsigned dev = 0; status == TCPX_OK && dev < place->nnics; dev++)
		if (place->nics[dev] == nic)
			return nics_add(plugin, dev, plugin->gpu);
	if (!config_bool(CONFIG_PAIRING))
		return nics_add(plugin, 0, plugin->gpu);
	return error_set(TCPX_ERR_NOT_FOUND, 0, "the plugin has no device for GPU %d's NIC %s",
			 plugin->gpu, topo_nic_at(place->topo, nic)->name);
}

/* Adds the GPU's own NIC, and every other NIC from which messages reach the GPU. */
static tcpx_status nics_add_all(struct engine_plugin *plugin, struct comms_place *place)
{
	tcpx_status status = nics_add_owner(plugin, place);

	for (unsigned dev = 0; status == TCPX_OK && dev < place->nnics; dev++)
		if (dev != plugin->nics[0].dev)
			(void)nics_add_route(plugin, place, dev);
	return status;
}

static tcpx_status nics_add_named(struct engine_plugin *plugin, struct comms_place *place,
				  const char *names)
{
	char name[64];
	unsigned dev;
	tcpx_status status = TCPX_OK;

	while (*names && status == TCPX_OK) {
		size_t len = strcspn(names, ",");

		snprintf(name, sizeof(name), "%.*s", (int)len, names);
		status = net_plugin_find(plugin->plugin, name, &dev);
		if (status == TCPX_OK)
			status = place ? nics_add_route(plugin, place, dev)
				       : nics_add(plugin, dev, -1);
		names += len + (names[len] == ',');
	}
	return status;
}

static tcpx_status nics_pick_for_host(struct engine_plugin *plugin, const char *names)
{
	tcpx_status status = TCPX_OK;

	if (!*names)
		return nics_add(plugin, 0, -1);
	if (strcmp(names, COMMS_NICS_ALL) != 0)
		return nics_add_named(plugin, NULL, names);
	for (unsigned dev = 0; status == TCPX_OK && net_plugin_device(plugin->plugin, dev); dev++)
		status = nics_add(plugin, dev, -1);
	return status;
}

tcpx_status comms_nics_pick(struct engine_plugin *plugin, const char *names,
			    struct comms_place *place)
{
	tcpx_status status;

	if (plugin->gpu < 0)
		return nics_pick_for_host(plugin, names);
	status = comms_place_plugin(place, plugin->plugin);
	if (status == TCPX_OK && !*names)
		status = nics_add_owner(plugin, place);
	else if (status == TCPX_OK && !strcmp(names, COMMS_NICS_ALL))
		status = nics_add_all(plugin, place);
	else if (status == TCPX_OK)
		status = nics_add_named(plugin, place, names);
	for (unsigned i = 0; status == TCPX_OK && plugin->host_recv && i < plugin->nnics; i++)
		status = nic_unsteer(plugin, place, &plugin->nics[i]);
	return status;
}

bool comms_relayed(const struct engine_comms *comms)
{
	const struct engine_plugin *plugin = comms->peer->link.session->plugin;

	return !plugin->host_recv && comms_nic(comms)->landing != plugin->gpu;
}

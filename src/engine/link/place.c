/* SPDX-License-Identifier: Apache-2.0 */
/* Places threads near their NIC and their GPU. */
#include "engine/link/place.h"

#include <net/if.h>

#include "base/config.h"
#include "mem/kind.h"
#include "sys/cpu.h"
#include "topo/nearby.h"

static struct {
	struct topo *topo; /* NULL: threads are not pinned */
	struct cpus allowed;
} place;

/* Called on the thread that serves the GPU with the PCI address `text`. Pins that thread to CPUs
 * near the GPU if the process may use any of them. */
static void place_gpu_thread(const char *text)
{
	pci_addr pci;
	struct cpus cpus;

	if (!place.topo || pci_parse(text, &pci))
		return;
	if (topo_place_cpus(place.topo, pci, PCI_NONE, &place.allowed, &cpus) == TOPO_NEAR_GPU)
		sys_thread_place(pthread_self(), &cpus);
}

void place_start(void)
{
	struct cpus cpus;

	if (!config_bool(CONFIG_PIN))
		return;
	sys_cpu_allowed(&place.allowed);
	if (topo_scan(config_text(CONFIG_SYSFS), &place.topo) != TCPX_OK)
		return;
	/* If the process may use several nodes, the first and the last of CPUS_MAX workers are
	 * placed on different ones. Otherwise nothing is pinned. */
	if (topo_place_worker(place.topo, &place.allowed, 0, CPUS_MAX, &cpus) ==
	    topo_place_worker(place.topo, &place.allowed, CPUS_MAX - 1, CPUS_MAX, &cpus)) {
		place_stop();
		return;
	}
	atomic_store(&mem_gpu_thread, place_gpu_thread);
}

void place_stop(void)
{
	atomic_store(&mem_gpu_thread, NULL);
	topo_free(place.topo);
	place.topo = NULL;
}

void place_worker(struct engine_worker *worker, uint32_t count)
{
	struct cpus cpus;

	worker->node = TOPO_NUMA_UNKNOWN;
	if (!place.topo || worker->prios)
		return;
	worker->node = topo_place_worker(place.topo, &place.allowed, worker->index, count, &cpus);
	if (worker->node != TOPO_NUMA_UNKNOWN)
		sys_thread_place(worker->thread, &cpus);
}

int place_of_nic(const char *name, uint32_t iface)
{
	const struct topo_nic *nic;
	char text[IF_NAMESIZE];

	if (!place.topo)
		return TOPO_NUMA_UNKNOWN;
	if (!name)
		name = iface ? if_indextoname(iface, text) : NULL;
	nic = name ? topo_nic_named(place.topo, name) : NULL;
	return nic ? nic->place.numa : TOPO_NUMA_UNKNOWN;
}

uint32_t session_auto_channels(void)
{
	uint32_t cores = sys_cpu_usable();

	/* On a small machine, four channels use all of the copy bandwidth. A large machine copies
	 * more with more channels, if both ends of a connection have cores for them
	 * (docs/experiments.md). */
	if (cores >= 16)
		return cores * 3 / 8 < 16 ? cores * 3 / 8 : 16;
	return cores < 4 ? 2 : cores > 8 ? 4 : cores / 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the owner NIC of each GPU, from RxDM's preset or by distance, and checks it against RxDM's
 * answers. Also finds the routes by which a GPU can receive. */
#include "topo/pairing.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define QUEUES_MAX 64 /* further queues of a GPU are not compared */

/* RxDM's preset "a3vm": the PCI bus of each NIC and of its two GPUs. Domain, device and function
 * are 0. */
static const struct {
	uint8_t nic_bus, gpu_bus[2];
} preset[] = {
	{0x06, {0x04, 0x05}},
	{0x0c, {0x0a, 0x0b}},
	{0x86, {0x84, 0x85}},
	{0x8c, {0x8a, 0x8b}},
};

#define PRESET_NICS (sizeof(preset) / sizeof(*preset))

/* Whether the machine has a NIC at each NIC address of the preset. GPUs are not checked. */
static int preset_exists(const struct topo *topo)
{
	for (unsigned i = 0; i < PRESET_NICS; i++)
		if (!topo_nic_at(topo, (pci_addr)preset[i].nic_bus << 8))
			return 0;
	return 1;
}

/* Returns the NIC that the preset assigns to a GPU, or NULL if the preset does not name the GPU. */
static const struct topo_nic *preset_nic(const struct topo *topo, pci_addr gpu)
{
	for (unsigned i = 0; i < PRESET_NICS; i++)
		for (unsigned k = 0; k < 2; k++)
			if ((pci_addr)preset[i].gpu_bus[k] << 8 == gpu)
				return topo_nic_at(topo, (pci_addr)preset[i].nic_bus << 8);
	return NULL;
}

/* Returns the NIC with the smallest distance to a GPU; among several, the one with the lowest
 * address. Returns NULL if the distance to every NIC is unknown. */
static const struct topo_nic *nearest_nic(const struct topo *topo, const struct topo_gpu *gpu)
{
	enum topo_distance least = TOPO_FAR;
	const struct topo_nic *found = NULL;

	for (unsigned i = 0; i < topo->nnics; i++) {
		enum topo_distance far = topo_distance(topo, &gpu->place, &topo->nics[i].place);

		if (far < least) {
			least = far;
			found = &topo->nics[i];
		}
	}
	return found;
}

static void set_owner(struct topo_owner *owner, const struct topo_nic *nic, enum topo_source source)
{
	owner->nic = nic ? nic->place.pci : PCI_NONE;
	owner->source = nic ? source : TOPO_SOURCE_NONE;
	snprintf(owner->nic_name, sizeof(owner->nic_name), "%s", nic ? nic->name : "");
}

/* The queues of a GPU, as RxDM reports them. */
struct queues {
	int32_t ids[QUEUES_MAX];
	unsigned count;
};

static int have_common_queue(const struct queues *a, const struct queues *b)
{
	for (unsigned i = 0; i < a->count; i++)
		for (unsigned k = 0; k < b->count; k++)
			if (a->ids[i] == b->ids[k])
				return 1;
	return 0;
}

/* Whether GPU number `at` and another GPU of the same owner NIC have a queue in common. That is
 * impossible if the NIC really owns both. */
static int is_contradicted(const struct topo_pairs *pairs, const struct queues *queues, unsigned at)
{
	const struct topo_owner *owner = &pairs->owners[at];

	for (unsigned i = 0; i < pairs->count; i++)
		if (i != at && pairs->owners[i].nic == owner->nic &&
		    have_common_queue(&queues[i], &queues[at]))
			return 1;
	return 0;
}

/* Replaces the owners that were found from `source` and that RxDM's queues contradict. An owner
 * from the preset is replaced by the nearest NIC; any other owner is removed. All contradicted
 * owners are found before the first is replaced. */
static void drop_contradicted(const struct topo *topo, struct topo_pairs *pairs,
			      const struct queues *queues, enum topo_source source)
{
	uint8_t wrong[TOPO_GPUS_MAX] = {0};

	for (unsigned i = 0; i < pairs->count; i++)
		wrong[i] = pairs->owners[i].source == source && is_contradicted(pairs, queues, i);
	for (unsigned i = 0; i < pairs->count; i++) {
		struct topo_owner *owner = &pairs->owners[i];
		char gpu[PCI_TEXT_MAX], nic[PCI_TEXT_MAX];

		if (!wrong[i])
			continue;
		LOG_WARN("RxDM gives GPU %s a queue that another GPU of NIC %s (%s) has: %s",
			 pci_format(owner->gpu, gpu), pci_format(owner->nic, nic), owner->nic_name,
			 source == TOPO_SOURCE_PRESET
				 ? "it runs another table than a3vm; using the nearest NIC"
				 : "the NIC that owns it is unknown");
		set_owner(owner,
			  source == TOPO_SOURCE_PRESET ? nearest_nic(topo, &topo->gpus[i]) : NULL,
			  TOPO_SOURCE_PCIE);
	}
}

void topo_pairs_build(const struct topo *topo, topo_queues_fn ask, void *arg,
		      struct topo_pairs *out_pairs)
{
	int a3vm = preset_exists(topo);
	struct queues queues[TOPO_GPUS_MAX];

	memset(out_pairs, 0, sizeof(*out_pairs));
	out_pairs->count = topo->ngpus;
	for (unsigned i = 0; i < topo->ngpus; i++) {
		struct topo_owner *owner = &out_pairs->owners[i];
		const struct topo_nic *nic = NULL;

		owner->gpu = topo->gpus[i].place.pci;
		queues[i].count = 0;
		if (ask)
			owner->rxdm =
				ask(arg, owner->gpu, queues[i].ids, QUEUES_MAX, &queues[i].count);
		if (owner->rxdm != TOPO_RXDM_KNOWN)
			queues[i].count = 0;
		if (owner->rxdm == TOPO_RXDM_DENIED)
			continue;
		if (a3vm)
			nic = preset_nic(topo, owner->gpu);
		if (nic)
			set_owner(owner, nic, TOPO_SOURCE_PRESET);
		else
			set_owner(owner, nearest_nic(topo, &topo->gpus[i]), TOPO_SOURCE_PCIE);
	}
	drop_contradicted(topo, out_pairs, queues, TOPO_SOURCE_PRESET);
	drop_contradicted(topo, out_pairs, queues, TOPO_SOURCE_PCIE);
}

const struct topo_owner *topo_owner_of(const struct topo_pairs *pairs, pci_addr gpu)
{
	for (unsigned i = 0; i < pairs->count; i++)
		if (pairs->owners[i].gpu == gpu)
			return &pairs->owners[i];
	return NULL;
}

tcpx_status topo_pairing(const struct topo_pairs *pairs, pci_addr gpu, pci_addr *out_nic)
{
	const struct topo_owner *owner = topo_owner_of(pairs, gpu);
	char text[PCI_TEXT_MAX];

	pci_format(gpu, text);
	if (!owner) {
		error_set(TCPX_ERR_NOT_FOUND, 0, "no GPU %s on this machine", text);
		return error_next("name a GPU by its PCI address, as nvidia-smi shows it");
	}
	if (owner->nic == PCI_NONE) {
		error_set(TCPX_ERR_NOT_FOUND, 0, "no NIC owns GPU %s: %s", text,
			  owner->rxdm == TOPO_RXDM_DENIED ? "RxDM has no queues for it"
							  : "nothing says which one");
		return error_next("%s", owner->rxdm == TOPO_RXDM_DENIED
						? "look at the GPUs in RxDM's log at its start"
						: "start RxDM, or set TCPX_PAIRING=off to try any");
	}
	*out_nic = owner->nic;
	return TCPX_OK;
}

tcpx_status topo_pairing_check(const struct topo_pairs *pairs, pci_addr nic, pci_addr gpu)
{
	char nic_text[PCI_TEXT_MAX], gpu_text[PCI_TEXT_MAX], own_text[PCI_TEXT_MAX];
	const struct topo_owner *owner = topo_owner_of(pairs, gpu);
	const char *name;
	pci_addr own;
	tcpx_status status = topo_pairing(pairs, gpu, &own);

	if (status)
		return status;
	if (own == nic)
		return TCPX_OK;
	pci_format(own, own_text);
	name = owner->nic_name[0] ? owner->nic_name : own_text;
	error_set(TCPX_ERR_UNSUPPORTED, 0,
		  "GPU %s does not receive through NIC %s: RxDM steers its flows to %s (%s)",
		  pci_format(gpu, gpu_text), pci_format(nic, nic_text), own_text,
		  owner->nic_name[0] ? owner->nic_name : "its owner");
	return error_next("use --nic %s for this GPU; TCPX_PAIRING=off tries it anyway", name);
}

/* Returns GPU number `k`, from 0 in the order of addresses, of those that the NIC owns. Returns
 * PCI_NONE if the NIC owns at most `k` GPUs. */
static pci_addr gpu_of_nic(const struct topo_pairs *pairs, pci_addr nic, unsigned k)
{
	for (unsigned i = 0; i < pairs->count; i++)
		if (pairs->owners[i].nic == nic && !k--)
			return pairs->owners[i].gpu;
	return PCI_NONE;
}

/* Returns the index of a GPU among the GPUs of its owner NIC, or 0 if it has no owner. */
static unsigned rank_in_nic(const struct topo_pairs *pairs, pci_addr gpu)
{
	const struct topo_owner *owner = topo_owner_of(pairs, gpu);
	unsigned rank = 0;

	while (owner && owner->nic != PCI_NONE && gpu_of_nic(pairs, owner->nic, rank) != gpu)
		rank++;
	return rank;
}

/* Returns the GPU into whose memory the packets for `gpu` go when they arrive through `nic`.
 * Returns PCI_NONE if no GPU of `nic` can receive them for `gpu`. */
static pci_addr landing_gpu(const struct topo_pairs *pairs, const struct topo_gpus *gpus,
			    pci_addr nic, pci_addr gpu)
{
	const struct topo_owner *owner = topo_owner_of(pairs, gpu);
	unsigned count = 0, rank;

	if (owner && owner->nic == nic)
		return gpu;
	while (gpu_of_nic(pairs, nic, count) != PCI_NONE)
		count++;
	rank = rank_in_nic(pairs, gpu);
	for (unsigned i = 0; i < count; i++) {
		pci_addr other = gpu_of_nic(pairs, nic, (rank + i) % count);

		if (gpus->visible(gpus->arg, other) && gpus->reaches(gpus->arg, other, gpu))
			return other;
	}
	return PCI_NONE;
}

tcpx_status topo_route(const struct topo_pairs *pairs, const struct topo_gpus *gpus, pci_addr nic,
		       pci_addr gpu, struct topo_route *out_route)
{
	pci_addr landing = PCI_NONE;
	tcpx_status status;

	if (nic != PCI_NONE && topo_owner_of(pairs, gpu))
		landing = landing_gpu(pairs, gpus, nic, gpu);
	if (landing == PCI_NONE) {
		status = topo_pairing_check(pairs, nic, gpu);
		if (status)
			return status;
	}
	*out_route = (struct topo_route){nic, gpu, landing};
	return TCPX_OK;
}

/* Returns the lowest address above `last` of a NIC that owns a GPU, or PCI_NONE if there is
 * none. */
static pci_addr next_nic(const struct topo_pairs *pairs, pci_addr last)
{
	pci_addr least = PCI_NONE;

	for (unsigned i = 0; i < pairs->count; i++) {
		pci_addr nic = pairs->owners[i].nic;

		if (nic > last && (least == PCI_NONE || nic < least))
			least = nic;
	}
	return least;
}

unsigned topo_routes(const struct topo_pairs *pairs, const struct topo_gpus *gpus, pci_addr gpu,
		     struct topo_route *out_routes, unsigned max)
{
	const struct topo_owner *owner = topo_owner_of(pairs, gpu);
	unsigned count = 0;

	if (!owner)
		return 0;
	if (owner->nic != PCI_NONE && count < max)
		out_routes[count++] = (struct topo_route){owner->nic, gpu, gpu};
	for (pci_addr nic = next_nic(pairs, PCI_NONE); nic != PCI_NONE && count < max;
	     nic = next_nic(pairs, nic)) {
		pci_addr landing =
			nic == owner->nic ? PCI_NONE : landing_gpu(pairs, gpus, nic, gpu);

		if (landing != PCI_NONE)
			out_routes[count++] = (struct topo_route){nic, gpu, landing};
	}
	return count;
}

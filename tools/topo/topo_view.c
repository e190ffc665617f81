/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers what tcpx topo shows. */
#include "topo_view.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli_gpu.h"
#include "cli_output.h"
#include "sys/cpu.h"
#include "sys/nvml.h"
#include "topo/rxdm_client.h"
#include "topo/scan_hwloc.h"

#define RXDM_NS (2 * CLOCK_S_NS)

/* Names of interfaces and GPUs may hold any byte. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

static void make_nic_printable(struct topo_nic *nic)
{
	make_printable(nic->name);
	make_printable(nic->driver);
	make_printable(nic->mac);
	make_printable(nic->state);
}

static void set_name(struct topo_view *view, pci_addr pci, const char *name)
{
	for (unsigned i = 0; i < view->topo->ngpus; i++)
		if (view->topo->gpus[i].place.pci == pci) {
			snprintf(view->names[i], sizeof(view->names[i]), "%s", name);
			view->visible[i] = 1;
		}
}

/* Adds GPUs that sysfs does not show, as in some containers, before names are assigned. */
static int names_by_nvml(struct topo_view *view)
{
	static struct sys_nvml_gpu gpus[TOPO_GPUS_MAX];
	unsigned count = 0;

	if (sys_nvml_gpus(gpus, TOPO_GPUS_MAX, &count) != TCPX_OK)
		return 0;
	for (unsigned i = 0; i < count; i++)
		(void)!topo_add_gpu(view->topo, gpus[i].pci);
	for (unsigned i = 0; i < count; i++)
		set_name(view, gpus[i].pci, gpus[i].name);
	view->names_by = "NVML";
	return 1;
}

static int names_by_cuda(struct topo_view *view)
{
	uint32_t count = 0;
	int version;

	if (cli_gpu_count(&count, &version) != TCPX_OK)
		return 0;
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < count; i++) {
			struct cli_gpu gpu;
			pci_addr pci;

			if (cli_gpu_get(i, &gpu) != TCPX_OK || pci_parse(gpu.pci, &pci))
				continue;
			if (pass)
				set_name(view, pci, gpu.name);
			else
				(void)!topo_add_gpu(view->topo, pci);
		}
	view->names_by = "CUDA";
	return 1;
}

static void scan_again(struct topo_view *view, const char *root)
{
	char why[96] = "";
	struct topo *other;

	/* Plugins of hwloc would load OpenCL, X and drivers; the scan needs none of them. */
	setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 0);
	if (topo_scan_hwloc(root, &other) != TCPX_OK) {
		snprintf(view->scan, sizeof(view->scan), "sysfs (%.120s)", error_last()->what);
		return;
	}
	if (topo_same(view->topo, other, why, sizeof(why)))
		snprintf(view->scan, sizeof(view->scan), "sysfs, and hwloc sees the same");
	else
		snprintf(view->scan, sizeof(view->scan), "sysfs; hwloc differs: %s", why);
	topo_free(other);
}

static void pair_up(struct topo_view *view, int rxdm)
{
	const char *prefix = getenv("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX");
	struct topo_rxdm_asker asker = {.prefix = prefix && *prefix ? prefix : TOPO_RXDM_PREFIX,
					.deadline_ns = clock_after(RXDM_NS)};

	view->asked = rxdm && view->topo->ngpus;
	topo_pairs_build(view->topo, view->asked ? topo_rxdm_ask : NULL, &asker, &view->pairs);
	if (!view->asked)
		snprintf(view->rxdm, sizeof(view->rxdm), "not asked");
	else if (asker.status == TCPX_OK)
		snprintf(view->rxdm, sizeof(view->rxdm), "answers");
	else
		snprintf(view->rxdm, sizeof(view->rxdm), "silent: %s",
			 tcpx_status_text(asker.status));
}

static void allow_all(struct topo_view *view)
{
	for (unsigned i = 0; i < view->topo->nnodes; i++) {
		struct cpus node;

		if (!cpus_parse(view->topo->nodes[i].cpus, &node))
			cpus_or(&view->allowed, &node, &view->allowed);
	}
}

int topo_view_fill(struct topo_view *view, const char *root, int recorded, int rxdm)
{
	tcpx_status status = topo_scan(root, &view->topo);

	if (status != TCPX_OK)
		return cli_fail(status, "%s", error_last()->what);
	view->recorded = recorded;
	if (recorded) {
		snprintf(view->scan, sizeof(view->scan), "sysfs, recorded");
		allow_all(view);
	} else {
		scan_again(view, root);
		if (!names_by_nvml(view))
			(void)names_by_cuda(view);
		sys_cpu_allowed(&view->allowed);
	}
	pair_up(view, rxdm && !recorded);
	for (unsigned i = 0; i < view->topo->nnics; i++)
		make_nic_printable(&view->topo->nics[i]);
	for (unsigned i = 0; i < view->topo->nvirtuals; i++)
		make_nic_printable(&view->topo->virtuals[i]);
	for (unsigned i = 0; i < view->topo->nnodes; i++)
		make_printable(view->topo->nodes[i].cpus);
	for (unsigned i = 0; i < view->topo->ngpus; i++) {
		make_printable(view->names[i]);
		make_printable(view->pairs.owners[i].nic_name);
	}
	return CLI_OK;
}

void topo_view_free(struct topo_view *view)
{
	topo_free(view->topo);
	view->topo = NULL;
}

enum topo_distance topo_view_distance(const struct topo_view *view, unsigned gpu, unsigned nic)
{
	return topo_distance(view->topo, &view->topo->gpus[gpu].place,
			     &view->topo->nics[nic].place);
}

const char *topo_view_cell(enum topo_distance distance)
{
	return distance == TOPO_FAR ? "-" : topo_distance_name(distance);
}

int topo_view_owns(const struct topo_view *view, unsigned gpu, unsigned nic)
{
	const struct topo_owner *owner = &view->pairs.owners[gpu];

	return owner->nic != PCI_NONE && owner->nic == view->topo->nics[nic].place.pci &&
	       !strcmp(owner->nic_name, view->topo->nics[nic].name);
}

const char *topo_view_source(const struct topo_owner *owner)
{
	static const char *const names[] = {"none", "a3vm", "PCIe"};

	return names[owner->source];
}

const char *topo_view_rxdm(const struct topo_view *view, const struct topo_owner *owner)
{
	static const char *const names[] = {"silent", "knows it", "denies it"};

	return view->asked ? names[owner->rxdm] : "not asked";
}

enum topo_near topo_view_cpus(const struct topo_view *view, unsigned gpu, char buf[CPUS_TEXT])
{
	struct cpus cpus;
	enum topo_near near = topo_place_cpus(view->topo, view->topo->gpus[gpu].place.pci,
					      view->pairs.owners[gpu].nic, &view->allowed, &cpus);

	cpus_format(&cpus, buf, CPUS_TEXT);
	return near;
}

char *topo_view_speed(uint64_t mbps, char *buf, size_t cap)
{
	if (!mbps)
		snprintf(buf, cap, "-");
	else if (mbps % 1000)
		snprintf(buf, cap, "%llu Mbit/s", (unsigned long long)mbps);
	else
		snprintf(buf, cap, "%llu Gbit/s", (unsigned long long)mbps / 1000);
	return buf;
}

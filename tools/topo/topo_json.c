/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx topo as JSON. */
#include "topo_view.h"

static void put_pci(struct cli_json *o, pci_addr pci)
{
	char text[PCI_TEXT_MAX];

	if (pci == PCI_NONE)
		cli_json_null(o, "pci");
	else
		cli_json_text(o, "pci", pci_format(pci, text));
}

static void put_numa(struct cli_json *o, int numa)
{
	if (numa == TOPO_NUMA_UNKNOWN)
		cli_json_null(o, "numa");
	else
		cli_json_integer(o, "numa", (uint64_t)numa);
}

static void topo_json_put_text(struct cli_json *o, const char *key, const char *text)
{
	if (*text)
		cli_json_text(o, key, text);
	else
		cli_json_null(o, key);
}

static void topo_json_put_number(struct cli_json *o, const char *key, uint64_t number)
{
	if (number)
		cli_json_integer(o, key, number);
	else
		cli_json_null(o, key);
}

static void put_nodes(const struct topo *topo, struct cli_json *list)
{
	for (unsigned i = 0; list && i < topo->nnodes; i++) {
		struct cli_json *o = cli_json_object(list, NULL);

		if (!o)
			return;
		cli_json_integer(o, "id", (uint64_t)topo->nodes[i].id);
		cli_json_text(o, "cpus", topo->nodes[i].cpus);
	}
}

static void put_nics(const struct topo_nic *nics, unsigned count, struct cli_json *list)
{
	for (unsigned i = 0; list && i < count; i++) {
		struct cli_json *o = cli_json_object(list, NULL);

		if (!o)
			return;
		cli_json_text(o, "name", nics[i].name);
		put_pci(o, nics[i].place.pci);
		cli_json_bool(o, "virtual", nics[i].place.pci == PCI_NONE);
		put_numa(o, nics[i].place.numa);
		topo_json_put_text(o, "driver", nics[i].driver);
		topo_json_put_text(o, "mac", nics[i].mac);
		topo_json_put_text(o, "state", nics[i].state);
		topo_json_put_number(o, "speed", nics[i].speed_mbps);
		topo_json_put_number(o, "mtu", nics[i].mtu);
	}
}

static void topo_json_put_owner(const struct topo_view *view, unsigned gpu, struct cli_json *o)
{
	static const char *const sources[] = {"none", "preset", "pcie"};
	static const char *const answers[] = {"silent", "known", "denied"};
	const struct topo_owner *owner = &view->pairs.owners[gpu];
	struct cli_json *o2 = cli_json_object(o, "owner");

	if (!o2)
		return;
	topo_json_put_text(o2, "nic", owner->nic_name);
	put_pci(o2, owner->nic);
	cli_json_text(o2, "source", sources[owner->source]);
	cli_json_text(o2, "rxdm", view->asked ? answers[owner->rxdm] : "not asked");
}

static void topo_json_put_gpu(const struct topo_view *view, unsigned gpu, struct cli_json *o)
{
	static const char *const nears[] = {"nic", "gpu", "any"};
	const struct topo *topo = view->topo;
	struct cli_json *distances;
	char cpus[CPUS_TEXT];
	enum topo_near near = topo_view_cpus(view, gpu, cpus);

	cli_json_integer(o, "index", gpu);
	put_pci(o, topo->gpus[gpu].place.pci);
	put_numa(o, topo->gpus[gpu].place.numa);
	topo_json_put_text(o, "name", view->names[gpu]);
	if (view->names_by)
		cli_json_bool(o, "visible", view->visible[gpu]);
	else
		cli_json_null(o, "visible");
	topo_json_put_owner(view, gpu, o);
	topo_json_put_text(o, "cpus", cpus);
	cli_json_text(o, "cpus_near", nears[near]);
	distances = cli_json_object(o, "distances");
	for (unsigned k = 0; distances && k < topo->nnics; k++) {
		enum topo_distance far = topo_view_distance(view, gpu, k);

		if (far == TOPO_FAR)
			cli_json_null(distances, topo->nics[k].name);
		else
			cli_json_text(distances, topo->nics[k].name, topo_distance_name(far));
	}
}

void topo_json_put(const struct topo_view *view, struct cli_json *json)
{
	struct cli_json *units, *list;

	cli_json_integer(json, "schema", 1);
	cli_json_text(json, "tool", "topo");
	units = cli_json_object(json, "units");
	if (units) {
		cli_json_text(units, "speed", "Mbit/s");
		cli_json_text(units, "mtu", "B");
	}
	cli_json_text(json, "scan", view->scan);
	cli_json_bool(json, "recorded", view->recorded);
	topo_json_put_text(json, "names", view->names_by ? view->names_by : "");
	cli_json_text(json, "rxdm", view->rxdm);
	put_nodes(view->topo, cli_json_array(json, "nodes"));
	list = cli_json_array(json, "nics");
	put_nics(view->topo->nics, view->topo->nnics, list);
	put_nics(view->topo->virtuals, view->topo->nvirtuals, list);
	list = cli_json_array(json, "gpus");
	for (unsigned i = 0; list && i < view->topo->ngpus; i++) {
		struct cli_json *o = cli_json_object(list, NULL);

		if (o)
			topo_json_put_gpu(view, i, o);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx topo: GPUs, NICs and nodes of a machine, how far they are apart, and whose NIC is whose. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "cli_json.h"
#include "cli_output.h"
#include "commands.h"
#include "topo/pairing.h"
#include "topo/rxdm_client.h"

#define RXDM_NS (2 * CLOCK_S_NS)
#define PREFIX "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX"
#define NAME_WIDTH 9 /* of a column of the matrix */

struct topo_options {
	const char *root, *json;
};

#define AT(field) offsetof(struct topo_options, field)

static const struct cli_option options[] = {
	{"root", "DIR", CLI_RULE_TEXT, AT(root), NULL, 0, "a recorded machine instead of /sys"},
	{"json", "FILE", CLI_RULE_TEXT, AT(json), NULL, 0, "the same as JSON; - is stdout"},
};

/* Where an owner comes from; RxDM names none, it confirms. */
static const char *source_text(const struct topo_owner *owner)
{
	if (owner->rxdm == TOPO_RXDM_DENIED)
		return "RxDM has no queues for it";
	if (owner->source == TOPO_SOURCE_NONE)
		return "not known";
	if (owner->source == TOPO_SOURCE_PRESET)
		return owner->rxdm == TOPO_RXDM_KNOWN ? "RxDM's preset a3vm, RxDM knows the GPU"
						      : "RxDM's preset a3vm";
	return owner->rxdm == TOPO_RXDM_KNOWN ? "nearest, RxDM knows the GPU" : "nearest";
}

static const char *numa_text(int numa, char *buf, size_t cap)
{
	if (numa == TOPO_NUMA_UNKNOWN)
		snprintf(buf, cap, "-");
	else
		snprintf(buf, cap, "%d", numa);
	return buf;
}

static void print_devices(const struct topo *topo, const struct topo_pairs *pairs)
{
	char pci[PCI_TEXT_MAX], numa[8];

	printf("GPUs: %u\n", topo->ngpus);
	for (unsigned i = 0; i < topo->ngpus; i++) {
		const struct topo_place *place = &topo->gpus[i].place;
		const struct topo_owner *owner = topo_owner_of(pairs, place->pci);

		printf("  %s  node %s  receives through %s (%s)\n", pci_format(place->pci, pci),
		       numa_text(place->numa, numa, sizeof(numa)),
		       owner && *owner->nic_name ? owner->nic_name : "no NIC",
		       owner ? source_text(owner) : "not known");
	}
	printf("NICs: %u\n", topo->nnics);
	for (unsigned i = 0; i < topo->nnics; i++) {
		const struct topo_nic *nic = &topo->nics[i];

		printf("  %-8s %s  node %s  %s  %s", nic->name, pci_format(nic->place.pci, pci),
		       numa_text(nic->place.numa, numa, sizeof(numa)),
		       *nic->driver ? nic->driver : "-", *nic->state ? nic->state : "-");
		if (nic->speed_mbps)
			printf("  %llu Mbit/s", (unsigned long long)nic->speed_mbps);
		if (nic->mtu)
			printf("  MTU %u", nic->mtu);
		printf("\n");
	}
	printf("nodes: %u\n", topo->nnodes);
	for (unsigned i = 0; i < topo->nnodes; i++)
		printf("  %d  CPUs %s\n", topo->nodes[i].id, topo->nodes[i].cpus);
}

static const char *distance_text(const struct topo *topo, unsigned gpu, unsigned nic)
{
	enum topo_distance far =
		topo_distance(topo, &topo->gpus[gpu].place, &topo->nics[nic].place);

	return far == TOPO_FAR ? "-" : topo_distance_name(far);
}

/* Of a column: the last one has nothing behind it. */
static int width_of(const struct topo *topo, unsigned nic)
{
	return nic + 1 < topo->nnics ? NAME_WIDTH : 0;
}

static void print_matrix(const struct topo *topo, const struct topo_pairs *pairs)
{
	char pci[PCI_TEXT_MAX], cell[16];

	if (!topo->ngpus || !topo->nnics)
		return;
	printf("\n%-14s", "");
	for (unsigned k = 0; k < topo->nnics; k++)
		printf(" %-*s", width_of(topo, k), topo->nics[k].name);
	printf("\n");
	for (unsigned i = 0; i < topo->ngpus; i++) {
		const struct topo_owner *owner = topo_owner_of(pairs, topo->gpus[i].place.pci);

		printf("%-14s", pci_format(topo->gpus[i].place.pci, pci));
		for (unsigned k = 0; k < topo->nnics; k++) {
			snprintf(cell, sizeof(cell), "%s%s", distance_text(topo, i, k),
				 owner && !strcmp(owner->nic_name, topo->nics[k].name) ? "*" : "");
			printf(" %-*s", width_of(topo, k), cell);
		}
		printf("\n");
	}
	printf("\n* the GPU receives through it. PIX: one switch between, PXB: several, PHB: the\n"
	       "  host bridge, NODE: the node's interconnect, SYS: that between nodes, -: not "
	       "known\n");
}

static void put_numa(struct cli_json *o, int numa)
{
	if (numa == TOPO_NUMA_UNKNOWN)
		cli_json_null(o, "node");
	else
		cli_json_integer(o, "node", (uint64_t)numa);
}

static void put_gpus(struct cli_json *list, const struct topo *topo, const struct topo_pairs *pairs)
{
	char pci[PCI_TEXT_MAX];

	for (unsigned i = 0; list && i < topo->ngpus; i++) {
		const struct topo_owner *owner = topo_owner_of(pairs, topo->gpus[i].place.pci);
		struct cli_json *o = cli_json_object(list, NULL), *far;

		if (!o)
			return;
		cli_json_text(o, "address", pci_format(topo->gpus[i].place.pci, pci));
		put_numa(o, topo->gpus[i].place.numa);
		if (owner && *owner->nic_name)
			cli_json_text(o, "owner", owner->nic_name);
		else
			cli_json_null(o, "owner");
		cli_json_text(o, "source", owner ? source_text(owner) : "not known");
		far = cli_json_object(o, "distance");
		for (unsigned k = 0; far && k < topo->nnics; k++)
			cli_json_text(far, topo->nics[k].name, distance_text(topo, i, k));
	}
}

static void put_nics(struct cli_json *list, const struct topo *topo)
{
	char pci[PCI_TEXT_MAX];

	for (unsigned i = 0; list && i < topo->nnics; i++) {
		const struct topo_nic *nic = &topo->nics[i];
		struct cli_json *o = cli_json_object(list, NULL);

		if (!o)
			return;
		cli_json_text(o, "name", nic->name);
		cli_json_text(o, "address", pci_format(nic->place.pci, pci));
		put_numa(o, nic->place.numa);
		cli_json_text(o, "driver", nic->driver);
		cli_json_text(o, "mac", nic->mac);
		cli_json_text(o, "state", nic->state);
		cli_json_integer(o, "speed_mbps", nic->speed_mbps);
		cli_json_integer(o, "mtu", nic->mtu);
	}
}

static int write_json(const char *to, const struct topo *topo, const struct topo_pairs *pairs)
{
	struct cli_json *json, *nodes;
	int rc = cli_json_check();
	FILE *out;

	if (rc)
		return rc;
	out = cli_json_open(to);
	json = out ? cli_json_new() : NULL;
	if (!json)
		return CLI_FAILED;
	cli_json_integer(json, "schema", 1);
	cli_json_text(json, "tool", "topo");
	put_gpus(cli_json_array(json, "gpus"), topo, pairs);
	put_nics(cli_json_array(json, "nics"), topo);
	nodes = cli_json_array(json, "nodes");
	for (unsigned i = 0; nodes && i < topo->nnodes; i++) {
		struct cli_json *o = cli_json_object(nodes, NULL);

		if (!o)
			break;
		cli_json_integer(o, "id", (uint64_t)topo->nodes[i].id);
		cli_json_text(o, "cpus", topo->nodes[i].cpus);
	}
	rc = cli_json_write(json, out, to) ? CLI_FAILED : CLI_OK;
	cli_json_free(json);
	return rc;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
	struct topo_rxdm_asker asker = {.prefix = getenv(PREFIX),
					.deadline_ns = clock_now_ns() + RXDM_NS};
	struct topo_options o = {0};
	struct topo_pairs pairs;
	struct topo *topo;
	tcpx_status status;
	int first, rc = cli_parse(command, argc, argv, &o, &first);

	if (rc != CLI_GO)
		return rc;
	status = topo_scan(o.root ? o.root : config_text(CONFIG_SYSFS), &topo);
	if (status != TCPX_OK)
		return cli_fail(status, "no machine to describe");
	/* A recorded machine has no daemon that could be asked here. */
	topo_pairs_build(topo, asker.prefix && !o.root ? topo_rxdm_ask : NULL, &asker, &pairs);
	if (o.json) {
		rc = write_json(o.json, topo, &pairs);
	} else {
		print_devices(topo, &pairs);
		print_matrix(topo, &pairs);
		rc = CLI_OK;
	}
	topo_free(topo);
	return rc;
}

const struct cli_command command_topo = {
	.name = "topo",
	.args = "[options]",
	.summary = "Shows GPUs, NICs, nodes, and whose NIC is whose",
	COMMAND_OPTIONS(options),
	.run = run,
};

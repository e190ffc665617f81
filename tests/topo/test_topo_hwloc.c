/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hwloc and the scan of sysfs see the same machine: this one, and the recorded ones. The recordings
 * hold what our scan reads; what hwloc reads beside is written here as a kernel would, from the
 * same facts: masks of CPUs, their cores, and the configuration space of bridges.
 */
#include "unit/unit.h"

#include <stdlib.h>

#include "base/error.h"
#include "sysfs_tree.h"
#include "topo/scan_hwloc.h"

/* A mask as the kernel writes it: words of 32 bits, the highest first. */
static void mask_text(const struct cpus *cpus, char *buf, size_t cap)
{
	size_t len = 0;

	for (int word = 31; word >= 0; word--)
		len += (size_t)snprintf(buf + len, cap - len, word ? "%08x," : "%08x",
					(unsigned)(cpus->words[word / 2] >> word % 2 * 32));
}

static struct cpus node_cpus(const struct topo *topo, int numa)
{
	struct cpus cpus = {{0}}, node;

	for (unsigned i = 0; i < topo->nnodes; i++)
		if (numa == TOPO_NUMA_UNKNOWN || topo->nodes[i].id == numa) {
			assert_int_equal(cpus_parse(topo->nodes[i].cpus, &node), 0);
			cpus_or(&cpus, &node, &cpus);
		}
	return cpus;
}

static void put_mask(const struct sysfs_tree *tree, const char *file, const struct cpus *cpus)
{
	char text[CPUS_TEXT];

	mask_text(cpus, text, sizeof(text));
	assert_int_equal(sysfs_put(tree, file, text, 0), 0);
}

static void put_cpus(const struct sysfs_tree *tree, const struct topo *topo)
{
	struct cpus all = node_cpus(topo, TOPO_NUMA_UNKNOWN);
	char file[128], list[CPUS_TEXT];

	cpus_format(&all, list, sizeof(list));
	sysfs_put(tree, "devices/system/cpu/online", list, 0);
	sysfs_put(tree, "devices/system/cpu/possible", list, 0);
	for (unsigned cpu = 0; cpu < CPUS_MAX; cpu++) {
		struct cpus one = {{0}};

		if (!cpus_has(&all, cpu))
			continue;
		cpus_add(&one, cpu);
		snprintf(file, sizeof(file), "devices/system/cpu/cpu%u/topology/core_cpus", cpu);
		put_mask(tree, file, &one);
	}
	for (unsigned i = 0; i < topo->nnodes; i++) {
		struct cpus node = node_cpus(topo, topo->nodes[i].id);

		snprintf(file, sizeof(file), "devices/system/node/node%d/cpumap",
			 topo->nodes[i].id);
		put_mask(tree, file, &node);
	}
	snprintf(list, sizeof(list), "0-%u", topo->nnodes - 1);
	sysfs_put(tree, "devices/system/node/online", list, 0);
}

/* A bridge in the list of devices, the buses below it in its configuration space. */
static void put_bridge(const struct sysfs_tree *tree, const struct topo *topo,
		       const struct topo_place *place, unsigned at)
{
	pci_addr bridge = place->bridges[at];
	pci_addr below = at + 1 < place->nbridges ? place->bridges[at + 1] : place->pci;
	unsigned char config[64] = {[0x0a] = 0x04, [0x0b] = 0x06, [0x0e] = 0x01};
	struct cpus near = node_cpus(topo, place->numa);
	char name[PCI_TEXT_MAX], file[PATH_MAX];
	FILE *out;

	pci_format(bridge, name);
	snprintf(file, sizeof(file), "%s/bus/pci/devices/%s/config", tree->root, name);
	out = fopen(file, "re");
	if (out) { /* of another device below it already: more buses */
		assert_int_equal(fread(config, 1, sizeof(config), out), sizeof(config));
		fclose(out);
	}
	config[0x18] = (unsigned char)(bridge >> 8);
	config[0x19] = (unsigned char)(below >> 8);
	if (config[0x1a] < (unsigned char)(place->pci >> 8))
		config[0x1a] = (unsigned char)(place->pci >> 8);
	snprintf(file, sizeof(file), "bus/pci/devices/%s/class", name);
	assert_int_equal(sysfs_put(tree, file, "0x060400", 0), 0);
	snprintf(file, sizeof(file), "bus/pci/devices/%s/local_cpus", name);
	put_mask(tree, file, &near);
	snprintf(file, sizeof(file), "%s/bus/pci/devices/%s/config", tree->root, name);
	out = fopen(file, "we");
	assert_non_null(out);
	assert_int_equal(fwrite(config, 1, sizeof(config), out), sizeof(config));
	assert_int_equal(fclose(out), 0);
}

static void put_device(const struct sysfs_tree *tree, const struct topo *topo,
		       const struct topo_place *place)
{
	struct cpus near = node_cpus(topo, place->numa);
	char name[PCI_TEXT_MAX], file[128];

	snprintf(file, sizeof(file), "bus/pci/devices/%s/local_cpus", pci_format(place->pci, name));
	put_mask(tree, file, &near);
	for (unsigned i = 0; i < place->nbridges; i++)
		put_bridge(tree, topo, place, i);
}

/* The place where hwloc looks: its root is the folder above sysfs. */
static void for_hwloc(const struct sysfs_tree *tree, const struct topo *topo)
{
	put_cpus(tree, topo);
	for (unsigned i = 0; i < topo->ngpus; i++)
		put_device(tree, topo, &topo->gpus[i].place);
	for (unsigned i = 0; i < topo->nnics; i++)
		put_device(tree, topo, &topo->nics[i].place);
	assert_int_equal(sysfs_put(tree, "sys", ".", 1), 0);
	setenv("HWLOC_FSROOT", tree->root, 1);
}

static struct topo *by_hwloc(const char *root)
{
	struct topo *topo = NULL;

	assert_int_equal(topo_scan_hwloc(root, &topo), TCPX_OK);
	return topo;
}

static void same_on(const char *machine)
{
	struct sysfs_tree tree;
	struct topo *ours, *theirs;
	char why[96] = "";

	assert_int_equal(sysfs_unpack(&tree, machine), 0);
	assert_int_equal(topo_scan(tree.root, &ours), TCPX_OK);
	for_hwloc(&tree, ours);
	theirs = by_hwloc(tree.root);
	unsetenv("HWLOC_FSROOT");
	if (!topo_same(ours, theirs, why, sizeof(why)))
		fail_msg("%s: hwloc has %s", machine, why);
	assert_int_equal(ours->nvirtuals, theirs->nvirtuals);
	for (unsigned i = 0; i < ours->nnics; i++) {
		assert_string_equal(ours->nics[i].driver, theirs->nics[i].driver);
		assert_string_equal(ours->nics[i].mac, theirs->nics[i].mac);
		assert_int_equal(ours->nics[i].speed_mbps, theirs->nics[i].speed_mbps);
		assert_int_equal(ours->nics[i].place.vendor, theirs->nics[i].place.vendor);
	}
	topo_free(ours);
	topo_free(theirs);
	sysfs_remove(&tree);
}

static void recorded_machines(void **state)
{
	(void)state;
	same_on("a3-high");
	same_on("container-7-gpus");
	same_on("no-gpu");
	same_on("one-nic");
	same_on("vm-numa-1");
}

static void this_machine(void **state)
{
	struct topo *ours, *theirs = by_hwloc("/sys");
	char why[96] = "";

	(void)state;
	assert_int_equal(topo_scan("/sys", &ours), TCPX_OK);
	if (!topo_same(ours, theirs, why, sizeof(why)))
		fail_msg("hwloc has %s", why);
	topo_free(ours);
	topo_free(theirs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recorded_machines),
		cmocka_unit_test(this_machine),
	};
	struct topo *topo = NULL;

	setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1); /* what they load leaks */
	if (topo_scan_hwloc("/sys", &topo) == TCPX_ERR_UNSUPPORTED)
		return 77;
	topo_free(topo);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Scans of recorded machines: what is found, how far it is apart, and trees that lie. */
#include "unit/unit.h"

#include "sysfs_tree.h"
#include "topo/graph.h"
#include "topo/pairing.h"

static struct topo *scan(const struct sysfs_tree *tree)
{
	struct topo *topo;

	assert_int_equal(topo_scan(tree->root, &topo), TCPX_OK);
	return topo;
}

static struct topo *scan_recorded(struct sysfs_tree *tree, const char *machine)
{
	assert_int_equal(sysfs_unpack(tree, machine), 0);
	return scan(tree);
}

static pci_addr pci(const char *text)
{
	pci_addr addr;

	assert_int_equal(pci_parse(text, &addr), 0);
	return addr;
}

static enum topo_distance between(const struct topo *topo, const char *gpu, const char *nic)
{
	return topo_distance(topo, &topo_gpu_at(topo, pci(gpu))->place,
			     &topo_nic_named(topo, nic)->place);
}

static void an_a3_host(void **state)
{
	struct sysfs_tree tree;
	struct topo *topo = scan_recorded(&tree, "a3-high");
	const struct topo_nic *nic;

	(void)state;
	assert_int_equal(topo->ngpus, 8);
	assert_int_equal(topo->nnics, 5);
	assert_int_equal(topo->gpus[0].place.pci, pci("04:00.0"));
	assert_int_equal(topo->gpus[7].place.pci, pci("8b:00.0"));
	assert_int_equal(topo->gpus[3].place.numa, 0);
	assert_int_equal(topo->gpus[4].place.numa, 1);
	assert_int_equal(topo->gpus[0].place.vendor, TOPO_VENDOR_NVIDIA);
	assert_string_equal(topo_node_cpus(topo, 0), "0-51,104-155");
	assert_string_equal(topo_node_cpus(topo, 1), "52-103,156-207");
	assert_null(topo_node_cpus(topo, TOPO_NUMA_UNKNOWN)); /* one of two: not known */
	nic = topo_nic_named(topo, "eth3");
	assert_non_null(nic);
	assert_int_equal(nic->place.pci, pci("86:00.0"));
	assert_int_equal(nic->place.numa, 1);
	assert_int_equal(nic->place.nbridges, 3);
	assert_int_equal(nic->speed_mbps, 200000);
	assert_int_equal(nic->mtu, 8244);
	assert_string_equal(nic->driver, "gve");
	assert_string_equal(nic->mac, "42:01:0a:80:03:02");
	assert_string_equal(nic->state, "up");
	assert_ptr_equal(topo_nic_at(topo, pci("86:00.0")), nic);
	assert_null(topo_nic_named(topo, "lo"));
	assert_null(topo_gpu_at(topo, pci("86:00.0")));
	topo_free(topo);
	sysfs_remove(&tree);
}

static void distances_of_an_a3_host(void **state)
{
	struct sysfs_tree tree;
	struct topo *topo = scan_recorded(&tree, "a3-high");

	(void)state;
	assert_int_equal(between(topo, "04:00.0", "eth1"), TOPO_PIX);
	assert_int_equal(between(topo, "05:00.0", "eth1"), TOPO_PIX);
	assert_int_equal(between(topo, "04:00.0", "eth2"), TOPO_PHB);
	assert_int_equal(between(topo, "04:00.0", "eth0"), TOPO_PHB);
	assert_int_equal(between(topo, "04:00.0", "eth3"), TOPO_SYS);
	assert_int_equal(between(topo, "8b:00.0", "eth4"), TOPO_PIX);
	assert_string_equal(topo_distance_name(TOPO_PIX), "PIX");
	assert_string_equal(topo_distance_name(TOPO_SYS), "SYS");
	topo_free(topo);
	sysfs_remove(&tree);
}

/* The distances that an A3 host does not have: switches in a row, two host bridges of a node. */
static void other_distances(void **state)
{
	static const struct topo topo1 = {.nnodes = 1}, topo2 = {.nnodes = 2};
	struct topo_place a = {.located = 1, .root = 0, .nbridges = 3, .bridges = {1, 2, 3}};
	struct topo_place b = {.located = 1, .root = 0, .nbridges = 4, .bridges = {1, 2, 4, 5}};

	(void)state;
	assert_int_equal(topo_distance(&topo1, &a, &b), TOPO_PXB);
	assert_int_equal(topo_distance(&topo1, &b, &a), TOPO_PXB);
	b.nbridges = 2; /* below the upstream port itself */
	assert_int_equal(topo_distance(&topo1, &a, &b), TOPO_PIX);
	b.root = 0x80;
	assert_int_equal(topo_distance(&topo2, &a, &b), TOPO_NODE);
	a.numa = TOPO_NUMA_UNKNOWN;
	assert_int_equal(topo_distance(&topo2, &a, &b), TOPO_SYS);
	assert_int_equal(topo_distance(&topo1, &a, &b), TOPO_NODE);
	b.numa = TOPO_NUMA_UNKNOWN;
	assert_int_equal(topo_distance(&topo2, &a, &b), TOPO_SYS);
	a.located = 0;
	assert_int_equal(topo_distance(&topo1, &a, &b), TOPO_FAR);
}

static void a_machine_with_one_nic(void **state)
{
	struct sysfs_tree tree;
	struct topo *topo = scan_recorded(&tree, "one-nic");

	(void)state;
	assert_int_equal(topo->ngpus, 0);
	assert_int_equal(topo->nnics, 1);
	assert_string_equal(topo->nics[0].name, "ens4");
	assert_int_equal(topo->nics[0].place.pci, pci("00:04.0")); /* behind virtio1 */
	assert_int_equal(topo->nics[0].place.numa, TOPO_NUMA_UNKNOWN);
	assert_int_equal(topo->nics[0].place.nbridges, 0);
	assert_int_equal(topo->nics[0].speed_mbps, 0); /* -1 */
	assert_string_equal(topo_node_cpus(topo, TOPO_NUMA_UNKNOWN), "0-3");
	topo_free(topo);
	sysfs_remove(&tree);
}

static void strange_trees(void **state)
{
	static const char deep[] =
		"../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0/"
		"0000:04:00.0/0000:05:00.0/0000:06:00.0/0000:07:00.0/0000:08:00.0/0000:09:00.0/"
		"0000:0a:00.0/0000:0b:00.0/0000:0c:00.0/0000:0d:00.0/0000:0e:00.0/0000:0f:00.0/"
		"0000:10:00.0/0000:11:00.0";
	struct sysfs_tree tree;
	struct topo *topo = NULL;
	char file[512];

	(void)state;
	assert_int_equal(topo_scan("/nowhere/at/all", &topo), TCPX_ERR_NOT_FOUND);
	assert_null(topo);
	assert_int_equal(sysfs_empty(&tree), 0);
	topo = scan(&tree);
	assert_int_equal(topo->ngpus + topo->nnics + topo->nnodes, 0);
	topo_free(topo);
	/* a link that leads nowhere, one to itself, a file instead of a folder */
	sysfs_put(&tree, "class/net/gone", "../../devices/gone", 1);
	sysfs_put(&tree, "class/net/self", "self", 1);
	sysfs_put(&tree, "class/net/bonding_masters", "", 0);
	sysfs_put(&tree, "class/net/veth0/mtu", "1500", 0);
	/* another vendor's display, a class that is no number, no root above it, deeper than any */
	sysfs_put(&tree, "bus/pci/devices/0000:01:00.0/class", "0x030000", 0);
	sysfs_put(&tree, "bus/pci/devices/0000:01:00.0/vendor", "0x1a03", 0);
	sysfs_put(&tree, "bus/pci/devices/0000:02:00.0/class", "0x0302zz", 0);
	sysfs_put(&tree, "bus/pci/devices/0000:03:00.0/class", "0x030200", 0);
	sysfs_put(&tree, "bus/pci/devices/0000:03:00.0/vendor", "0x10de", 0);
	snprintf(file, sizeof(file), "%s/class", deep + strlen("../../../"));
	assert_int_equal(sysfs_put(&tree, file, "0x030200", 0), 0);
	snprintf(file, sizeof(file), "%s/vendor", deep + strlen("../../../"));
	assert_int_equal(sysfs_put(&tree, file, "0x10de", 0), 0);
	assert_int_equal(sysfs_put(&tree, "bus/pci/devices/0000:11:00.0", deep, 1), 0);
	sysfs_put(&tree, "devices/system/node/node0x/cpulist", "0-3", 0);
	sysfs_put(&tree, "devices/system/node/possible", "0-3", 0);
	topo = scan(&tree);
	assert_int_equal(topo->ngpus, 0);
	assert_int_equal(topo->nnics, 0);
	assert_int_equal(topo->nnodes, 0);
	assert_int_equal(topo->nvirtuals, 1); /* veth0, and no file or link that leads nowhere */
	assert_string_equal(topo->virtuals[0].name, "veth0");
	topo_free(topo);
	sysfs_remove(&tree);
}

static void interfaces_without_pci(void **state)
{
	struct sysfs_tree tree;
	struct topo *topo = scan_recorded(&tree, "no-gpu");
	struct topo_pairs pairs;
	char file[128];

	(void)state;
	assert_int_equal(topo->nnics, 3);
	assert_int_equal(topo->nvirtuals, 2); /* not lo */
	assert_string_equal(topo->virtuals[0].name, "docker0");
	assert_string_equal(topo->virtuals[1].name, "veth4f1c2d7");
	assert_string_equal(topo->virtuals[1].mac, "7e:10:00:00:00:02");
	assert_int_equal(topo->virtuals[1].speed_mbps, 10000);
	assert_int_equal(topo->virtuals[1].place.pci, PCI_NONE);
	assert_int_equal(topo->virtuals[1].place.numa, TOPO_NUMA_UNKNOWN);
	assert_null(topo_nic_named(topo, "veth4f1c2d7"));
	/* nothing pairs with them, even where there is nothing else */
	topo->nnics = 0;
	assert_int_equal(topo_add_gpu(topo, pci("04:00.0")), TCPX_OK);
	topo_pairs_build(topo, NULL, NULL, &pairs);
	assert_int_equal(topo_owner_of(&pairs, pci("04:00.0"))->nic, PCI_NONE);
	topo_free(topo);
	/* loopback by another name, a device of another bus, and more than there is room for */
	sysfs_put(&tree, "class/net/loop7/type", "772", 0);
	sysfs_put(&tree, "devices/vmbus/x/net/hv0/mtu", "1500", 0);
	sysfs_put(&tree, "devices/vmbus/x/net/hv0/device", "../..", 1);
	sysfs_put(&tree, "devices/vmbus/x/driver", "../../../bus/vmbus/drivers/hv_netvsc", 1);
	sysfs_put(&tree, "class/net/hv0", "../../devices/vmbus/x/net/hv0", 1);
	topo = scan(&tree);
	assert_int_equal(topo->nvirtuals, 3);
	assert_string_equal(topo->virtuals[1].name, "hv0");
	assert_string_equal(topo->virtuals[1].driver, "hv_netvsc");
	topo_free(topo);
	for (unsigned i = 0; i < TOPO_NICS_MAX; i++) {
		snprintf(file, sizeof(file), "%s/class/net/many%u", tree.root, i);
		assert_int_equal(mkdir(file, 0700), 0);
	}
	topo = scan(&tree);
	assert_int_equal(topo->nvirtuals, TOPO_NICS_MAX);
	assert_int_equal(topo->nnics, 3);
	topo_free(topo);
	sysfs_remove(&tree);
}

static void a_machine_that_tells_no_node(void **state)
{
	struct sysfs_tree tree;
	struct topo *topo = scan_recorded(&tree, "vm-numa-1");

	(void)state;
	assert_int_equal(topo->ngpus, 3);
	assert_int_equal(topo->nnodes, 2);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(topo->gpus[i].place.numa, TOPO_NUMA_UNKNOWN);
	assert_int_equal(between(topo, "00:05.0", "ens3"), TOPO_PHB);
	assert_int_equal(between(topo, "0001:00:02.0", "enP1s1"), TOPO_PHB);
	assert_int_equal(between(topo, "00:05.0", "enP1s1"), TOPO_SYS);
	topo_free(topo);
	sysfs_remove(&tree);
}

static void seven_gpus_of_an_a3_host(void **state)
{
	struct sysfs_tree tree;
	struct topo *topo = scan_recorded(&tree, "container-7-gpus");
	struct topo_pairs pairs;

	(void)state;
	assert_int_equal(topo->ngpus, 7);
	assert_null(topo_gpu_at(topo, pci("0b:00.0")));
	topo_pairs_build(topo, NULL, NULL, &pairs);
	/* the position of a GPU says nothing: 84:00.0 is the fourth here, and eth3's as ever */
	assert_string_equal(topo_owner_of(&pairs, pci("84:00.0"))->nic_name, "eth3");
	assert_string_equal(topo_owner_of(&pairs, pci("0a:00.0"))->nic_name, "eth2");
	topo_free(topo);
	sysfs_remove(&tree);
}

static void differences_are_told(void **state)
{
	struct sysfs_tree tree, other;
	struct topo *a = scan_recorded(&tree, "a3-high");
	struct topo *b = scan_recorded(&other, "container-7-gpus");
	char why[96] = "";

	(void)state;
	assert_int_equal(topo_same(a, b, why, sizeof(why)), 0);
	assert_string_equal(why, "7 GPUs, 5 NICs and 2 nodes");
	topo_free(b);
	b = scan(&tree);
	assert_int_equal(topo_same(a, b, why, sizeof(why)), 1);
	b->gpus[5].place.bridges[2]++;
	assert_int_equal(topo_same(a, b, why, sizeof(why)), 0);
	assert_string_equal(why, "GPU 0000:85:00.0");
	b->gpus[5].place.bridges[2]--;
	b->nics[1].place.numa = TOPO_NUMA_UNKNOWN;
	assert_int_equal(topo_same(a, b, why, sizeof(why)), 0);
	assert_string_equal(why, "NIC 0000:06:00.0");
	a->nnodes = b->nnodes = 1; /* then it can only be that one */
	assert_int_equal(topo_same(a, b, why, sizeof(why)), 1);
	snprintf(b->nodes[0].cpus, sizeof(b->nodes[0].cpus), "0-50");
	assert_int_equal(topo_same(a, b, why, sizeof(why)), 0);
	assert_string_equal(why, "the CPUs of nodes");
	topo_free(a);
	topo_free(b);
	sysfs_remove(&tree);
	sysfs_remove(&other);
}

static void devices_known_besides(void **state)
{
	struct sysfs_tree tree;
	struct topo *topo = scan_recorded(&tree, "a3-high");

	(void)state;
	assert_int_equal(topo_add_gpu(topo, pci("04:00.0")), TCPX_OK);
	assert_int_equal(topo->ngpus, 8); /* was seen */
	assert_int_equal(topo_add_gpu(topo, pci("40:00.0")), TCPX_OK);
	assert_int_equal(topo->ngpus, 9);
	assert_int_equal(topo->gpus[4].place.pci, pci("40:00.0"));
	assert_int_equal(topo->gpus[5].place.pci, pci("84:00.0"));
	assert_int_equal(topo_add_nic(topo, pci("06:00.0"), "other"), TCPX_OK);
	assert_string_equal(topo_nic_at(topo, pci("06:00.0"))->name, "eth1");
	assert_int_equal(topo_add_nic(topo, pci("41:00.0"), "eth9"), TCPX_OK);
	assert_int_equal(topo->nnics, 6);
	assert_int_equal(between(topo, "40:00.0", "eth9"), TOPO_FAR);
	assert_int_equal(topo_add_nic(topo, PCI_NONE, "lo"), TCPX_ERR_INVALID);
	while (topo->ngpus < TOPO_GPUS_MAX)
		assert_int_equal(topo_add_gpu(topo, 0x10000u + topo->ngpus), TCPX_OK);
	assert_int_equal(topo_add_gpu(topo, 0x20000u), TCPX_ERR_LIMIT);
	topo_free(topo);
	sysfs_remove(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_a3_host),
		cmocka_unit_test(distances_of_an_a3_host),
		cmocka_unit_test(other_distances),
		cmocka_unit_test(a_machine_with_one_nic),
		cmocka_unit_test(strange_trees),
		cmocka_unit_test(interfaces_without_pci),
		cmocka_unit_test(a_machine_that_tells_no_node),
		cmocka_unit_test(seven_gpus_of_an_a3_host),
		cmocka_unit_test(differences_are_told),
		cmocka_unit_test(devices_known_besides),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

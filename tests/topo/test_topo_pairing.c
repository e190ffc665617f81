/* SPDX-License-Identifier: Apache-2.0 */
/* Which NIC owns a GPU: the preset, the nearest, and what RxDM says against either. */
#include "unit/unit.h"

#include "base/clock.h"
#include "base/error.h"
#include "fakerxdm.h"
#include "sysfs_tree.h"
#include "topo/rxdm_client.h"

static pci_addr pci(const char *text)
{
	pci_addr addr;

	assert_int_equal(pci_parse(text, &addr), 0);
	return addr;
}

static struct topo *machine(const char *name)
{
	struct sysfs_tree tree;
	struct topo *topo;

	assert_int_equal(sysfs_unpack(&tree, name), 0);
	assert_int_equal(topo_scan(tree.root, &topo), TCPX_OK);
	sysfs_remove(&tree);
	return topo;
}

static pci_addr owner_of(const struct topo_pairs *pairs, const char *gpu)
{
	pci_addr nic = PCI_NONE;

	assert_int_equal(topo_pairing(pairs, pci(gpu), &nic), TCPX_OK);
	return nic;
}

/* GPU and NIC of an A3 host, as its documents say. */
static const struct {
	const char *gpu, *nic, *name;
} a3[] = {
	{"04:00.0", "06:00.0", "eth1"}, {"05:00.0", "06:00.0", "eth1"},
	{"0a:00.0", "0c:00.0", "eth2"}, {"0b:00.0", "0c:00.0", "eth2"},
	{"84:00.0", "86:00.0", "eth3"}, {"85:00.0", "86:00.0", "eth3"},
	{"8a:00.0", "8c:00.0", "eth4"}, {"8b:00.0", "8c:00.0", "eth4"},
};

static void assert_a3(const struct topo_pairs *pairs, enum topo_source source)
{
	for (unsigned i = 0; i < 8; i++) {
		const struct topo_owner *owner = topo_owner_of(pairs, pci(a3[i].gpu));

		assert_int_equal(owner_of(pairs, a3[i].gpu), pci(a3[i].nic));
		assert_string_equal(owner->nic_name, a3[i].name);
		assert_int_equal(owner->source, source);
	}
}

/* Without one of its NICs the preset does not hold, and the nearest NIC is the same one. */
static void the_preset_and_the_nearest(void **state)
{
	struct topo *topo = machine("a3-high");
	struct topo_pairs pairs;

	(void)state;
	topo_pairs_build(topo, NULL, NULL, &pairs);
	assert_int_equal(pairs.count, 8);
	assert_a3(&pairs, TOPO_SOURCE_PRESET);
	topo->nnics--; /* eth4, whose GPUs go to the nearest NIC left */
	topo_pairs_build(topo, NULL, NULL, &pairs);
	assert_int_equal(owner_of(&pairs, "05:00.0"), pci("06:00.0"));
	assert_int_equal(owner_of(&pairs, "84:00.0"), pci("86:00.0"));
	assert_int_equal(topo_owner_of(&pairs, pci("04:00.0"))->source, TOPO_SOURCE_PCIE);
	assert_int_equal(owner_of(&pairs, "8a:00.0"), pci("86:00.0"));
	topo_free(topo);
}

/* The emulator's machine: addresses alone, no sysfs. */
static void the_preset_without_a_scan(void **state)
{
	struct topo topo = {0};
	struct topo_pairs pairs;
	pci_addr nic;

	(void)state;
	for (unsigned i = 0; i < 8; i += 2) {
		assert_int_equal(topo_add_nic(&topo, pci(a3[i].nic), a3[i].name), TCPX_OK);
		assert_int_equal(topo_add_gpu(&topo, pci(a3[i].gpu)), TCPX_OK);
	}
	assert_int_equal(topo_add_gpu(&topo, pci("40:00.0")), TCPX_OK); /* in no table */
	topo_pairs_build(&topo, NULL, NULL, &pairs);
	assert_int_equal(owner_of(&pairs, "0a:00.0"), pci("0c:00.0"));
	assert_int_equal(topo_pairing(&pairs, pci("40:00.0"), &nic), TCPX_ERR_NOT_FOUND);
	assert_int_equal(topo_pairing(&pairs, pci("41:00.0"), &nic), TCPX_ERR_NOT_FOUND);
	assert_non_null(strstr(error_last()->what, "0000:41:00.0"));
}

static void the_error_names_both_and_the_remedy(void **state)
{
	struct topo *topo = machine("a3-high");
	struct topo_pairs pairs;

	(void)state;
	topo_pairs_build(topo, NULL, NULL, &pairs);
	assert_int_equal(topo_pairing_check(&pairs, pci("06:00.0"), pci("04:00.0")), TCPX_OK);
	assert_int_equal(topo_pairing_check(&pairs, pci("0c:00.0"), pci("04:00.0")),
			 TCPX_ERR_UNSUPPORTED);
	assert_non_null(strstr(error_last()->what, "0000:04:00.0"));
	assert_non_null(strstr(error_last()->what, "0000:0c:00.0"));
	assert_non_null(strstr(error_last()->what, "0000:06:00.0 (eth1)"));
	assert_non_null(strstr(error_last()->next, "--nic eth1"));
	assert_non_null(strstr(error_last()->next, "TCPX_PAIRING=off"));
	topo_free(topo);
}

/* What a made-up RxDM says. Where it knows a GPU, the first of a NIC has queues 8 to 11 and the
 * second 12 to 15, as the real one gives them out. */
struct says {
	pci_addr denied;
	pci_addr crossed; /* a second GPU that has the queues of a first */
};

static enum topo_rxdm_answer say(void *arg, pci_addr gpu, int32_t *out_queues, unsigned max,
				 unsigned *out_count)
{
	const struct says *says = arg;
	int second = gpu == 0x0500 || gpu == 0x0b00 || gpu == 0x8500 || gpu == 0x8b00;

	if (gpu == says->denied)
		return TOPO_RXDM_DENIED;
	assert_true(max >= 4);
	for (int32_t i = 0; i < 4; i++)
		out_queues[i] = i + (second && gpu != says->crossed ? 12 : 8);
	*out_count = 4;
	return TOPO_RXDM_KNOWN;
}

static void rxdm_denies_a_gpu(void **state)
{
	struct topo *topo = machine("a3-high");
	struct says says = {.denied = 0x0500};
	struct topo_pairs pairs;
	pci_addr nic;

	(void)state;
	topo_pairs_build(topo, say, &says, &pairs);
	assert_int_equal(owner_of(&pairs, "04:00.0"), pci("06:00.0"));
	assert_int_equal(topo_owner_of(&pairs, 0x0400)->rxdm, TOPO_RXDM_KNOWN);
	assert_int_equal(topo_pairing(&pairs, 0x0500, &nic), TCPX_ERR_NOT_FOUND);
	assert_non_null(strstr(error_last()->what, "RxDM has no queues"));
	assert_int_equal(topo_pairing_check(&pairs, 0x0600, 0x0500), TCPX_ERR_NOT_FOUND);
	topo_free(topo);
}

/* Two GPUs of one NIC never have the same queue: where they do, the table is another one. */
static void rxdm_contradicts(void **state)
{
	struct topo *topo = machine("a3-high");
	struct says says = {.crossed = 0x0b00};
	struct topo_pairs pairs;
	pci_addr nic;

	(void)state;
	topo_pairs_build(topo, say, &says, &pairs);
	assert_int_equal(owner_of(&pairs, "05:00.0"), pci("06:00.0"));
	assert_int_equal(topo_owner_of(&pairs, 0x0500)->source, TOPO_SOURCE_PRESET);
	assert_int_equal(topo_pairing(&pairs, 0x0a00, &nic), TCPX_ERR_NOT_FOUND);
	assert_int_equal(topo_pairing(&pairs, 0x0b00, &nic), TCPX_ERR_NOT_FOUND);
	assert_non_null(strstr(error_last()->what, "nothing says which"));
	topo_free(topo);
}

/* The same contradiction on a machine that is built otherwise than the preset says: there the
 * second GPU lies below a NIC of its own, and that is what RxDM derived. */
static void the_nearest_where_the_preset_is_wrong(void **state)
{
	struct topo *topo = machine("a3-high");
	struct says says = {.crossed = 0x0b00};
	struct topo_pairs pairs;
	struct topo_place *moved = &topo->gpus[3].place, *nic;

	(void)state;
	assert_int_equal(moved->pci, 0x0b00);
	assert_int_equal(topo_add_nic(topo, 0x4100, "eth9"), TCPX_OK);
	nic = (struct topo_place *)&topo_nic_named(topo, "eth9")->place;
	nic->located = 1;
	moved->root = nic->root = 0x40;
	moved->nbridges = nic->nbridges = 1;
	moved->bridges[0] = nic->bridges[0] = 0x4008;
	topo_pairs_build(topo, say, &says, &pairs);
	assert_int_equal(owner_of(&pairs, "0b:00.0"), 0x4100);
	assert_int_equal(owner_of(&pairs, "0a:00.0"), pci("0c:00.0"));
	assert_int_equal(topo_owner_of(&pairs, 0x0a00)->source, TOPO_SOURCE_PCIE);
	assert_int_equal(topo_owner_of(&pairs, 0x0400)->source, TOPO_SOURCE_PRESET);
	topo_free(topo);
}

/* Through the real client and the stand-in's sockets. */
static void rxdm_is_asked(void **state)
{
	char dir[] = "/tmp/tcpx-pairs-XXXXXX";
	struct topo *topo = machine("a3-high");
	struct topo_rxdm_asker asker = {.prefix = dir};
	struct fakerxdm_opts opts = {.topo = "eth1=127.0.1.1:06:00.0:04,05;"
					     "eth2=127.0.2.1:0c:00.0:0a,0b;"
					     "eth3=127.0.3.1:86:00.0:84,85"};
	struct fakerxdm *rxdm;
	struct topo_pairs pairs;

	(void)state;
	assert_non_null(mkdtemp(dir));
	opts.prefix = dir;
	assert_int_equal(fakerxdm_start(&opts, &rxdm), 0);
	asker.deadline_ns = clock_after(20 * CLOCK_S_NS);
	topo_pairs_build(topo, topo_rxdm_ask, &asker, &pairs);
	assert_int_equal(asker.status, TCPX_OK);
	assert_int_equal(owner_of(&pairs, "0b:00.0"), pci("0c:00.0"));
	assert_int_equal(topo_owner_of(&pairs, 0x0b00)->rxdm, TOPO_RXDM_KNOWN);
	assert_int_equal(topo_owner_of(&pairs, 0x8a00)->rxdm, TOPO_RXDM_DENIED);
	assert_int_equal(topo_owner_of(&pairs, 0x8a00)->nic, PCI_NONE);
	fakerxdm_stop(rxdm);
	topo_pairs_build(topo, topo_rxdm_ask, &asker, &pairs); /* nobody answers: as without */
	assert_int_equal(asker.status, TCPX_ERR_REFUSED);
	assert_a3(&pairs, TOPO_SOURCE_PRESET);
	assert_int_equal(topo_owner_of(&pairs, 0x8a00)->rxdm, TOPO_RXDM_SILENT);
	assert_int_equal(rmdir(dir), 0);
	topo_free(topo);
}

/* GPUs below hidden are not visible; island reaches nobody. */
struct gpus {
	pci_addr hidden[2], island;
};

static int visible(void *arg, pci_addr gpu)
{
	const struct gpus *gpus = arg;

	return gpu != gpus->hidden[0] && gpu != gpus->hidden[1];
}

static int reaches(void *arg, pci_addr from, pci_addr to)
{
	const struct gpus *gpus = arg;

	return from != gpus->island && to != gpus->island;
}

static void relays(void **state)
{
	struct topo *topo = machine("a3-high");
	struct gpus known = {0};
	const struct topo_gpus gpus = {visible, reaches, &known};
	struct topo_route route, routes[8];
	struct topo_pairs pairs;

	(void)state;
	topo_pairs_build(topo, NULL, NULL, &pairs);
	assert_int_equal(topo_route(&pairs, &gpus, 0x0600, 0x0400, &route), TCPX_OK);
	assert_int_equal(route.landing, 0x0400); /* its own NIC */
	assert_int_equal(topo_route(&pairs, &gpus, 0x0c00, 0x0400, &route), TCPX_OK);
	assert_int_equal(route.landing, 0x0a00); /* the first of each pair by the first */
	assert_int_equal(topo_route(&pairs, &gpus, 0x0c00, 0x0500, &route), TCPX_OK);
	assert_int_equal(route.landing, 0x0b00);
	known.hidden[0] = 0x0b00;
	assert_int_equal(topo_route(&pairs, &gpus, 0x0c00, 0x0500, &route), TCPX_OK);
	assert_int_equal(route.landing, 0x0a00);
	known.island = 0x0a00;
	assert_int_equal(topo_route(&pairs, &gpus, 0x0c00, 0x0500, &route), TCPX_ERR_UNSUPPORTED);
	assert_non_null(strstr(error_last()->next, "--nic eth1"));
	/* a NIC that owns no GPU: control */
	assert_int_equal(topo_route(&pairs, &gpus, 0x0028, 0x0400, &route), TCPX_ERR_UNSUPPORTED);
	assert_int_equal(topo_routes(&pairs, &gpus, 0x8500, routes, 8), 3); /* not by eth2 */
	assert_int_equal(routes[0].nic, 0x8600);
	assert_int_equal(routes[0].landing, 0x8500);
	assert_int_equal(routes[1].nic, 0x0600);
	assert_int_equal(routes[1].landing, 0x0500);
	assert_int_equal(routes[2].nic, 0x8c00);
	assert_int_equal(routes[2].landing, 0x8b00);
	known = (struct gpus){0};
	assert_int_equal(topo_routes(&pairs, &gpus, 0x8500, routes, 8), 4);
	assert_int_equal(topo_routes(&pairs, &gpus, 0x8500, routes, 2), 2);
	assert_int_equal(topo_routes(&pairs, &gpus, 0x4000, routes, 8), 0);
	topo_free(topo);
}

static void no_gpus_at_all(void **state)
{
	struct topo *topo = machine("one-nic");
	struct topo_pairs pairs;

	(void)state;
	topo_pairs_build(topo, NULL, NULL, &pairs);
	assert_int_equal(pairs.count, 0);
	assert_int_equal(topo_pairing_check(&pairs, 0x0020, 0x0400), TCPX_ERR_NOT_FOUND);
	topo_free(topo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_preset_and_the_nearest),
		cmocka_unit_test(the_preset_without_a_scan),
		cmocka_unit_test(the_error_names_both_and_the_remedy),
		cmocka_unit_test(rxdm_denies_a_gpu),
		cmocka_unit_test(rxdm_contradicts),
		cmocka_unit_test(the_nearest_where_the_preset_is_wrong),
		cmocka_unit_test(rxdm_is_asked),
		cmocka_unit_test(relays),
		cmocka_unit_test(no_gpus_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

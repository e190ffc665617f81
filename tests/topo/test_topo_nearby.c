/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of CPUs, and which of them are near a GPU and its NIC. */
#include "unit/unit.h"

#include <sched.h>

#include "base/error.h"
#include "sys/cpu.h"
#include "sysfs_tree.h"
#include "topo/pairing.h"
#include "topo/nearby.h"

#define NODE0 "0-51,104-155"
#define NODE1 "52-103,156-207"
#define ALL "0-207"

struct machine {
	struct sysfs_tree tree;
	struct topo *topo;
	struct topo_pairs pairs;
};

static struct machine machine(const char *name)
{
	struct machine m;

	assert_int_equal(sysfs_unpack(&m.tree, name), 0);
	assert_int_equal(topo_scan(m.tree.root, &m.topo), TCPX_OK);
	topo_pairs_build(m.topo, NULL, NULL, &m.pairs);
	return m;
}

static void done_with(struct machine *m)
{
	topo_free(m->topo);
	sysfs_remove(&m->tree);
}

static struct cpus parsed(const char *list)
{
	struct cpus cpus;

	assert_int_equal(cpus_parse(list, &cpus), 0);
	return cpus;
}

/* The CPUs near GPU number gpu and its owner, of those in list. */
static const char *near(const struct machine *m, unsigned gpu, const char *list,
			enum topo_near want)
{
	static char text[CPUS_TEXT];
	struct cpus cpus = parsed(list);

	/* into the set that it reads */
	assert_int_equal(topo_place_cpus(m->topo, m->pairs.owners[gpu].gpu,
					 m->pairs.owners[gpu].nic, &cpus, &cpus),
			 want);
	return cpus_format(&cpus, text, sizeof(text));
}

static void lists_are_the_kernels(void **state)
{
	static const char *const same[] = {"",	    "0",	"0-3",	     NODE0,
					   "1,3,5", "63-64,66", "0-8191",    "8191",
					   "0-1,3", "127-128",	"4,6-8,4096"};
	static const char *const wrong[] = {
		",",   "0,",   "-",    "0-",  "-1",   "3-1",  "0-3,",	"a",
		"0 1", "0-3 ", "8192", "0x1", "1--2", "0,,2", "0-8192", "99999999999999999999"};
	struct cpus cpus = parsed("7");
	char text[CPUS_TEXT];

	(void)state;
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		struct cpus one = parsed(same[i]);

		assert_string_equal(cpus_format(&one, text, sizeof(text)), same[i]);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(cpus_parse(wrong[i], &cpus), -1);
	assert_string_equal(cpus_format(&cpus, text, sizeof(text)), "7"); /* untouched */
	cpus = parsed("3,1-2,0,2-3");					  /* any order, twice */
	assert_string_equal(cpus_format(&cpus, text, sizeof(text)), "0-3");
	assert_int_equal(cpus_count(&cpus), 4);
	cpus_add(&cpus, CPUS_MAX);
	assert_int_equal(cpus_count(&cpus), 4);
	assert_false(cpus_has(&cpus, CPUS_MAX));
	assert_true(cpus_has(&cpus, 3));
}

static void a_list_is_cut_at_a_comma(void **state)
{
	struct cpus cpus = parsed("0-9,20-29,40");
	char text[16];

	(void)state;
	assert_string_equal(cpus_format(&cpus, text, sizeof("0-9,20-29,40")), "0-9,20-29,40");
	assert_string_equal(cpus_format(&cpus, text, sizeof("0-9,20-29,4")), "0-9,20-29");
	assert_string_equal(cpus_format(&cpus, text, 4), "0-9");
	assert_string_equal(cpus_format(&cpus, text, 3), "");
}

static void an_a3_host_has_two_halves(void **state)
{
	struct machine m = machine("a3-high");

	(void)state;
	for (unsigned gpu = 0; gpu < 8; gpu++)
		assert_string_equal(near(&m, gpu, ALL, TOPO_NEAR_NIC), gpu < 4 ? NODE0 : NODE1);
	done_with(&m);
}

static void a_cpuset_cuts(void **state)
{
	struct machine m = machine("a3-high");

	(void)state;
	assert_string_equal(near(&m, 0, "8-60,150-160", TOPO_NEAR_NIC), "8-51,150-155");
	assert_string_equal(near(&m, 7, "8-60,150-160", TOPO_NEAR_NIC), "52-60,156-160");
	assert_string_equal(near(&m, 0, "51", TOPO_NEAR_NIC), "51");
	/* none of the node is left: all that there are */
	assert_string_equal(near(&m, 0, NODE1, TOPO_NEAR_ANY), NODE1);
	assert_string_equal(near(&m, 7, "1,3", TOPO_NEAR_ANY), "1,3");
	assert_string_equal(near(&m, 0, "", TOPO_NEAR_ANY), "");
	done_with(&m);
}

/* A GPU that receives through the other half's NIC. */
static void the_nic_counts_before_the_gpu(void **state)
{
	struct machine m = machine("a3-high");

	(void)state;
	m.pairs.owners[0].nic = topo_nic_named(m.topo, "eth4")->place.pci;
	assert_string_equal(near(&m, 0, ALL, TOPO_NEAR_NIC), NODE1);
	assert_string_equal(near(&m, 0, "0-3", TOPO_NEAR_GPU), "0-3");
	m.pairs.owners[0].nic = PCI_NONE;
	assert_string_equal(near(&m, 0, ALL, TOPO_NEAR_GPU), NODE0);
	m.pairs.owners[0].gpu = PCI_NONE;
	assert_string_equal(near(&m, 0, ALL, TOPO_NEAR_ANY), ALL);
	done_with(&m);
}

static void nodes_of_minus_one(void **state)
{
	struct machine m = machine("vm-numa-1");
	struct cpus cpus = parsed("0-3");

	(void)state;
	assert_string_equal(near(&m, 0, "0-47", TOPO_NEAR_ANY), "0-47");
	assert_string_equal(near(&m, 2, "5", TOPO_NEAR_ANY), "5");
	done_with(&m);
	m = machine("one-nic"); /* its only node */
	assert_int_equal(topo_place_cpus(m.topo, PCI_NONE, m.topo->nics[0].place.pci, &cpus, &cpus),
			 TOPO_NEAR_NIC);
	assert_int_equal(cpus_count(&cpus), 4);
	done_with(&m);
}

static void a_node_whose_list_is_too_long_is_not_known(void **state)
{
	char list[CPUS_TEXT + 16] = "0", *end = list + 1;
	struct machine m;

	(void)state;
	assert_int_equal(sysfs_unpack(&m.tree, "a3-high"), 0);
	for (unsigned cpu = 2; end < list + CPUS_TEXT; cpu += 2)
		end += sprintf(end, ",%u", cpu);
	sysfs_put(&m.tree, "devices/system/node/node0/cpulist", list, 0);
	assert_int_equal(topo_scan(m.tree.root, &m.topo), TCPX_OK);
	topo_pairs_build(m.topo, NULL, NULL, &m.pairs);
	assert_int_equal(m.topo->nnodes, 2);
	assert_string_equal(near(&m, 0, "0-3", TOPO_NEAR_ANY), "0-3");
	done_with(&m);
}

static int pinned(void)
{
	struct cpus before, after;
	cpu_set_t one;
	unsigned cpu = 0;

	sys_cpu_allowed(&before);
	while (!cpus_has(&before, cpu))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		return 1;
	sys_cpu_allowed(&after);
	return cpus_count(&after) == 1 && cpus_has(&after, cpu) ? 0 : 2;
}

static void the_process_says_what_it_may_use(void **state)
{
	(void)state;
	assert_int_equal(in_child(pinned), 0);
}

/* Workers by node, with "list" allowed: "0 0 1 1", and each one's CPUs are its node's. */
static void workers_of(const struct machine *m, const char *list, unsigned count, const char *want)
{
	struct cpus allowed = parsed(list), cpus;
	char text[256] = "";

	for (unsigned i = 0; i < count; i++) {
		int node = topo_place_worker(m->topo, &allowed, i, count, &cpus);

		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d", i ? " " : "",
			 node);
		for (unsigned cpu = 0; cpu < 208; cpu++)
			assert_int_equal(cpus_has(&cpus, cpu),
					 cpus_has(&allowed, cpu) &&
						 (node < 0 || (cpu / 52) % 2 == (unsigned)node));
	}
	assert_string_equal(text, want);
}

static void workers_are_spread_over_the_nodes(void **state)
{
	struct machine m = machine("a3-high"), none = machine("no-gpu");

	(void)state;
	workers_of(&m, ALL, 16, "0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1");
	workers_of(&m, ALL, 2, "0 1");
	workers_of(&m, ALL, 3, "0 1 1");
	workers_of(&m, "0-2,52", 4, "0 0 0 1"); /* as the cpuset has CPUs of them */
	workers_of(&m, "52-55", 3, "1 1 1");
	workers_of(&m, "300", 2, "-1 -1"); /* of no node */
	none.topo->nnodes = 0;
	workers_of(&none, "0-3", 2, "-1 -1");
	done_with(&m);
	done_with(&none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_the_kernels),
		cmocka_unit_test(a_list_is_cut_at_a_comma),
		cmocka_unit_test(an_a3_host_has_two_halves),
		cmocka_unit_test(a_cpuset_cuts),
		cmocka_unit_test(the_nic_counts_before_the_gpu),
		cmocka_unit_test(nodes_of_minus_one),
		cmocka_unit_test(a_node_whose_list_is_too_long_is_not_known),
		cmocka_unit_test(the_process_says_what_it_may_use),
		cmocka_unit_test(workers_are_spread_over_the_nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

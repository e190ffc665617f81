/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a TCPX plugin: each way to get it wrong is told with the line that helps. */
#include "unit/unit.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "plugin/env.h"
#include "sysfs_tree.h"
#include "topo/rxdm_client.h"

#define G "NCCL_GPUDIRECTTCPX_"
#define CPUS0 "0-51,104-155"
#define CPUS1 "52-103,156-207"

static const struct gpudirect_nic nics[] = {{"eth1", CPUS0, 0, 8244},
					    {"eth2", CPUS0, 0, 8244},
					    {"eth3", CPUS1, 1, 8244},
					    {"eth4", CPUS1, 1, 8244}};
static const char *const ifaces[] = {"lo", "eth0", "eth1", "eth10", "eth2", "eth3", "eth4"};

static const struct gpudirect_place a3 = {
	.nics = nics, .nnics = 4, .ifaces = ifaces, .nifaces = 7, .nnodes = 2};

/* An environment: what a test changes of the recipe. */
struct env {
	struct gpudirect_setting settings[GPUDIRECT_SETTINGS_MAX];
	unsigned count;
};

static const char *get(void *arg, const char *name)
{
	const struct env *env = arg;

	for (unsigned i = 0; i < env->count; i++)
		if (!strcmp(env->settings[i].name, name))
			return env->settings[i].value;
	return NULL;
}

static void set(struct env *env, const char *name, const char *value)
{
	unsigned at = 0;

	while (at < env->count && strcmp(env->settings[at].name, name))
		at++;
	if (!value) {
		if (at < env->count)
			env->settings[at] = env->settings[--env->count];
		return;
	}
	env->count += at == env->count;
	assert_true(env->count <= GPUDIRECT_SETTINGS_MAX);
	env->settings[at].name = name;
	snprintf(env->settings[at].value, sizeof(env->settings[at].value), "%s", value);
}

static struct env recipe(const struct gpudirect_place *place)
{
	struct env none = {0}, env = {0};

	env.count = gpudirect_env_recipe(place, get, &none, env.settings, GPUDIRECT_SETTINGS_MAX);
	return env;
}

static unsigned check(const struct gpudirect_place *place, struct env *env,
		      struct gpudirect_problem *out)
{
	return gpudirect_env_check(place, get, env, out, GPUDIRECT_PROBLEMS_MAX);
}

/* The recipe with one variable changed (NULL: unset) has one problem, and its line cures it. */
static void assert_problem(const struct gpudirect_place *place, const char *name, const char *value,
			   int fatal, const char *what, const char *fix)
{
	struct gpudirect_problem found[GPUDIRECT_PROBLEMS_MAX];
	struct env env = recipe(place);
	unsigned count;

	set(&env, name, value);
	count = check(place, &env, found);
	if (count != 1 || found[0].fatal != fatal || !strstr(found[0].what, what) ||
	    strcmp(found[0].fix, fix))
		fail_msg("%s=%s: %u problems, the first %d \"%s\" \"%s\"", name,
			 value ? value : "(unset)", count, found[0].fatal, found[0].what,
			 found[0].fix);
}

static void the_recipe_of_an_a3_host(void **state)
{
	struct gpudirect_problem found[GPUDIRECT_PROBLEMS_MAX];
	struct env env = recipe(&a3);
	char line[1024];

	(void)state;
	assert_int_equal(check(&a3, &env, found), 0);
	assert_string_equal(get(&env, "NCCL_DYNAMIC_CHUNK_SIZE"), "524288");
	assert_string_equal(get(&env, "NCCL_NSOCKS_PERTHREAD"), "2");
	assert_string_equal(get(&env, G "SOCKET_IFNAME"), "=eth1,eth2,eth3,eth4");
	assert_string_equal(get(&env, G "CTRL_DEV"), "eth0");
	assert_string_equal(get(&env, G "UNIX_CLIENT_PREFIX"), "/run/tcpx");
	assert_string_equal(get(&env, G "TX_BINDINGS"), "eth1:8-21,112-125;eth2:8-21,112-125;"
							"eth3:60-73,164-177;eth4:60-73,164-177");
	assert_string_equal(get(&env, G "RX_BINDINGS"), "eth1:22-35,126-139;eth2:22-35,126-139;"
							"eth3:74-87,178-191;eth4:74-87,178-191");
	assert_string_equal(gpudirect_env_line("A", "eth1:8-21", line, sizeof(line)),
			    "export A=eth1:8-21");
	assert_string_equal(gpudirect_env_line("A", "a;b", line, sizeof(line)), "export A='a;b'");
	assert_string_equal(gpudirect_env_line("A", "it's", line, sizeof(line)),
			    "export A='it'\\''s'");
	assert_string_equal(gpudirect_env_line("A", "a;bcdef", line, 14), "export A='a;b");
}

static void the_users_values_win(void **state)
{
	struct gpudirect_setting out[GPUDIRECT_SETTINGS_MAX];
	struct env users = {0}, all = {0};

	(void)state;
	set(&users, "NCCL_DYNAMIC_CHUNK_SIZE", "1048576");
	set(&users, G "CTRL_DEV", "eth3");
	set(&users, G "RECV_SYNC", "1"); /* not of the recipe; shown all the same */
	all.count = gpudirect_env_recipe(&a3, get, &users, out, GPUDIRECT_SETTINGS_MAX);
	memcpy(all.settings, out, sizeof(out));
	assert_string_equal(get(&all, "NCCL_DYNAMIC_CHUNK_SIZE"), "1048576");
	assert_string_equal(get(&all, G "CTRL_DEV"), "eth3");
	assert_string_equal(get(&all, G "RECV_SYNC"), "1");
	assert_string_equal(get(&all, "NCCL_SOCKET_NTHREADS"), "1");
	for (unsigned i = 0; i < all.count; i++)
		assert_int_equal(out[i].users, get(&users, out[i].name) != NULL);
}

static void what_the_plugin_stumbles_over(void **state)
{
	const char *chunk = "NCCL_DYNAMIC_CHUNK_SIZE", *names = G "SOCKET_IFNAME";
	const char *all = "export " G "SOCKET_IFNAME='=eth1,eth2,eth3,eth4'";

	(void)state;
	assert_problem(&a3, chunk, NULL, 1, "hang", "export NCCL_DYNAMIC_CHUNK_SIZE=524288");
	assert_problem(&a3, chunk, "0", 1, "hang", "export NCCL_DYNAMIC_CHUNK_SIZE=524288");
	assert_problem(&a3, chunk, "512K", 1, "hang", "export NCCL_DYNAMIC_CHUNK_SIZE=524288");
	assert_problem(&a3, chunk, "131072", 1, "leak", "export NCCL_DYNAMIC_CHUNK_SIZE=524288");
	assert_problem(&a3, "NCCL_SOCKET_NTHREADS", "8", 1, "at most 8",
		       "export NCCL_NSOCKS_PERTHREAD=1");
	assert_problem(&a3, "NCCL_SOCKET_NTHREADS", "16", 1, "16 threads",
		       "export NCCL_SOCKET_NTHREADS=1");
	assert_problem(&a3, "NCCL_NSOCKS_PERTHREAD", "9", 0, "uses 1 instead",
		       "export NCCL_NSOCKS_PERTHREAD=1");
	assert_problem(&a3, "NCCL_NSOCKS_PERTHREAD", "-1", 0, "outside of 1 to 8",
		       "export NCCL_NSOCKS_PERTHREAD=1");
	assert_problem(&a3, names, NULL, 1, "every interface", all);
	assert_problem(&a3, names, "=eth1,eth2,eth3", 1, "does not select eth4", all);
	assert_problem(&a3, names, "eth1,eth2,eth3,eth4", 0, "eth10 as well", all);
	assert_problem(&a3, names, "^lo,eth0,eth1", 1, "does not select eth1", all);
	assert_problem(&a3, G "CTRL_DEV", "eth9", 1, "eth9: there is no such interface",
		       "export " G "CTRL_DEV=eth0");
	assert_problem(&a3, G "FLOW_STEERING_STRATEGY", "1", 1, "does not start",
		       "export " G "FLOW_STEERING_STRATEGY=3");
	assert_problem(&a3, "NCCL_USE_DMA_BUF", "0", 1, "registered", "export NCCL_USE_DMA_BUF=1");
	assert_problem(&a3, "NCCL_INLINE_THRESHOLD", "64", 1, "GPU memory",
		       "export NCCL_INLINE_THRESHOLD=0");
	assert_problem(&a3, G "SOCKET_FAMILY", "AF_INET6", 1, "v4",
		       "export " G "SOCKET_FAMILY=AF_INET");
	assert_problem(&a3, G "REPORT_LIFECYCLE", "1", 1, "RxDM exits",
		       "export " G "REPORT_LIFECYCLE=0");
	assert_problem(&a3, G "TELEMETRY_EXPORT_STATS_TO_FILE", "1", 1, "would crash",
		       "export " G "TELEMETRY_EXPORTER_PATH=/tmp/tcpx-telemetry");
	assert_problem(&a3, G "DEBUG_LEVEL", "5", 0, "not read", "unset " G "DEBUG_LEVEL");
}

static void names_of_nics(void **state)
{
	(void)state;
	assert_true(gpudirect_env_chooses("eth1", "eth10")); /* a prefix */
	assert_false(gpudirect_env_chooses("=eth1", "eth10"));
	assert_true(gpudirect_env_chooses("=eth2,eth1", "eth1"));
	assert_false(gpudirect_env_chooses("^eth1", "eth10"));
	assert_true(gpudirect_env_chooses("^lo,eth0,eth10", "eth1"));
	assert_true(gpudirect_env_chooses("^=eth1", "eth10"));
	assert_false(gpudirect_env_chooses("eth1,,eth2", "lo")); /* nothing is no prefix */
}

/* No "-" in a binding makes the plugin divide by 0. */
static void bindings(void **state)
{
	static const char *const good[] = {"eth1:8-21", "eth1:8-21,112-125;eth2:0-0;", "eth10:1-2",
					   ""};
	static const char *const bad[] = {"eth1:8",	"eth1",	     "eth1:",	   ":8-21",
					  "eth9:8-21",	"eth1:21-8", "eth1:8-21,", "eth1:8-21,9",
					  "eth1:-8-21", "eth1:8-",   "eth1:8-21x", "eth1:8 -21"};
	const char *fix = "export " G "TX_BINDINGS='eth1:8-21,112-125;eth2:8-21,112-125;"
			  "eth3:60-73,164-177;eth4:60-73,164-177'";
	struct gpudirect_problem found[GPUDIRECT_PROBLEMS_MAX];

	(void)state;
	for (unsigned i = 0; i < sizeof(good) / sizeof(*good); i++) {
		struct env env = recipe(&a3);

		set(&env, G "TX_BINDINGS", good[i]);
		if (check(&a3, &env, found))
			fail_msg("%s: %s", good[i], found[0].what);
	}
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_problem(&a3, G "TX_BINDINGS", bad[i], 1, bad[i], fix);
}

static void cpus_of_a_node(void **state)
{
	char out[64];

	(void)state;
	assert_int_equal(gpudirect_env_cpus(CPUS1, 0, out, sizeof(out)), 0);
	assert_string_equal(out, "74-87,178-191");
	assert_int_equal(gpudirect_env_cpus("0-3", 1, out, sizeof(out)), 0);
	assert_string_equal(out, "0-0");
	assert_int_equal(gpudirect_env_cpus("0-3", 0, out, sizeof(out)), 0);
	assert_string_equal(out, "1-1");
	assert_int_equal(gpudirect_env_cpus("0,2", 1, out, sizeof(out)), 0);
	assert_string_equal(out, "0-0,2-2"); /* too small to divide, and with its "-" */
	assert_int_equal(gpudirect_env_cpus(NULL, 1, out, sizeof(out)), -1);
	assert_int_equal(gpudirect_env_cpus("", 1, out, sizeof(out)), -1);
	assert_int_equal(gpudirect_env_cpus("4-2", 1, out, sizeof(out)), -1);
	assert_int_equal(gpudirect_env_cpus("0-x", 1, out, sizeof(out)), -1);
	assert_int_equal(gpudirect_env_cpus("0-51,104-155", 1, out, 8), -1);
}

static void nodes(void **state)
{
	struct gpudirect_nic nic = {"ens4", "0-3", -1, 1460};
	const char *const names[] = {"lo", "ens4"};
	struct gpudirect_place place = {
		.nics = &nic, .nnics = 1, .ifaces = names, .nifaces = 2, .nnodes = 1};
	struct gpudirect_problem found[GPUDIRECT_PROBLEMS_MAX];
	struct env env = recipe(&place);

	(void)state;
	assert_null(get(&env, G "CTRL_DEV")); /* no eth0: the NIC of the data */
	assert_int_equal(check(&place, &env, found), 1);
	assert_non_null(strstr(found[0].what, "node 1"));
	assert_string_equal(found[0].fix, "echo 0 > /sys/class/net/ens4/device/numa_node");
	nic.numa = GPUDIRECT_NUMA_UNTOLD; /* no device of a bus: any CPU */
	assert_int_equal(check(&place, &env, found), 0);
	nic.numa = GPUDIRECT_NUMA_NONE;
	place.nnodes = 2; /* then node 1 exists, and it works */
	assert_int_equal(check(&place, &env, found), 0);
	nic.numa = 0;
	nic.cpus = "0";
	env = recipe(&place);
	assert_string_equal(get(&env, G "TX_BINDINGS"), "ens4:0-0");
	assert_int_equal(check(&place, &env, found), 0);
	assert_problem(&place, G "TX_BINDINGS", NULL, 1, "divide by 0",
		       "export " G "TX_BINDINGS=ens4:0-0");
	nic.numa = 1;
	nic.cpus = ""; /* a node of memory alone: nothing to bind to */
	env = recipe(&place);
	assert_null(get(&env, G "TX_BINDINGS"));
	assert_int_equal(check(&place, &env, found), 1);
	assert_non_null(strstr(found[0].what, "node 1 of ens4 has no known CPUs"));
	assert_string_equal(found[0].fix, "echo 0 > /sys/class/net/ens4/device/numa_node");
	nic.numa = 0;
	assert_int_equal(check(&place, &env, found), 1);
	assert_string_equal(found[0].fix, "echo 1 > /sys/class/net/ens4/device/numa_node");
	set(&env, G "TX_BINDINGS", "ens4:0-3");
	set(&env, G "RX_BINDINGS", "ens4:0-3");
	assert_int_equal(check(&place, &env, found), 0);
}

static void fragments(void **state)
{
	struct gpudirect_place place = a3;
	struct gpudirect_nic slow = {"eth1", CPUS0, 0, 1500};
	struct gpudirect_problem found[GPUDIRECT_PROBLEMS_MAX];
	struct env env;

	(void)state;
	assert_int_equal(gpudirect_env_fragments(524288, 8244), 128);
	assert_int_equal(gpudirect_env_fragments(524288, 1500), 363); /* of 1448 bytes */
	assert_int_equal(gpudirect_env_fragments(524288, 0), 0);
	assert_int_equal(gpudirect_env_fragments(4948, 5000), 2);
	assert_int_equal(gpudirect_env_fragments(1, 1500), 1);
	place.message_bytes = 1900 * 4096;
	env = recipe(&place);
	assert_int_equal(check(&place, &env, found), 0);
	place.message_bytes++;
	env = recipe(&place);
	assert_int_equal(check(&place, &env, found), 4); /* each NIC */
	assert_string_equal(found[0].fix, "export TCPX_MESSAGE_BYTES=7782400");
	place = (struct gpudirect_place){.nics = &slow,
					 .nnics = 1,
					 .ifaces = ifaces,
					 .nifaces = 7,
					 .nnodes = 2,
					 .message_bytes = 4 << 20};
	env = recipe(&place);
	assert_int_equal(check(&place, &env, found), 1);
	assert_non_null(strstr(found[0].what, "2897 fragments"));
	assert_string_equal(found[0].fix, "export TCPX_MESSAGE_BYTES=2748416");
	place.message_bytes = 2748416; /* and that is enough */
	env = recipe(&place);
	assert_int_equal(check(&place, &env, found), 0);
}

static void rxdm(void **state)
{
	struct gpudirect_place place = a3;
	struct env env = {0};

	(void)state;
	assert_string_equal(gpudirect_env_prefix(get, &env), "/tmp"); /* not where RxDM is */
	place.rxdm_error = "nobody listens";
	assert_problem(&place, G "UNIX_CLIENT_PREFIX", NULL, 1, "not set",
		       "export " G "UNIX_CLIENT_PREFIX=/run/tcpx");
	assert_problem(&place, G "UNIX_CLIENT_PREFIX", "/run/other", 1,
		       "at /run/other: nobody listens", "export " G "UNIX_CLIENT_PREFIX=/run/tcpx");
}

/* A place filled from a scan: every NIC that owns a GPU, and RxDM's own words. */
static void a_place_of_a_recorded_machine(void **state)
{
	struct gpudirect_nic own[TOPO_NICS_MAX];
	const char *names[TOPO_NICS_MAX];
	struct gpudirect_place place = {.nics = own, .ifaces = names};
	struct gpudirect_problem found[GPUDIRECT_PROBLEMS_MAX];
	struct topo_rxdm_queues queues;
	struct sysfs_tree tree;
	struct topo_pairs pairs;
	struct topo *topo;
	struct env env, hand = recipe(&a3);

	(void)state;
	assert_int_equal(sysfs_unpack(&tree, "a3-high"), 0);
	assert_int_equal(topo_scan(tree.root, &topo), TCPX_OK);
	sysfs_remove(&tree);
	topo_pairs_build(topo, NULL, NULL, &pairs);
	place.nnodes = topo->nnodes;
	for (unsigned i = 0; i < topo->nnics; i++) {
		const struct topo_nic *nic = &topo->nics[i];
		int owns = 0;

		names[place.nifaces++] = nic->name;
		for (unsigned k = 0; k < pairs.count; k++)
			owns |= pairs.owners[k].nic == nic->place.pci;
		if (owns)
			own[place.nnics++] = (struct gpudirect_nic){
				nic->name, topo_node_cpus(topo, nic->place.numa), nic->place.numa,
				nic->mtu};
	}
	env = recipe(&place);
	assert_int_equal(env.count, hand.count);
	for (unsigned i = 0; i < env.count; i++)
		assert_string_equal(env.settings[i].value, hand.settings[i].value);
	set(&env, G "UNIX_CLIENT_PREFIX", "/nowhere/at/all");
	assert_int_equal(topo_rxdm_queues(gpudirect_env_prefix(get, &env), topo->gpus[0].place.pci,
					  clock_after(CLOCK_S_NS), &queues),
			 TCPX_ERR_REFUSED);
	place.rxdm_error = error_last()->what;
	assert_int_equal(check(&place, &env, found), 1);
	assert_non_null(strstr(found[0].what, "/nowhere/at/all/queue_ids_by_gpu"));
	topo_free(topo);
}

/* Nothing set at all: everything fatal is told, the worst first, within whatever room there is. */
static void an_empty_environment(void **state)
{
	struct gpudirect_problem found[GPUDIRECT_PROBLEMS_MAX], one;
	struct env env = {0};
	unsigned count = check(&a3, &env, found);

	(void)state;
	assert_int_equal(count, 2); /* chunk and names: the rest has defaults that work */
	assert_true(found[0].fatal && found[1].fatal);
	set(&env, G "DEBUG_LEVEL", "1");
	assert_int_equal(gpudirect_env_check(&a3, get, &env, &one, 1), 3);
	assert_true(one.fatal);
}

static void the_table(void **state)
{
	const struct gpudirect_var *var;

	(void)state;
	for (unsigned i = 0; (var = gpudirect_var(i)); i++) {
		assert_non_null(strstr(var->name, "NCCL_"));
		assert_true(var->meaning[0]);
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(gpudirect_var(k)->name, var->name);
	}
	assert_int_equal(gpudirect_env_number(get, &(struct env){0}, "NCCL_SOCKET_NTHREADS"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_recipe_of_an_a3_host),
		cmocka_unit_test(the_users_values_win),
		cmocka_unit_test(what_the_plugin_stumbles_over),
		cmocka_unit_test(names_of_nics),
		cmocka_unit_test(bindings),
		cmocka_unit_test(cpus_of_a_node),
		cmocka_unit_test(nodes),
		cmocka_unit_test(fragments),
		cmocka_unit_test(rxdm),
		cmocka_unit_test(a_place_of_a_recorded_machine),
		cmocka_unit_test(an_empty_environment),
		cmocka_unit_test(the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

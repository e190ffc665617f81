/* SPDX-License-Identifier: Apache-2.0 */
/* Loading ncclNet plugins: every version, once per object, and what is told of those that are
 * none. */
#include "ncclnet_rig.h"

#include "sys/fork.h"

static tcpx_status try_get(const char *path)
{
	struct net_plugin *plugin = NULL;
	tcpx_status status = rig_get(path, RIG_GUARD_NS, &plugin);

	assert_true((status == TCPX_OK) == (plugin != NULL));
	return status;
}

static void every_version(void **state)
{
	static const char *const paths[] = {RIG_FAKE("v6"), RIG_FAKE("v7"),  RIG_FAKE("v8"),
					    RIG_FAKE("v9"), RIG_FAKE("v10"), RIG_FAKE("v11"),
					    RIG_FAKE("v12")};

	(void)state;
	for (int version = 6; version <= 12; version++) {
		const struct net_plugin_device *device;
		struct net_plugin_info info;
		unsigned dev;
		struct rig rig;

		rig_open(&rig, paths[version - 6]);
		info = rig_info(&rig);
		assert_int_equal(info.version, version);
		assert_int_equal(info.exported, 1u << version);
		assert_string_equal(info.name, "fake");
		assert_int_equal(info.devices, 2);
		assert_int_equal(info.has_consumed, version >= 7);
		device = net_plugin_device(rig.plugin, 0);
		assert_string_equal(device->name, "fake0");
		assert_string_equal(device->pci_path, "/sys/devices/pci0000:00/0000:00:04.0");
		assert_int_equal(device->speed_mbps, 200000);
		assert_int_equal(device->ptr_support, 3);
		assert_int_equal(device->max_comms, 65536);
		assert_int_equal(device->max_recvs, 1);
		assert_int_equal(device->device_type, version >= 7);
		assert_int_equal(device->message_max, 1u << 30);
		assert_int_equal(net_plugin_find(rig.plugin, "fake1", &dev), TCPX_OK);
		assert_int_equal(dev, 1);
		assert_string_equal(net_plugin_device(rig.plugin, 1)->pci_path, "");
		assert_null(net_plugin_device(rig.plugin, 2));
		assert_int_equal(net_plugin_find(rig.plugin, "fake2", &dev), TCPX_ERR_NOT_FOUND);
		assert_said("fake0 fake1");
		rig_end(&rig);
	}
}

static void started_once(void **state)
{
	char link_path[] = "/tmp/ncclnet-XXXXXX", path[64];
	struct rig one, two;

	(void)state;
	assert_non_null(mkdtemp(link_path));
	snprintf(path, sizeof(path), "%s/other.so", link_path);
	assert_int_equal(symlink(RIG_FAKE("v7"), path), 0);
	rig_open(&one, RIG_FAKE("v7"));
	rig_open(&two, path);
	assert_ptr_equal(one.plugin, two.plugin);
	assert_int_equal(one.fake->inits, 1);
	assert_int_equal(rig_info(&one).refs, 2);
	unlink(path);
	/* Another name of the same file, which no path tells. */
	assert_int_equal(link(RIG_FAKE("v7"), path), 0);
	rig_end(&two);
	rig_open(&two, path);
	assert_ptr_equal(one.plugin, two.plugin);
	assert_int_equal(one.fake->inits, 1);
	unlink(path);
	rmdir(link_path);
	rig_end(&two);
	rig_end(&one);
}

static void wrong_path(void **state)
{
	(void)state;
	assert_int_equal(try_get("/nowhere/libnccl-net-tcpx.so"), TCPX_ERR_NOT_FOUND);
	assert_said("/nowhere/libnccl-net-tcpx.so");
	assert_int_equal(error_last()->system_errno, 2);
	if (access("/usr/local/tcpx/lib64/libnccl-net-tcpx.so", F_OK) &&
	    access("/var/lib/tcpx/lib64/libnccl-net-tcpx.so", F_OK)) {
		assert_int_equal(try_get(NULL), TCPX_ERR_NOT_FOUND);
		assert_said("/usr/local/tcpx/lib64/");
		assert_said("/var/lib/tcpx/lib64/");
	}
	assert_int_equal(try_get("/proc/self/maps"), TCPX_ERR_UNSUPPORTED);
}

static void no_table(void **state)
{
	(void)state;
	assert_int_equal(try_get(RIG_FAKE("no-table")), TCPX_ERR_VERSION);
	assert_said("ncclNetPlugin_v6");
	assert_int_equal(try_get(RIG_FAKE("no-isend")), TCPX_ERR_VERSION);
	assert_said("ncclNetPlugin_v7");
	assert_said("isend");
}

static void not_what_it_says(void **state)
{
	(void)state;
	assert_int_equal(try_get(RIG_FAKE("v7-as-v8")), TCPX_ERR_VERSION);
	assert_said("is not a v8");
	assert_int_equal(try_get(RIG_FAKE("v8-as-v7")), TCPX_ERR_VERSION);
	assert_said("is not a v7");
	assert_int_equal(try_get(RIG_FAKE("v9-as-v8")), TCPX_ERR_VERSION);
	assert_said("is not a v8");
	assert_int_equal(try_get(RIG_FAKE("wild-name")), TCPX_ERR_VERSION);
	assert_said("name of device 0");
}

/* It says why, and again: it is not started twice. */
static void init_fails(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(try_get(RIG_FAKE("init-fails")), TCPX_ERR_UNSUPPORTED);
		assert_said("init");
		assert_said("rc 3");
		assert_said("no unix client at /tmp");
	}
	assert_int_equal(rig_control(RIG_FAKE("init-fails"))->inits, 1);
}

static void no_devices(void **state)
{
	(void)state;
	assert_int_equal(try_get(RIG_FAKE("no-devices")), TCPX_ERR_UNSUPPORTED);
	assert_said("no NIC");
}

static void copy_file(const char *from, const char *to)
{
	char *bytes = malloc(1 << 20);
	FILE *in = fopen(from, "r"), *out = fopen(to, "w");
	size_t n;

	assert_true(bytes && in && out);
	while ((n = fread(bytes, 1, 1 << 20, in)) > 0)
		assert_int_equal(fwrite(bytes, 1, n, out), n);
	assert_int_equal(fclose(out), 0);
	fclose(in);
	free(bytes);
}

/* With an object of its own, which is not tried again. False: its time was over in dlopen. */
static bool blocks_in_init(int64_t ns)
{
	char place[] = "/tmp/ncclnet-XXXXXX", path[64];
	struct net_plugin *plugin = NULL;
	bool loaded = false;

	assert_non_null(mkdtemp(place));
	snprintf(path, sizeof(path), "%s/fake-net-init-blocks.so", place);
	copy_file(RIG_FAKE("init-blocks"), path);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rig_get(path, ns, &plugin), TCPX_ERR_TIMED_OUT);
		loaded = !strstr(error_last()->what, "dlopen of");
		if (loaded)
			assert_said("init of fake-net-init-blocks.so");
	}
	assert_null(plugin);
	unlink(path);
	rmdir(place);
	return loaded;
}

static void init_blocks(void **state)
{
	int64_t ns = RIG_SHORT_NS;

	(void)state;
	while (!blocks_in_init(ns)) {
		ns *= 2;
		assert_true(ns < RIG_GUARD_NS);
	}
	/* Others are not kept from loading. */
	assert_int_equal(try_get(RIG_FAKE("v9")), TCPX_OK);
}

/* One that refuses, and was there before us. */
static int shared_in_child(void)
{
	void *before = dlopen(RIG_FAKE("init-fails"), RTLD_NOW);

	if (!before || try_get(RIG_FAKE("init-fails")) != TCPX_ERR_UNSUPPORTED)
		return 1;
	return strstr(error_last()->next, "another component of this process") ? 0 : 2;
}

static void somebody_elses(void **state)
{
	(void)state;
	assert_int_equal(in_child(shared_in_child), 0);
}

#define IMAGES_MAX 32

static int wraps;

void __real_net_traced_wrap(struct net_plugin *plugin);
void __wrap_net_traced_wrap(struct net_plugin *plugin);
void __wrap_net_traced_wrap(struct net_plugin *plugin)
{
	wraps++;
	__real_net_traced_wrap(plugin);
}

/* One plugin too many is refused, and nothing is made for it that stays. */
static int too_many_in_child(void)
{
	char place[] = "/tmp/ncclnet-XXXXXX", path[64];
	tcpx_status status = TCPX_OK;
	int count = 0;

	if (!mkdtemp(place))
		return 1;
	for (; count <= IMAGES_MAX && status == TCPX_OK; count++) {
		snprintf(path, sizeof(path), "%s/fake-net-%d.so", place, count);
		copy_file(RIG_FAKE("v7"), path);
		status = try_get(path);
		unlink(path);
	}
	rmdir(place);
	if (status != TCPX_ERR_LIMIT || count != IMAGES_MAX + 1)
		return 2;
	return wraps == IMAGES_MAX ? 0 : 3;
}

static void too_many(void **state)
{
	(void)state;
	assert_int_equal(in_child(too_many_in_child), 0);
}

static int get_in_child(void)
{
	struct net_plugin *plugin;

	return rig_get(RIG_FAKE("v7"), RIG_GUARD_NS, &plugin) == TCPX_ERR_FORKED ? 0 : 1;
}

static void not_in_a_child(void **state)
{
	(void)state;
	assert_int_equal(try_get(RIG_FAKE("v7")), TCPX_OK);
	assert_int_equal(in_child(get_in_child), 0);
}

struct asked {
	int times;
	char name[64];
	tcpx_status answer;
};

static tcpx_status ask(void *arg, const char *name)
{
	struct asked *asked = arg;

	asked->times++;
	snprintf(asked->name, sizeof(asked->name), "%s", name);
	return asked->answer ? error_set(asked->answer, 0, "not in this environment") : TCPX_OK;
}

/* Before a plugin is started its user is asked, with its name; one that is refused is not started,
 * and may be tried again. */
static void asked_before_start(void **state)
{
	struct asked asked = {.answer = TCPX_ERR_UNSUPPORTED};
	struct net_plugin_opts opts = {.path = RIG_FAKE("asks-first"),
				       .timeout_ns = RIG_GUARD_NS,
				       .before_start = ask,
				       .arg = &asked};
	struct net_plugin *plugin = NULL;

	(void)state;
	for (int i = 1; i <= 2; i++) {
		assert_int_equal(net_plugin_get(&opts, &plugin), TCPX_ERR_UNSUPPORTED);
		assert_said("not in this environment");
		assert_int_equal(asked.times, i);
		assert_int_equal(rig_control(opts.path)->inits, 0);
	}
	assert_string_equal(asked.name, "fake");
	asked.answer = TCPX_OK;
	assert_int_equal(net_plugin_get(&opts, &plugin), TCPX_OK);
	assert_int_equal(rig_control(opts.path)->inits, 1);
	net_plugin_put(plugin);
	assert_int_equal(net_plugin_get(&opts, &plugin), TCPX_OK); /* it is started */
	assert_int_equal(asked.times, 3);
	net_plugin_put(plugin);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(somebody_elses), /* before there are plugins, and the next one */
		cmocka_unit_test(too_many),	      cmocka_unit_test(every_version),
		cmocka_unit_test(started_once),	      cmocka_unit_test(wrong_path),
		cmocka_unit_test(no_table),	      cmocka_unit_test(not_what_it_says),
		cmocka_unit_test(init_fails),	      cmocka_unit_test(no_devices),
		cmocka_unit_test(init_blocks),	      cmocka_unit_test(not_in_a_child),
		cmocka_unit_test(asked_before_start),
	};

	if (sys_fork_init())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}

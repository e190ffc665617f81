/* SPDX-License-Identifier: Apache-2.0 */
/* Options: which name wins, what is refused and how it is said, which names are known. */
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"

/* An environment of the test's own. */
static struct {
	const char *name, *value;
} fake[4];

static const char *fake_get(const char *name)
{
	for (unsigned i = 0; i < 4; i++)
		if (fake[i].name && !strcmp(fake[i].name, name))
			return fake[i].value;
	return NULL;
}

static struct config_value resolve(enum config_id id, const char *name, const char *value,
				   const char *name2, const char *value2)
{
	struct config_value out;

	memset(fake, 0, sizeof(fake));
	fake[0].name = name;
	fake[0].value = value;
	fake[1].name = name2;
	fake[1].value = value2;
	config_resolve(config_row(id), fake_get, &out);
	return out;
}

static uint64_t value_of(enum config_id id, const char *name, const char *value)
{
	struct config_value out = resolve(id, name, value, NULL, NULL);

	assert_null(out.wrong);
	assert_int_equal(out.source != CONFIG_DEFAULT, 1);
	return out.u64;
}

static void every_row_is_sound(void **state)
{
	const struct config_row *row;
	uint64_t value;

	(void)state;
	for (unsigned i = 0; (row = config_row(i)) != NULL; i++) {
		if (config_parse(row, 0, row->default_text, &value))
			fail_msg("default of %s does not parse", row->name);
		assert_int_equal(strncmp(row->name, "TCPX_", 5), 0);
		assert_true(strlen(row->help) > 10 && strlen(row->help) < 100);
		assert_true(strlen(config_range(i)) > 0);
		assert_true(strlen(config_type_name(row->type)) > 0);
		assert_true(config_known(row->name, strlen(row->name)));
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(row->name, config_row(k)->name);
	}
	assert_int_equal(CONFIG_IDS, 74);
}

/* What a user of the predecessor sets: compat-contract, "Environment". */
static void aliases_reach_their_option(void **state)
{
	static const struct {
		const char *alias, *text;
		enum config_id id;
		uint64_t value;
	} rows[] = {
		{"UCCL_TCPX_NUM_CHANNELS", "4", CONFIG_CHANNELS, 4},
		{"UCCL_TCPX_PERF_SIZE", "64MB", CONFIG_PERF_SIZE, 64u << 20},
		{"UCCL_TCPX_PERF_ITERS", "10", CONFIG_PERF_ITERS, 10},
		{"UCCL_TCPX_CHUNK_BYTES", "512KB", CONFIG_CHUNK_BYTES, 512u << 10},
		{"UCCL_TCPX_CHUNK_BYTES", "524288", CONFIG_CHUNK_BYTES, 512u << 10},
		{"NCCL_P2P_NET_CHUNKSIZE", "131072", CONFIG_CHUNK_BYTES, 128u << 10},
		{"UCCL_TCPX_MAX_SEND_INFLIGHT", "8", CONFIG_MAX_SEND_INFLIGHT, 8},
		{"UCCL_TCPX_MAX_RECV_INFLIGHT", "9", CONFIG_MAX_RECV_INFLIGHT, 9},
		{"UCCL_TCPX_BOOTSTRAP_PORT_BASE", "12345", CONFIG_PORT_BASE, 12345},
		{"UCCL_TCPX_OOB_PORT", "28900", CONFIG_OOB_PORT, 28900},
		{"UCCL_TCPX_PORT_RETRIES", "3", CONFIG_PORT_RETRIES, 3},
		{"UCCL_TCPX_LOCAL_DEVICE", "5", CONFIG_LOCAL_DEVICE, 5},
		{"UCCL_TCPX_DEVICE_IDX", "6", CONFIG_LOCAL_DEVICE, 6},
		{"UCCL_TCPX_HOST_RECV_DEBUG", "1", CONFIG_HOST_RECV_DEBUG, 1},
		{"UCCL_TCPX_DEBUG", "1", CONFIG_LOG, TCPX_LOG_TRACE},
		{"UCCL_TCPX_LAUNCH_DEBUG", "1", CONFIG_LOG, TCPX_LOG_TRACE},
		{"TCPX_DEBUG", "0", CONFIG_LOG, TCPX_LOG_WARN},
		{"TCPX_DEBUG", "2", CONFIG_LOG, TCPX_LOG_TRACE},
		{"TCPX_DEBUG", "info", CONFIG_LOG, TCPX_LOG_INFO},
		{"TCPX_PERF", "1", CONFIG_PERF, 1},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(value_of(rows[i].id, rows[i].alias, rows[i].text), rows[i].value);
		assert_true(config_known(rows[i].alias, strlen(rows[i].alias)));
	}
	assert_string_equal(
		resolve(CONFIG_PLUGIN_PATH, "UCCL_TCPX_PLUGIN_PATH", "/x.so", NULL, NULL).text,
		"/x.so");
	assert_string_equal(
		resolve(CONFIG_UNPACK_IMPL, "UCCL_TCPX_UNPACK_IMPL", "d2d", NULL, NULL).text,
		"d2d");
	assert_string_equal(
		resolve(CONFIG_CTRL_IP, "UCCL_TCPX_CTRL_IP", "10.0.0.1", NULL, NULL).text,
		"10.0.0.1");
}

static void our_name_beats_the_aliases(void **state)
{
	struct config_value value;

	(void)state;
	value = resolve(CONFIG_CHUNK_BYTES, "UCCL_TCPX_CHUNK_BYTES", "1M", "TCPX_CHUNK_BYTES",
			"2M");
	assert_int_equal(value.u64, 2u << 20);
	assert_int_equal(value.source, CONFIG_ENVIRONMENT);
	value = resolve(CONFIG_CHUNK_BYTES, "NCCL_P2P_NET_CHUNKSIZE", "1M", "UCCL_TCPX_CHUNK_BYTES",
			"4M");
	assert_int_equal(value.u64, 4u << 20);
	assert_int_equal(value.source, CONFIG_ALIAS);
	/* empty is unset */
	value = resolve(CONFIG_CHUNK_BYTES, "TCPX_CHUNK_BYTES", "", "UCCL_TCPX_CHUNK_BYTES", "4M");
	assert_int_equal(value.u64, 4u << 20);
	value = resolve(CONFIG_CHUNK_BYTES, NULL, NULL, NULL, NULL);
	assert_int_equal(value.u64, 512u << 10);
	assert_int_equal(value.source, CONFIG_DEFAULT);
	assert_string_equal(value.text, "512K");
}

static void wrong_values_leave_the_default(void **state)
{
	static const struct {
		enum config_id id;
		const char *name, *text;
	} rows[] = {
		{CONFIG_CHUNK_BYTES, "TCPX_CHUNK_BYTES", "4095"},
		{CONFIG_CHUNK_BYTES, "TCPX_CHUNK_BYTES", "17M"},
		{CONFIG_CHUNK_BYTES, "TCPX_CHUNK_BYTES", "many"},
		{CONFIG_CHANNELS, "TCPX_CHANNELS", "65"},
		{CONFIG_CHANNELS, "TCPX_CHANNELS", "-1"},
		{CONFIG_CHANNELS, "TCPX_CHANNELS", "99999999999999999999999"},
		{CONFIG_SILENT_MS, "TCPX_SILENT_MS", "999"},
		{CONFIG_SILENT_MS, "TCPX_SILENT_MS", "60001"},
		{CONFIG_SILENT_MS, "TCPX_SILENT_MS", "auto"},
		{CONFIG_STOPPED_MS, "TCPX_STOPPED_MS", "2999"},
		{CONFIG_STOPPED_MS, "TCPX_STOPPED_MS", "600001"},
		{CONFIG_INLINE_BYTES, "TCPX_INLINE_BYTES", "8193"},
		{CONFIG_LOCAL, "TCPX_LOCAL", "2"},
		{CONFIG_LOCAL, "TCPX_LOCAL", "maybe"},
		{CONFIG_LOG, "TCPX_LOG", "5"},
		{CONFIG_LOG, "TCPX_LOG", "loud"},
		{CONFIG_LOG, "TCPX_DEBUG", "loud"},
		{CONFIG_PORT_BASE, "TCPX_PORT_BASE", "0"},
		{CONFIG_PORT_BASE, "TCPX_PORT_BASE", "65536"},
		{CONFIG_SOURCE_PORTS, "TCPX_SOURCE_PORTS", "5"},
		{CONFIG_SOURCE_PORTS, "TCPX_SOURCE_PORTS", "7-5"},
		{CONFIG_SOURCE_PORTS, "TCPX_SOURCE_PORTS", "0-5"},
		{CONFIG_SOURCE_PORTS, "TCPX_SOURCE_PORTS", "1-65536"},
		{CONFIG_SOURCE_PORTS, "TCPX_SOURCE_PORTS", "x-9"},
		{CONFIG_SOURCE_PORTS, "TCPX_SOURCE_PORTS", "1-"},
		{CONFIG_SOURCE_PORTS, "TCPX_SOURCE_PORTS", "100000000-2"},
		{CONFIG_CONGESTION, "TCPX_CONGESTION", "a-name-that-is-too-long"},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct config_value value =
			resolve(rows[i].id, rows[i].name, rows[i].text, NULL, NULL);
		struct config_value unset = resolve(rows[i].id, NULL, NULL, NULL, NULL);

		if (!value.wrong)
			fail_msg("%s=%s was accepted", rows[i].name, rows[i].text);
		assert_int_equal(strncmp(value.wrong, rows[i].name, strlen(rows[i].name)), 0);
		assert_string_equal(value.wrong_text, rows[i].text);
		assert_int_equal(value.u64, unset.u64);
		assert_string_equal(value.text, unset.text);
		assert_int_equal(value.source, CONFIG_DEFAULT);
	}
}

static void limits_themselves_are_right(void **state)
{
	(void)state;
	assert_int_equal(value_of(CONFIG_CHUNK_BYTES, "TCPX_CHUNK_BYTES", "4K"), 4096);
	assert_int_equal(value_of(CONFIG_CHUNK_BYTES, "TCPX_CHUNK_BYTES", "16M"), 16u << 20);
	assert_int_equal(value_of(CONFIG_CHANNELS, "TCPX_CHANNELS", "64"), 64);
	assert_int_equal(value_of(CONFIG_CHANNELS, "TCPX_CHANNELS", "auto"), 0);
	assert_int_equal(value_of(CONFIG_SILENT_MS, "TCPX_SILENT_MS", "1000"), 1000);
	assert_int_equal(value_of(CONFIG_INLINE_BYTES, "TCPX_INLINE_BYTES", "0"), 0);
	assert_int_equal(value_of(CONFIG_LOCAL, "TCPX_LOCAL", "off"), 0);
	assert_int_equal(value_of(CONFIG_LOCAL, "TCPX_LOCAL", "YES"), 1);
	assert_int_equal(value_of(CONFIG_LOG, "TCPX_LOG", "Trace"), TCPX_LOG_TRACE);
	assert_int_equal(value_of(CONFIG_LOG, "TCPX_LOG", "warning"), TCPX_LOG_WARN);
	assert_int_equal(value_of(CONFIG_LOG, "TCPX_LOG", "3"), TCPX_LOG_DEBUG);
	assert_int_equal(value_of(CONFIG_GPU_COPY, "TCPX_GPU_COPY", "auto"), CONFIG_COPIES_AUTO);
	assert_int_equal(value_of(CONFIG_GPU_COPY, "TCPX_GPU_COPY", "Engine"),
			 CONFIG_COPIES_ENGINE);
	assert_int_equal(value_of(CONFIG_GPU_COPY, "TCPX_GPU_COPY", "kernel"),
			 CONFIG_COPIES_KERNEL);
	assert_int_equal(value_of(CONFIG_SOURCE_PORTS, "TCPX_SOURCE_PORTS", "1-65535"),
			 1u << 16 | 65535);
	assert_int_equal(value_of(CONFIG_SOURCE_PORTS, "TCPX_SOURCE_PORTS", "40000-40000"),
			 40000u << 16 | 40000);
}

static void typing_errors_find_their_name(void **state)
{
	static const struct {
		const char *name, *nearest;
	} rows[] = {
		{"TCPX_CHANELS", "TCPX_CHANNELS"},
		{"TCPX_CHNANELS", "TCPX_CHANNELS"},
		{"TCPX_CHUNKBYTES", "TCPX_CHUNK_BYTES"},
		{"UCCL_TCPX_NUM_CHANNEL", "TCPX_CHANNELS"},
		{"UCCL_TCPX_PORT_RETRY", "TCPX_PORT_RETRIES"},
		{"TCPX_LOGG", "TCPX_LOG"},
		{"TCPX_KEYFILE", "TCPX_KEY_FILE"},
		{"TCPX_QUITE_ANOTHER_THING_ALTOGETHER", ""},
		{"TCPX_A_NAME_THAT_IS_FAR_LONGER_THAN_ANY_OPTION_COULD_POSSIBLY_BE_IN_THE_TABLE",
		 ""},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_false(config_known(rows[i].name, strlen(rows[i].name)));
		assert_string_equal(config_nearest(rows[i].name, strlen(rows[i].name)),
				    rows[i].nearest);
	}
	assert_true(config_known("TCPX_SSH_CMD", 12)); /* the predecessor's scripts */
	assert_false(config_known("TCPX_", 5));
	assert_false(config_known("TCPX_LO", 7));
}

static char first_lines[4][256];
static int first_count;

static void keep(void *arg, enum tcpx_log_level level, const char *line)
{
	(void)arg;
	if (level <= TCPX_LOG_INFO && first_count < 4)
		snprintf(first_lines[first_count++], sizeof(first_lines[0]), "%s", line);
}

/* In a child: the options are read once in a process. */
static int child(void)
{
	setenv("TCPX_LOG", "info", 1);
	setenv("TCPX_CHUNK_BYTES", "1K", 1);
	setenv("TCPX_BIND", "eth1,eth2", 1);
	setenv("UCCL_TCPX_NUM_CHANNELS", "3", 1);
	log_sink_set(keep, NULL, TCPX_LOG_INFO);
	if (config_u64(CONFIG_CHUNK_BYTES) != 512 << 10 || config_u64(CONFIG_CHANNELS) != 3)
		return 2;
	setenv("TCPX_BIND", "changed", 1);
	setenv("UCCL_TCPX_NUM_CHANNELS", "9", 1);
	if (strcmp(config_text(CONFIG_BIND), "eth1,eth2") || config_u64(CONFIG_CHANNELS) != 3)
		return 3;
	if (config_u64(CONFIG_LOG) != TCPX_LOG_INFO || !config_bool(CONFIG_LOCAL))
		return 4;
	if (first_count != 1)
		return 5;
	if (strcmp(first_lines[0], "TCPX_CHUNK_BYTES=1K is not in 4K..16M (bytes); using the "
				   "default 512K"))
		return 6;
	return 0;
}

static void the_environment_is_read_once(void **state)
{
	(void)state;
	assert_int_equal(in_child(child), 0);
}

#define SETS 5000

static _Atomic int all_set;

/* Reads until all is set; returns NULL if each value that was read is whole. */
static void *read_chunk(void *arg)
{
	do {
		const struct config_value *value = config_value(CONFIG_CHUNK_BYTES);

		if (value->source == CONFIG_SET && value->u64 != strtoull(value->text, NULL, 10))
			return arg;
	} while (!atomic_load(&all_set));
	return NULL;
}

/* A value that somebody reads stays as it is while another thread sets the option. */
static void a_value_that_was_read_stays(void **state)
{
	const char *const texts[] = {"65536", "131072"};
	const struct config_value *before;
	pthread_t thread;
	void *torn;

	(void)state;
	assert_int_equal(config_set("TCPX_CHUNK_BYTES", texts[0]), TCPX_OK);
	before = config_value(CONFIG_CHUNK_BYTES);
	assert_int_equal(pthread_create(&thread, NULL, read_chunk, (void *)texts), 0);
	for (int i = 1; i < SETS; i++)
		assert_int_equal(config_set("TCPX_CHUNK_BYTES", texts[i % 2]), TCPX_OK);
	atomic_store(&all_set, 1);
	assert_int_equal(pthread_join(thread, &torn), 0);
	assert_null(torn);
	assert_int_equal(config_u64(CONFIG_CHUNK_BYTES), 131072);
	assert_int_equal(before->u64, 65536);
	assert_string_equal(before->text, "65536");
	assert_int_equal(config_set("TCPX_CHUNK_BYTES", ""), TCPX_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_environment_is_read_once), /* before anybody reads it here */
		cmocka_unit_test(every_row_is_sound),
		cmocka_unit_test(aliases_reach_their_option),
		cmocka_unit_test(our_name_beats_the_aliases),
		cmocka_unit_test(wrong_values_leave_the_default),
		cmocka_unit_test(limits_themselves_are_right),
		cmocka_unit_test(typing_errors_find_their_name),
		cmocka_unit_test(a_value_that_was_read_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

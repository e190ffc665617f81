/* SPDX-License-Identifier: Apache-2.0 */
/* The doors that need no session: version, features, options, byte counts, status texts. */
#include "unit.h"

#include <stdlib.h>

#include <tcpx/tcpx.h>

#include "api/checks.h"

static int find(const char *name, tcpx_option *out_option)
{
	for (uint32_t i = 0; tcpx_option_get(i, out_option) == TCPX_OK; i++)
		if (!strcmp(out_option->name, name))
			return 1;
	return 0;
}

static void options_tell_value_and_source(void **state)
{
	tcpx_option option = {.sz = sizeof(option)};
	uint32_t count = 0;

	(void)state;
	while (tcpx_option_get(count, &option) == TCPX_OK) {
		assert_non_null(option.alias);
		assert_true(*option.type && *option.range && *option.help && *option.source);
		count++;
	}
	assert_true(count > 20);
	assert_int_equal(tcpx_option_get(UINT32_MAX, &option), TCPX_ERR_NOT_FOUND);
	assert_int_equal(tcpx_option_get(0, NULL), TCPX_ERR_INVALID);

	assert_true(find("TCPX_CHUNK_BYTES", &option));
	assert_string_equal(option.value, "1M");
	assert_string_equal(option.source, "environment");
	assert_string_equal(option.default_text, "512K");
	assert_string_equal(option.range, "4K..16M");
	assert_string_equal(option.type, "bytes");
	assert_true(find("TCPX_CHANNELS", &option));
	assert_string_equal(option.value, "3");
	assert_string_equal(option.source, "alias");
	assert_true(find("TCPX_SILENT_MS", &option));
	assert_string_equal(option.value, "5000"); /* a wrong one was refused */
	assert_string_equal(option.source, "default");
	assert_true(find("TCPX_BIND", &option));
	assert_string_equal(option.value, getenv("TCPX_BIND")); /* however long it is */
}

static void unknown_variables_are_named(void **state)
{
	const char *nearest = NULL;
	unsigned found = 0;
	char name[64];

	(void)state;
	for (uint32_t i = 0; !tcpx_option_unknown(i, name, sizeof(name), &nearest); i++) {
		if (!strcmp(name, "TCPX_CHUNK_BYTE")) {
			assert_string_equal(nearest, "TCPX_CHUNK_BYTES");
			found |= 1;
		}
		if (!strcmp(name, "UCCL_TCPX_NUM_CHANELS")) {
			assert_string_equal(nearest, "TCPX_CHANNELS");
			found |= 2;
		}
		assert_string_not_equal(name, "UCCL_TCPX_DEBUG");
		assert_string_not_equal(name, "UCCL_TCPX_LAUNCH_DEBUG");
	}
	assert_int_equal(found, 3);
	assert_int_equal(tcpx_option_unknown(0, name, 5, &nearest), TCPX_OK); /* cut, terminated */
	assert_int_equal(strlen(name), 4);
	assert_int_equal(tcpx_option_unknown(0, NULL, 5, &nearest), TCPX_ERR_INVALID);
	assert_int_equal(tcpx_option_unknown(0, name, 0, &nearest), TCPX_ERR_INVALID);
	assert_int_equal(tcpx_option_unknown(0, name, 5, NULL), TCPX_ERR_INVALID);
}

static void features_have_reasons(void **state)
{
	tcpx_feature feature = {.sz = sizeof(feature)};
	int tcp = 0, cuda = 0;
	uint32_t i;

	(void)state;
	for (i = 0; tcpx_feature_get(i, &feature) == TCPX_OK; i++) {
		assert_true(*feature.name && *feature.reason);
		if (!strcmp(feature.name, "tcp"))
			tcp = feature.built;
		if (!strcmp(feature.name, "cuda"))
			cuda = feature.built;
	}
	assert_true(i >= 5 && tcp == 1 && cuda == 1);
	assert_int_equal(tcpx_feature_get(i, &feature), TCPX_ERR_NOT_FOUND);
	assert_int_equal(tcpx_feature_get(0, NULL), TCPX_ERR_INVALID);
}

static void version_is_the_headers(void **state)
{
	char text[32];

	(void)state;
	snprintf(text, sizeof(text), "%d.%d.%d", TCPX_VERSION_MAJOR, TCPX_VERSION_MINOR,
		 TCPX_VERSION_PATCH);
	assert_string_equal(tcpx_version(), text);
}

static void byte_counts_name_what_is_wrong(void **state)
{
	uint64_t bytes = 7;

	(void)state;
	assert_int_equal(tcpx_parse_bytes("64KB", &bytes), TCPX_OK);
	assert_int_equal(bytes, 65536);
	assert_int_equal(tcpx_parse_bytes("64Q", &bytes), TCPX_ERR_INVALID);
	assert_int_equal(bytes, 65536);
	assert_int_equal(tcpx_last_error()->status, TCPX_ERR_INVALID);
	assert_non_null(strstr(tcpx_last_error()->what, "64Q"));
	assert_int_equal(tcpx_parse_bytes(NULL, &bytes), TCPX_ERR_INVALID);
	assert_int_equal(tcpx_parse_bytes("1", NULL), TCPX_ERR_INVALID);
	assert_string_equal(tcpx_status_name(TCPX_ERR_INVALID), "ERR_INVALID");
	assert_string_equal(tcpx_status_text(TCPX_OK), "success");
	assert_string_equal(tcpx_status_next(TCPX_OK), "");
}

static const tcpx_option *option_named(const char *name)
{
	static tcpx_option option = {.sz = sizeof(option)};

	for (uint32_t i = 0; tcpx_option_get(i, &option) == TCPX_OK; i++)
		if (!strcmp(option.name, name))
			return &option;
	return NULL;
}

/* In force until a session reads it; then it stays, for all of them. */
static void options_are_set(void **state)
{
	tcpx_session_opts wrong = {.sz = sizeof(wrong), .bind = "no-such-interface"};
	tcpx_session *session;

	(void)state;
	assert_int_equal(tcpx_option_set("TCPX_CHUNK_BYTES", "2M"), TCPX_OK);
	assert_string_equal(option_named("TCPX_CHUNK_BYTES")->value, "2M");
	assert_string_equal(option_named("TCPX_CHUNK_BYTES")->source, "set");
	assert_int_equal(tcpx_option_set("TCPX_CHUNK_BYTES", ""), TCPX_OK);
	assert_string_equal(option_named("TCPX_CHUNK_BYTES")->value, "512K");
	assert_int_equal(tcpx_option_set("TCPX_CHUNK_BYTES", "2"), TCPX_ERR_INVALID);
	assert_non_null(strstr(tcpx_last_error()->what, "4K..16M"));
	assert_string_equal(option_named("TCPX_CHUNK_BYTES")->value, "512K");
	assert_int_equal(tcpx_option_set("TCPX_CHUNK_BYTE", "2M"), TCPX_ERR_NOT_FOUND);
	assert_non_null(strstr(tcpx_last_error()->next, "TCPX_CHUNK_BYTES"));
	assert_int_equal(tcpx_option_set(NULL, "1"), TCPX_ERR_INVALID);
	assert_int_equal(tcpx_option_set("TCPX_PIN", NULL), TCPX_ERR_INVALID);
	assert_int_equal(tcpx_option_set("TCPX_BIND", "localhost"), TCPX_OK);
	assert_int_equal(tcpx_session_open(&wrong, &session), TCPX_ERR_ADDRESS); /* fixes nothing */
	assert_int_equal(tcpx_option_set("TCPX_PIN", "0"), TCPX_OK);
	assert_int_equal(tcpx_option_set("TCPX_PIN", ""), TCPX_OK);
	assert_int_equal(tcpx_session_open(NULL, &session), TCPX_OK);
	assert_int_equal(tcpx_option_set("TCPX_PIN", "0"), TCPX_ERR_STATE);
	assert_non_null(strstr(tcpx_last_error()->what, "TCPX_PIN is already 1"));
	assert_int_equal(tcpx_option_set("TCPX_PIN", "1"), TCPX_OK); /* that it is */
	assert_int_equal(tcpx_option_set("TCPX_PIN", "yes"), TCPX_OK);
	assert_int_equal(tcpx_option_set("TCPX_CHUNK_BYTES", "524288"), TCPX_OK);
	tcpx_session_close(session);
}

/* A session's flags: its own, whatever the process has. */
static void flags_are_set_and_taken_away(void **state)
{
	tcpx_session_opts opts = {.sz = sizeof(opts), .flags = TCPX_SESSION_LOCAL_ONLY};
	tcpx_session *session;

	(void)state;
	assert_int_equal(tcpx_session_open(&opts, &session), TCPX_ERR_INVALID); /* TCPX_LOCAL=0 */
	assert_non_null(strstr(tcpx_last_error()->what, "NO_LOCAL"));
	assert_int_equal(tcpx_session_opts_set(&opts, "TCPX_LOCAL", "1"), TCPX_OK);
	assert_int_equal(opts.flags, TCPX_SESSION_LOCAL_ONLY);
	assert_int_equal(tcpx_session_open(&opts, &session), TCPX_OK);
	tcpx_session_close(session);
	assert_int_equal(tcpx_session_opts_set(&opts, "TCPX_LOCAL", "0"), TCPX_OK);
	assert_int_equal(tcpx_session_open(&opts, &session), TCPX_ERR_INVALID);
	opts.flags = 0;
	opts.without = 1ull << 40;
	assert_int_equal(tcpx_session_open(&opts, &session), TCPX_ERR_INVALID);
	assert_int_equal(tcpx_session_opts_set(&opts, "TCPX_STRICT_CANCEL", "1"), TCPX_OK);
	assert_true(opts.flags & TCPX_SESSION_STRICT_CANCEL);
	assert_int_equal(tcpx_session_opts_set(&opts, "TCPX_STRICT_CANCEL", "0"), TCPX_OK);
	assert_false(opts.flags & TCPX_SESSION_STRICT_CANCEL);
	assert_true(opts.without & TCPX_SESSION_STRICT_CANCEL);
}

static void options_are_parsed(void **state)
{
	uint64_t value = 7;

	(void)state;
	assert_int_equal(tcpx_option_parse("TCPX_CHUNK_BYTES", "2M", &value), TCPX_OK);
	assert_int_equal(value, 2 << 20);
	assert_int_equal(tcpx_option_parse("TCPX_CHUNK_BYTES", "", &value), TCPX_OK);
	assert_int_equal(value, 512 << 10);
	assert_int_equal(tcpx_option_parse("TCPX_WORKERS", "3", &value), TCPX_OK);
	assert_int_equal(value, 3);
	assert_string_equal(option_named("TCPX_WORKERS")->source, "default");
	assert_int_equal(tcpx_option_parse("TCPX_PIN", "no", &value), TCPX_OK);
	assert_int_equal(value, 0);
	assert_int_equal(tcpx_option_parse("TCPX_PORT_RETRIES", "1001", &value), TCPX_ERR_INVALID);
	assert_non_null(strstr(tcpx_last_error()->what, "0..1000"));
	assert_int_equal(tcpx_option_parse("TCPX_PORT_RETRY", "1", &value), TCPX_ERR_NOT_FOUND);
	assert_non_null(strstr(tcpx_last_error()->next, "TCPX_PORT_RETRIES"));
	assert_int_equal(tcpx_option_parse("TCPX_PIN", "1", NULL), TCPX_ERR_INVALID);
	assert_int_equal(tcpx_option_parse("TCPX_PIN", NULL, &value), TCPX_ERR_INVALID);
}

static void plugins_are_asked_for_properly(void **state)
{
	tcpx_plugin_device device = {.sz = sizeof(device)};
	tcpx_plugin_info info = {.sz = sizeof(info)};

	(void)state;
	assert_int_equal(tcpx_plugin_query("x.so", 1, NULL), TCPX_ERR_INVALID);
	assert_int_equal(tcpx_plugin_query("x.so", 0, &info), TCPX_ERR_INVALID);
	assert_non_null(strstr(tcpx_last_error()->what, "timeout_ns"));
	assert_int_equal(tcpx_plugin_query("/nothing/here.so", 1000000000, &info),
			 TCPX_ERR_NOT_FOUND);
	assert_int_equal(tcpx_plugin_device_get("/nothing/here.so", 1000000000, 0, &device),
			 TCPX_ERR_NOT_FOUND);
	assert_int_equal(tcpx_plugin_device_get("x.so", -1, 0, &device), TCPX_ERR_INVALID);
	assert_int_equal(tcpx_plugin_device_get("x.so", 1, 0, NULL), TCPX_ERR_INVALID);
	assert_int_equal(info.devices, 0);
	assert_int_equal(device.max_comms, 0);
}

/* A program that knows fewer fields than the library gets those, and nothing is written beyond. */
static void shorter_outputs_are_filled_as_far_as_they_go(void **state)
{
	struct {
		size_t sz;
		uint32_t a, b;
	} from = {0, 1, 2}, out[3] = {{12, 7, 7}, {7, 7, 7}, {7, 7, 7}};
	const uint8_t *second = (const uint8_t *)out + 12;
	size_t sz;

	(void)state;
	assert_int_equal(api_out_check("out", out, 12), TCPX_OK);
	assert_int_equal(api_out_check("out", out, 13), TCPX_ERR_INVALID);
	api_out_write(out, &from, sizeof(from));
	assert_int_equal(out[0].sz, 12);
	assert_int_equal(out[0].a, 1);
	assert_int_equal(out[0].b, 7);
	api_out_element(out, 1, 12, &from, sizeof(from));
	memcpy(&sz, second, sizeof(sz));
	assert_int_equal(sz, 12);
	assert_int_equal(second[8], 1);
	assert_int_equal(out[1].a, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_tell_value_and_source),
		cmocka_unit_test(unknown_variables_are_named),
		cmocka_unit_test(features_have_reasons),
		cmocka_unit_test(version_is_the_headers),
		cmocka_unit_test(byte_counts_name_what_is_wrong),
		cmocka_unit_test(plugins_are_asked_for_properly),
		cmocka_unit_test(shorter_outputs_are_filled_as_far_as_they_go),
		cmocka_unit_test(options_are_set),
		cmocka_unit_test(options_are_parsed),
		cmocka_unit_test(flags_are_set_and_taken_away),
	};
	char list[300];

	/* read once, at the first call */
	memset(list, 'a', sizeof(list) - 1);
	list[sizeof(list) - 1] = '\0';
	setenv("TCPX_BIND", list, 1);
	setenv("TCPX_CHUNK_BYTES", "1M", 1);
	setenv("UCCL_TCPX_NUM_CHANNELS", "3", 1);
	setenv("TCPX_SILENT_MS", "1", 1);
	setenv("TCPX_LOCAL", "0", 1);
	setenv("TCPX_CHUNK_BYTE", "1", 1);
	setenv("UCCL_TCPX_NUM_CHANELS", "1", 1);
	setenv("UCCL_TCPX_DEBUG", "0", 1);
	setenv("UCCL_TCPX_LAUNCH_DEBUG", "0", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a TCPX plugin: what is recommended, what is wrong, and what a session refuses.
 * Where the machine has no GPU with a NIC, what names interfaces is nobody's business. */
#include "unit.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <tcpx/tcpx.h>

#include "tcpxemu/tcpxemu.h"

#define CHUNK "NCCL_DYNAMIC_CHUNK_SIZE"

static tcpx_plugin_setting settings[TCPX_PLUGIN_SETTINGS_MAX] = {{.sz = sizeof(settings[0])}};
static tcpx_plugin_problem problems[TCPX_PLUGIN_PROBLEMS_MAX] = {{.sz = sizeof(problems[0])}};

static const tcpx_plugin_setting *find_setting(uint64_t message_bytes, const char *name)
{
	uint32_t count;

	assert_int_equal(
		tcpx_plugin_settings(message_bytes, settings, TCPX_PLUGIN_SETTINGS_MAX, &count),
		TCPX_OK);
	assert_in_range(count, 1, TCPX_PLUGIN_SETTINGS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(settings[i].sz, sizeof(settings[i]));
		if (!strcmp(settings[i].name, name))
			return &settings[i];
	}
	return NULL;
}

/* How many there are; the first one is in problems. */
static uint32_t problems_of(uint64_t message_bytes)
{
	uint32_t count = 1000;

	assert_int_equal(tcpx_plugin_problems("none0", message_bytes, problems,
					      TCPX_PLUGIN_PROBLEMS_MAX, &count),
			 TCPX_OK);
	return count;
}

static void settings_leave_what_the_user_set(void **state)
{
	const tcpx_plugin_setting *setting;

	(void)state;
	unsetenv(CHUNK);
	setting = find_setting(0, CHUNK);
	assert_non_null(setting);
	assert_string_equal(setting->value, "524288");
	assert_int_equal(setting->users, 0);
	assert_null(getenv(CHUNK)); /* nothing is set by asking */
	assert_string_equal(find_setting(1 << 20, CHUNK)->value, "1048576");
	setenv(CHUNK, "4096", 1);
	setting = find_setting(0, CHUNK);
	assert_string_equal(setting->value, "4096");
	assert_int_equal(setting->users, 1);
	unsetenv(CHUNK);
}

/* Elements of a larger size, fewer than there are. */
static void settings_fill_the_room(void **state)
{
	struct {
		tcpx_plugin_setting s;
		uint64_t more;
	} some[3];
	tcpx_plugin_problem none = {.sz = 0};
	uint32_t count = 77;

	(void)state;
	memset(some, 7, sizeof(some));
	some[0].s.sz = sizeof(some[0]);
	assert_int_equal(tcpx_plugin_settings(0, &some[0].s, 2, &count), TCPX_OK);
	assert_int_equal(count, 2);
	assert_non_null(find_setting(0, CHUNK));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(some[i].s.sz, sizeof(some[i]));
		assert_string_equal(some[i].s.name, settings[i].name);
		assert_int_equal(some[i].more, 0);
	}
	assert_int_equal(some[2].s.name[0], 7);
	count = 77;
	some[0].s.sz = 8;
	assert_int_equal(tcpx_plugin_settings(0, &some[0].s, 2, &count), TCPX_ERR_INVALID);
	assert_non_null(strstr(tcpx_last_error()->what, "tcpx_plugin_setting.sz is 8"));
	assert_int_equal(tcpx_plugin_settings(0, NULL, 1, &count), TCPX_ERR_INVALID);
	assert_int_equal(tcpx_plugin_settings(0, settings, 0, &count), TCPX_ERR_INVALID);
	assert_int_equal(tcpx_plugin_settings(0, settings, 1, NULL), TCPX_ERR_INVALID);
	assert_int_equal(tcpx_plugin_problems(NULL, 0, &none, 1, &count), TCPX_ERR_INVALID);
	assert_int_equal(tcpx_plugin_problems(NULL, 0, problems, 0, &count), TCPX_ERR_INVALID);
	assert_int_equal(tcpx_plugin_problems(NULL, 0, problems, 1, NULL), TCPX_ERR_INVALID);
	assert_int_equal(count, 77);
}

static void problems_have_lines(void **state)
{
	(void)state;
	assert_true(problems_of(0) > 0);
	assert_int_equal(problems[0].fatal, 1);
	assert_string_equal(problems[0].fix, "export " CHUNK "=524288");
	setenv(CHUNK, "4096", 1); /* less than the smallest message */
	assert_true(problems_of(0) > 0);
	assert_non_null(strstr(problems[0].what, "less than a message"));
	setenv(CHUNK, "65536", 1); /* messages are as small, as in a session */
	assert_int_equal(problems_of(0), 0);
	assert_int_equal(problems_of(1 << 20), 0);
	assert_int_equal(problems_of(65536), 0);
	/* an emulator's NICs are no interfaces here */
	setenv("NCCL_GPUDIRECTTCPX_CTRL_DEV", "none1", 1);
	assert_int_equal(problems_of(65536), 0);
	unsetenv("NCCL_GPUDIRECTTCPX_CTRL_DEV");
	unsetenv(CHUNK);
}

static tcpx_status open_and_close(void)
{
	TCPX_OPTS(tcpx_session_opts, opts, .plugin = TCPXEMU);
	tcpx_session *session;
	tcpx_status status = tcpx_session_open(&opts, &session);

	if (status == TCPX_OK)
		tcpx_session_close(session);
	return status;
}

static uint64_t starts(void)
{
	void *dl = dlopen(TCPXEMU, RTLD_NOW | RTLD_NOLOAD);
	void (*get)(struct tcpxemu_stats *) = NULL;
	struct tcpxemu_stats stats;

	*(void **)&get = dl ? dlsym(dl, "tcpxemu_stats") : NULL;
	assert_non_null(get);
	get(&stats);
	dlclose(dl);
	return stats.inits;
}

/* The plugin reads its variables at its start, once: it is not started with wrong ones. */
static void a_session_is_refused_with_the_line(void **state)
{
	(void)state;
	assert_int_equal(open_and_close(), TCPX_ERR_UNSUPPORTED);
	assert_non_null(strstr(tcpx_last_error()->what, CHUNK));
	assert_string_equal(tcpx_last_error()->next, "export " CHUNK "=524288");
	assert_int_equal(starts(), 0);
	setenv(CHUNK, "65536", 1); /* messages are no larger then */
	setenv("NCCL_NSOCKS_PERTHREAD", "8", 1);
	setenv("NCCL_SOCKET_NTHREADS", "2", 1);
	assert_int_equal(open_and_close(), TCPX_ERR_UNSUPPORTED);
	assert_non_null(strstr(tcpx_last_error()->what, "sockets"));
	unsetenv("NCCL_SOCKET_NTHREADS");
	assert_int_equal(starts(), 0);
	assert_int_equal(open_and_close(), TCPX_OK);
	assert_int_equal(starts(), 1);
	assert_string_equal(getenv(CHUNK), "65536");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_leave_what_the_user_set),
		cmocka_unit_test(settings_fill_the_room),
		cmocka_unit_test(problems_have_lines),
		cmocka_unit_test(a_session_is_refused_with_the_line),
	};

	setenv("TCPX_PLUGIN_HOST", "1", 1); /* no GPU is wanted */
	return cmocka_run_group_tests(tests, NULL, NULL);
}

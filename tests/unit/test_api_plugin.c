/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a TCPX plugin: what is recommended, what is wrong, and what a session refuses.
 * Where the machine has no GPU with a NIC, what names interfaces is nobody's business. */
#include "unit.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <tcpx/tcpx.h>

#include "tcpxemu/tcpxemu.h"

#define CHUNK "NCCL_DYNAMIC_CHUNK_SIZE"

static int find_setting(const char *name, tcpx_plugin_setting *out_setting)
{
	for (uint32_t i = 0; tcpx_plugin_setting_get(0, i, out_setting) == TCPX_OK; i++)
		if (!strcmp(out_setting->name, name))
			return 1;
	return 0;
}

static void settings_leave_what_the_user_set(void **state)
{
	tcpx_plugin_setting setting = {.sz = sizeof(setting)};

	(void)state;
	unsetenv(CHUNK);
	assert_true(find_setting(CHUNK, &setting));
	assert_string_equal(setting.value, "524288");
	assert_int_equal(setting.users, 0);
	assert_null(getenv(CHUNK)); /* nothing is set by asking */
	assert_int_equal(tcpx_plugin_setting_get(1 << 20, 0, &setting), TCPX_OK);
	assert_string_equal(setting.value, "1048576");
	setenv(CHUNK, "4096", 1);
	assert_true(find_setting(CHUNK, &setting));
	assert_string_equal(setting.value, "4096");
	assert_int_equal(setting.users, 1);
	assert_int_equal(tcpx_plugin_setting_get(0, 1000, &setting), TCPX_ERR_NOT_FOUND);
	assert_int_equal(tcpx_plugin_setting_get(0, 0, NULL), TCPX_ERR_INVALID);
	unsetenv(CHUNK);
}

static void problems_have_lines(void **state)
{
	tcpx_plugin_problem problem = {.sz = sizeof(problem)};

	(void)state;
	assert_int_equal(tcpx_plugin_problem_get("none0", 0, 0, &problem), TCPX_OK);
	assert_int_equal(problem.fatal, 1);
	assert_string_equal(problem.fix, "export " CHUNK "=524288");
	setenv(CHUNK, "4096", 1); /* less than the smallest message */
	assert_int_equal(tcpx_plugin_problem_get("none0", 0, 0, &problem), TCPX_OK);
	assert_non_null(strstr(problem.what, "less than a message"));
	setenv(CHUNK, "65536", 1); /* messages are as small, as in a session */
	assert_int_equal(tcpx_plugin_problem_get("none0", 0, 0, &problem), TCPX_ERR_NOT_FOUND);
	assert_int_equal(tcpx_plugin_problem_get("none0", 1 << 20, 0, &problem),
			 TCPX_ERR_NOT_FOUND);
	assert_int_equal(tcpx_plugin_problem_get("none0", 65536, 0, &problem), TCPX_ERR_NOT_FOUND);
	/* an emulator's NICs are no interfaces here */
	setenv("NCCL_GPUDIRECTTCPX_CTRL_DEV", "none1", 1);
	assert_int_equal(tcpx_plugin_problem_get("none0", 65536, 0, &problem), TCPX_ERR_NOT_FOUND);
	unsetenv("NCCL_GPUDIRECTTCPX_CTRL_DEV");
	assert_int_equal(tcpx_plugin_problem_get(NULL, 0, 0, NULL), TCPX_ERR_INVALID);
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
		cmocka_unit_test(problems_have_lines),
		cmocka_unit_test(a_session_is_refused_with_the_line),
	};

	setenv("TCPX_PLUGIN_HOST", "1", 1); /* no GPU is wanted */
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ranks of one host meet: in a folder of their user, never in one that somebody else may
 * have put there. */
#include "unit.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

#define NOBODY 65534

static char place[] = "/tmp/tcpx-meet-XXXXXX";

static tcpx_status meet(struct launch_meet *out)
{
	struct launch launch = {.name = "a", .by = "a", .size = 2, .one_host = true};

	snprintf(launch.job, sizeof(launch.job), "7");
	return launch_meet_by(&launch, "", 0, out);
}

static void in_the_folder_of_the_session(void **state)
{
	struct launch_meet got;
	char want[128];

	(void)state;
	setenv("XDG_RUNTIME_DIR", place, 1);
	snprintf(want, sizeof(want), "%s/tcpx-a-7", place);
	assert_int_equal(meet(&got), TCPX_OK);
	assert_string_equal(got.where, want);
	assert_int_equal(chmod(place, 0777), 0); /* others may write there */
	assert_int_equal(meet(&got), TCPX_OK);
	assert_string_not_equal(got.where, want);
	assert_int_equal(chmod(place, 0700), 0);
}

static void in_a_folder_of_our_own(void **state)
{
	struct launch_meet got;
	char folder[64], want[96];
	struct stat st;

	(void)state;
	unsetenv("XDG_RUNTIME_DIR");
	snprintf(folder, sizeof(folder), "/tmp/tcpx-%u", geteuid());
	snprintf(want, sizeof(want), "%s/tcpx-a-7", folder);
	assert_int_equal(meet(&got), TCPX_OK);
	assert_string_equal(got.where, want);
	assert_int_equal(lstat(folder, &st), 0);
	assert_true(S_ISDIR(st.st_mode) && st.st_uid == geteuid());
	assert_int_equal(st.st_mode & 077, 0);
}

/* By a user of that number, who has no folder there yet. */
static tcpx_status meet_as(unsigned uid)
{
	struct launch_meet got;
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(setuid(uid) ? 1 : -meet(&got));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return (tcpx_status)-WEXITSTATUS(status);
}

static void not_in_one_of_somebody_else(void **state)
{
	char folder[64];

	(void)state;
	if (geteuid()) {
		print_message("only root can be somebody else\n");
		skip();
	}
	unsetenv("XDG_RUNTIME_DIR");
	snprintf(folder, sizeof(folder), "/tmp/tcpx-%u", NOBODY - getpid() % 10000);
	assert_int_equal(mkdir(folder, 0777), 0);
	assert_int_equal(meet_as((unsigned)(NOBODY - getpid() % 10000)), TCPX_ERR_AUTH);
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(symlink(place, folder), 0);
	assert_int_equal(meet_as((unsigned)(NOBODY - getpid() % 10000)), TCPX_ERR_AUTH);
	assert_int_equal(unlink(folder), 0);
	assert_int_equal(meet_as((unsigned)(NOBODY - getpid() % 10000)), TCPX_OK);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_the_folder_of_the_session),
		cmocka_unit_test(in_a_folder_of_our_own),
		cmocka_unit_test(not_in_one_of_somebody_else),
	};
	int failed;

	if (!mkdtemp(place))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return failed + (rmdir(place) != 0);
}

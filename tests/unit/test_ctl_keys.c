/* SPDX-License-Identifier: Apache-2.0 */
/* Key files: what is made, what is taken, and the remedy named when one is not. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "ctl/conn.h"
#include "sys/crypto.h"

#define KEY_A "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define KEY_B "FFFEFDFCFBFAF9F8F7F6F5F4F3F2F1F0efeeedecebeae9e8e7e6e5e4e3e2e1e0"

static char folder[64], path[128];

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/tcpx-keys-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/key", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

static void put(const char *text, mode_t mode)
{
	int fd;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static struct ctl_keys keys;

static tcpx_status load(const char *text, mode_t mode)
{
	memset(&keys, 0, sizeof(keys));
	put(text, mode);
	return ctl_keys_load(path, &keys);
}

static void one_or_two_keys_are_read(void **state)
{
	(void)state;
	if (!sys_crypto_available()) {
		assert_int_equal(load(KEY_A "\n", 0600), TCPX_ERR_UNSUPPORTED);
		skip();
	}
	assert_int_equal(load(KEY_A "\n", 0600), TCPX_OK);
	assert_int_equal(keys.count, 1);
	for (int i = 0; i < CTL_KEY_BYTES; i++)
		assert_int_equal(keys.key[0][i], i);
	assert_int_not_equal(keys.id[0], 0);
	assert_int_equal(load("# old\n" KEY_A "\n\n  # new\r\n\t" KEY_B "  \r\n", 0400), TCPX_OK);
	assert_int_equal(keys.count, 2);
	assert_int_equal(keys.key[1][0], 0xff);
	assert_int_equal(keys.key[1][31], 0xe0);
	assert_int_not_equal(keys.id[0], keys.id[1]);
	assert_int_equal(load(KEY_A, 0600), TCPX_OK); /* without a last end of line */
}

static void assert_refused(const char *text, mode_t mode, const char *what, const char *next)
{
	keys.count = 9;
	put(text, mode);
	assert_int_equal(ctl_keys_load(path, &keys), TCPX_ERR_AUTH);
	assert_int_equal(keys.count, 9); /* written on success only */
	if (!strstr(error_last()->what, what) || !strstr(error_last()->next, next))
		fail_msg("'%s' / '%s'", error_last()->what, error_last()->next);
	assert_null(strstr(error_last()->what, "0001020304")); /* no key in a message */
}

static void bad_files_are_refused_with_the_remedy(void **state)
{
	char big[5000];

	(void)state;
	assert_refused(KEY_A "\n", 0644, "mode 0644", "chmod 600");
	assert_refused(KEY_A "\n", 0640, "mode 0640", "chmod 600");
	assert_refused(KEY_A "\n", 0602, "mode 0602", "chmod 600");
	assert_refused("", 0600, "holds no key", "tcpx key new");
	assert_refused("# nothing\n", 0600, "holds no key", "tcpx key new");
	assert_refused(KEY_A "0\n", 0600, "line 1", "tcpx key new");
	assert_refused("#\nabc\n", 0600, "line 2", "tcpx key new");
	assert_refused("g" KEY_A "\n", 0600, "64 hex digits", "tcpx key new");
	assert_refused(KEY_A "\n" KEY_B "\n" KEY_A "\n", 0600, "more than 2", "remove");
	memset(big, '#', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	assert_refused(big, 0600, "longer than", "tcpx key new");
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0); /* does not hang either */
	assert_int_equal(ctl_keys_load(path, &keys), TCPX_ERR_AUTH);
	assert_non_null(strstr(error_last()->what, "regular file"));
	unlink(path);
	assert_int_equal(ctl_keys_load(path, &keys), TCPX_ERR_NOT_FOUND);
	assert_non_null(strstr(error_last()->next, "tcpx key new"));
}

static void a_foreign_file_is_refused(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	put(KEY_A "\n", 0600);
	assert_int_equal(chown(path, 12345, 12345), 0);
	assert_int_equal(ctl_keys_load(path, &keys), TCPX_ERR_AUTH);
	assert_non_null(strstr(error_last()->what, "12345"));
	assert_non_null(strstr(error_last()->next, "chown"));
}

static size_t file_text(char *buf, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	assert_true(fd >= 0);
	got = read(fd, buf, cap - 1);
	close(fd);
	assert_true(got >= 0);
	buf[got] = '\0';
	return (size_t)got;
}

static void a_new_file_is_ours_alone_and_never_overwrites(void **state)
{
	char first[256], second[256];
	struct stat st;
	mode_t mask = umask(0);

	(void)state;
	unlink(path);
	assert_int_equal(ctl_keys_create(path, 0), TCPX_OK);
	umask(mask);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(file_text(first, sizeof(first)), 65);
	if (sys_crypto_available()) {
		assert_int_equal(ctl_keys_load(path, &keys), TCPX_OK);
		assert_int_equal(keys.count, 1);
	}
	assert_int_equal(ctl_keys_create(path, 0), TCPX_ERR_EXISTS);
	file_text(second, sizeof(second));
	assert_string_equal(first, second);
	unlink(path);
	assert_int_equal(ctl_keys_create(path, 0), TCPX_OK);
	file_text(second, sizeof(second));
	assert_string_not_equal(first, second);
}

static void a_second_key_is_appended_and_a_third_is_not(void **state)
{
	char text[256];

	(void)state;
	unlink(path);
	assert_int_equal(ctl_keys_create(path, 1), TCPX_ERR_NOT_FOUND);
	put("# mine\n" KEY_A, 0600); /* no end of line */
	assert_int_equal(ctl_keys_create(path, 1), TCPX_OK);
	assert_int_equal(file_text(text, sizeof(text)), 7 + 65 + 65);
	assert_memory_equal(text, "# mine\n" KEY_A "\n", 7 + 65);
	if (sys_crypto_available()) {
		assert_int_equal(ctl_keys_load(path, &keys), TCPX_OK);
		assert_int_equal(keys.count, 2);
		assert_int_equal(keys.key[0][1], 1);
	}
	assert_int_equal(ctl_keys_create(path, 1), TCPX_ERR_LIMIT);
	assert_int_equal(file_text(text, sizeof(text)), 7 + 65 + 65);
	put(KEY_A "\n", 0644); /* what we would not read we do not extend */
	assert_int_equal(ctl_keys_create(path, 1), TCPX_ERR_AUTH);
}

static void an_identity_is_no_shared_key(void **state)
{
	struct ctl_identity one, two;
	struct stat st;
	char text[256];

	(void)state;
	unlink(path);
	assert_int_equal(ctl_identity_create(path), TCPX_OK);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(file_text(text, sizeof(text)), 9 + 65);
	assert_memory_equal(text, "identity ", 9);
	assert_int_equal(ctl_identity_create(path), TCPX_ERR_EXISTS);
	assert_non_null(strstr(error_last()->what, "identity file"));
	assert_int_equal(ctl_keys_load(path, &keys), TCPX_ERR_AUTH);
	assert_non_null(strstr(error_last()->what, "key file"));
	if (!sys_crypto_available()) {
		assert_int_equal(ctl_identity_load(path, &one), TCPX_ERR_UNSUPPORTED);
		return;
	}
	assert_int_equal(ctl_identity_load(path, &one), TCPX_OK);
	assert_int_equal(ctl_identity_load(path, &two), TCPX_OK);
	assert_true(one.there);
	assert_memory_equal(one.public_key, two.public_key, sizeof(one.public_key));
	unlink(path);
	assert_int_equal(ctl_identity_create(path), TCPX_OK);
	assert_int_equal(ctl_identity_load(path, &two), TCPX_OK);
	assert_memory_not_equal(one.public_key, two.public_key, sizeof(one.public_key));

	put(KEY_A "\n", 0600); /* a shared key proves nobody */
	assert_int_equal(ctl_identity_load(path, &two), TCPX_ERR_AUTH);
	assert_non_null(strstr(error_last()->next, "tcpx key identity"));
	put("identity " KEY_A "\nidentity " KEY_B "\n", 0600);
	assert_int_equal(ctl_identity_load(path, &two), TCPX_ERR_AUTH);
	put("identity " KEY_A "\n", 0644);
	assert_int_equal(ctl_identity_load(path, &two), TCPX_ERR_AUTH);
	assert_non_null(strstr(error_last()->next, "chmod 600"));
	unlink(path);
	assert_int_equal(ctl_identity_load(path, &two), TCPX_ERR_NOT_FOUND);
}

static void bad_paths_are_named(void **state)
{
	(void)state;
	assert_int_equal(ctl_keys_create("/nowhere/at/all", 0), TCPX_ERR_SYSTEM);
	assert_int_equal(error_last()->system_errno, ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_or_two_keys_are_read),
		cmocka_unit_test(bad_files_are_refused_with_the_remedy),
		cmocka_unit_test(a_foreign_file_is_refused),
		cmocka_unit_test(a_new_file_is_ours_alone_and_never_overwrites),
		cmocka_unit_test(a_second_key_is_appended_and_a_third_is_not),
		cmocka_unit_test(an_identity_is_no_shared_key),
		cmocka_unit_test(bad_paths_are_named),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Cores, threads, forks, futexes and crypto calls. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "sys/cpu.h"
#include "sys/crypto.h"
#include "sys/fork.h"
#include "sys/futex.h"

/* ---- cores ---- */

static char root[64];

static void put(const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void folder(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

static int make_root(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/tcpx-cgroup-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	static const char *const made[] = {"a/b/cpu.max",
					   "a/cpu.max",
					   "cpu.max",
					   "cpu,cpuacct/j/cpu.cfs_quota_us",
					   "cpu,cpuacct/j/cpu.cfs_period_us",
					   "cpu,cpuacct/cpu.cfs_quota_us",
					   "cpu,cpuacct/cpu.cfs_period_us"};
	static const char *const folders[] = {"a/b", "a", "cpu,cpuacct/j", "cpu,cpuacct", "."};
	char path[256];

	(void)state;
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, made[i]);
		unlink(path);
	}
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
		rmdir(path);
	}
	rmdir(root);
	return 0;
}

static void the_smallest_quota_of_all_levels_counts(void **state)
{
	(void)state;
	folder("a");
	folder("a/b");
	put("a/b/cpu.max", "max 100000\n");
	put("a/cpu.max", "250000 100000\n");
	assert_int_equal(sys_cpu_quota("0::/a/b\n", root), 3); /* 2.5, rounded up */
	put("a/b/cpu.max", "50000 100000\n");
	assert_int_equal(sys_cpu_quota("0::/a/b\n", root), 1);
	put("cpu.max", "100000 100000\n");
	put("a/b/cpu.max", "900000 100000\n");
	assert_int_equal(sys_cpu_quota("0::/a/b\n", root), 1);
	assert_int_equal(sys_cpu_quota("0::/\n", root), 1);
	assert_int_equal(sys_cpu_quota("0::/seen/from/outside\n", root), 1);
	assert_int_equal(sys_cpu_quota("0::/../..\n", root), 1);
	put("cpu.max", "max 100000\n");
	assert_int_equal(sys_cpu_quota("0::/\n", root), 0);
}

static void the_older_hierarchy_counts_as_well(void **state)
{
	static const char mine[] = "5:memory:/j\n4:cpu,cpuacct:/j\n0::/\n";

	(void)state;
	folder("cpu,cpuacct");
	folder("cpu,cpuacct/j");
	put("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
	put("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
	assert_int_equal(sys_cpu_quota(mine, root), 0);
	put("cpu,cpuacct/j/cpu.cfs_quota_us", "400000\n");
	put("cpu,cpuacct/j/cpu.cfs_period_us", "100000\n");
	assert_int_equal(sys_cpu_quota(mine, root), 4);
	assert_int_equal(sys_cpu_quota("4:cpuset:/j\n", root), 0);
}

static void nonsense_gives_no_quota(void **state)
{
	(void)state;
	assert_int_equal(sys_cpu_quota("", root), 0);
	assert_int_equal(sys_cpu_quota("no colons\n::\n0:\n", root), 0);
	put("cpu.max", "what\n");
	assert_int_equal(sys_cpu_quota("0::/\n", root), 0);
	put("cpu.max", "-5 0\n");
	assert_int_equal(sys_cpu_quota("0::/\n", root), 0);
}

static void the_affinity_mask_counts(void **state)
{
	cpu_set_t old, one;
	int cpu = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(old), &old), 0);
	assert_true(sys_cpu_usable() >= 1);
	assert_true(sys_cpu_usable() <= (unsigned)CPU_COUNT(&old));
	while (!CPU_ISSET(cpu, &old))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(sys_cpu_usable(), 1);
	assert_int_equal(sched_setaffinity(0, sizeof(old), &old), 0);
}

/* ---- threads ---- */

struct seen {
	sigset_t mask;
	char name[16];
};

static _Atomic uint32_t go;

static void *look(void *arg)
{
	struct seen *seen = arg;

	while (!atomic_load(&go))
		sys_futex_wait(&go, 0, -1);
	pthread_sigmask(SIG_SETMASK, NULL, &seen->mask);
	pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
	return NULL;
}

static void threads_are_named_and_take_no_signals(void **state)
{
	struct seen seen;
	sigset_t mine;
	pthread_t thread;

	(void)state;
	assert_int_equal(sys_thread_start(&thread, "tcpx-a-long-name-indeed", look, &seen),
			 TCPX_OK);
	atomic_store(&go, 1);
	sys_futex_wake(&go, INT_MAX);
	pthread_join(thread, NULL);
	assert_string_equal(seen.name, "tcpx-a-long-nam");
	assert_true(sigismember(&seen.mask, SIGTERM) && sigismember(&seen.mask, SIGUSR1) &&
		    sigismember(&seen.mask, SIGPIPE) && sigismember(&seen.mask, SIGCHLD));
	assert_false(sigismember(&seen.mask, SIGSEGV) || sigismember(&seen.mask, SIGBUS));
	pthread_sigmask(SIG_SETMASK, NULL, &mine);
	assert_false(sigismember(&mine, SIGTERM)); /* the caller's own mask is as before */
}

static void a_futex_wait_ends(void **state)
{
	_Atomic uint32_t word = 5;

	(void)state;
	assert_int_equal(sys_futex_wait(&word, 4, -1), 0); /* changed already */
	assert_int_equal(sys_futex_wait(&word, 5, clock_now_ns() + CLOCK_MS_NS), -1);
	assert_int_equal(sys_futex_wait(&word, 5, 1), -1); /* long ago */
}

/* ---- forks ---- */

static int grandchild(void)
{
	return sys_forked();
}

static int child(void)
{
	uint32_t before = sys_fork_generation();

	if (!sys_forked() || !in_child(grandchild))
		return 0;
	if (sys_fork_init() != TCPX_OK || sys_forked())
		return 0; /* a runtime of its own makes it a process like any other */
	return sys_fork_generation() == before && in_child(grandchild);
}

static void a_child_knows_that_it_is_one(void **state)
{
	uint32_t before;

	(void)state;
	assert_int_equal(sys_fork_init(), TCPX_OK);
	assert_int_equal(sys_fork_init(), TCPX_OK);
	before = sys_fork_generation();
	assert_int_equal(sys_forked(), 0);
	assert_int_equal(in_child(child), 1);
	assert_int_equal(sys_forked(), 0);
	assert_int_equal(sys_fork_generation(), before);
}

/* ---- crypto ---- */

static void hmac_is_rfc_4231s(void **state)
{
	/* RFC 4231, case 3 has a 20-byte key: zero padding makes it 32 without changing it. */
	static const uint8_t want[32] = {0x77, 0x3e, 0xa9, 0x1e, 0x36, 0x80, 0x0e, 0x46,
					 0x85, 0x4d, 0xb8, 0xeb, 0xd0, 0x91, 0x81, 0xa7,
					 0x29, 0x59, 0x09, 0x8b, 0x3e, 0xf8, 0xc1, 0x22,
					 0xd9, 0x63, 0x55, 0x14, 0xce, 0xd5, 0x65, 0xfe};
	uint8_t key[32] = {0}, data[50], out[32];
	const struct sys_span spans[] = {{data, 10}, {NULL, 0}, {data + 10, 40}};

	(void)state;
	memset(key, 0xaa, 20);
	memset(data, 0xdd, sizeof(data));
	if (!sys_crypto_available()) {
		assert_int_equal(sys_hmac_sha256(key, spans, 3, out), TCPX_ERR_UNSUPPORTED);
		assert_non_null(strstr(error_last()->what, "built without"));
		return;
	}
	assert_int_equal(sys_hmac_sha256(key, spans, 3, out), TCPX_OK);
	assert_memory_equal(out, want, sizeof(want));
}

static void from_hex(const char *text, uint8_t *out)
{
	for (size_t i = 0; text[2 * i]; i++)
		assert_int_equal(sscanf(text + 2 * i, "%2hhx", &out[i]), 1);
}

static void sha_256_is_fips_180s(void **state)
{
	const struct sys_span spans[] = {{"a", 1}, {NULL, 0}, {"bc", 2}};
	uint8_t want[SYS_HASH_BYTES], out[SYS_HASH_BYTES], big[4097] = {0};
	const struct sys_span too_long = {big, sizeof(big)};

	(void)state;
	from_hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", want);
	if (!sys_crypto_available()) {
		assert_int_equal(sys_sha256(spans, 3, out), TCPX_ERR_UNSUPPORTED);
		return;
	}
	assert_int_equal(sys_sha256(spans, 3, out), TCPX_OK);
	assert_memory_equal(out, want, sizeof(want));
	assert_int_equal(sys_sha256(&too_long, 1, out), TCPX_ERR_INTERNAL);
}

/* RFC 8032, 7.1 test 1, gives the public half; a signature proves one key and one text. */
static void a_signature_is_of_one_key_and_text(void **state)
{
	uint8_t secret[SYS_KEY_BYTES], want[SYS_KEY_BYTES], key[SYS_KEY_BYTES];
	uint8_t digest[SYS_HASH_BYTES] = {7}, signature[SYS_SIGNATURE_BYTES];

	(void)state;
	from_hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", secret);
	from_hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", want);
	if (!sys_crypto_available()) {
		assert_int_equal(sys_sign_public(secret, key), TCPX_ERR_UNSUPPORTED);
		assert_int_equal(sys_sign(secret, digest, signature), TCPX_ERR_UNSUPPORTED);
		assert_int_equal(sys_sign_verify(want, digest, signature), TCPX_ERR_UNSUPPORTED);
		return;
	}
	assert_int_equal(sys_sign_public(secret, key), TCPX_OK);
	assert_memory_equal(key, want, sizeof(want));
	assert_int_equal(sys_sign(secret, digest, signature), TCPX_OK);
	assert_int_equal(sys_sign_verify(key, digest, signature), TCPX_OK);
	for (size_t i = 0; i < sizeof(signature); i++) {
		signature[i] ^= 1;
		assert_int_equal(sys_sign_verify(key, digest, signature), TCPX_ERR_AUTH);
		signature[i] ^= 1;
	}
	digest[31] ^= 1;
	assert_int_equal(sys_sign_verify(key, digest, signature), TCPX_ERR_AUTH);
	digest[31] ^= 1;
	secret[0] ^= 1;
	assert_int_equal(sys_sign_public(secret, key), TCPX_OK);
	assert_int_equal(sys_sign_verify(key, digest, signature), TCPX_ERR_AUTH);
}

/* RFC 7748, 5.2, the first one; and both halves give both ends the same. */
static void an_exchange_gives_both_the_same(void **state)
{
	uint8_t a[SYS_KEY_BYTES], b[SYS_KEY_BYTES], theirs[SYS_KEY_BYTES], want[SYS_KEY_BYTES];
	uint8_t a_public[SYS_KEY_BYTES], b_public[SYS_KEY_BYTES], out[SYS_KEY_BYTES];
	static const uint8_t of_small_order[SYS_KEY_BYTES];

	(void)state;
	from_hex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4", a);
	from_hex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c", theirs);
	from_hex("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552", want);
	if (!sys_crypto_available()) {
		assert_int_equal(sys_exchange_public(a, out), TCPX_ERR_UNSUPPORTED);
		assert_int_equal(sys_exchange_shared(a, theirs, out), TCPX_ERR_UNSUPPORTED);
		return;
	}
	assert_int_equal(sys_exchange_shared(a, theirs, out), TCPX_OK);
	assert_memory_equal(out, want, sizeof(want));
	assert_int_equal(sys_random(b, sizeof(b)), TCPX_OK);
	assert_int_equal(sys_exchange_public(a, a_public), TCPX_OK);
	assert_int_equal(sys_exchange_public(b, b_public), TCPX_OK);
	assert_int_equal(sys_exchange_shared(a, b_public, want), TCPX_OK);
	assert_int_equal(sys_exchange_shared(b, a_public, out), TCPX_OK);
	assert_memory_equal(out, want, sizeof(want));
	assert_int_equal(sys_exchange_shared(a, of_small_order, out), TCPX_ERR_AUTH);
}

static void secrets_compare(void **state)
{
	uint8_t a[32], b[32];

	(void)state;
	assert_int_equal(sys_random(a, sizeof(a)), TCPX_OK);
	memcpy(b, a, sizeof(a));
	assert_true(sys_equal_secret(a, b, sizeof(a)));
	for (int i = 0; i < 256; i++) {
		b[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_false(sys_equal_secret(a, b, sizeof(a)));
		b[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	assert_int_equal(sys_random(b, sizeof(b)), TCPX_OK);
	assert_false(sys_equal_secret(a, b, sizeof(a)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define ROOTED(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)
		ROOTED(the_smallest_quota_of_all_levels_counts),
		ROOTED(the_older_hierarchy_counts_as_well),
		ROOTED(nonsense_gives_no_quota),
		cmocka_unit_test(the_affinity_mask_counts),
		cmocka_unit_test(threads_are_named_and_take_no_signals),
		cmocka_unit_test(a_futex_wait_ends),
		cmocka_unit_test(a_child_knows_that_it_is_one),
		cmocka_unit_test(hmac_is_rfc_4231s),
		cmocka_unit_test(sha_256_is_fips_180s),
		cmocka_unit_test(a_signature_is_of_one_key_and_text),
		cmocka_unit_test(an_exchange_gives_both_the_same),
		cmocka_unit_test(secrets_compare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

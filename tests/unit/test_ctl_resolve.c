/* SPDX-License-Identifier: Apache-2.0 */
/* From "host:port" to addresses: literals, names, nonsense, and name servers that hang. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "ctl/conn.h"
#include "ctl/resolve.h"
#include "sys/addr.h"
#include "sys/fork.h"

static struct sockaddr_storage addrs[8];
static unsigned count;

static tcpx_status resolve(const char *text)
{
	count = 0;
	return ctl_resolve(text, 20000, clock_now_ns() + 20 * CLOCK_S_NS, addrs, 8, &count);
}

static void assert_first(const char *text, const char *want)
{
	char buf[SYS_ADDR_TEXT];

	assert_int_equal(resolve(text), TCPX_OK);
	assert_true(count >= 1);
	assert_string_equal(sys_addr_text(&addrs[0], buf), want);
}

static void literals_need_no_look_up(void **state)
{
	(void)state;
	assert_first("192.0.2.1", "192.0.2.1:20000");
	assert_first("192.0.2.1:80", "192.0.2.1:80");
	assert_first("2001:db8::1", "[2001:db8::1]:20000");
	assert_first("[2001:db8::1]", "[2001:db8::1]:20000");
	assert_first("[2001:db8::1]:65535", "[2001:db8::1]:65535");
	assert_first("[fe80::1%lo]:7", "[fe80::1%lo]:7");
}

static void nonsense_is_named(void **state)
{
	static const char *const bad[] = {"",		":80",	     "host:",	 "host:0",
					  "host:65536", "host:x",    "host:-1",	 "[::1",
					  "[::1]80",	"[::1]:",    "[]:80",	 "1:2:3",
					  "[name]:80",	"[::1%]:80", "h:000080", "::1]:80"};
	char long_name[400];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (resolve(bad[i]) != TCPX_ERR_INVALID)
			fail_msg("'%s' was taken", bad[i]);
		assert_non_null(strstr(error_last()->next, "HOST:PORT"));
	}
	memset(long_name, 'a', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(resolve(long_name), TCPX_ERR_INVALID);
	assert_int_equal(resolve(NULL), TCPX_ERR_INVALID);
}

static void localhost_is_loopback(void **state)
{
	(void)state;
	assert_int_equal(resolve("localhost:4242"), TCPX_OK);
	for (unsigned i = 0; i < count; i++) {
		assert_true(sys_addr_is_loopback(&addrs[i]));
		assert_int_equal(sys_addr_port(&addrs[i]), 4242);
	}
}

static int no_such_name(const char *host, const char *service, const struct addrinfo *hints,
			struct addrinfo **out)
{
	(void)host, (void)service, (void)hints, (void)out;
	return EAI_NONAME;
}

static int no_descriptor(const char *host, const char *service, const struct addrinfo *hints,
			 struct addrinfo **out)
{
	(void)host, (void)service, (void)hints, (void)out;
	errno = EMFILE;
	return EAI_SYSTEM;
}

static void an_unknown_name_is_not_found(void **state)
{
	(void)state;
	ctl_resolve_set_lookup(no_such_name);
	assert_int_equal(resolve("no-such-host"), TCPX_ERR_NOT_FOUND);
	assert_non_null(strstr(error_last()->what, "no-such-host"));
	ctl_resolve_set_lookup(no_descriptor);
	assert_int_equal(resolve("some-host"), TCPX_ERR_NO_DESCRIPTORS);
	assert_int_equal(error_last()->system_errno, EMFILE);
	ctl_resolve_set_lookup(NULL);
}

/* Three of IPv6, then two of IPv4. */
static int many_addresses(const char *host, const char *service, const struct addrinfo *hints,
			  struct addrinfo **out)
{
	static const char *const texts[] = {"2001:db8::1", "2001:db8::2", "2001:db8::3",
					    "192.0.2.1", "192.0.2.2"};

	(void)host, (void)service, (void)hints;
	*out = NULL;
	for (size_t i = sizeof(texts) / sizeof(texts[0]); i--;) {
		struct addrinfo *ai = calloc(1, sizeof(*ai) + sizeof(struct sockaddr_storage));
		struct sockaddr_storage *addr = (struct sockaddr_storage *)(void *)(ai + 1);

		assert_non_null(ai);
		assert_int_equal(sys_addr_parse(texts[i], 0, addr), TCPX_OK);
		*ai = (struct addrinfo){.ai_family = addr->ss_family,
					.ai_addr = (struct sockaddr *)addr,
					.ai_addrlen = sys_addr_len(addr),
					.ai_next = *out};
		*out = ai;
	}
	return 0;
}

static void families_come_by_turns(void **state)
{
	static const char *const want[] = {"[2001:db8::1]:7", "192.0.2.1:7", "[2001:db8::2]:7",
					   "192.0.2.2:7", "[2001:db8::3]:7"};
	struct sockaddr_storage few[2];
	char buf[SYS_ADDR_TEXT];

	(void)state;
	ctl_resolve_set_lookup(many_addresses);
	assert_int_equal(resolve("host.example:7"), TCPX_OK);
	assert_int_equal(count, 5);
	for (unsigned i = 0; i < count; i++)
		assert_string_equal(sys_addr_text(&addrs[i], buf), want[i]);
	assert_int_equal(
		ctl_resolve("host.example:7", 1, clock_now_ns() + 20 * CLOCK_S_NS, few, 2, &count),
		TCPX_OK);
	assert_int_equal(count, 2);
	assert_string_equal(sys_addr_text(&few[1], buf), want[1]); /* both families are kept */
	ctl_resolve_set_lookup(NULL);
}

static sem_t gate, arrived, left;

static int make_semaphores(void **state)
{
	(void)state;
	return sem_init(&gate, 0, 0) || sem_init(&arrived, 0, 0) || sem_init(&left, 0, 0);
}

static void wait_for(sem_t *sem, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		while (sem_wait(sem))
			;
}

static void open_gate(unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		sem_post(&gate);
}

static int hang(const char *host, const char *service, const struct addrinfo *hints,
		struct addrinfo **out)
{
	(void)host, (void)service, (void)hints, (void)out;
	sem_post(&arrived);
	wait_for(&gate, 1);
	sem_post(&left);
	return EAI_AGAIN;
}

static tcpx_status resolve_hanging(void)
{
	return ctl_resolve("slow", 1, clock_now_ns() + CLOCK_MS_NS, addrs, 8, &count);
}

/* As many look-ups hang as may, once those that are on their way out have gone. */
static void hang_all(void)
{
	ctl_resolve_set_lookup(hang);
	for (int i = 0; i < CTL_RESOLVE_STUCK_MAX; i++) {
		tcpx_status status;

		do
			status = resolve_hanging();
		while (status == TCPX_ERR_LIMIT);
		assert_int_equal(status, TCPX_ERR_TIMED_OUT);
		assert_non_null(strstr(error_last()->what, "slow"));
	}
	assert_int_equal(resolve("slow"), TCPX_ERR_LIMIT); /* not one more is started */
	wait_for(&arrived, CTL_RESOLVE_STUCK_MAX);
}

static void let_all_go(void)
{
	open_gate(CTL_RESOLVE_STUCK_MAX);
	wait_for(&left, CTL_RESOLVE_STUCK_MAX);
	ctl_resolve_set_lookup(no_such_name);
	while (resolve("later") == TCPX_ERR_LIMIT) /* until one of them has said so */
		;
	assert_int_equal(resolve("later"), TCPX_ERR_NOT_FOUND);
}

static int fail_and_say_so(const char *host, const char *service, const struct addrinfo *hints,
			   struct addrinfo **out)
{
	sem_post(&left);
	return no_such_name(host, service, hints, out);
}

static void a_hanging_look_up_ends_at_the_deadline(void **state)
{
	unsigned asked = 0;

	(void)state;
	hang_all();
	assert_first("192.0.2.1:80", "192.0.2.1:80"); /* literals go on */
	let_all_go();
	/* Answers about when the deadline passes: each is counted once or not at all. */
	ctl_resolve_set_lookup(fail_and_say_so);
	for (int i = 0; i < 500; i++) {
		int64_t deadline_ns = clock_now_ns() + i % 64 * 1000;

		if (ctl_resolve("late", 1, deadline_ns, addrs, 8, &count) != TCPX_ERR_LIMIT)
			asked++;
	}
	wait_for(&left, asked);
	hang_all();
	let_all_go();
	ctl_resolve_set_lookup(NULL);
}

static int resolve_in_child(void)
{
	ctl_resolve_set_lookup(no_such_name);
	return resolve("some-host");
}

static unsigned threads_now(void)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned threads = 0;

	assert_non_null(tasks);
	for (struct dirent *entry; (entry = readdir(tasks));)
		threads += entry->d_name[0] != '.';
	closedir(tasks);
	return threads;
}

/* A child has none of the threads that hang. The parent forks while no thread begins or ends: the
 * address sanitizer holds locks then that no thread of the child would release. */
static void a_child_begins_with_none_that_hangs(void **state)
{
	(void)state;
#if defined(__SANITIZE_THREAD__)
	return; /* it allows no new threads in a child of a process with threads */
#endif
	assert_int_equal(sys_fork_init(), TCPX_OK);
	hang_all();
	while (threads_now() != 1 + CTL_RESOLVE_STUCK_MAX)
		sched_yield();
	assert_int_equal(in_child(resolve_in_child), (uint8_t)TCPX_ERR_NOT_FOUND);
	assert_int_equal(resolve("slow"), TCPX_ERR_LIMIT);
	let_all_go();
	ctl_resolve_set_lookup(NULL);
}

#define MANY 40

/* An answer that waits until everybody has asked. */
static int answer_slowly(const char *host, const char *service, const struct addrinfo *hints,
			 struct addrinfo **out)
{
	(void)host;
	sem_post(&arrived);
	wait_for(&gate, 1);
	return getaddrinfo("127.0.0.1", service, hints, out);
}

static void *resolve_one(void *arg)
{
	struct sockaddr_storage found[1];
	tcpx_status *status = arg;
	unsigned n;

	*status = ctl_resolve("some-host", 1, clock_now_ns() + 20 * CLOCK_S_NS, found, 1, &n);
	if (*status != TCPX_OK)
		sem_post(&arrived); /* it never asked */
	return NULL;
}

/* Look-ups that take their time are no look-ups that hang. */
static void many_look_ups_at_once(void **state)
{
	tcpx_status status[MANY];
	pthread_t threads[MANY];

	(void)state;
	ctl_resolve_set_lookup(answer_slowly);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, resolve_one, &status[i]), 0);
	wait_for(&arrived, MANY);
	open_gate(MANY);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(status[i], TCPX_OK);
	}
	ctl_resolve_set_lookup(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(literals_need_no_look_up),
		cmocka_unit_test(nonsense_is_named),
		cmocka_unit_test(localhost_is_loopback),
		cmocka_unit_test(an_unknown_name_is_not_found),
		cmocka_unit_test(families_come_by_turns),
		cmocka_unit_test(a_hanging_look_up_ends_at_the_deadline),
		cmocka_unit_test(a_child_begins_with_none_that_hangs),
		cmocka_unit_test(many_look_ups_at_once),
	};

	return cmocka_run_group_tests(tests, make_semaphores, NULL);
}

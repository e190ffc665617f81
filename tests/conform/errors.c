/* SPDX-License-Identifier: Apache-2.0 */
/* What the last error says: cause with names and values, and the next step. A table of texts. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "check.h"
#include "parts/filter.h"
#include "sys/crypto.h"
#include <tcpx/tcpx.h>

/* The last error must be status, and match what and next (shell patterns). */
static void expect_text(int line, tcpx_status got, tcpx_status status, const char *what,
			const char *next)
{
	const tcpx_error *error = tcpx_last_error();

	if (got != status || error->status != status)
		check_fail(__FILE__, line, "%s, last error %s (%s), not %s", tcpx_status_name(got),
			   tcpx_status_name(error->status), error->what, tcpx_status_name(status));
	if (fnmatch(what, error->what, 0) != 0)
		check_fail(__FILE__, line, "what is \"%s\", not \"%s\"", error->what, what);
	if (fnmatch(next, error->next, 0) != 0)
		check_fail(__FILE__, line, "next is \"%s\", not \"%s\"", error->next, next);
}

#define TEXT(expr, status, what, next) expect_text(__LINE__, (expr), status, what, next)

/* A session with one option. */
static tcpx_status open_with(tcpx_session_opts opts)
{
	tcpx_session *session = NULL;
	tcpx_status status;

	opts.sz = sizeof(opts);
	status = tcpx_session_open(&opts, &session);
	if (status == TCPX_OK)
		tcpx_session_close(session);
	else
		CHECK(!session);
	return status;
}

#define OPEN(...) open_with((tcpx_session_opts){__VA_ARGS__})

static tcpx_session *opened(tcpx_session_opts opts)
{
	tcpx_session *session = NULL;

	opts.sz = sizeof(opts);
	CHECK_MSG(tcpx_session_open(&opts, &session) == TCPX_OK, "%s", tcpx_last_error()->what);
	return session;
}

#define OPENED(...) opened((tcpx_session_opts){__VA_ARGS__})

static void case_options(void *arg)
{
	char name[TCPX_NAME_MAX + 2];

	(void)arg;
	TEXT(OPEN(.channels = 65), TCPX_ERR_INVALID, "*channels*65*", "*64*");
	TEXT(OPEN(.chunk_bytes = 100), TCPX_ERR_INVALID, "*chunk_bytes*100*", "*4*16*M*");
	TEXT(OPEN(.chunk_bytes = 64 << 20), TCPX_ERR_INVALID, "*chunk_bytes*67108864*", "?*");
	TEXT(OPEN(.silent_ms = 10), TCPX_ERR_INVALID, "*silent_ms*10*", "*1000*60000*");
	TEXT(OPEN(.silent_ms = 60001), TCPX_ERR_INVALID, "*silent_ms*60001*", "?*");
	TEXT(OPEN(.stopped_ms = 5), TCPX_ERR_INVALID, "*stopped_ms*5*", "*3000*600000*");
	TEXT(OPEN(.flags = 1ull << 40), TCPX_ERR_INVALID, "*flags*", "?*");
	TEXT(OPEN(.flags = TCPX_SESSION_NO_LOCAL | TCPX_SESSION_LOCAL_ONLY), TCPX_ERR_INVALID,
	     "*LOCAL*", "?*");
	filter_choose("nonsense"); /* what tests put around channels says its mistakes as well */
	TEXT(OPEN(.name = "filters"), TCPX_ERR_INVALID, "*nonsense*", "?*");
	filter_choose("fault:speed=3");
	TEXT(OPEN(.name = "filters"), TCPX_ERR_INVALID, "*speed*", "?*");
	filter_choose(NULL);
	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = 0;
	TEXT(OPEN(.name = name), TCPX_ERR_INVALID, "*name*", "?*");
}

static void case_bind(void *arg)
{
	(void)arg;
	TEXT(OPEN(.bind = "no-such-if0"), TCPX_ERR_ADDRESS, "*no-such-if0*", "?*");
	TEXT(OPEN(.bind = "192.0.2.77"), TCPX_ERR_ADDRESS, "*192.0.2.77*", "?*");
	TEXT(OPEN(.bind = "127.0.0.1,,lo"), TCPX_ERR_INVALID, "*bind*", "?*");
	TEXT(OPEN(.bind = "1.2.3.4.5"), TCPX_ERR_ADDRESS, "*1.2.3.4.5*", "?*");
}

static int lone_namespace(void)
{
	return unshare(CLONE_NEWNET) == 0;
}

static void lo_up(const char *name, const char *address)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};
	struct ifreq ifr = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	CHECK(inet_pton(AF_INET, address, &sin.sin_addr) == 1);
	memcpy(&ifr.ifr_addr, &sin, sizeof(sin));
	CHECK(ioctl(fd, SIOCSIFADDR, &ifr) == 0);
	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	CHECK(ioctl(fd, SIOCSIFFLAGS, &ifr) == 0);
	close(fd);
}

static void address_gone(const char *name)
{
	struct ifreq ifr = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	CHECK(fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &ifr) == 0);
	ifr.ifr_flags = (short)(ifr.ifr_flags & ~IFF_UP); /* of an alias: it goes away */
	CHECK(ioctl(fd, SIOCSIFFLAGS, &ifr) == 0);
	close(fd);
}

/* The interface of a session goes away between open and the first use. */
static void case_interface_gone(void *arg)
{
	TCPX_OPTS(tcpx_listen_opts, listen, .port = 0);
	tcpx_session *session;
	uint16_t port = 0;
	tcpx_peer peer;

	(void)arg;
	if (!lone_namespace())
		SKIP("cannot make a network namespace (needs root)");
	lo_up("lo", "127.0.0.1");
	lo_up("lo:1", "10.9.9.1");
	session = OPENED(.bind = "10.9.9.1", .flags = TCPX_SESSION_INSECURE);
	address_gone("lo:1");
	TEXT(tcpx_session_listen(session, &listen, &port), TCPX_ERR_ADDRESS,
	     "*10.9.9.1*not an address*", "*ip address*");
	TEXT(tcpx_session_connect_to(session, "10.9.9.2:9", NULL, &peer), TCPX_ERR_ADDRESS,
	     "*10.9.9.1*not an address*", "*ip address*");
	tcpx_session_close(session);
	TEXT(OPEN(.bind = "10.9.9.1"), TCPX_ERR_ADDRESS, "*10.9.9.1*", "*lo 127.0.0.1*");
	/* no route: down or gone, the kernel says so at once */
	session = OPENED(.flags = TCPX_SESSION_INSECURE);
	TEXT(tcpx_session_connect_to(session, "10.9.9.2:9", NULL, &peer), TCPX_ERR_UNREACHABLE,
	     "*10.9.9.2:9*", "?*");
	tcpx_session_close(session);
}

/* tcpx_key_create: every error of its documentation but ERR_NO_DESCRIPTORS. */
static void case_key_file(void *arg)
{
	char folder[] = "/tmp/tcpx-errors-XXXXXX", path[64], deeper[80];

	(void)arg;
	CHECK(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/key", folder);
	snprintf(deeper, sizeof(deeper), "%s/key", path);
	TEXT(tcpx_key_create(NULL, 0), TCPX_ERR_INVALID, "*path*", "?*");
	TEXT(tcpx_key_create("", 1), TCPX_ERR_INVALID, "*path*", "?*");
	TEXT(tcpx_key_create(path, 1), TCPX_ERR_NOT_FOUND, "*tcpx-errors-*", "*key new*");
	TEXT(tcpx_key_create(folder, 1), TCPX_ERR_SYSTEM, "*tcpx-errors-*", "?*");
	CHECK_EQ(tcpx_key_create(path, 0), TCPX_OK);
	TEXT(tcpx_key_create(path, 0), TCPX_ERR_EXISTS, "*tcpx-errors-*", "*append*");
	TEXT(tcpx_key_create(deeper, 0), TCPX_ERR_SYSTEM, "*tcpx-errors-*", "*path*");
	CHECK_EQ(tcpx_key_create(path, 1), TCPX_OK);
	TEXT(tcpx_key_create(path, 1), TCPX_ERR_LIMIT, "*tcpx-errors-*two*", "*older*");
	CHECK(chmod(path, 0644) == 0);
	TEXT(tcpx_key_create(path, 1), TCPX_ERR_AUTH, "*tcpx-errors-*", "*600*");
	CHECK(unlink(path) == 0 && rmdir(folder) == 0);
}

/* A session of INFO_ONLY: who has its connection info comes in, who has its address does not. */
static void info_alone_opens(const char *bind)
{
	TCPX_OPTS(tcpx_listen_opts, listen, .port = 0);
	tcpx_session *session = OPENED(.bind = bind, .flags = TCPX_SESSION_INFO_ONLY);
	tcpx_session *far = OPENED(.bind = bind, .flags = TCPX_SESSION_INSECURE);
	uint8_t info[TCPX_INFO_MAX_BYTES];
	char address[64];
	tcpx_peer peer;
	uint16_t port;
	size_t len;
	tcpx_status status = tcpx_session_listen(session, &listen, &port);

	CHECK_EQ(status, TCPX_OK);
	CHECK_STR(tcpx_session_trust(session), "secret");
	snprintf(address, sizeof(address), "%s:%u", bind, port);
	CHECK_EQ(tcpx_session_connect_to(far, address, NULL, &peer), TCPX_ERR_AUTH);
	CHECK_EQ(tcpx_session_info(session, info, sizeof(info), &len), TCPX_OK);
	CHECK_EQ(tcpx_session_connect(far, info, len, NULL, &peer), TCPX_OK);
	tcpx_session_close(far);
	tcpx_session_close(session);
}

/* "auto" of INFO_ONLY listens where it is allowed to, whatever this build can prove. */
static void case_auto(void *arg)
{
	TCPX_OPTS(tcpx_listen_opts, listen, .port = 0);
	tcpx_session *session = OPENED(.bind = "auto", .flags = TCPX_SESSION_INFO_ONLY);
	uint16_t port;

	(void)arg;
	CHECK_EQ(tcpx_session_listen(session, &listen, &port), TCPX_OK);
	CHECK_STR(tcpx_session_trust(session), "secret");
	tcpx_session_close(session);
}

/* An interface without a usable address; a port beyond loopback without a key. */
static void case_namespace(void *arg)
{
	TCPX_OPTS(tcpx_listen_opts, listen, .port = 0);
	char path[] = "/tmp/tcpx-errors-XXXXXX";
	tcpx_session *session;
	uint16_t port = 0;
	int fd;

	(void)arg;
	if (!lone_namespace())
		SKIP("cannot make a network namespace (needs root)");
	TEXT(OPEN(.bind = "lo"), TCPX_ERR_ADDRESS, "*lo*", "?*"); /* it is down */
	lo_up("lo", "127.0.0.1");
	lo_up("lo:1", "10.9.9.1");
	session = OPENED(.bind = "10.9.9.1");
	TEXT(tcpx_session_listen(session, &listen, &port), TCPX_ERR_AUTH, "*10.9.9.1*key*",
	     "*TCPX_KEY_FILE*insecure*");
	CHECK_EQ(port, 0);
	tcpx_session_close(session);
	session = OPENED(.bind = "10.9.9.1", .flags = TCPX_SESSION_INSECURE);
	CHECK_EQ(tcpx_session_listen(session, &listen, &port), TCPX_OK);
	CHECK_STR(tcpx_session_trust(session), "insecure");
	tcpx_session_close(session);
	TEXT(OPEN(.flags = TCPX_SESSION_INSECURE | TCPX_SESSION_INFO_ONLY), TCPX_ERR_INVALID,
	     "*INFO_ONLY*INSECURE*", "?*");
	if (sys_crypto_available())
		info_alone_opens("10.9.9.1");
	info_alone_opens("127.0.0.1");
	/* key files: missing, readable by others, not keys, then a good one */
	fd = mkstemp(path);
	CHECK(fd >= 0 && unlink(path) == 0);
	close(fd);
	TEXT(OPEN(.bind = "10.9.9.1", .key_file = path), TCPX_ERR_NOT_FOUND, "*tcpx-errors-*",
	     "*key new*");
	CHECK_EQ(tcpx_key_create(path, 0), TCPX_OK);
	TEXT(tcpx_key_create(path, 0), TCPX_ERR_EXISTS, "*tcpx-errors-*", "?*");
	CHECK(chmod(path, 0644) == 0);
	TEXT(OPEN(.bind = "10.9.9.1", .key_file = path), TCPX_ERR_AUTH, "*tcpx-errors-*", "*600*");
	TEXT(tcpx_key_create(path, 1), TCPX_ERR_AUTH, "*tcpx-errors-*", "*600*");
	CHECK(chmod(path, 0600) == 0);
	if (!sys_crypto_available()) {
		TEXT(OPEN(.bind = "10.9.9.1", .key_file = path), TCPX_ERR_UNSUPPORTED,
		     "*without crypto*", "?*");
		unlink(path);
		return;
	}
	session = OPENED(.bind = "10.9.9.1", .key_file = path);
	CHECK_EQ(tcpx_session_listen(session, &listen, &port), TCPX_OK);
	CHECK_STR(tcpx_session_trust(session), "key");
	tcpx_session_close(session);
	session = OPENED(.bind = "10.9.9.1", .key_file = path, .flags = TCPX_SESSION_INFO_ONLY);
	CHECK_STR(tcpx_session_trust(session), "secret"); /* the key admits nobody */
	tcpx_session_close(session);
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	CHECK(fd >= 0 && write(fd, "not a key\n", 10) == 10);
	close(fd);
	TEXT(OPEN(.bind = "10.9.9.1", .key_file = path), TCPX_ERR_AUTH, "*tcpx-errors-*", "?*");
	unlink(path);
}

static void case_port_taken(void *arg)
{
	tcpx_session *one = OPENED(.name = "one"), *two = OPENED(.name = "two");
	TCPX_OPTS(tcpx_listen_opts, listen, .port = 0);
	char pattern[64];
	uint16_t port, other;

	(void)arg;
	CHECK_EQ(tcpx_session_listen(one, &listen, &port), TCPX_OK);
	listen.port = port;
	snprintf(pattern, sizeof(pattern), "*127.0.0.1*%u*", port);
	TEXT(tcpx_session_listen(two, &listen, &other), TCPX_ERR_ADDRESS, pattern, "*port*");
	CHECK_EQ(tcpx_last_error()->system_errno, EADDRINUSE);
	listen.retries = 50;
	CHECK_EQ(tcpx_session_listen(two, &listen, &other), TCPX_OK);
	CHECK(other > port && other <= port + 50); /* the real one is published */
	listen.port = 70000;
	TEXT(tcpx_session_listen(one, &listen, &other), TCPX_ERR_STATE, "*", "?*");
	tcpx_session_close(two);
	two = OPENED(.name = "two");
	listen.port = port;
	listen.retries = UINT32_MAX; /* every port that is left */
	CHECK_EQ(tcpx_session_listen(two, &listen, &other), TCPX_OK);
	CHECK(other > port);
	tcpx_session_close(one);
	tcpx_session_close(two);
	one = OPENED(.name = "one");
	listen.port = 70000;
	TEXT(tcpx_session_listen(one, &listen, &other), TCPX_ERR_INVALID, "*70000*", "?*");
	tcpx_session_close(one);
}

static void set_files(rlim_t count)
{
	struct rlimit limit;

	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = count;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* No descriptors left: said, nothing leaks, and it works again afterwards. */
static void case_no_descriptors(void *arg)
{
	tcpx_session *session, *other;
	uint8_t info[TCPX_INFO_MAX_BYTES];
	tcpx_peer peer;
	uint16_t port;
	size_t len;
	int fd = dup(0);

	(void)arg;
	CHECK(fd > 0);
	close(fd);
	for (int room = 0; room < 6; room++) {
		tcpx_status status;

		session = NULL;
		set_files((rlim_t)(fd + room));
		status = tcpx_session_open(NULL, &session);
		if (status != TCPX_OK)
			TEXT(status, TCPX_ERR_NO_DESCRIPTORS, "?*", "*ulimit -n*");
		tcpx_session_close(session);
	}
	set_files(1024);
	session = OPENED(.name = "one");
	other = OPENED(.name = "two");
	CHECK_EQ(tcpx_session_listen(session, NULL, &port), TCPX_OK);
	CHECK_EQ(tcpx_session_info(session, info, sizeof(info), &len), TCPX_OK);
	set_files(3); /* whatever a thread of theirs closes yet is no room either */
	TEXT(tcpx_key_create("/tmp/tcpx-no-key", 0), TCPX_ERR_NO_DESCRIPTORS, "*tcpx-no-key*",
	     "*ulimit -n*");
	TEXT(tcpx_session_listen(other, NULL, &port), TCPX_ERR_NO_DESCRIPTORS, "?*", "*ulimit -n*");
	TEXT(tcpx_session_connect(other, info, len, NULL, &peer), TCPX_ERR_NO_DESCRIPTORS, "?*",
	     "*ulimit -n*");
	set_files(1024);
	CHECK_EQ(tcpx_session_connect(other, info, len, NULL, &peer), TCPX_OK);
	tcpx_session_close(session);
	tcpx_session_close(other);
}

static void case_memory(void *arg)
{
	tcpx_session *session = OPENED(.name = "one");
	TCPX_OPTS(tcpx_region_opts, cuda, .kind = TCPX_MEM_CUDA);
	tcpx_region region;
	char data[64];

	(void)arg;
	TEXT(tcpx_region_register(session, NULL, 10, NULL, &region), TCPX_ERR_INVALID, "*NULL*",
	     "?*");
	TEXT(tcpx_region_register(session, data, 0, NULL, &region), TCPX_ERR_INVALID, "*length*",
	     "?*");
	TEXT(tcpx_region_register(session, (void *)(UINTPTR_MAX - 5), 10, NULL, &region),
	     TCPX_ERR_INVALID, "*wrap*", "?*");
	TEXT(tcpx_region_register(session, data, 8, &cuda, &region), TCPX_ERR_UNSUPPORTED,
	     "*CUDA driver*/none/libcuda.so*", "*TCPX_CUDA_LIBRARY*");
	TEXT(tcpx_region_deregister(session, (tcpx_region){9}, 0), TCPX_ERR_STALE, "*region*",
	     "?*");
	tcpx_session_close(session);
}

static void case_connect(void *arg)
{
	tcpx_session *session = OPENED(.name = "one"), *other = OPENED(.name = "two");
	TCPX_OPTS(tcpx_connect_opts, quick, .timeout_ns = 200000000);
	uint8_t info[TCPX_INFO_MAX_BYTES];
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t sin_len = sizeof(sin);
	char address[64], pattern[80];
	tcpx_peer peer;
	uint16_t port;
	size_t len;
	int fd;

	(void)arg;
	CHECK_EQ(tcpx_session_listen(other, NULL, &port), TCPX_OK);
	CHECK_EQ(tcpx_session_info(other, info, sizeof(info), &len), TCPX_OK);
	TEXT(tcpx_session_connect(session, "junk", 4, NULL, &peer), TCPX_ERR_INVALID, "*info*",
	     "?*");
	tcpx_session_close(other);
	snprintf(pattern, sizeof(pattern), "*two*127.0.0.1*%u*", port);
	TEXT(tcpx_session_connect(session, info, len, NULL, &peer), TCPX_ERR_REFUSED, pattern,
	     "*listens*");
	CHECK_EQ(tcpx_last_error()->system_errno, ECONNREFUSED);
	TEXT(tcpx_session_connect_to(session, "127.0.0.1:1", NULL, &peer), TCPX_ERR_REFUSED,
	     "*127.0.0.1:1*", "*listens*");
	TEXT(tcpx_session_connect_to(session, "no-such-host.invalid:9", NULL, &peer),
	     TCPX_ERR_NOT_FOUND, "*no-such-host.invalid*", "*name*");
	TEXT(tcpx_session_connect_to(session, "[::1:9", NULL, &peer), TCPX_ERR_INVALID, "*::1*",
	     "?*");
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0 && bind(fd, (void *)&sin, sin_len) == 0 && listen(fd, 4) == 0);
	CHECK(getsockname(fd, (void *)&sin, &sin_len) == 0);
	snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(sin.sin_port));
	snprintf(pattern, sizeof(pattern), "*%s*", address);
	TEXT(tcpx_session_connect_to(session, address, &quick, &peer), TCPX_ERR_TIMED_OUT, pattern,
	     "?*");
	close(fd);
	tcpx_session_close(session);
}

static void case_budgets(void *arg)
{
	tcpx_session *session = OPENED(.name = "one", .memory_budget_bytes = 1 << 20);
	char *big = calloc(1, TCPX_NOTIFY_MAX + 1);
	uint8_t info[TCPX_INFO_MAX_BYTES];
	tcpx_status status;
	tcpx_peer peer;
	uint16_t port;
	size_t len;
	int sent = 0;

	(void)arg;
	CHECK(big);
	CHECK_EQ(tcpx_session_listen(session, NULL, &port), TCPX_OK);
	CHECK_EQ(tcpx_session_info(session, info, sizeof(info), &len), TCPX_OK);
	status = tcpx_session_connect(session, info, len, NULL, &peer);
	if (status == TCPX_OK) {
		TEXT(tcpx_notify_send(session, peer, big, TCPX_NOTIFY_MAX + 1), TCPX_ERR_LIMIT,
		     "*67108865*", "?*");
		while (sent < 100 && (status = tcpx_notify_send(session, peer, big, 100000)) == 0)
			sent++;
	}
	/* Whatever came first, it names the option to raise. */
	CHECK(status == TCPX_ERR_LIMIT || status == TCPX_ERR_AGAIN);
	TEXT(status, status, "*budget*", "*memory_budget_bytes*");
	tcpx_session_close(session);
	free(big);
}

static const struct check_case cases[] = {
	{"options", case_options},	 {"bind", case_bind},
	{"key_file", case_key_file},	 {"auto", case_auto},
	{"namespace", case_namespace},	 {"interface_gone", case_interface_gone},
	{"port_taken", case_port_taken}, {"no_descriptors", case_no_descriptors},
	{"memory", case_memory},	 {"connect", case_connect},
	{"budgets", case_budgets},
};

int main(int argc, char **argv)
{
	setenv("TCPX_CUDA_LIBRARY", "/none/libcuda.so", 1); /* the same words on every machine */
	return check_main(cases, sizeof(cases) / sizeof(cases[0]), argc > 1 ? argv[1] : NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's handle for a plugin, which the plugin would take for its own: the emulator counts what
 * would make the original follow a pointer or leave its arrays. */
#include "unit.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdlib.h>

#include <tcpx/tcpx.h>

#include "abi/ncclnet.h"
#include "base/clock.h"
#include "plugin/image.h"
#include "plugin/setup.h"
#include "tcpxemu/tcpxemu.h"

#define WAIT_NS (20 * CLOCK_S_NS)

/* What is put over the handles that peers are told. */
static struct {
	size_t at, bytes;
	uint8_t what[48];
} change;

const uint8_t *__real_net_listener_handle(const struct net_listener *listener);
const uint8_t *__wrap_net_listener_handle(const struct net_listener *listener);
const uint8_t *__wrap_net_listener_handle(const struct net_listener *listener)
{
	static uint8_t said[NCCLNET_HANDLE_BYTES];

	memcpy(said, __real_net_listener_handle(listener), sizeof(said));
	memcpy(said + change.at, change.what, change.bytes);
	return said;
}

static void change_to(size_t at, const void *what, size_t bytes)
{
	assert_true(at + bytes <= NCCLNET_HANDLE_BYTES && bytes <= sizeof(change.what));
	change.at = at;
	change.bytes = bytes;
	memcpy(change.what, what, bytes);
}

static uint64_t violations(const char *path)
{
	void *dl = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	uint64_t (*count)(const char *name) = NULL;
	uint64_t found;

	*(void **)&count = dl ? dlsym(dl, "tcpxemu_violations") : NULL;
	assert_non_null(count);
	found = count(NULL);
	dlclose(dl);
	return found;
}

/* Two sessions with that plugin connect. Why they have no channels of messages; "": they have. */
static const char *connect_why(const char *path, const char *key)
{
	static tcpx_peer_info info;
	tcpx_session *near, *far;
	tcpx_peer peer, back;
	char address[64];
	uint16_t port;

	TCPX_OPTS(tcpx_session_opts, opts, .plugin = path, .bind = "127.0.0.1", .key_file = key,
		  .flags = TCPX_SESSION_NO_LOCAL, .channels = 1);
	assert_int_equal(tcpx_session_open(&opts, &near), TCPX_OK);
	assert_int_equal(tcpx_session_open(&opts, &far), TCPX_OK);
	assert_int_equal(tcpx_session_listen(far, NULL, &port), TCPX_OK);
	snprintf(address, sizeof(address), "127.0.0.1:%u", port);
	assert_int_equal(tcpx_session_connect_to(near, address, NULL, &peer), TCPX_OK);
	assert_int_equal(tcpx_session_accept(far, WAIT_NS, &back), TCPX_OK);
	info = (tcpx_peer_info){.sz = sizeof(info)};
	assert_int_equal(tcpx_peer_query(near, peer, &info), TCPX_OK);
	tcpx_session_close(near);
	tcpx_session_close(far);
	assert_int_equal(violations(path), 0);
	return info.message_error;
}

#define REFUSED(at, what, bytes, word)                                                             \
	do {                                                                                       \
		change_to(at, what, bytes);                                                        \
		const char *why_ = connect_why(TCPXEMU, NULL);                                     \
		if (!strstr(why_, word))                                                           \
			fail_msg("'%s' has no '%s'", why_, word);                                  \
	} while (0)

/* Its own of the process that made it: nobody else may see them. */
static void what_is_local_does_not_come_through(void **state)
{
	(void)state;
	change_to(80, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 48);
	assert_string_equal(connect_why(TCPXEMU, NULL), "");
}

static void numbers_are_within_the_arrays(void **state)
{
	static const int32_t bad[][2] = {{0, 1}, {9, 1}, {1, 0}, {1, 9}, {-1, 1}, {1 << 30, 4}};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		REFUSED(36, bad[i], sizeof(bad[i]), "sockets");
}

static void addresses_are_such_as_peers_have(void **state)
{
	static const char *const bad[] = {"0.0.0.0", "169.254.169.254", "224.0.0.1",
					  "255.255.255.255"};
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(80)};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(inet_pton(AF_INET, bad[i], &addr.sin_addr), 1);
		REFUSED(0, &addr, sizeof(addr), "data address");
		REFUSED(48, &addr, sizeof(addr), "control address");
	}
	addr.sin_family = AF_UNIX;
	REFUSED(0, &addr, sizeof(addr), "family");
	addr = (struct sockaddr_in){.sin_family = AF_INET};
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	REFUSED(0, &addr, sizeof(addr), "data address"); /* without a port */
}

/* Loopback is another host's only where that is this one. */
static void loopback_is_of_this_host(void **state)
{
	uint8_t handle[NCCLNET_HANDLE_BYTES] = {0};
	struct net_plugin_opts load = {.path = TCPXEMU, .timeout_ns = WAIT_NS};
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(80)};
	struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
	const int32_t ones[] = {1, 1};
	struct net_plugin *plugin;

	(void)state;
	assert_int_equal(net_plugin_get(&load, &plugin), TCPX_OK);
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	memcpy(handle, &addr, sizeof(addr));
	memcpy(handle + 36, ones, sizeof(ones));
	assert_int_equal(net_handle_check(plugin, false, true, handle), TCPX_OK);
	assert_int_equal(net_handle_check(plugin, false, false, handle), TCPX_ERR_PROTOCOL);
	assert_int_equal(inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr), 1);
	memcpy(handle, &mapped, sizeof(mapped));
	assert_int_equal(net_handle_check(plugin, false, false, handle), TCPX_ERR_PROTOCOL);
	assert_int_equal(inet_pton(AF_INET6, "fd00::1", &mapped.sin6_addr), 1);
	memcpy(handle, &mapped, sizeof(mapped));
	assert_int_equal(net_handle_check(plugin, false, false, handle), TCPX_OK);
	net_plugin_put(plugin);
}

/* Of another version of the table nothing is known: who proved a key file may send it. (Or who is
 * trusted by option, as in conform-plugin-v8.) */
static void unknown_kinds_are_for_the_trusted(void **state)
{
	char path[] = "/tmp/tcpx-handle-XXXXXX", file[64], other[512];

	(void)state;
	change.bytes = 0;
	snprintf(other, sizeof(other), "%.*s-v8.so", (int)(strlen(TCPXEMU) - 3), TCPXEMU);
	assert_non_null(strstr(connect_why(other, NULL), "TCPX_PLUGIN_TRUST_PEERS"));
	assert_non_null(mkdtemp(path));
	snprintf(file, sizeof(file), "%s/key", path);
	if (tcpx_key_create(file, 0) == TCPX_OK) /* there is a crypto library */
		assert_string_equal(connect_why(other, file), "");
	unlink(file);
	assert_int_equal(rmdir(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_local_does_not_come_through),
		cmocka_unit_test(numbers_are_within_the_arrays),
		cmocka_unit_test(addresses_are_such_as_peers_have),
		cmocka_unit_test(loopback_is_of_this_host),
		cmocka_unit_test(unknown_kinds_are_for_the_trusted),
	};

	setenv("TCPX_PLUGIN_HOST", "1", 1); /* no GPU is wanted */
	setenv("TCPX_LOG", "error", 1);
	setenv("NCCL_DYNAMIC_CHUNK_SIZE", "524288", 1);
	setenv("TCPXEMU_STEER", "off", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

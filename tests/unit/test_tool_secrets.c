/* SPDX-License-Identifier: Apache-2.0 */
/* Once a session is closed, or a key file was read, nothing of their secrets is in memory. */
#include "secret_search.h"

#include <malloc.h>

#include <tcpx/tcpx.h>

#include "base/clock.h"
#include "cli_key.h"
#include "engine/session/calls.h"
#include "sys/crypto.h"

#define HEX_BYTES 64u
#define WAIT_NS (20 * CLOCK_S_NS)

struct end {
	tcpx_session *session;
	struct secret secret;	/* of its connection info */
	struct secret identity; /* of its own key */
	uint16_t port;
};

static char key_path[64];
static struct secret key, key_text;

/* A key of the library's making; nothing of it stays here. */
static void make_key(void)
{
	char text[HEX_BYTES];
	uint8_t bytes[HEX_BYTES / 2];
	int fd;

	snprintf(key_path, sizeof(key_path), "/tmp/tcpx-secrets-%d", getpid());
	assert_int_equal(tcpx_key_create(key_path, 0), TCPX_OK);
	fd = open(key_path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, text, sizeof(text)), sizeof(text));
	close(fd);
	for (unsigned i = 0; i < HEX_BYTES; i++) {
		uint8_t digit = (uint8_t)(text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10);

		bytes[i / 2] = (uint8_t)(bytes[i / 2] << 4 | digit);
	}
	key_text = secret_of(text, sizeof(text));
	key = secret_of(bytes, sizeof(bytes));
	explicit_bzero(text, sizeof(text));
	explicit_bzero(bytes, sizeof(bytes));
}

static void open_end(struct end *end, const char *name, uint64_t flags)
{
	TCPX_OPTS(tcpx_session_opts, opts, .name = name, .bind = "127.0.0.1", .channels = 2,
		  .flags = flags, .key_file = key_path);
	struct engine_session *session;

	assert_int_equal(tcpx_session_open(&opts, &end->session), TCPX_OK);
	assert_int_equal(tcpx_session_listen(end->session, NULL, &end->port), TCPX_OK);
	session = (struct engine_session *)end->session;
	end->secret = secret_of(session->secret, sizeof(session->secret));
	end->identity = secret_of(session->identity.own.secret, CTL_KEY_BYTES);
}

static struct secret link_key(const struct end *end, tcpx_peer handle)
{
	struct engine_peer *peer =
		engine_peer_get((struct engine_session *)end->session, handle.id);
	struct secret secret;

	assert_non_null(peer);
	secret = secret_of(peer->control.key, sizeof(peer->control.key));
	peer_put(peer);
	return secret;
}

static tcpx_peer by_info(const struct end *from, const struct end *to)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .reconnect = 1);
	uint8_t info[TCPX_INFO_MAX_BYTES];
	char name[TCPX_NAME_MAX + 1];
	tcpx_peer peer;
	size_t len;

	assert_int_equal(tcpx_session_info(to->session, info, sizeof(info), &len), TCPX_OK);
	assert_int_equal(tcpx_info_name(info, len, name, sizeof(name)), TCPX_OK);
	assert_int_equal(tcpx_session_connect(from->session, info, len, &opts, &peer), TCPX_OK);
	explicit_bzero(info, sizeof(info));
	return peer;
}

static tcpx_peer by_key(const struct end *from, const struct end *to)
{
	tcpx_peer peer;
	char address[32];

	snprintf(address, sizeof(address), "127.0.0.1:%u", to->port);
	assert_int_equal(tcpx_session_connect_to(from->session, address, NULL, &peer), TCPX_OK);
	return peer;
}

static void closed_sessions_leave_nothing(uint64_t flags)
{
	struct secret links[2];
	struct end a, b, c;

	open_end(&a, "a", flags);
	open_end(&b, "b", flags);
	open_end(&c, "c", flags);
	links[0] = link_key(&a, by_info(&a, &b));
	links[1] = link_key(&c, by_key(&c, &b));
	assert_true(secret_count(&b.secret, NULL) > 0); /* it would be found */
	assert_true(secret_count(&b.identity, NULL) > 0);
	assert_true(secret_count(&key, NULL) > 0);
	assert_true(secret_count(&links[0], NULL) > 0);
	tcpx_session_close(c.session);
	tcpx_session_close(a.session);
	tcpx_session_close(b.session);
	assert_int_equal(secret_count(&a.secret, "secret of a"), 0);
	assert_int_equal(secret_count(&b.secret, "secret of b"), 0);
	assert_int_equal(secret_count(&c.secret, "secret of c"), 0);
	assert_int_equal(secret_count(&a.identity, "own key of a"), 0);
	assert_int_equal(secret_count(&b.identity, "own key of b"), 0);
	assert_int_equal(secret_count(&c.identity, "own key of c"), 0);
	assert_int_equal(secret_count(&key, "key"), 0);
	assert_int_equal(secret_count(&key_text, "text of the key"), 0);
	assert_int_equal(secret_count(&links[0], "key of the link a-b"), 0);
	assert_int_equal(secret_count(&links[1], "key of the link c-b"), 0);
}

static void tcp_leaves_nothing(void **state)
{
	(void)state;
	closed_sessions_leave_nothing(TCPX_SESSION_NO_LOCAL);
}

static void local_leaves_nothing(void **state)
{
	(void)state;
	closed_sessions_leave_nothing(0);
}

static void wait_dead(const struct end *end, tcpx_peer peer)
{
	tcpx_peer_info info = {.sz = sizeof(info)};
	tcpx_event event = {.sz = sizeof(event)};

	do {
		assert_int_equal(tcpx_session_wait(end->session, WAIT_NS), TCPX_OK);
		assert_int_equal(tcpx_session_event(end->session, &event), TCPX_OK);
	} while (event.type != TCPX_EVENT_PEER_DOWN || event.peer.id != peer.id);
	assert_int_equal(tcpx_peer_query(end->session, peer, &info), TCPX_OK);
	assert_int_equal(info.state, TCPX_PEER_DEAD);
}

/* While the session and the handle live on. */
static void an_ended_peer_leaves_nothing(void **state)
{
	struct secret link;
	struct end a, b;
	tcpx_peer peer;

	(void)state;
	open_end(&a, "a", 0);
	open_end(&b, "b", 0);
	peer = by_key(&b, &a);
	link = link_key(&b, peer);
	tcpx_session_close(a.session);
	wait_dead(&b, peer);
	assert_int_equal(secret_count(&link, "key of the link"), 0);
	assert_int_equal(secret_count(&a.secret, "secret"), 0);
	tcpx_session_close(b.session);
}

static void ids_of_keys_leave_nothing(void **state)
{
	struct cli_key_ids ids;
	tcpx_status status;

	(void)state;
	assert_int_equal(cli_key_read(key_path, &ids, &status), 0);
	assert_int_equal(status, TCPX_OK);
	assert_int_equal(ids.count, 1);
	assert_int_equal(strlen(ids.ids[0]), CLI_KEY_ID_TEXT - 1);
	assert_int_equal(secret_count(&key, "key"), 0);
	assert_int_equal(secret_count(&key_text, "text of the key"), 0);
}

static int key_gone(void **state)
{
	(void)state;
	return key_path[0] ? unlink(key_path) : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tcp_leaves_nothing),
		cmocka_unit_test(local_leaves_nothing),
		cmocka_unit_test(an_ended_peer_leaves_nothing),
		cmocka_unit_test(ids_of_keys_leave_nothing),
	};

	if (!sys_crypto_available())
		return 77;
	mallopt(M_PERTURB, 0); /* MALLOC_PERTURB_ would wipe what the library frees */
	make_key();
	return cmocka_run_group_tests(tests, NULL, key_gone);
}

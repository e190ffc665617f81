/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that dial a session: so many at a time, so many half-open of one source, and of the dead
 * the last ones. */
#include "raw_rig.h"

#include "base/clock.h"
#include "engine/session/calls.h"

#define WAIT_NS (20 * CLOCK_S_NS)
#define HALVES 256
#define KEPT 64

static char address[32];

static void open_with(uint32_t max_peers)
{
	TCPX_OPTS(tcpx_session_opts, opts, .bind = "127.0.0.1", .channels = 2,
		  .flags = TCPX_SESSION_NO_LOCAL, .max_peers = max_peers);
	uint16_t got;

	assert_int_equal(tcpx_session_open(&opts, &session), TCPX_OK);
	assert_int_equal(tcpx_session_listen(session, NULL, &got), TCPX_OK);
	snprintf(address, sizeof(address), "127.0.0.1:%u", got);
	port = got;
}

struct client {
	tcpx_session *session;
	tcpx_peer peer;
};

static tcpx_status client_open(struct client *client)
{
	TCPX_OPTS(tcpx_session_opts, opts, .bind = "127.0.0.1", .channels = 1,
		  .flags = TCPX_SESSION_NO_LOCAL);
	tcpx_status status;

	assert_int_equal(tcpx_session_open(&opts, &client->session), TCPX_OK);
	status = tcpx_session_connect_to(client->session, address, NULL, &client->peer);
	if (status != TCPX_OK)
		tcpx_session_close(client->session);
	return status;
}

/* As soon as the other side knows that there is room again. */
static void client_open_at_last(struct client *client)
{
	int64_t deadline = clock_after(WAIT_NS);
	tcpx_status status;

	while ((status = client_open(client)) == TCPX_ERR_BUSY)
		assert_true(clock_now_ns() < deadline);
	assert_int_equal(status, TCPX_OK);
}

static void so_many_at_a_time(void **state)
{
	struct client clients[4];

	(void)state;
	open_with(3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(client_open(&clients[i]), TCPX_OK);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(client_open(&clients[3]), TCPX_ERR_BUSY);
		assert_non_null(strstr(tcpx_last_error()->next, "TCPX_MAX_PEERS"));
	}
	tcpx_session_close(clients[1].session);
	client_open_at_last(&clients[1]);
	assert_int_equal(client_open(&clients[3]), TCPX_ERR_BUSY);
	for (int i = 0; i < 3; i++)
		tcpx_session_close(clients[i].session);
	tcpx_session_close(session);
}

static void so_many_half_open(void **state)
{
	static struct raw raws[HALVES];
	struct client client;

	(void)state;
	open_with(0);
	for (int i = 0; i < HALVES; i++) {
		raws[i].secret = (const uint8_t *)"never to be seen by it";
		raws[i].secret_bytes = 22;
		raw_connect_half(&raws[i], port);
	}
	assert_int_equal(client_open(&client), TCPX_ERR_BUSY);
	raw_close(&raws[7]);
	client_open_at_last(&client);
	for (int i = 0; i < HALVES; i++)
		if (i != 7)
			raw_close(&raws[i]);
	tcpx_session_close(client.session);
	tcpx_session_close(session);
}

static uint32_t records(void)
{
	struct engine_session *inside = (struct engine_session *)session;
	const struct list_node *pos;
	uint32_t count = 0;

	pthread_mutex_lock(&inside->lock);
	LIST_FOREACH(pos, &inside->peer_list)
		count++;
	pthread_mutex_unlock(&inside->lock);
	return count;
}

/* taken: the application takes them from the queue of those that connected. */
static void the_last_dead_are_remembered(void **state)
{
	(void)state;
	for (int taken = 0; taken < 2; taken++) {
		tcpx_peer first = {0};
		tcpx_error error = {.sz = sizeof(error)};

		open_with(0);
		for (int i = 0; i < KEPT + 10; i++) {
			struct client client;
			tcpx_event event = {.sz = sizeof(event)};

			assert_int_equal(client_open(&client), TCPX_OK);
			if (taken)
				assert_int_equal(tcpx_session_accept(session, WAIT_NS, &event.peer),
						 TCPX_OK);
			tcpx_session_close(client.session);
			event = await(TCPX_EVENT_PEER_DOWN);
			if (!i)
				first = event.peer;
			assert_in_range(records(), 1, KEPT + 1); /* the last one may end just now */
			assert_int_equal(tcpx_peer_error(session, event.peer, &error), TCPX_OK);
		}
		assert_int_equal(tcpx_peer_error(session, first, &error), TCPX_ERR_STALE);
		tcpx_session_close(session);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(so_many_at_a_time),
		cmocka_unit_test(so_many_half_open),
		cmocka_unit_test(the_last_dead_are_remembered),
	};

	setenv("TCPX_LOG", "error", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

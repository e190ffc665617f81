/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that ends while connect has just found it, and whose slot another peer takes. */
#include "unit.h"

#include <tcpx/tcpx.h>

#include "base/clock.h"
#include "engine/session/calls.h"

#define WAIT_NS (20 * CLOCK_S_NS)

struct end {
	tcpx_session *session;
	uint8_t info[TCPX_INFO_MAX_BYTES];
	size_t len;
};

static struct end a, b, c;
static tcpx_peer to_b;
static bool armed; /* the next look-up by the caller's thread meets the peer's end */
static pthread_t caller;
static struct engine_peer *slot_of_b;

struct engine_peer *__real_peer_by_uuid(struct engine_session *session, const uint8_t *uuid,
					bool keyed, const struct engine_peer *except);
struct engine_peer *__wrap_peer_by_uuid(struct engine_session *session, const uint8_t *uuid,
					bool keyed, const struct engine_peer *except);

static void open_end(struct end *end, const char *name)
{
	TCPX_OPTS(tcpx_session_opts, opts, .name = name, .bind = "127.0.0.1", .channels = 1,
		  .flags = TCPX_SESSION_NO_LOCAL);
	uint16_t port;

	assert_int_equal(tcpx_session_open(&opts, &end->session), TCPX_OK);
	assert_int_equal(tcpx_session_listen(end->session, NULL, &port), TCPX_OK);
	assert_int_equal(tcpx_session_info(end->session, end->info, sizeof(end->info), &end->len),
			 TCPX_OK);
}

static tcpx_peer connect_to(const struct end *end, int nonblocking)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .nonblocking = nonblocking);
	tcpx_peer peer = {0};

	assert_int_equal(tcpx_session_connect(a.session, end->info, end->len, &opts, &peer),
			 TCPX_OK);
	return peer;
}

/* All others let go of it: what the look-up took is left. */
static void settle(struct engine_peer *peer, uint32_t left)
{
	int64_t deadline = clock_after(WAIT_NS);

	while (atomic_load(&peer->link.slot.refs) > left && clock_now_ns() < deadline)
		usleep(1000);
	assert_int_equal(atomic_load(&peer->link.slot.refs), left);
}

/* Is a reference among those that the look-up left? A beat may hold one for a moment. */
static uint32_t taken(struct engine_peer *peer, uint32_t before)
{
	int64_t deadline = clock_after(CLOCK_S_NS / 5);
	uint32_t refs = atomic_load(&peer->link.slot.refs);

	while (refs > before && clock_now_ns() < deadline) {
		uint32_t now = atomic_load(&peer->link.slot.refs);

		refs = now < refs ? now : refs;
	}
	return refs > before;
}

struct engine_peer *__wrap_peer_by_uuid(struct engine_session *session, const uint8_t *uuid,
					bool keyed, const struct engine_peer *except)
{
	bool meets = armed && pthread_equal(pthread_self(), caller);
	uint32_t before = meets ? atomic_load(&slot_of_b->link.slot.refs) : 0;
	struct engine_peer *found = __real_peer_by_uuid(session, uuid, keyed, except);

	if (!meets)
		return found;
	armed = false;
	assert_ptr_equal(found, slot_of_b);
	before = taken(found, before);
	assert_int_equal(tcpx_peer_disconnect(a.session, to_b), TCPX_OK);
	settle(found, before);
	(void)connect_to(&c, 0); /* takes the slot, if it is free */
	return found;
}

static void is_b(tcpx_peer peer)
{
	tcpx_peer_info info = {.sz = sizeof(info)};

	assert_int_equal(tcpx_peer_query(a.session, peer, &info), TCPX_OK);
	assert_string_equal(info.name, "b");
}

/* The reference is what keeps connect from the handle of a session that nobody asked for. */
static void another_session_is_never_returned(void **state)
{
	(void)state;
	caller = pthread_self();
	for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
		open_end(&a, "a");
		open_end(&b, "b");
		open_end(&c, "c");
		to_b = connect_to(&b, 0);
		slot_of_b = engine_peer_get((struct engine_session *)a.session, to_b.id);
		assert_non_null(slot_of_b);
		peer_put(slot_of_b); /* looked at only */
		armed = true;
		is_b(connect_to(&b, nonblocking));
		assert_false(armed);
		tcpx_session_close(a.session);
		tcpx_session_close(b.session);
		tcpx_session_close(c.session);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_session_is_never_returned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Region keys of a session whose connection info everybody has: nobody can compute them. */
#include "unit.h"

#include <errno.h>
#include <sys/random.h>

#include <tcpx/tcpx.h>

#include "base/siphash.h"
#include "wire/hello.h"

#define LENGTH 4096u
#define WAIT_NS 20000000000LL

struct end {
	tcpx_session *session;
	struct wire_info info; /* as its peers have it */
	tcpx_peer peer;
};

static uint8_t memory[LENGTH];
static int randoms, failing; /* calls of getrandom; the one that fails, from 1 */

ssize_t __real_getrandom(void *buf, size_t len, unsigned flags);
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags);

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags)
{
	if (++randoms != failing)
		return __real_getrandom(buf, len, flags);
	errno = ENOSYS;
	return -1;
}

static void open_end(struct end *end, const char *name)
{
	TCPX_OPTS(tcpx_session_opts, opts, .name = name, .bind = "127.0.0.1", .channels = 1);
	uint8_t info[TCPX_INFO_MAX_BYTES];
	uint16_t port;
	size_t len;

	assert_int_equal(tcpx_session_open(&opts, &end->session), TCPX_OK);
	assert_int_equal(tcpx_session_listen(end->session, NULL, &port), TCPX_OK);
	assert_int_equal(tcpx_session_info(end->session, info, sizeof(info), &len), TCPX_OK);
	assert_int_equal(wire_info_decode(info, len, &end->info), TCPX_OK);
}

static void connect_to(struct end *from, const struct end *to)
{
	uint8_t info[TCPX_INFO_MAX_BYTES];
	size_t len = wire_info_encode(&to->info, info, sizeof(info));

	assert_int_equal(tcpx_session_connect(from->session, info, len, NULL, &from->peer),
			 TCPX_OK);
}

static struct wire_token token_of(const struct end *end, uint32_t flags, tcpx_region *out_region)
{
	TCPX_OPTS(tcpx_region_opts, opts, .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE,
		  .flags = flags);
	uint8_t bytes[TCPX_TOKEN_BYTES];
	struct wire_token token;

	assert_int_equal(tcpx_region_register(end->session, memory, LENGTH, &opts, out_region),
			 TCPX_OK);
	assert_int_equal(tcpx_region_export(end->session, *out_region, bytes), TCPX_OK);
	assert_int_equal(wire_token_decode(bytes, sizeof(bytes), &token), TCPX_OK);
	return token;
}

/* The key that the memory would have if the secret were that of the connection info. */
static uint64_t computed(const struct end *end, uint64_t salt)
{
	struct {
		uint8_t secret[16];
		uint64_t addr, length, place, rights, salt;
	} text = {
		.addr = (uintptr_t)memory,
		.length = LENGTH,
		.place = (uint64_t)TCPX_MEM_HOST << 32,
		.rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE,
		.salt = salt,
	};

	memcpy(text.secret, end->info.secret + 16, sizeof(text.secret));
	return siphash(end->info.secret, &text, sizeof(text));
}

/* What becomes of an operation of one byte on the region of that token. */
static tcpx_status reach(const struct end *end, enum tcpx_op op, const struct wire_token *token)
{
	static uint8_t byte;
	uint8_t bytes[TCPX_TOKEN_BYTES];
	tcpx_segment segment = {.length = 1};
	tcpx_request request;
	tcpx_completion completion = {.sz = sizeof(completion)};
	tcpx_status status;

	wire_token_encode(token, bytes);
	assert_int_equal(
		tcpx_region_import(end->session, end->peer, bytes, sizeof(bytes), &segment.remote),
		TCPX_OK);
	assert_int_equal(tcpx_region_register(end->session, &byte, 1, NULL, &segment.local),
			 TCPX_OK);
	assert_int_equal(
		tcpx_request_start(end->session, end->peer, op, &segment, 1, NULL, &request),
		TCPX_OK);
	status = tcpx_request_wait(end->session, request, WAIT_NS, &completion);
	assert_int_equal(tcpx_request_release(end->session, request), TCPX_OK);
	assert_int_equal(tcpx_region_deregister(end->session, segment.local, 0), TCPX_OK);
	assert_int_equal(tcpx_region_deregister(end->session, segment.remote, 0), TCPX_OK);
	return status;
}

static void the_info_gives_no_key(struct end *owner, struct end *other, uint32_t flags)
{
	tcpx_region region;
	struct wire_token token = token_of(owner, flags, &region), forged = token;

	assert_int_equal(reach(other, TCPX_OP_READ, &token), TCPX_OK);
	for (uint64_t salt = 0; salt < 8; salt++) {
		forged.key = computed(owner, salt);
		assert_true(forged.key != token.key);
		assert_int_equal(reach(other, TCPX_OP_READ, &forged), TCPX_ERR_REMOTE_KEY);
		assert_int_equal(reach(other, TCPX_OP_WRITE, &forged), TCPX_ERR_REMOTE_KEY);
	}
	assert_int_equal(tcpx_region_deregister(owner->session, region, 0), TCPX_OK);
}

/* Both ends hold the other's info, and each one's memory is tried by the other. */
static void a_peer_cannot_compute_keys(void **state)
{
	struct end a, b;

	(void)state;
	open_end(&a, "a");
	open_end(&b, "b");
	connect_to(&a, &b);
	connect_to(&b, &a);
	the_info_gives_no_key(&a, &b, 0);
	the_info_gives_no_key(&a, &b, TCPX_REGION_STABLE);
	the_info_gives_no_key(&b, &a, 0);
	the_info_gives_no_key(&b, &a, TCPX_REGION_STABLE);
	tcpx_session_close(a.session);
	tcpx_session_close(b.session);
}

/* The same memory has the same key again in one session, and another one in each other session. */
static void stable_keys_live_with_their_session(void **state)
{
	struct wire_token one, two;
	tcpx_region region;
	struct end a, b;

	(void)state;
	open_end(&a, "a");
	open_end(&b, "b");
	one = token_of(&a, TCPX_REGION_STABLE, &region);
	assert_int_equal(tcpx_region_deregister(a.session, region, 0), TCPX_OK);
	two = token_of(&a, TCPX_REGION_STABLE, &region);
	assert_true(one.key == two.key);
	two = token_of(&b, TCPX_REGION_STABLE, &region);
	assert_true(one.key != two.key);
	tcpx_session_close(a.session);
	tcpx_session_close(b.session);
	open_end(&a, "a");
	two = token_of(&a, TCPX_REGION_STABLE, &region);
	assert_true(one.key != two.key);
	tcpx_session_close(a.session);
}

static tcpx_status open_alone(void)
{
	TCPX_OPTS(tcpx_session_opts, opts, .name = "a", .bind = "127.0.0.1");
	tcpx_session *session;
	tcpx_status status = tcpx_session_open(&opts, &session);

	if (status == TCPX_OK)
		tcpx_session_close(session);
	return status;
}

/* A session needs random bytes for its uuid, incarnation and secret and for its regions' secret. It
 * does not open without them. */
static void no_session_without_random_bytes(void **state)
{
	int calls;

	(void)state;
	randoms = 0;
	assert_int_equal(open_alone(), TCPX_OK);
	calls = randoms;
	assert_true(calls >= 4);
	for (failing = 1; failing <= calls; failing++) {
		randoms = 0;
		assert_int_equal(open_alone(), TCPX_ERR_SYSTEM);
		assert_int_equal(randoms, failing);
	}
	failing = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_peer_cannot_compute_keys),
		cmocka_unit_test(stable_keys_live_with_their_session),
		cmocka_unit_test(no_session_without_random_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Registration, tokens, import. */
#include <sys/mman.h>

#include "conform.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)

static tcpx_status reg(struct env *env, void *addr, uint64_t len, uint32_t rights, uint32_t flags,
		       tcpx_region *out)
{
	TCPX_OPTS(tcpx_region_opts, opts, .rights = rights, .flags = flags);

	if (config.mem.kind == MEM_KIND_TEST)
		opts.kind = MEM_KIND_TEST;
	return tcpx_region_register(env->session, addr, len, &opts, out);
}

static uint64_t regions(struct env *env)
{
	tcpx_counters counters = {.sz = sizeof(counters)};

	OK(tcpx_session_counters(env->session, &counters));
	return counters.regions;
}

static void case_register_arguments(struct env *env)
{
	TCPX_OPTS(tcpx_region_opts, opts, .kind = TCPX_MEM_HOST);
	tcpx_region region = {123};
	uint8_t data[64];
	tcpx_status status;

	EXPECT(reg(env, NULL, 64, 0, 0, &region), TCPX_ERR_INVALID);
	EXPECT(reg(env, data, 0, 0, 0, &region), TCPX_ERR_INVALID);
	EXPECT(reg(env, (void *)(UINTPTR_MAX - 10), 64, 0, 0, &region), TCPX_ERR_INVALID);
	EXPECT(reg(env, data, UINT64_MAX, 0, 0, &region), TCPX_ERR_INVALID);
	EXPECT(reg(env, data, 64, 4, 0, &region), TCPX_ERR_INVALID);
	EXPECT(reg(env, data, 64, 0, 2, &region), TCPX_ERR_INVALID);
	EXPECT(reg(env, data, 64, 0, 0, NULL), TCPX_ERR_INVALID);
	opts.kind = (enum tcpx_mem_kind)77;
	status = tcpx_region_register(env->session, data, 64, &opts, &region);
	CHECK(status == TCPX_ERR_INVALID || status == TCPX_ERR_UNSUPPORTED);
	CHECK_EQ(region.id, 123); /* outputs only on success */
	CHECK_EQ(regions(env), 0);
	OK(tcpx_region_register(env->session, data, 64, NULL, &region));
	CHECK_EQ(regions(env), 1);
	OK(tcpx_region_deregister(env->session, region, 0));
	EXPECT(tcpx_region_deregister(env->session, region, 0), TCPX_ERR_STALE);
	CHECK_EQ(regions(env), 0);
}

static void case_register_many(struct env *env)
{
	static uint8_t data[4096];
	static tcpx_region region[1000];

	for (int i = 0; i < 1000; i++)
		OK(reg(env, data + i, 64, 0, 0, &region[i]));
	CHECK_EQ(regions(env), 1000);
	for (int i = 0; i < 1000; i++)
		for (int j = i + 1; j < 1000; j++)
			CHECK(region[i].id != region[j].id);
	for (int i = 999; i >= 0; i--)
		OK(tcpx_region_deregister(env->session, region[i], 0));
	CHECK_EQ(regions(env), 0);
}

static tcpx_region import(struct env *env, const uint8_t *token)
{
	tcpx_region region;

	OK(tcpx_region_import(env->session, env->peer, token, TCPX_TOKEN_BYTES, &region));
	return region;
}

/* Writes len bytes of a pattern to the far buffer 0 through the import. */
static tcpx_status poke(struct env *env, tcpx_region remote, uint64_t seed, uint64_t off,
			uint64_t len)
{
	tcpx_segment segment = {.remote = remote, .remote_offset = off, .length = len};
	tcpx_status status;
	struct buf buf;

	buf_make(&buf, len, seed % 8);
	buf_fill(&buf, 0, len, seed, 0);
	segment.local = near_register(env, &buf, 0);
	status = near_run(env, TCPX_OP_WRITE, &segment, 1, NULL);
	OK(tcpx_region_deregister(env->session, segment.local, 0));
	buf_free(&buf);
	return status;
}

/* Overlapping and duplicate registrations are independent: each lives until its own end. */
static void case_register_overlap(struct env *env)
{
	uint8_t one[TCPX_TOKEN_BYTES], two[TCPX_TOKEN_BYTES];
	tcpx_region first, second, third;

	first = far_buf(env, 0, 1000, TCPX_RIGHT_WRITE, 3);
	far_token(env, 0, TCPX_RIGHT_WRITE, 0, one); /* forgets the first handle, not the region */
	second = import(env, one);
	far_token(env, 0, TCPX_RIGHT_WRITE | TCPX_RIGHT_READ, 0, two);
	third = import(env, two);
	CHECK(memcmp(one, two, sizeof(one)) != 0);
	OK(poke(env, first, 1, 0, 100));
	OK(poke(env, second, 2, 100, 100));
	OK(poke(env, third, 3, 200, 100));
	OK(far_simple(env, FAR_DEREG, 0, 0, 0, 0, 0)); /* the third */
	EXPECT(poke(env, third, 4, 200, 100), TCPX_ERR_REMOTE_KEY);
	OK(poke(env, first, 5, 300, 100));
	OK(poke(env, second, 6, 400, 100));
	CHECK_EQ(far_pattern(env, 0, 0, 100, 1, 0), -1);
	CHECK_EQ(far_pattern(env, 0, 100, 100, 2, 0), -1);
	CHECK_EQ(far_pattern(env, 0, 200, 100, 3, 0), -1);
	CHECK_EQ(far_pattern(env, 0, 300, 100, 5, 0), -1);
	CHECK_EQ(far_pattern(env, 0, 400, 100, 6, 0), -1);
	CHECK_EQ(far_bytes(env, 0, 500, 500, POISON), -1);
	CHECK(far_slack(env, 0));
}

static void case_token_native(struct env *env)
{
	uint8_t one[TCPX_TOKEN_BYTES], two[TCPX_TOKEN_BYTES], again[TCPX_TOKEN_BYTES];
	uint8_t data[100];
	tcpx_region region;

	OK(reg(env, data, 100, TCPX_RIGHT_READ, 0, &region));
	OK(tcpx_region_export(env->session, region, one));
	OK(tcpx_region_export(env->session, region, again));
	CHECK(memcmp(one, again, sizeof(one)) == 0);
	OK(tcpx_region_deregister(env->session, region, 0));
	EXPECT(tcpx_region_export(env->session, region, again), TCPX_ERR_STALE);
	OK(reg(env, data, 100, TCPX_RIGHT_READ, 0, &region));
	OK(tcpx_region_export(env->session, region, two));
	CHECK(memcmp(one, two, sizeof(one)) != 0);
}

static void case_token_stable(struct env *env)
{
	uint8_t one[TCPX_TOKEN_BYTES], two[TCPX_TOKEN_BYTES], three[TCPX_TOKEN_BYTES];
	tcpx_region remote;

	far_buf(env, 0, 1000, TCPX_RIGHT_WRITE, 0);
	OK(far_simple(env, FAR_DEREG, 0, 0, 0, 0, 0));
	far_token(env, 0, TCPX_RIGHT_WRITE, TCPX_REGION_STABLE, one);
	remote = import(env, one);
	OK(poke(env, remote, 1, 0, 100));
	OK(far_simple(env, FAR_DEREG, 0, 0, 0, 0, 0));
	EXPECT(poke(env, remote, 2, 100, 100), TCPX_ERR_REMOTE_KEY);
	far_token(env, 0, TCPX_RIGHT_WRITE, TCPX_REGION_STABLE, two);
	CHECK(memcmp(one, two, sizeof(one)) == 0);
	OK(poke(env, remote, 3, 100, 100)); /* the old import lives again */
	far_token(env, 0, TCPX_RIGHT_WRITE, TCPX_REGION_STABLE, two); /* a second life */
	OK(far_simple(env, FAR_DEREG, 0, 0, 0, 0, 0));
	OK(poke(env, remote, 4, 200, 100)); /* the first still serves */
	far_token(env, 0, TCPX_RIGHT_WRITE | TCPX_RIGHT_READ, TCPX_REGION_STABLE, three);
	CHECK(memcmp(one, three, sizeof(one)) != 0);
	CHECK_EQ(far_pattern(env, 0, 0, 100, 1, 0), -1);
	CHECK_EQ(far_pattern(env, 0, 100, 100, 3, 0), -1);
	CHECK_EQ(far_pattern(env, 0, 200, 100, 4, 0), -1);
	CHECK_EQ(far_bytes(env, 0, 300, 700, POISON), -1);
}

static void case_token_garbage(struct env *env)
{
	uint8_t token[TCPX_TOKEN_BYTES + 1] = {0}, good[TCPX_TOKEN_BYTES];
	tcpx_region region = {99}, remote;
	tcpx_status status;
	int imported = 0;

	EXPECT(tcpx_region_import(env->session, env->peer, token, TCPX_TOKEN_BYTES, &region),
	       TCPX_ERR_INVALID);
	remote = far_buf(env, 0, 1000, TCPX_RIGHT_WRITE, 0);
	far_token(env, 0, TCPX_RIGHT_WRITE, 0, good);
	memcpy(token, good, sizeof(good));
	for (size_t len = 0; len <= sizeof(token); len++)
		if (len != TCPX_TOKEN_BYTES)
			EXPECT(tcpx_region_import(env->session, env->peer, token, len, &region),
			       TCPX_ERR_INVALID);
	EXPECT(tcpx_region_import(env->session, env->peer, NULL, 0, &region), TCPX_ERR_INVALID);
	EXPECT(tcpx_region_export(env->session, remote, token), TCPX_ERR_INVALID);
	CHECK_EQ(region.id, 99);
	/* Every flipped bit is refused here or by the owner, and the peer lives through it. */
	for (size_t bit = 0; bit < sizeof(good) * 8; bit++) {
		memcpy(token, good, sizeof(good));
		token[bit / 8] ^= (uint8_t)(1u << bit % 8);
		status = tcpx_region_import(env->session, env->peer, token, TCPX_TOKEN_BYTES,
					    &region);
		if (status) {
			CHECK(status == TCPX_ERR_INVALID || status == TCPX_ERR_VERSION);
			continue;
		}
		imported++;
		status = poke(env, region, 1, 0, 100);
		/* kind, rights, flags and hint are not the proof: the owner's own count. Of another
		 * kind its bytes may come a way that the owner does not have, once that is open. */
		CHECK_MSG(status == TCPX_ERR_REMOTE_KEY || (status == TCPX_OK && bit < 64) ||
				  (status == TCPX_ERR_REMOTE && bit / 8 == 1),
			  "bit %zu: %s", bit, tcpx_status_name(status));
		OK(tcpx_region_deregister(env->session, region, 0));
	}
	CHECK(imported >= 64);
	OK(poke(env, remote, 2, 0, 100));
	CHECK_EQ(far_pattern(env, 0, 0, 100, 2, 0), -1);
}

/* A token says nothing about memory of somebody else. */
static void case_token_of_another(struct env *env)
{
	uint8_t data[100], token[TCPX_TOKEN_BYTES];
	tcpx_region region, remote;

	memset(data, POISON, sizeof(data));
	OK(reg(env, data, 100, TCPX_RIGHT_READ | TCPX_RIGHT_WRITE, 0, &region));
	OK(tcpx_region_export(env->session, region, token));
	remote = import(env, token);
	EXPECT(poke(env, remote, 1, 0, 100), TCPX_ERR_REMOTE_KEY);
	CHECK_EQ(byte_check(data, 100, POISON), -1);
	OK(tcpx_region_deregister(env->session, remote, 0));
	EXPECT(tcpx_region_deregister(env->session, remote, 0), TCPX_ERR_STALE);
}

static void case_sub_ranges(struct env *env)
{
	tcpx_region remote = far_buf(env, 0, 1000, TCPX_RIGHT_WRITE, 1);

	for (uint64_t i = 0; i < 10; i++)
		OK(poke(env, remote, i + 1, i * 100 + i, 100 - i));
	for (uint64_t i = 0; i < 10; i++) {
		CHECK_EQ(far_bytes(env, 0, i * 100, i, POISON), -1);
		CHECK_EQ(far_pattern(env, 0, i * 100 + i, 100 - i, i + 1, 0), -1);
	}
	CHECK(far_slack(env, 0));
}

/* Imports end with their peer. */
static void case_import_peer_gone(struct env *env)
{
	uint8_t token[TCPX_TOKEN_BYTES], data[8];
	tcpx_region remote = far_buf(env, 0, 1000, TCPX_RIGHT_WRITE, 0);
	tcpx_segment segment = {.remote = remote, .length = 8};
	tcpx_request request;
	tcpx_status status;

	far_token(env, 0, TCPX_RIGHT_WRITE, 0, token);
	segment.local = near_host(env, data, 8, 0);
	OK(tcpx_peer_disconnect(env->session, env->peer));
	EXPECT(tcpx_region_import(env->session, env->peer, token, sizeof(token), &remote),
	       TCPX_ERR_STALE);
	status = tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, NULL,
				      &request);
	CHECK(status == TCPX_ERR_STALE || status == TCPX_ERR_DISCONNECTED);
	env_connect(env);
	EXPECT(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, NULL,
				    &request),
	       TCPX_ERR_STALE);
	remote = import(env, token); /* same incarnation: the token still counts */
	OK(poke(env, remote, 3, 0, 100));
	CHECK_EQ(far_pattern(env, 0, 0, 100, 3, 0), -1);
}

/* One of two registrations of the same memory goes in the middle of transfers: nobody notices, and
 * deregister waits for nothing. The last one is another matter. */
static void case_token_stable_twice(struct env *env)
{
	struct far_start read = {.op = TCPX_OP_READ, .len = 8 * MIB};
	struct far_start write = {
		.op = TCPX_OP_WRITE, .off = 8 * MIB, .len = 8 * MIB, .remote_off = 8 * MIB};
	tcpx_region_opts opts;
	tcpx_region region[2];
	struct buf buf;

	buf_make(&buf, 16 * MIB, 0);
	opts = conform_region(&buf, RW, TCPX_REGION_STABLE);
	far_buf(env, 0, 16 * MIB, RW, 0);
	OK(tcpx_region_register(env->session, buf.addr, buf.size, &opts, &region[0]));
	far_import(env, 0, region[0]);
	for (int i = 0; i < 10; i++) {
		OK(tcpx_region_register(env->session, buf.addr, buf.size, &opts, &region[1]));
		CHECK(region[0].id != region[1].id);
		OK(far_start(env, 0, &read));
		OK(far_start(env, 1, &write));
		OK(tcpx_region_deregister(env->session, region[i % 2], 1));
		EXPECT(tcpx_region_deregister(env->session, region[i % 2], 1), TCPX_ERR_STALE);
		OK(far_wait(env, 0, LONG_NS, NULL, NULL));
		OK(far_wait(env, 1, LONG_NS, NULL, NULL));
		region[0] = region[1 - i % 2];
	}
	OK(tcpx_region_deregister(env->session, region[0], LONG_NS));
	OK(far_start(env, 0, &read));
	EXPECT(far_wait(env, 0, LONG_NS, NULL, NULL), TCPX_ERR_REMOTE_KEY);
}

const struct case_row cases_region[] = {
	{"register_arguments", case_register_arguments, 0},
	{"register_many", case_register_many, CASE_ONCE},
	{"register_overlap", case_register_overlap, 0},
	{"token_native", case_token_native, CASE_ONCE},
	{"token_stable", case_token_stable, 0},
	{"token_stable_twice", case_token_stable_twice, 0},
	{"token_garbage", case_token_garbage, 0},
	{"token_of_another", case_token_of_another, 0},
	{"sub_ranges", case_sub_ranges, 0},
	{"import_peer_gone", case_import_peer_gone, 0},
	{0},
};

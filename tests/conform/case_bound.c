/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens for one peer: they serve who has its key, and nobody else. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conform.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)
#define BYTES (300 * KIB)
#define KEY_AT 8 /* of the key in a token */

/* A session of this process with memory of its own, linked with the owner of a region. */
struct other {
	tcpx_session *session;
	tcpx_peer owner, peer; /* its handle of the owner, the owner's of it */
	struct buf buf;
	tcpx_region region;
};

static void other_open(struct other *other, tcpx_session *owner, const char *identity_file)
{
	uint8_t info[TCPX_INFO_MAX_BYTES];
	tcpx_session_opts opts;
	tcpx_region_opts region;
	size_t len;

	conform_opts(&opts, "other");
	opts.identity_file = identity_file;
	OK(tcpx_session_open(&opts, &other->session));
	buf_make(&other->buf, BYTES, 5);
	region = conform_region(&other->buf, 0, 0);
	OK(tcpx_region_register(other->session, other->buf.addr, BYTES, &region, &other->region));
	OK(tcpx_session_info(owner, info, sizeof(info), &len));
	OK(tcpx_session_connect(other->session, info, len, NULL, &other->owner));
	OK(tcpx_session_accept(owner, LONG_NS, &other->peer));
}

static void other_close(struct other *other)
{
	tcpx_session_close(other->session);
	buf_free(&other->buf);
}

/* What becomes of an operation on the whole region of that token; why, if out_error is there. */
static tcpx_status use(struct other *other, enum tcpx_op op, const uint8_t *token,
		       tcpx_error *out_error)
{
	tcpx_segment segment = {.local = other->region, .length = BYTES};
	tcpx_request request;
	tcpx_status status;

	OK(tcpx_region_import(other->session, other->owner, token, TCPX_TOKEN_BYTES,
			      &segment.remote));
	OK(tcpx_request_start(other->session, other->owner, op, &segment, 1, NULL, &request));
	status = tcpx_request_wait(other->session, request, LONG_NS, NULL);
	if (out_error)
		OK(tcpx_request_error(other->session, request, out_error));
	OK(tcpx_request_release(other->session, request));
	OK(tcpx_region_deregister(other->session, segment.remote, 0));
	return status;
}

/* Refused as a key is that nobody ever had, in the same words; both memories stay as they are. */
static void check_refused(struct other *other, const uint8_t *token, const struct buf *owned,
			  uint64_t seed)
{
	static const enum tcpx_op ops[] = {TCPX_OP_WRITE, TCPX_OP_READ};
	uint8_t unknown[TCPX_TOKEN_BYTES];
	tcpx_error error[2] = {{.sz = sizeof(error[0])}, {.sz = sizeof(error[0])}};

	memcpy(unknown, token, sizeof(unknown));
	unknown[KEY_AT + 3] ^= 0x10;
	buf_fill(&other->buf, 0, BYTES, seed + 1, 0);
	for (int i = 0; i < 2; i++) {
		EXPECT(use(other, ops[i], token, &error[0]), TCPX_ERR_REMOTE_KEY);
		EXPECT(use(other, ops[i], unknown, &error[1]), TCPX_ERR_REMOTE_KEY);
		CHECK_MSG(!strcmp(error[0].what, error[1].what), "'%s'", error[0].what);
	}
	CHECK_EQ(buf_check(owned, 0, BYTES, seed, 0), -1);
	CHECK_EQ(buf_check(&other->buf, 0, BYTES, seed + 1, 0), -1);
}

/* A list that begins with a piece by its own token: the pieces by another's are refused as one
 * alone is. */
static void check_list_refused(struct other *other, const uint8_t *own, const uint8_t *token,
			       const struct buf *owned, uint64_t seed)
{
	static const enum tcpx_op ops[] = {TCPX_OP_WRITE, TCPX_OP_READ};
	tcpx_segment list[2];

	for (uint64_t i = 0; i < 2; i++) {
		list[i] = (tcpx_segment){.local = other->region, .length = 64};
		list[i].local_offset = list[i].remote_offset = i * 128;
		OK(tcpx_region_import(other->session, other->owner, i ? token : own,
				      TCPX_TOKEN_BYTES, &list[i].remote));
	}
	buf_fill(&other->buf, 0, BYTES, seed + 1, 0);
	for (int i = 0; i < 2; i++) {
		tcpx_request request;

		OK(tcpx_request_start(other->session, other->owner, ops[i], list, 2, NULL,
				      &request));
		EXPECT(tcpx_request_wait(other->session, request, LONG_NS, NULL),
		       TCPX_ERR_REMOTE_KEY);
		OK(tcpx_request_release(other->session, request));
	}
	CHECK_EQ(buf_check(owned, 64, BYTES - 64, seed, 64), -1);
	CHECK_EQ(buf_check(&other->buf, 64, BYTES - 64, seed + 1, 64), -1);
	for (int i = 0; i < 2; i++)
		OK(tcpx_region_deregister(other->session, list[i].remote, 0));
}

/* It writes and reads by the token. Of GPU memory the later times go by reference. */
static void check_serves(struct other *other, const uint8_t *token, struct buf *owned)
{
	for (uint64_t seed = 10; seed < 13; seed++) {
		buf_fill(&other->buf, 0, BYTES, seed, 0);
		OK(use(other, TCPX_OP_WRITE, token, NULL));
		CHECK_EQ(buf_check(owned, 0, BYTES, seed, 0), -1);
		buf_fill(owned, 0, BYTES, seed + 5, 0);
		OK(use(other, TCPX_OP_READ, token, NULL));
		CHECK_EQ(buf_check(&other->buf, 0, BYTES, seed + 5, 0), -1);
	}
}

static void far_give(struct env *env, const uint8_t *token)
{
	struct far_cmd cmd = {.op = FAR_IMPORT, .len = TCPX_TOKEN_BYTES};
	struct far_reply reply;

	memcpy(cmd.data, token, TCPX_TOKEN_BYTES);
	OK(far_call(env, &cmd, &reply));
}

static tcpx_status far_use(struct env *env, enum tcpx_op op)
{
	struct far_start what = {.op = op, .len = BYTES};

	OK(far_start(env, 0, &what));
	return far_wait(env, 0, LONG_NS, NULL, NULL);
}

/* As check_serves, of the far side by what was given to it last. */
static void check_far_serves(struct env *env, struct buf *owned)
{
	for (uint64_t seed = 20; seed < 23; seed++) {
		far_fill(env, 0, 0, BYTES, seed, 0);
		OK(far_use(env, TCPX_OP_WRITE));
		CHECK_EQ(buf_check(owned, 0, BYTES, seed, 0), -1);
		buf_fill(owned, 0, BYTES, seed + 5, 0);
		OK(far_use(env, TCPX_OP_READ));
		CHECK_EQ(far_pattern(env, 0, 0, BYTES, seed + 5, 0), -1);
	}
}

/* The far side and a session beside it: each one's token serves it and not the other, and is none
 * that everybody could use. It ends with the region. */
static void case_bound_token(struct env *env)
{
	uint8_t fars[TCPX_TOKEN_BYTES], others[TCPX_TOKEN_BYTES], again[TCPX_TOKEN_BYTES],
		open[TCPX_TOKEN_BYTES];
	struct other other;
	struct buf buf;
	tcpx_region region;

	buf_make(&buf, BYTES, 3);
	region = near_register(env, &buf, RW);
	far_buf(env, 0, BYTES, 0, 1);
	other_open(&other, env->session, NULL);
	OK(tcpx_region_token_for(env->session, region, env->peer, fars));
	OK(tcpx_region_token_for(env->session, region, other.peer, others));
	OK(tcpx_region_token_for(env->session, region, env->peer, again));
	OK(tcpx_region_export(env->session, region, open));
	CHECK(memcmp(fars, again, sizeof(again)) == 0);
	CHECK(memcmp(fars, others, sizeof(others)) != 0);
	CHECK(memcmp(fars, open, sizeof(open)) != 0 && memcmp(others, open, sizeof(open)) != 0);
	CHECK(memcmp(fars, open, KEY_AT) == 0); /* kind, rights and flags are the region's */

	far_give(env, fars);
	check_far_serves(env, &buf);
	check_serves(&other, others, &buf);
	buf_fill(&buf, 0, BYTES, 1, 0);
	check_refused(&other, fars, &buf, 1);
	check_list_refused(&other, others, fars, &buf, 1);
	check_serves(&other, others, &buf); /* who was refused has its own still */
	buf_fill(&buf, 0, BYTES, 2, 0);
	far_give(env, others);
	EXPECT(far_use(env, TCPX_OP_WRITE), TCPX_ERR_REMOTE_KEY);
	EXPECT(far_use(env, TCPX_OP_READ), TCPX_ERR_REMOTE_KEY);
	CHECK_EQ(buf_check(&buf, 0, BYTES, 2, 0), -1);

	far_give(env, open); /* that of everybody is as it was */
	check_far_serves(env, &buf);
	check_serves(&other, open, &buf);
	CHECK(buf_slack_whole(&buf));

	far_give(env, fars);
	OK(tcpx_region_deregister(env->session, region, LONG_NS));
	EXPECT(far_use(env, TCPX_OP_WRITE), TCPX_ERR_REMOTE_KEY);
	EXPECT(use(&other, TCPX_OP_READ, others, NULL), TCPX_ERR_REMOTE_KEY);
	EXPECT(tcpx_region_token_for(env->session, region, env->peer, again), TCPX_ERR_STALE);
	region = near_register(env, &buf, RW); /* the same memory is another region */
	EXPECT(far_use(env, TCPX_OP_WRITE), TCPX_ERR_REMOTE_KEY);
	OK(tcpx_region_token_for(env->session, region, env->peer, again));
	CHECK(memcmp(fars, again, sizeof(again)) != 0);
	other_close(&other);
}

/* Rights and range are those of the region. */
static void case_bound_rights(struct env *env)
{
	struct far_start outside = {.op = TCPX_OP_READ, .len = BYTES, .remote_off = 1};
	uint8_t token[TCPX_TOKEN_BYTES], again[TCPX_TOKEN_BYTES];
	tcpx_region_opts opts;
	tcpx_region region[2];
	struct buf buf;

	buf_make(&buf, BYTES, 3);
	far_buf(env, 0, BYTES, 0, 1);
	opts = conform_region(&buf, TCPX_RIGHT_READ, TCPX_REGION_STABLE);
	OK(tcpx_region_register(env->session, buf.addr, BYTES, &opts, &region[0]));
	OK(tcpx_region_token_for(env->session, region[0], env->peer, token));
	far_give(env, token);
	OK(far_use(env, TCPX_OP_READ));
	EXPECT(far_use(env, TCPX_OP_WRITE), TCPX_ERR_REMOTE_RIGHTS);
	OK(far_start(env, 0, &outside));
	EXPECT(far_wait(env, 0, LONG_NS, NULL, NULL), TCPX_ERR_REMOTE_RANGE);
	CHECK_EQ(buf_bytes(&buf, 0, BYTES, POISON), -1);
	/* of STABLE memory it is good until the last registration goes, and asked for anew then */
	OK(tcpx_region_register(env->session, buf.addr, BYTES, &opts, &region[1]));
	OK(tcpx_region_deregister(env->session, region[0], LONG_NS));
	OK(far_use(env, TCPX_OP_READ));
	OK(tcpx_region_deregister(env->session, region[1], LONG_NS));
	OK(tcpx_region_register(env->session, buf.addr, BYTES, &opts, &region[0]));
	EXPECT(far_use(env, TCPX_OP_READ), TCPX_ERR_REMOTE_KEY);
	OK(tcpx_region_token_for(env->session, region[0], env->peer, again));
	CHECK(memcmp(token, again, sizeof(again)) == 0);
	OK(far_use(env, TCPX_OP_READ));
}

/* The peer goes and comes back: it has the same key, and its token serves it. */
static void case_bound_again(struct env *env)
{
	uint8_t token[TCPX_TOKEN_BYTES], again[TCPX_TOKEN_BYTES];
	tcpx_peer before = env->peer;
	struct buf buf;
	tcpx_region region;

	buf_make(&buf, BYTES, 3);
	far_buf(env, 0, BYTES, 0, 1);
	region = near_register(env, &buf, RW);
	OK(tcpx_region_token_for(env->session, region, env->peer, token));
	OK(tcpx_peer_disconnect(env->session, env->peer));
	EXPECT(tcpx_region_token_for(env->session, region, before, again), TCPX_ERR_STALE);
	env_connect(env);
	far_give(env, token);
	check_far_serves(env, &buf);
	OK(tcpx_region_token_for(env->session, region, env->peer, again));
	CHECK(memcmp(token, again, sizeof(again)) == 0);
}

/* A restart keeps the key that is in a file, and so the token; without a file it is a new key. */
static void case_bound_restart(struct env *env)
{
	char path[] = "/tmp/tcpx-bound-XXXXXX";
	uint8_t token[TCPX_TOKEN_BYTES];
	struct other other;
	struct buf buf;
	tcpx_region region;

	CHECK(mkdtemp(path));
	CHECK(chdir(path) == 0);
	OK(tcpx_identity_create("me"));
	buf_make(&buf, BYTES, 3);
	region = near_register(env, &buf, RW);
	other_open(&other, env->session, "me");
	OK(tcpx_region_token_for(env->session, region, other.peer, token));
	check_serves(&other, token, &buf);
	other_close(&other);
	other_open(&other, env->session, "me");
	check_serves(&other, token, &buf);
	other_close(&other);
	other_open(&other, env->session, NULL);
	buf_fill(&buf, 0, BYTES, 1, 0);
	check_refused(&other, token, &buf, 1);
	other_close(&other);
	CHECK(unlink("me") == 0 && rmdir(path) == 0);
}

static void case_bound_errors(struct env *env)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .nonblocking = 1, .timeout_ns = LONG_NS);
	uint8_t token[TCPX_TOKEN_BYTES], clean[TCPX_TOKEN_BYTES], data[64];
	tcpx_region remote = far_buf(env, 0, BYTES, RW, 0), region;
	tcpx_peer none = {.id = env->peer.id + 1}, peer;

	memset(clean, POISON, sizeof(clean));
	memset(token, POISON, sizeof(token));
	region = near_host(env, data, sizeof(data), RW);
	EXPECT(tcpx_region_token_for(env->session, region, env->peer, NULL), TCPX_ERR_INVALID);
	EXPECT(tcpx_region_token_for(env->session, remote, env->peer, token), TCPX_ERR_INVALID);
	EXPECT(tcpx_region_token_for(env->session, region, none, token), TCPX_ERR_STALE);
	lookup_hold();
	OK(tcpx_session_connect_to(env->session, "nobody:1", &opts, &peer));
	EXPECT(tcpx_region_token_for(env->session, region, peer, token), TCPX_ERR_STATE);
	CHECK(strstr(tcpx_last_error()->what, "has not connected"));
	CHECK(strstr(tcpx_last_error()->next, "TCPX_EVENT_PEER_UP"));
	OK(tcpx_peer_disconnect(env->session, peer));
	lookup_answer();
	OK(tcpx_region_deregister(env->session, region, 0));
	EXPECT(tcpx_region_token_for(env->session, region, env->peer, token), TCPX_ERR_STALE);
	CHECK(memcmp(token, clean, sizeof(clean)) == 0); /* outputs only on success */
}

/* Without a crypto library nobody proves a key: the call says so, and what to do. */
static void case_bound_unproven(struct env *env)
{
	uint8_t token[TCPX_TOKEN_BYTES], data[64];
	tcpx_region region = near_host(env, data, sizeof(data), RW);

	EXPECT(tcpx_region_token_for(env->session, region, env->peer, token), TCPX_ERR_UNSUPPORTED);
	CHECK(strstr(tcpx_last_error()->what, "has proven no key: this session has no crypto"));
	CHECK(strstr(tcpx_last_error()->next, "tcpx_region_export"));
	OK(tcpx_region_export(env->session, region, token));
}

const struct case_row cases_bound[] = {
	{"bound_token", case_bound_token, CASE_CRYPTO},
	{"bound_rights", case_bound_rights, CASE_CRYPTO},
	{"bound_again", case_bound_again, CASE_CRYPTO},
	{"bound_restart", case_bound_restart, CASE_CRYPTO},
	{"bound_errors", case_bound_errors, CASE_CRYPTO},
	{"bound_unproven", case_bound_unproven, CASE_KEYLESS},
	{0},
};

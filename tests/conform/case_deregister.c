/* SPDX-License-Identifier: Apache-2.0 */
/* Deregistration on either side while transfers use the region; the memory is quiet afterwards. */
#include <pthread.h>
#include <sys/mman.h>

#include "conform.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)

static tcpx_request start(struct env *env, enum tcpx_op op, const tcpx_segment *segment)
{
	tcpx_request request;

	OK(tcpx_request_start(env->session, env->peer, op, segment, 1, NULL, &request));
	return request;
}

/* Requests that wait for the peer's message end at once. */
static void case_dereg_waiting(struct env *env)
{
	struct far_start send = {.op = TCPX_OP_SEND, .len = MIB};
	struct far_start recv = {.op = TCPX_OP_RECV, .len = MIB};
	struct far_take take = {.timeout_ns = LONG_NS};
	tcpx_segment segment = {.length = MIB};
	tcpx_request request;
	tcpx_error error = {.sz = sizeof(error)};
	struct buf buf;

	buf_make(&buf, MIB, 0);
	far_buf(env, 0, MIB, RW, 0);
	far_fill(env, 0, 0, MIB, 1, 0);
	segment.local = near_register(env, &buf, 0);
	request = start(env, TCPX_OP_RECV, &segment);
	OK(tcpx_region_deregister(env->session, segment.local, LONG_NS));
	EXPECT(near_wait(env, request, NULL), TCPX_ERR_DEREGISTERED);
	OK(tcpx_request_error(env->session, request, &error));
	CHECK_EQ(error.status, TCPX_ERR_DEREGISTERED);
	EXPECT(tcpx_request_post(env->session, request), TCPX_ERR_DEREGISTERED);
	OK(far_start(env, 0, &send)); /* the RECV is gone and leaves no hole */
	segment.local = near_register(env, &buf, 0);
	request = start(env, TCPX_OP_RECV, &segment);
	OK(near_wait(env, request, NULL));
	CHECK_EQ(buf_check(&buf, 0, MIB, 1, 0), -1);

	request = start(env, TCPX_OP_SEND, &segment);
	OK(tcpx_notify_send(env->session, env->peer, "x", 1));
	OK(far_take(env, &take, NULL)); /* it was announced before */
	OK(tcpx_region_deregister(env->session, segment.local, LONG_NS));
	EXPECT(near_wait(env, request, NULL), TCPX_ERR_DEREGISTERED);
	OK(far_start(env, 1, &recv));
	CHECK(far_wait(env, 1, LONG_NS, NULL, NULL) < 0);
	CHECK_EQ(far_pattern(env, 0, 0, MIB, 1, 0), -1);
}

/* In the middle of a WRITE or READ: after deregister the pages are unmapped; whoever still touches
 * them crashes or fails the next transfer. Bytes of a WRITE that were read before may still land:
 * the far memory is its owner's again when he has deregistered it. */
static void dereg_local(struct env *env, enum tcpx_op op)
{
	uint64_t size = config.light ? 2 * MIB : 16 * MIB;
	int rounds = config.light ? 15 : 40, lost = 0;

	for (int i = 0; i < rounds; i++) {
		tcpx_segment segment = {.length = size};
		tcpx_request request;
		tcpx_status status;
		struct buf buf;

		segment.remote = far_buf(env, 0, size, RW, 0);
		far_fill(env, 0, 0, size, 1, 0);
		buf_make(&buf, size, 0);
		if (op == TCPX_OP_WRITE)
			buf_fill(&buf, 0, size, 1, 0);
		segment.local = near_register(env, &buf, 0);
		request = start(env, op, &segment);
		for (volatile int spin = i * 3000; spin > 0; spin--)
			;
		OK(tcpx_region_deregister(env->session, segment.local, LONG_NS));
		buf_poison(&buf);
		buf_free(&buf);
		status = near_wait(env, request, NULL);
		CHECK_MSG(status == TCPX_OK || status == TCPX_ERR_DEREGISTERED, "%s",
			  tcpx_status_name(status));
		lost += status != TCPX_OK;
		OK(tcpx_request_release(env->session, request));
		OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
		OK(far_simple(env, FAR_DEREG, 0, (uint64_t)LONG_NS, 0, 0, 0));
		CHECK_MSG(far_run(env, 0, size) < 16, "poison at the far side");
		OK(tcpx_region_deregister(env->session, segment.remote, LONG_NS));
	}
	CHECK(config.light || lost > 0); /* else it never met one under way */
}

static void case_dereg_write(struct env *env)
{
	dereg_local(env, TCPX_OP_WRITE);
}

static void case_dereg_read(struct env *env)
{
	dereg_local(env, TCPX_OP_READ);
}

/* At the owner: the initiator's request fails with the key, and what the owner puts into its
 * memory afterwards is neither overwritten nor sent. */
static void dereg_owner(struct env *env, enum tcpx_op op)
{
	uint64_t size = config.light ? 2 * MIB : 16 * MIB;
	int rounds = config.light ? 10 : 30, lost = 0;
	struct buf buf;
	tcpx_segment segment = {.length = size};

	buf_make(&buf, size, 0);
	segment.local = near_register(env, &buf, 0);
	for (int i = 0; i < rounds; i++) {
		tcpx_request request;
		tcpx_status status;

		segment.remote = far_buf(env, 0, size, RW, 0);
		far_fill(env, 0, 0, size, 1, 0);
		buf_fill(&buf, 0, size, 1, 0);
		request = start(env, op, &segment);
		for (volatile int spin = i * 3000; spin > 0; spin--)
			;
		OK(far_simple(env, FAR_DEREG, 0, (uint64_t)LONG_NS, 0, 0, 0));
		far_fill(env, 0, 0, size, 2, 0);
		status = near_wait(env, request, NULL);
		CHECK_MSG(status == TCPX_OK || status == TCPX_ERR_REMOTE_KEY, "%s",
			  tcpx_status_name(status));
		lost += status != TCPX_OK;
		OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
		CHECK_EQ(far_pattern(env, 0, 0, size, 2, 0), -1);
		if (status == TCPX_OK || op == TCPX_OP_WRITE)
			CHECK_EQ(buf_check(&buf, 0, size, 1, 0), -1);
		EXPECT(near_run(env, op, &segment, 1, NULL), TCPX_ERR_REMOTE_KEY);
		OK(tcpx_request_release(env->session, request));
		OK(tcpx_region_deregister(env->session, segment.remote, LONG_NS));
	}
	CHECK(config.light || lost > 0); /* else it never met one under way */
}

static void case_dereg_owner_write(struct env *env)
{
	dereg_owner(env, TCPX_OP_WRITE);
}

static void case_dereg_owner_read(struct env *env)
{
	dereg_owner(env, TCPX_OP_READ);
}

static void case_dereg_prepared(struct env *env)
{
	tcpx_segment segment = {.length = 100};
	tcpx_request request;
	tcpx_status status;
	struct buf buf;

	buf_make(&buf, 100, 0);
	segment.local = near_register(env, &buf, 0);
	segment.remote = far_buf(env, 0, 100, RW, 0);
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, NULL,
				&request));
	OK(tcpx_region_deregister(env->session, segment.local, 0));
	EXPECT(tcpx_request_post(env->session, request), TCPX_ERR_DEREGISTERED);
	OK(tcpx_request_release(env->session, request));
	segment.local = near_register(env, &buf, 0);
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, NULL,
				&request));
	OK(tcpx_region_deregister(env->session, segment.remote, 0)); /* the import */
	status = tcpx_request_post(env->session, request); /* or the owner judges the key */
	CHECK_MSG(status == TCPX_OK || status == TCPX_ERR_STALE, "%s", tcpx_status_name(status));
	OK(tcpx_request_release(env->session, request));
}

struct patient {
	pthread_barrier_t begin;
	tcpx_session *session;
	tcpx_region region;
	tcpx_status status;
};

static void *wait_for_quiet(void *arg)
{
	struct patient *patient = arg;

	pthread_barrier_wait(&patient->begin);
	patient->status = tcpx_region_deregister(patient->session, patient->region, LONG_NS);
	return NULL;
}

/* A copy that does not end: BUSY, the region stays ours to call again, and then it is quiet, which
 * one who waits for it is told. */
static void case_dereg_busy(struct env *env)
{
	struct patient patient = {.session = env->session};
	tcpx_request request;
	pthread_t thread;
	struct buf buf;

	if (!near_held_write(env, &buf, &patient.region, &request))
		return;
	CHECK(pthread_barrier_init(&patient.begin, NULL, 2) == 0);
	CHECK(pthread_create(&thread, NULL, wait_for_quiet, &patient) == 0);
	pthread_barrier_wait(&patient.begin);
	EXPECT(tcpx_region_deregister(env->session, patient.region, 50 * MS), TCPX_ERR_BUSY);
	EXPECT(tcpx_region_deregister(env->session, patient.region, 50 * MS), TCPX_ERR_BUSY);
	EXPECT(tcpx_request_wait(env->session, request, 0, NULL), TCPX_IN_PROGRESS);
	hold_end();
	CHECK(pthread_join(thread, NULL) == 0);
	OK(patient.status);
	pthread_barrier_destroy(&patient.begin);
	buf_free(&buf);
	EXPECT(near_wait(env, request, NULL), TCPX_ERR_DEREGISTERED);
	EXPECT(tcpx_region_deregister(env->session, patient.region, 0), TCPX_ERR_STALE);
}

const struct case_row cases_deregister[] = {
	{"dereg_waiting", case_dereg_waiting, 0},
	{"dereg_write", case_dereg_write, 0},
	{"dereg_read", case_dereg_read, 0},
	{"dereg_owner_write", case_dereg_owner_write, 0},
	{"dereg_owner_read", case_dereg_owner_read, 0},
	{"dereg_prepared", case_dereg_prepared, 0},
	{"dereg_busy", case_dereg_busy, 0},
	{0},
};

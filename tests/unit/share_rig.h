/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two sessions with GPU memory over the stand-in driver: the near one in the test, the far one in
 * the same process or in another one, which does as it is told by a pipe.
 */
#ifndef UNIT_SHARE_RIG_H
#define UNIT_SHARE_RIG_H

#include <signal.h>
#include <stdbool.h>

#include "descriptors.h"
#include "engine/session/calls.h"
#include "share_memory.h"
#include <tcpx/tcpx.h>

#define SHARE_PART (100u << 10)
#define SHARE_FEW 20	  /* transfers, where none will go by reference */
#define SHARE_TRIES 20000 /* transfers until the peer has mapped our memory */

static uint64_t share_flags; /* of the sessions of this one */
/* The near side's token keeps the right to WRITE, so it writes what it has mapped itself. Otherwise
 * the far side copies what is written, as for a SEND. */
static bool share_writes;
static unsigned far_descriptors; /* when it began */

struct side {
	tcpx_session *session;
	tcpx_region region;
	tcpx_peer peer;
	cuda_ptr memory;
	uint32_t device;
	tcpx_request recv;
};

struct share_pair {
	struct side near, far; /* far: also in the other process */
	tcpx_region theirs;
	pid_t child; /* 0: both are here */
	int to, from;
	uint8_t info[TCPX_INFO_MAX_BYTES], token[TCPX_TOKEN_BYTES];
	size_t info_len;
};

static inline void share_pattern(uint8_t *bytes, unsigned salt)
{
	for (uint32_t i = 0; i < SHARE_BYTES; i++)
		bytes[i] = (uint8_t)(i * 13 + i / 1021 + salt);
}

/* Orders this thread with the library's, by the peer's lock: that the other process was told
 * meanwhile, and tells on, is nothing that ThreadSanitizer sees. */
static inline void side_meet(const struct side *side)
{
	tcpx_peer_info info = {.sz = sizeof(info)};

	if (side->peer.id)
		assert_int_equal(tcpx_peer_query(side->session, side->peer, &info), TCPX_OK);
}

static inline void side_fill(const struct side *side, unsigned salt)
{
	uint8_t *bytes = malloc(SHARE_BYTES);

	assert_non_null(bytes);
	share_pattern(bytes, salt);
	assert_int_equal(fake.write(side->memory, bytes, SHARE_BYTES), 0);
	side_meet(side);
	free(bytes);
}

static inline bool side_has(const struct side *side, unsigned salt)
{
	uint8_t *want = malloc(SHARE_BYTES), *got = malloc(SHARE_BYTES);
	bool same;

	assert_true(want && got);
	share_pattern(want, salt);
	side_meet(side);
	assert_int_equal(fake.read(side->memory, got, SHARE_BYTES), 0);
	side_meet(side); /* and what writes there from now on comes behind this */
	same = !memcmp(want, got, SHARE_BYTES);
	free(want);
	free(got);
	return same;
}

/* The one value of its first bytes; -1: they have several. */
static inline int side_value(const struct side *side)
{
	uint8_t bytes[SHARE_PART];

	side_meet(side);
	assert_int_equal(fake.read(side->memory, bytes, sizeof(bytes)), 0);
	side_meet(side);
	return memcmp(bytes, bytes + 1, sizeof(bytes) - 1) ? -1 : bytes[0];
}

static inline void side_register(struct side *side)
{
	TCPX_OPTS(tcpx_region_opts, opts, .kind = TCPX_MEM_CUDA, .device = side->device,
		  .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);

	assert_int_equal(tcpx_region_register(side->session, (void *)(uintptr_t)side->memory,
					      SHARE_BYTES, &opts, &side->region),
			 TCPX_OK);
}

static inline void side_open(struct side *side, uint32_t device)
{
	TCPX_OPTS(tcpx_session_opts, opts, .flags = share_flags);

	side->device = device;
	side->memory = share_alloc(device);
	assert_int_equal(tcpx_session_open(&opts, &side->session), TCPX_OK);
	side_register(side);
}

static inline void side_close(struct side *side)
{
	tcpx_session_close(side->session);
	share_give(side->device, side->memory);
}

static inline tcpx_status side_start(struct side *side, enum tcpx_op op, tcpx_region theirs,
				     uint64_t bytes, tcpx_request *out_request)
{
	tcpx_segment piece = {.local = side->region, .remote = theirs, .length = bytes};

	if (op == TCPX_OP_SEND || op == TCPX_OP_RECV)
		piece.remote = (tcpx_region){0};
	return tcpx_request_start(side->session, side->peer, op, &piece, 1, NULL, out_request);
}

static inline tcpx_status side_end(struct side *side, tcpx_request request)
{
	tcpx_status status = tcpx_request_wait(side->session, request, TCPX_WAIT_FOREVER, NULL);

	tcpx_request_release(side->session, request);
	return status;
}

/* What it sends goes in chunks by reference of so many bytes from now on; 0: as it was. Returns how
 * many frames of its bulk channels were sent so far. */
static inline int side_chunks(const struct side *side, uint32_t bytes)
{
	struct engine_session *session = (struct engine_session *)side->session;
	struct engine_peer *peer = engine_peer_get(session, side->peer.id);
	int frames = 0;

	assert_non_null(peer);
	pthread_mutex_lock(&peer->link.lock);
	if (bytes) {
		assert_int_equal(peer->link.core.ref_chunk, CORE_REF_MOST); /* as the peer said */
		peer->link.core.ref_chunk = bytes;
	}
	for (uint32_t i = CORE_PRIO + 1; i < peer->link.core.nchan; i++)
		frames += (int)peer->link.core.chan[i].inflight.next_seq;
	pthread_mutex_unlock(&peer->link.lock);
	peer_put(peer);
	return frames;
}

/* fill: f, has it: h, side_value: b, side_chunks: g, start RECV: r, its end: e, deregister: d, hold
 * the GPUs: s (0: let go), how many copies so far: c, accept the link: a, wait until a copy stands
 * in a queue: w, driver objects alive: l, open descriptors: n, calls of a symbol of rig_symbols so
 * far: k, such a call to fail: x (symbol * 65536 + nth * 1024 + result; nth 0: none any more). */
static inline int far_does(struct side *side, char what, unsigned arg)
{
	switch (what) {
	case 'a':
		return tcpx_session_accept(side->session, TCPX_WAIT_FOREVER, &side->peer);
	case 'f':
		side_fill(side, arg);
		return 0;
	case 'h':
		return side_has(side, arg);
	case 'g':
		return side_chunks(side, arg);
	case 'b':
		return side_value(side);
	case 'r':
		return side_start(side, TCPX_OP_RECV, (tcpx_region){0}, SHARE_BYTES, &side->recv);
	case 'e':
		return side_end(side, side->recv);
	case 'd':
		return tcpx_region_deregister(side->session, side->region, arg * 1000000ll);
	case 's':
		fake.hold((int)arg);
		return 0;
	case 'w':
		while (!fake.queued())
			sched_yield();
		return 0;
	case 'c':
		return (int)fake.calls("cuMemcpyAsync");
	case 'l':
		return (int)fake.live(NULL);
	case 'n':
		return (int)open_descriptors();
	case 'k':
		return (int)fake.calls(rig_symbols[arg]);
	case 'x':
		return fake.fail_call(rig_symbols[arg >> 16], arg >> 10 & 63, (int)(arg & 1023));
	case 'q':
		side_close(side);
		if (!arg) /* the near side of this process still has what it has */
			return 0;
		return (int)fake.settle(0) + 1000 * (int)(open_descriptors() - far_descriptors);
	default:
		return -1000;
	}
}

static inline int far_asks(struct share_pair *pair, char what, unsigned arg)
{
	unsigned message[2] = {(unsigned)what, arg};
	int answer = -1001;

	if (!pair->child)
		return far_does(&pair->far, what, arg);
	assert_int_equal(write(pair->to, message, sizeof(message)), sizeof(message));
	assert_int_equal(read(pair->from, &answer, sizeof(answer)), sizeof(answer));
	return answer;
}

static inline void far_open(struct share_pair *pair, uint32_t device)
{
	uint16_t port;

	side_open(&pair->far, device);
	assert_int_equal(tcpx_session_listen(pair->far.session, NULL, &port), TCPX_OK);
	assert_int_equal(tcpx_session_info(pair->far.session, pair->info, sizeof(pair->info),
					   &pair->info_len),
			 TCPX_OK);
	assert_int_equal(tcpx_region_export(pair->far.session, pair->far.region, pair->token),
			 TCPX_OK);
}

/* The other process. */
static inline int far_main(char **argv)
{
	int from = atoi(argv[1]), to = atoi(argv[2]);
	struct share_pair *pair = calloc(1, sizeof(*pair));
	unsigned message[2];

	share_memory = (enum share_memory)atoi(argv[4]);
	if (!pair || rig_open())
		return 1;
	far_descriptors = open_descriptors();
	far_open(pair, (uint32_t)atoi(argv[3]));
	if (write(to, pair, sizeof(*pair)) != sizeof(*pair))
		return 1;
	while (read(from, message, sizeof(message)) == sizeof(message)) {
		int answer = far_does(&pair->far, (char)message[0], message[1]);

		if (write(to, &answer, sizeof(answer)) != sizeof(answer) || message[0] == 'q')
			break;
	}
	free(pair);
	return 0;
}

static inline void far_spawn(struct share_pair *pair, uint32_t device)
{
	struct share_pair *told = malloc(sizeof(*told));
	char texts[4][16];
	int down[2], up[2];

	assert_non_null(told);
	assert_int_equal(pipe(down) | pipe(up), 0);
	snprintf(texts[0], sizeof(texts[0]), "%d", down[0]);
	snprintf(texts[1], sizeof(texts[1]), "%d", up[1]);
	snprintf(texts[2], sizeof(texts[2]), "%u", device);
	snprintf(texts[3], sizeof(texts[3]), "%d", (int)share_memory);
	pair->child = fork();
	if (!pair->child) {
		close(down[1]);
		close(up[0]);
		execl("/proc/self/exe", "far", texts[0], texts[1], texts[2], texts[3], NULL);
		_exit(127);
	}
	close(down[0]);
	close(up[1]);
	pair->to = down[1];
	pair->from = up[0];
	assert_int_equal(read(pair->from, told, sizeof(*told)), sizeof(*told));
	memcpy(pair->info, told->info, sizeof(pair->info));
	memcpy(pair->token, told->token, sizeof(pair->token));
	pair->info_len = told->info_len;
	free(told);
}

static inline void share_open(struct share_pair *pair, bool two, uint32_t near, uint32_t far)
{
	uint8_t token[TCPX_TOKEN_BYTES];

	memset(pair, 0, sizeof(*pair));
	if (two)
		far_spawn(pair, far);
	else
		far_open(pair, far);
	side_open(&pair->near, near);
	assert_int_equal(tcpx_session_connect(pair->near.session, pair->info, pair->info_len, NULL,
					      &pair->near.peer),
			 TCPX_OK);
	assert_int_equal(far_asks(pair, 'a', 0), TCPX_OK);
	memcpy(token, pair->token, sizeof(token));
	if (!share_writes)
		token[2] &= (uint8_t)~TCPX_RIGHT_WRITE;
	assert_int_equal(tcpx_region_import(pair->near.session, pair->near.peer, token,
					    sizeof(pair->token), &pair->theirs),
			 TCPX_OK);
}

static inline void share_child_gone(struct share_pair *pair)
{
	int status = 0;

	close(pair->to);
	close(pair->from);
	assert_int_equal(waitpid(pair->child, &status, 0), pair->child);
	pair->child = 0;
}

/* Both let go of everything, and no driver object is left in either process. */
static inline void share_close(struct share_pair *pair)
{
	bool two = pair->child != 0;
	int left;

	if (!two)
		tcpx_session_close(pair->near.session);
	left = far_asks(pair, 'q', two);
	if (two) {
		assert_int_equal(left, 0);
		tcpx_session_close(pair->near.session);
		share_child_gone(pair);
	}
	share_give(pair->near.device, pair->near.memory);
	assert_int_equal(fake.settle(0), 0);
}

static inline tcpx_status share_start(struct share_pair *pair, enum tcpx_op op,
				      tcpx_request *out_request)
{
	return side_start(&pair->near, op, pair->theirs, SHARE_BYTES, out_request);
}

static inline tcpx_status share_part(struct share_pair *pair, enum tcpx_op op, uint64_t bytes)
{
	tcpx_request request;
	tcpx_status status;

	if (op == TCPX_OP_SEND)
		assert_int_equal(far_asks(pair, 'r', 0), TCPX_OK);
	status = side_start(&pair->near, op, pair->theirs, bytes, &request);
	if (status == TCPX_OK)
		status = side_end(&pair->near, request);
	if (op == TCPX_OP_SEND)
		assert_int_equal(far_asks(pair, 'e', 0), TCPX_OK);
	return status;
}

static inline tcpx_status share_move(struct share_pair *pair, enum tcpx_op op)
{
	return share_part(pair, op, SHARE_BYTES);
}

/* Copies of both sides so far. Staging makes at least one on either side. */
static inline int share_copies(struct share_pair *pair)
{
	int copies = (int)fake.calls("cuMemcpyAsync");

	return pair->child ? copies + far_asks(pair, 'c', 0) : copies;
}

/* True: transfers of that kind go by reference, after at most so many of them. */
static inline bool share_settles(struct share_pair *pair, enum tcpx_op op, unsigned tries)
{
	for (unsigned i = 0; i < tries; i++) {
		int before = share_copies(pair);

		assert_int_equal(share_part(pair, op, SHARE_PART), TCPX_OK);
		if (share_copies(pair) - before == 1)
			return true;
	}
	return false;
}

static inline void share_settle(struct share_pair *pair, enum tcpx_op op)
{
	while (!share_settles(pair, op, SHARE_FEW))
		;
}

/* Each way to move bytes goes by reference, and they are the right ones. */
static inline void share_moves(bool two, uint32_t near, uint32_t far)
{
	static const uint32_t chunks[] = {0, 4 << 20}; /* as the peer takes them */
	struct share_pair pair;

	share_open(&pair, two, near, far);
	for (int i = 0; i < 2; i++) {
		int copies;

		side_fill(&pair.near, 1);
		assert_true(share_settles(&pair, TCPX_OP_WRITE, SHARE_TRIES));
		side_fill(&pair.near, 2);
		(void)side_chunks(&pair.near, chunks[i]);
		copies = share_copies(&pair);
		assert_int_equal(share_move(&pair, TCPX_OP_WRITE), TCPX_OK);
		/* Those of a chunk may merge with others. */
		assert_in_range(share_copies(&pair) - copies, 1, i && !share_writes ? 6 : 1);
		assert_true(far_asks(&pair, 'h', 2));
		far_asks(&pair, 'f', 3);
		assert_true(share_settles(&pair, TCPX_OP_READ, SHARE_TRIES));
		far_asks(&pair, 'f', 4);
		(void)far_asks(&pair, 'g', chunks[i]);
		assert_int_equal(share_move(&pair, TCPX_OP_READ), TCPX_OK);
		assert_true(side_has(&pair.near, 4));
		side_fill(&pair.near, 5);
		assert_true(share_settles(&pair, TCPX_OP_SEND, SHARE_TRIES));
		assert_int_equal(share_move(&pair, TCPX_OP_SEND), TCPX_OK);
		assert_true(far_asks(&pair, 'h', 5));
	}
	share_close(&pair);
}

#endif

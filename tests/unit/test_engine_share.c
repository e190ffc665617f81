/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory between two sessions of one host by reference: bytes, fall-back, leases, the end. */
#include "runtime_refs.h"
#include "engine/path/direct.h"
#include "engine/path/share.h"
#include "share_stock.h"
#include "sys/crypto.h"

/* Which of the two processes holds its GPUs: the one that copies. */
static void hold_far(struct share_pair *pair, unsigned on)
{
	far_asks(pair, 's', on);
}

static void hold_near(struct share_pair *pair, unsigned on)
{
	(void)pair;
	fake.hold((int)on);
}

/* What is written is copied by the peer, and by this end. */
static void moves_either_way(bool two, uint32_t near, uint32_t far)
{
	share_moves(two, near, far);
	share_writes = true;
	share_moves(two, near, far);
	share_writes = false;
}

static void one_process_two_gpus(void **state)
{
	(void)state;
	moves_either_way(false, 0, 1);
}

static void one_process_one_gpu(void **state)
{
	(void)state;
	moves_either_way(false, 1, 1);
}

static void two_processes_two_gpus(void **state)
{
	(void)state;
	moves_either_way(true, 0, 1);
}

static void two_processes_one_gpu(void **state)
{
	(void)state;
	moves_either_way(true, 0, 0);
}

/* Pieces that meet nowhere, and chunks that end inside of them. */
static void list_moves(enum tcpx_op op)
{
	enum { PIECES = 40 };
	tcpx_segment list[PIECES];
	uint8_t *want = malloc(SHARE_BYTES), *got = malloc(SHARE_BYTES),
		*source = malloc(SHARE_BYTES);
	bool read = op == TCPX_OP_READ;
	struct share_pair pair;
	tcpx_request request;
	uint64_t at = 0;
	int copies;

	assert_true(want && got && source);
	share_open(&pair, false, 0, 1);
	assert_true(share_settles(&pair, op, SHARE_TRIES));
	side_fill(&pair.near, read ? 8 : 7);
	far_asks(&pair, 'f', read ? 7 : 8);
	share_pattern(source, 7);
	share_pattern(want, 8);
	for (unsigned i = 0; i < PIECES; i++) {
		uint64_t length = 300001 + 4099 * i;
		uint64_t from = SHARE_BYTES - at - length;

		list[i] = (tcpx_segment){.local = pair.near.region,
					 .local_offset = read ? at : from,
					 .remote = pair.theirs,
					 .remote_offset = read ? from : at,
					 .length = length};
		memcpy(want + at, source + from, length);
		at += length + 1;
	}
	copies = share_copies(&pair);
	assert_int_equal(tcpx_request_start(pair.near.session, pair.near.peer, op, list, PIECES,
					    NULL, &request),
			 TCPX_OK);
	assert_int_equal(side_end(&pair.near, request), TCPX_OK);
	assert_in_range(share_copies(&pair) - copies, PIECES, PIECES + 2);
	assert_int_equal(fake.read(read ? pair.near.memory : pair.far.memory, got, SHARE_BYTES), 0);
	assert_memory_equal(want, got, SHARE_BYTES);
	share_close(&pair);
	free(want);
	free(got);
	free(source);
}

static void lists_go_by_reference(void **state)
{
	(void)state;
	list_moves(TCPX_OP_WRITE);
	list_moves(TCPX_OP_READ);
	share_writes = true;
	list_moves(TCPX_OP_WRITE);
	share_writes = false;
}

/* Frames that went by bulk channels of whoever sends the bytes of so many transfers, one by one. */
static int by_bulk(struct share_pair *pair, enum tcpx_op op, unsigned count)
{
	bool read = op == TCPX_OP_READ;
	int before = read ? far_asks(pair, 'g', 0) : side_chunks(&pair->near, 0);

	for (unsigned i = 0; i < count; i++)
		assert_int_equal(share_move(pair, op), TCPX_OK);
	return (read ? far_asks(pair, 'g', 0) : side_chunks(&pair->near, 0)) - before;
}

/* Its frames have no bytes: one alone takes the priority channel whatever its size, others do
 * not. */
static void a_write_alone_takes_the_lane(void **state)
{
	struct share_pair pair;
	tcpx_request recv;

	(void)state;
	share_open(&pair, true, 0, 1);
	assert_true(share_settles(&pair, TCPX_OP_WRITE, SHARE_TRIES));
	(void)by_bulk(&pair, TCPX_OP_WRITE, 4);
	assert_int_equal(by_bulk(&pair, TCPX_OP_WRITE, 10), 0);
	assert_int_equal(side_start(&pair.near, TCPX_OP_RECV, pair.theirs, SHARE_BYTES, &recv),
			 TCPX_OK);
	assert_true(by_bulk(&pair, TCPX_OP_WRITE, 5) >= 5);
	assert_int_equal(tcpx_request_cancel(pair.near.session, recv), TCPX_OK);
	assert_int_equal(side_end(&pair.near, recv), TCPX_ERR_CANCELLED);
	assert_int_equal(engine_runtime.solo_posted | engine_runtime.solo_answered, 0);
	share_close(&pair);
}

/* What is mapped here is read and written without a frame of either side, alone or not. */
static void mapped_memory_needs_no_frame(void **state)
{
	static const enum tcpx_op ops[] = {TCPX_OP_READ, TCPX_OP_WRITE};
	struct share_pair pair;
	tcpx_request recv;

	(void)state;
	share_writes = true;
	share_open(&pair, true, 0, 1);
	for (int i = 0; i < 2; i++) {
		assert_true(share_settles(&pair, ops[i], SHARE_TRIES));
		while (by_bulk(&pair, ops[i], 1)) /* until the peer has offered its memory */
			;
		assert_int_equal(by_bulk(&pair, ops[i], 10), 0);
		assert_int_equal(
			side_start(&pair.near, TCPX_OP_RECV, pair.theirs, SHARE_BYTES, &recv),
			TCPX_OK);
		assert_int_equal(by_bulk(&pair, ops[i], 10), 0);
		assert_int_equal(tcpx_request_cancel(pair.near.session, recv), TCPX_OK);
		assert_int_equal(side_end(&pair.near, recv), TCPX_ERR_CANCELLED);
	}
	share_close(&pair);
	share_writes = false;
}

/* A list whose remote memory is in two regions, the lower and the upper half of the far memory.
 * Without kernels a list of small pieces would be staged; with them it has several parts. */
static uint32_t pieces = 290, piece_bytes = 70001;

static uint64_t half(void)
{
	return pieces / 2 * (uint64_t)piece_bytes;
}

static tcpx_region upper_half(struct share_pair *pair)
{
	TCPX_OPTS(tcpx_region_opts, opts, .kind = TCPX_MEM_CUDA, .device = pair->far.device,
		  .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
	void *base = (void *)(uintptr_t)(pair->far.memory + half());
	uint8_t token[TCPX_TOKEN_BYTES];
	tcpx_region region, theirs;

	assert_int_equal(tcpx_region_register(pair->far.session, base, half(), &opts, &region),
			 TCPX_OK);
	assert_int_equal(tcpx_region_export(pair->far.session, region, token), TCPX_OK);
	assert_int_equal(tcpx_region_import(pair->near.session, pair->near.peer, token,
					    sizeof(token), &theirs),
			 TCPX_OK);
	return theirs;
}

/* Prepares the list until it is made at prepare: until both regions are mapped here. `want` gets
 * the bytes that it moves, from `source`. */
static tcpx_request list_prepare(struct share_pair *pair, enum tcpx_op op, tcpx_region upper,
				 const uint8_t *source, uint8_t *want)
{
	struct engine_session *session = (struct engine_session *)pair->near.session;
	tcpx_segment *list = calloc(pieces, sizeof(*list));
	bool read = op == TCPX_OP_READ, made = false;
	tcpx_request request;

	assert_non_null(list);
	for (uint32_t i = 0; i < pieces; i++) {
		uint64_t to = (uint64_t)i * piece_bytes,
			 from = (uint64_t)(pieces - 1 - i) * piece_bytes;
		uint64_t far = read ? from : to;

		list[i] = (tcpx_segment){.local = pair->near.region,
					 .local_offset = read ? to : from,
					 .remote = far < half() ? pair->theirs : upper,
					 .remote_offset = far % half(),
					 .length = piece_bytes - 1};
		memcpy(want + to, source + from, piece_bytes - 1);
	}
	for (;;) {
		struct engine_request *engine;

		assert_int_equal(tcpx_request_prepare(pair->near.session, pair->near.peer, op, list,
						      pieces, NULL, &request),
				 TCPX_OK);
		engine = handle_get(&session->requests, request.id);
		made = engine->way.plan != NULL;
		request_put(engine);
		if (made)
			break;
		assert_int_equal(tcpx_request_post(pair->near.session, request), TCPX_OK);
		assert_int_equal(side_end(&pair->near, request), TCPX_OK);
	}
	free(list);
	return request;
}

/* As if the plan was for mappings at other addresses. */
static void plan_shift(struct share_pair *pair, enum tcpx_op op, tcpx_request request)
{
	struct engine_session *session = (struct engine_session *)pair->near.session;
	struct engine_request *engine = handle_get(&session->requests, request.id);
	struct direct_plan *plan = engine->way.plan;

	plan->bases[1]++;
	for (uint32_t i = 0; i < pieces; i++)
		if (op == TCPX_OP_READ)
			plan->sources[i]++;
		else
			plan->pieces[i].addr = (uint8_t *)plan->pieces[i].addr + 1;
	request_put(engine);
}

/* A list is made when it is prepared, if the remote memory is mapped by then. The second post uses
 * it again; one that is out of date is not used. */
static void planned_list(struct share_pair *pair, enum tcpx_op op, tcpx_region upper, bool shifted)
{
	bool read = op == TCPX_OP_READ;
	uint8_t *want = malloc(SHARE_BYTES), *got = malloc(SHARE_BYTES),
		*source = malloc(SHARE_BYTES);
	tcpx_request request;

	assert_true(want && got && source);
	share_pattern(source, 7);
	share_pattern(want, 8);
	request = list_prepare(pair, op, upper, source, want);
	if (shifted)
		plan_shift(pair, op, request);
	for (int times = 0; times < 2; times++) {
		side_fill(&pair->near, read ? 8 : 7);
		far_asks(pair, 'f', read ? 7 : 8);
		assert_int_equal(tcpx_request_post(pair->near.session, request), TCPX_OK);
		assert_int_equal(tcpx_request_wait(pair->near.session, request, -1, NULL), TCPX_OK);
		assert_int_equal(
			fake.read(read ? pair->near.memory : pair->far.memory, got, SHARE_BYTES),
			0);
		assert_memory_equal(want, got, SHARE_BYTES);
	}
	tcpx_request_release(pair->near.session, request);
	free(want);
	free(got);
	free(source);
}

static void a_list_is_made_at_prepare(void **state)
{
	static const enum tcpx_op ops[] = {TCPX_OP_READ, TCPX_OP_WRITE};
	struct share_pair pair;
	tcpx_region upper;

	(void)state;
	share_writes = true;
	share_open(&pair, false, 0, 1);
	upper = upper_half(&pair);
	for (int i = 0; i < 2; i++) {
		planned_list(&pair, ops[i], upper, false);
		planned_list(&pair, ops[i], upper, true);
	}
	share_close(&pair);
	share_writes = false;
}

/* Is memory of that key open at the near side? */
static bool knows_key(struct share_pair *pair, uint64_t key)
{
	struct engine_session *session = (struct engine_session *)pair->near.session;
	struct engine_peer *peer = engine_peer_get(session, pair->near.peer.id);
	struct list_node *pos;
	bool known = false;

	assert_non_null(peer);
	pthread_mutex_lock(&peer->link.lock);
	for (unsigned i = 0; i < ENGINE_SHARE_BUCKETS; i++)
		LIST_FOREACH(pos, &peer->shared->in[i])
			known |= LIST_ENTRY(pos, struct engine_map, node)->key == key;
	pthread_mutex_unlock(&peer->link.lock);
	peer_put(peer);
	return known;
}

/* Who reads by a token of its own gets the bytes by reference, and never hears of the key that
 * would serve everybody. */
static void a_reader_is_told_its_own_key(void **state)
{
	uint8_t token[TCPX_TOKEN_BYTES];
	struct share_pair pair;
	uint64_t key[2];

	(void)state;
	if (!sys_crypto_available())
		skip();
	share_open(&pair, false, 0, 1);
	assert_int_equal(
		tcpx_region_token_for(pair.far.session, pair.far.region, pair.far.peer, token),
		TCPX_OK);
	assert_int_equal(tcpx_region_deregister(pair.near.session, pair.theirs, 0), TCPX_OK);
	assert_int_equal(tcpx_region_import(pair.near.session, pair.near.peer, token, sizeof(token),
					    &pair.theirs),
			 TCPX_OK);
	memcpy(&key[0], token + 8, sizeof(key[0]));
	memcpy(&key[1], pair.token + 8, sizeof(key[1])); /* which it does not use */
	assert_true(key[0] != key[1]);
	assert_true(share_settles(&pair, TCPX_OP_READ, SHARE_TRIES));
	assert_true(knows_key(&pair, key[0]));
	assert_false(knows_key(&pair, key[1]));
	share_close(&pair);
}

/* More than the window allows at once. */
static void many_transfers_share_the_window(void **state)
{
	enum { MANY = 24 };
	tcpx_request requests[MANY];
	struct share_pair pair;

	(void)state;
	share_open(&pair, true, 0, 1);
	assert_true(share_settles(&pair, TCPX_OP_WRITE, SHARE_TRIES));
	side_fill(&pair.near, 1);
	hold_far(&pair, 1);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(share_start(&pair, TCPX_OP_WRITE, &requests[i]), TCPX_OK);
	far_asks(&pair, 'w', 0);
	hold_far(&pair, 0);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(side_end(&pair.near, requests[i]), TCPX_OK);
	assert_true(far_asks(&pair, 'h', 1));
	share_close(&pair);
}

/* A WRITE whose copy, the peer's, stands in its queue until hold_far(pair, 0). */
static tcpx_request held_write(struct share_pair *pair)
{
	tcpx_request request;

	share_open(pair, true, 0, 1);
	side_fill(&pair->near, 1);
	assert_true(share_settles(pair, TCPX_OP_WRITE, SHARE_TRIES));
	hold_far(pair, 1);
	assert_int_equal(share_start(pair, TCPX_OP_WRITE, &request), TCPX_OK);
	far_asks(pair, 'w', 0);
	return request;
}

/* Not done yet, and not soon: a side holds its GPUs. */
static void still_waits(struct share_pair *pair, tcpx_request request)
{
	assert_int_equal(tcpx_request_wait(pair->near.session, request, 20000000, NULL),
			 TCPX_IN_PROGRESS);
}

/* The peer's copy stands still: the memory stays ours, whoever asks. */
static void deregister_waits_for_the_reader(void **state)
{
	struct share_pair pair;
	tcpx_request request;

	(void)state;
	request = held_write(&pair);
	assert_int_equal(tcpx_region_deregister(pair.near.session, pair.near.region, 50000000),
			 TCPX_ERR_BUSY);
	assert_int_equal(tcpx_request_test(pair.near.session, request, NULL), TCPX_IN_PROGRESS);
	hold_far(&pair, 0);
	assert_int_equal(
		tcpx_region_deregister(pair.near.session, pair.near.region, TCPX_WAIT_FOREVER),
		TCPX_OK);
	side_end(&pair.near, request);
	share_close(&pair);
}

/* Also where nothing is under way: it is unmapped at the peer when deregister returns. */
static void deregister_unmaps_at_the_peer(void **state)
{
	struct share_pair pair;

	(void)state;
	share_open(&pair, true, 0, 1);
	assert_true(share_settles(&pair, TCPX_OP_WRITE, SHARE_TRIES));
	assert_true(share_settles(&pair, TCPX_OP_READ, SHARE_TRIES));
	assert_int_equal(far_asks(&pair, 'd', 5000), TCPX_OK);
	{
		struct fakecuda_live live;

		fake.live(&live);
		assert_int_equal(live.ipc, 0);
	}
	assert_int_equal(share_move(&pair, TCPX_OP_WRITE), TCPX_ERR_REMOTE_KEY);
	share_close(&pair);
}

/* Cancelled while a side, told by hold, holds the GPUs that copy: it ends when that side lets go,
 * and the next one moves. */
static void cancel_waits(struct share_pair *pair, enum tcpx_op op, tcpx_request request,
			 void (*hold)(struct share_pair *pair, unsigned on))
{
	assert_int_equal(tcpx_request_cancel(pair->near.session, request), TCPX_OK);
	still_waits(pair, request);
	hold(pair, 0);
	assert_int_equal(side_end(&pair->near, request), TCPX_ERR_CANCELLED);
	assert_int_equal(share_move(pair, op), TCPX_OK);
}

static void cancel_waits_for_the_reader(void **state)
{
	struct share_pair pair;
	tcpx_request request;

	(void)state;
	request = held_write(&pair);
	still_waits(&pair, request);
	cancel_waits(&pair, TCPX_OP_WRITE, request, hold_far);
	share_close(&pair);
}

/* A READ whose copy, our own, stands in its queue until hold_near(pair, 0). */
static tcpx_request held_read(struct share_pair *pair)
{
	tcpx_request request;

	share_open(pair, true, 0, 1);
	assert_true(share_settles(pair, TCPX_OP_READ, SHARE_TRIES));
	hold_near(pair, 1);
	assert_int_equal(share_start(pair, TCPX_OP_READ, &request), TCPX_OK);
	while (!fake.queued())
		sched_yield();
	return request;
}

/* A READ that we cancel: our own copies are what is waited for. */
static void cancelled_read_is_quiet(void **state)
{
	struct share_pair pair;
	tcpx_request request;

	(void)state;
	request = held_read(&pair);
	cancel_waits(&pair, TCPX_OP_READ, request, hold_near);
	share_close(&pair);
}

/* A copy of ours holds the peer's region: it cannot go before the copy has ended. */
static void the_peers_region_waits_for_our_copy(void **state)
{
	struct share_pair pair;
	tcpx_request request;

	(void)state;
	request = held_read(&pair);
	assert_int_equal(far_asks(&pair, 'd', 50), TCPX_ERR_BUSY);
	assert_int_equal(tcpx_request_test(pair.near.session, request, NULL), TCPX_IN_PROGRESS);
	hold_near(&pair, 0);
	assert_int_equal(side_end(&pair.near, request), TCPX_OK);
	assert_int_equal(far_asks(&pair, 'd', 5000), TCPX_OK);
	assert_int_equal(share_move(&pair, TCPX_OP_READ), TCPX_ERR_REMOTE_KEY);
	share_close(&pair);
}

/* What is mapped here is more than the peer's region, so its bounds are ours to keep. */
static void bytes_beyond_the_region_are_not_moved(void **state)
{
	static const enum tcpx_op ops[] = {TCPX_OP_READ, TCPX_OP_WRITE};
	struct share_pair pair;

	(void)state;
	share_writes = true;
	share_open(&pair, true, 0, 1);
	for (int i = 0; i < 2; i++) {
		tcpx_segment segment = {.local = pair.near.region,
					.remote = pair.theirs,
					.remote_offset = 1,
					.length = SHARE_BYTES};
		tcpx_request request;

		assert_true(share_settles(&pair, ops[i], SHARE_TRIES));
		while (by_bulk(&pair, ops[i], 1))
			;
		side_fill(&pair.near, 6);
		far_asks(&pair, 'f', 7);
		assert_int_equal(tcpx_request_start(pair.near.session, pair.near.peer, ops[i],
						    &segment, 1, NULL, &request),
				 TCPX_OK);
		assert_int_equal(side_end(&pair.near, request), TCPX_ERR_REMOTE_RANGE);
		assert_true(side_has(&pair.near, 6));
		assert_true(far_asks(&pair, 'h', 7));
	}
	share_close(&pair);
	share_writes = false;
}

static void a_killed_reader_lets_go(void **state)
{
	struct share_pair pair;
	tcpx_request request;

	(void)state;
	request = held_write(&pair);
	kill(pair.child, SIGKILL);
	share_child_gone(&pair);
	assert_true(side_end(&pair.near, request) < 0);
	assert_int_equal(
		tcpx_region_deregister(pair.near.session, pair.near.region, TCPX_WAIT_FOREVER),
		TCPX_OK);
	side_close(&pair.near);
	assert_int_equal(fake.settle(0), 0);
}

/* The link is over for us, the reader's copy is not: its process lives, and does not answer. */
static void a_lease_outlives_the_link(void **state)
{
	struct share_pair pair;
	tcpx_request request;

	(void)state;
	request = held_write(&pair);
	still_waits(&pair, request);
	assert_int_equal(tcpx_peer_disconnect(pair.near.session, pair.near.peer), TCPX_OK);
	still_waits(&pair, request);
	assert_int_equal(tcpx_region_deregister(pair.near.session, pair.near.region, 50000000),
			 TCPX_ERR_BUSY);
	hold_far(&pair, 0);
	assert_true(side_end(&pair.near, request) < 0);
	assert_int_equal(
		tcpx_region_deregister(pair.near.session, pair.near.region, TCPX_WAIT_FOREVER),
		TCPX_OK);
	share_close(&pair);
}

static void reader_of_a_dead_source_unmaps(void **state)
{
	struct share_pair pair;

	(void)state;
	share_open(&pair, true, 0, 1);
	assert_true(share_settles(&pair, TCPX_OP_READ, SHARE_TRIES));
	kill(pair.child, SIGKILL);
	share_child_gone(&pair);
	side_close(&pair.near);
	assert_int_equal(fake.settle(0), 0);
}

/* A copy that does not end keeps what it uses when the last session closes; what is left of it goes
 * when it ended, and nobody need call us for that. */
static void a_closed_session_goes_with_its_last_copy(void **state)
{
	struct share_pair pair;

	(void)state;
	(void)held_read(&pair);
	tcpx_session_close(pair.near.session);
	assert_int_equal(runtime_refs(), 1);
	hold_near(&pair, 0);
	while (runtime_refs())
		sched_yield();
	assert_int_equal(far_asks(&pair, 'q', 1), 0);
	share_child_gone(&pair);
	share_give(pair.near.device, pair.near.memory);
	assert_int_equal(fake.settle(0), 0);
}

/* Without access between the GPUs bytes go the long way; to the same GPU the short one. */
static void without_peer_access_bytes_are_staged(void **state)
{
	struct share_pair pair;

	(void)state;
	share_open(&pair, true, 0, 1);
	share_error_says(&pair, "");
	assert_false(share_settles(&pair, TCPX_OP_WRITE, 30));
	share_error_says(&pair, "map");
	side_fill(&pair.near, 1);
	assert_int_equal(share_move(&pair, TCPX_OP_WRITE), TCPX_OK);
	assert_true(far_asks(&pair, 'h', 1));
	assert_false(share_settles(&pair, TCPX_OP_READ, 30));
	share_error_says(&pair, "cannot be mapped here: GPU 0 cannot read memory of GPU 1; next: ");
	share_close(&pair);
	share_open(&pair, false, 0, 1);
	assert_false(share_settles(&pair, TCPX_OP_WRITE, 30));
	share_close(&pair);
	share_open(&pair, true, 1, 1);
	assert_true(share_settles(&pair, TCPX_OP_WRITE, SHARE_TRIES));
	share_close(&pair);
}

static void can_be_switched_off(void **state)
{
	struct share_pair pair;

	(void)state;
	share_open(&pair, true, 0, 0);
	assert_false(share_settles(&pair, TCPX_OP_WRITE, 30));
	share_close(&pair);
}

/* What a peer with a network between says to be handles of GPU memory. */
static void offers_arrive(void *arg)
{
	const uint8_t handle[MEM_HANDLE_MAX] = {1, 2, 3};
	struct engine_peer *peer = arg;

	for (uint32_t i = 0; i < CORE_CHANNELS_MAX; i++) {
		struct frame frame = {.type = FRAME_SHARE,
				      .key = FRAME_SHARE_OFFER,
				      .xfer = 1 + i,
				      .offset = 1,
				      .linear = i,
				      .epoch = peer->link.chan[i] ? peer->link.chan[i]->epoch : 1,
				      .payload_bytes = sizeof(handle)};

		for (frame.seq = 0; frame.seq <= FRAME_SHARE_FD; frame.seq++)
			assert_int_equal(share_take(peer, &frame, handle), TCPX_OK);
	}
}

static void handles_from_a_network_are_not_opened(void **state)
{
	static const char *const opens[] = {"cuIpcOpenMemHandle", "cuMemImportFromShareableHandle"};
	struct engine_peer *peer;
	struct share_pair pair;
	uint64_t before[2];

	(void)state;
	share_flags = TCPX_SESSION_NO_LOCAL;
	share_open(&pair, false, 0, 1);
	share_flags = 0;
	for (int i = 0; i < 2; i++)
		before[i] = fake.calls(opens[i]);
	peer = engine_peer_get((struct engine_session *)pair.far.session, pair.far.peer.id);
	assert_non_null(peer);
	runtime_call(offers_arrive, peer);
	if (peer->shared)
		assert_int_equal(peer->shared->nin, 0);
	peer_put(peer);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fake.calls(opens[i]), before[i]);
	share_close(&pair);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_process_two_gpus),
		cmocka_unit_test(one_process_one_gpu),
		cmocka_unit_test(two_processes_two_gpus),
		cmocka_unit_test(two_processes_one_gpu),
		cmocka_unit_test(lists_go_by_reference),
		cmocka_unit_test(a_reader_is_told_its_own_key),
		cmocka_unit_test(a_write_alone_takes_the_lane),
		cmocka_unit_test(mapped_memory_needs_no_frame),
		cmocka_unit_test(a_list_is_made_at_prepare),
		cmocka_unit_test(many_transfers_share_the_window),
		cmocka_unit_test(deregister_waits_for_the_reader),
		cmocka_unit_test(deregister_unmaps_at_the_peer),
		cmocka_unit_test(cancel_waits_for_the_reader),
		cmocka_unit_test(cancelled_read_is_quiet),
		cmocka_unit_test(the_peers_region_waits_for_our_copy),
		cmocka_unit_test(bytes_beyond_the_region_are_not_moved),
		cmocka_unit_test(a_killed_reader_lets_go),
		cmocka_unit_test(a_lease_outlives_the_link),
		cmocka_unit_test(reader_of_a_dead_source_unmaps),
		cmocka_unit_test(a_closed_session_goes_with_its_last_copy),
		cmocka_unit_test(handles_from_a_network_are_not_opened),
	};
	const struct CMUnitTest without[] = {
		cmocka_unit_test(without_peer_access_bytes_are_staged),
	};
	const struct CMUnitTest lists[] = {
		cmocka_unit_test(a_list_is_made_at_prepare),
	};
	const struct CMUnitTest off[] = {
		cmocka_unit_test(can_be_switched_off),
	};

	if (argc == 5)
		return far_main(argv);
	if (rig_open())
		return 1;
	if (!getenv("FAKECUDA_KERNELS")) {
		pieces = 1200;
		piece_bytes = 10001;
		return cmocka_run_group_tests(lists, NULL, NULL);
	}
	if (getenv("FAKECUDA_NO_PEER"))
		return cmocka_run_group_tests(without, NULL, NULL);
	if (strcmp(getenv("TCPX_GPU_PEER") ? getenv("TCPX_GPU_PEER") : "", "1"))
		return cmocka_run_group_tests(off, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random transfers of all kinds between two processes, in both directions at once, as messages of
 * the TCPX emulator; every byte is compared. Usage: plugin_soak [CASE [MESSAGES]]
 */
#include "plugin_rig.h"

#include "base/rng.h"

#define SLOTS 6		    /* WRITEs and READs under way */
#define MAILS 4		    /* SENDs, and RECVs, under way */
#define ROOM (6u * MESSAGE) /* of a slot */
#define EDGE 64u	    /* bytes around that stay as they are */
#define LARGEST (ROOM - 8 * EDGE)
#define PIECES 4

#ifdef __SANITIZE_THREAD__
static uint64_t messages = 800;
#else
static uint64_t messages = 2000;
#endif

struct setting {
	const char *name, *socks, *threads, *channels, *pool;
	bool gpu;
};

/* What one slot does. */
enum step { IDLE = 0, WRITING, READING, TRASHING };

struct slot {
	enum step step;
	tcpx_request request;
	uint64_t seed, bytes;
	tcpx_segment segment[PIECES];
	size_t count;
};

struct soak {
	struct side *side;
	struct area mine, open; /* of each slot: a source; a place at the other side, ours alone */
	struct area back, trash, out, in;
	struct slot slot[SLOTS];
	tcpx_request send[MAILS], recv[MAILS];
	uint64_t sent, received; /* SENDs and RECVs that ended */
	uint64_t rounds, cancelled;
	struct rng rng;
};

/* Around the borders of messages, or anything. */
static uint64_t pick_bytes(struct rng *rng)
{
	uint64_t edge = (1 + rng_u64(rng) % 5) * MESSAGE;

	switch (rng_u64(rng) % 4) {
	case 0:
		return edge - 1 + rng_u64(rng) % 3;
	case 1:
		return 1 + rng_u64(rng) % 20000; /* most go by the stream */
	default:
		return 1 + rng_u64(rng) % LARGEST;
	}
}

/* Cuts bytes at off of slot i into pieces with gaps, the same at both ends. */
static void lay_out(struct soak *soak, struct slot *slot, uint64_t i)
{
	uint64_t at = i * ROOM + EDGE + rng_u64(&soak->rng) % EDGE, left = slot->bytes;

	slot->count = slot->bytes > PIECES * 20000 ? 1 + rng_u64(&soak->rng) % PIECES : 1;
	for (size_t k = 0; k < slot->count; k++) {
		uint64_t bytes = k + 1 == slot->count ? left : left / 2;

		slot->segment[k] = (tcpx_segment){.local = soak->mine.region,
						  .local_offset = at,
						  .remote = soak->open.remote,
						  .remote_offset = at,
						  .length = bytes};
		at += bytes + EDGE;
		left -= bytes;
	}
}

static void begin_write(struct soak *soak, uint64_t i)
{
	struct slot *slot = &soak->slot[i];

	slot->seed = rng_u64(&soak->rng);
	slot->bytes = pick_bytes(&soak->rng);
	lay_out(soak, slot, i);
	area_fill(soak->side, &soak->mine, i * ROOM, ROOM, slot->seed);
	slot->step = rng_u64(&soak->rng) % 8 ? WRITING : TRASHING;
	for (size_t k = 0; k < slot->count && slot->step == TRASHING; k++)
		slot->segment[k].remote = soak->trash.remote;
	slot->request = side_start(soak->side, TCPX_OP_WRITE, slot->segment, slot->count);
	if (slot->step == TRASHING) /* unless it has ended */
		(void)tcpx_request_cancel(soak->side->session, slot->request);
}

static void begin_read(struct soak *soak, uint64_t i)
{
	struct slot *slot = &soak->slot[i];

	area_set(soak->side, &soak->back, i * ROOM, ROOM, 0x5a);
	for (size_t k = 0; k < slot->count; k++)
		slot->segment[k].local = soak->back.region;
	slot->step = READING;
	slot->request = side_start(soak->side, TCPX_OP_READ, slot->segment, slot->count);
}

/* What came back is what was written, and nothing else was touched. */
static void compare(struct soak *soak, const struct slot *slot, uint64_t i)
{
	static uint8_t want[ROOM], source[ROOM], got[ROOM];

	memset(want, 0x5a, ROOM);
	area_get(soak->side, &soak->mine, i * ROOM, source, ROOM);
	area_get(soak->side, &soak->back, i * ROOM, got, ROOM);
	for (size_t k = 0; k < slot->count; k++) {
		uint64_t at = slot->segment[k].local_offset - i * ROOM;

		memcpy(want + at, source + at, slot->segment[k].length);
	}
	CHECK_MSG(!memcmp(want, got, ROOM), "slot %llu, seed %llu: wrong bytes",
		  (unsigned long long)i, (unsigned long long)slot->seed);
}

static void go_on(struct soak *soak, uint64_t i)
{
	struct slot *slot = &soak->slot[i];
	tcpx_status status = slot->step == IDLE
				     ? TCPX_OK
				     : tcpx_request_test(soak->side->session, slot->request, NULL);

	if (status == TCPX_IN_PROGRESS)
		return;
	if (slot->step != IDLE) {
		if (slot->step != TRASHING || status != TCPX_ERR_CANCELLED)
			OK(status);
		OK(tcpx_request_release(soak->side->session, slot->request));
	}
	soak->cancelled += slot->step == TRASHING && status != TCPX_OK;
	if (slot->step == WRITING) {
		begin_read(soak, i);
		return;
	}
	if (slot->step == READING)
		compare(soak, slot, i);
	soak->rounds++;
	begin_write(soak, i);
}

/* Both ends know the size and the bytes of the k-th message that side sends. */
static uint64_t mail_bytes(int side, uint64_t k)
{
	struct rng rng;

	rng_seed(&rng, 2 * k + (uint64_t)side);
	return pick_bytes(&rng);
}

static uint64_t mail_seed(int side, uint64_t k)
{
	return 1000000 + 2 * k + (uint64_t)side;
}

static void send_next(struct soak *soak, uint64_t k)
{
	uint64_t at = k % MAILS * ROOM;
	tcpx_segment segment = {.local = soak->out.region,
				.local_offset = at + k % EDGE,
				.length = mail_bytes(soak->side->index, k)};

	area_fill(soak->side, &soak->out, segment.local_offset, segment.length,
		  mail_seed(soak->side->index, k));
	soak->send[k % MAILS] = side_start(soak->side, TCPX_OP_SEND, &segment, 1);
}

static void receive_next(struct soak *soak, uint64_t k)
{
	tcpx_segment segment = {.local = soak->in.region,
				.local_offset = k % MAILS * ROOM + k % EDGE,
				.length = mail_bytes(!soak->side->index, k)};

	area_set(soak->side, &soak->in, k % MAILS * ROOM, ROOM, 0x5a);
	soak->recv[k % MAILS] = side_start(soak->side, TCPX_OP_RECV, &segment, 1);
}

static void mails_go_on(struct soak *soak, uint64_t last)
{
	tcpx_session *session = soak->side->session;
	tcpx_status status =
		soak->sent < last ? tcpx_request_test(session, soak->send[soak->sent % MAILS], NULL)
				  : TCPX_IN_PROGRESS;

	if (status != TCPX_IN_PROGRESS) {
		OK(status);
		OK(tcpx_request_release(session, soak->send[soak->sent % MAILS]));
		if (soak->sent + MAILS < last)
			send_next(soak, soak->sent + MAILS);
		soak->sent++;
	}
	status = soak->received < last
			 ? tcpx_request_test(session, soak->recv[soak->received % MAILS], NULL)
			 : TCPX_IN_PROGRESS;
	if (status != TCPX_IN_PROGRESS) {
		uint64_t k = soak->received, bytes = mail_bytes(!soak->side->index, k);
		uint64_t at = k % MAILS * ROOM + k % EDGE;

		OK(status);
		CHECK_MSG(area_is(soak->side, &soak->in, at, bytes,
				  mail_seed(!soak->side->index, k)) &&
				  area_same(soak->side, &soak->in, at + bytes,
					    ROOM - k % EDGE - bytes, 0x5a),
			  "message %llu: wrong bytes", (unsigned long long)k);
		OK(tcpx_request_release(session, soak->recv[k % MAILS]));
		if (k + MAILS < last)
			receive_next(soak, k + MAILS);
		soak->received++;
	}
}

/* Until one of the requests ended since the last time. */
static void await_one(struct soak *soak)
{
	tcpx_session *session = soak->side->session;
	tcpx_completion done[SLOTS] = {{.sz = sizeof(done[0])}};
	tcpx_event event = {.sz = sizeof(event)};

	while (tcpx_session_event(session, &event) == TCPX_OK)
		;
	OK(tcpx_session_wait(session, LONG_NS));
	while (tcpx_session_poll(session, done, SLOTS) > 0)
		;
}

static void memories(struct soak *soak)
{
	struct area *all[] = {&soak->mine,  &soak->back, &soak->open,
			      &soak->trash, &soak->out,	 &soak->in};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		area_make(soak->side, all[i], (i < 4 ? SLOTS : MAILS) * ROOM);
		area_swap(soak->side, all[i]);
	}
}

static void memories_go(struct soak *soak)
{
	struct area *all[] = {&soak->mine,  &soak->back, &soak->open,
			      &soak->trash, &soak->out,	 &soak->in};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		area_free(soak->side, all[i]);
}

/* What is under way ends; SENDs and RECVs have. */
static void finish(struct soak *soak)
{
	for (uint64_t i = 0; i < SLOTS; i++) {
		tcpx_request request = soak->slot[i].request;
		tcpx_status status = tcpx_request_wait(soak->side->session, request, LONG_NS, NULL);

		if (soak->slot[i].step != TRASHING || status != TCPX_ERR_CANCELLED)
			OK(status);
		OK(tcpx_request_release(soak->side->session, request));
	}
}

static void run(struct side *side, void *arg)
{
	const struct setting *setting = arg;
	static struct soak soak;
	uint64_t mails = messages / 16;

	side_env("NCCL_NSOCKS_PERTHREAD", setting->socks);
	side_env("NCCL_SOCKET_NTHREADS", setting->threads);
	side_env("TCPX_PLUGIN_CHANNELS", setting->channels);
	side_env("TCPXEMU_POOL_BYTES", setting->pool);
	side_env("TCPXEMU_FRAG", "rand");
	side->gpu = setting->gpu;
	soak = (struct soak){.side = side};
	side->queue = 1;
	rng_seed(&soak.rng, 77 + (uint64_t)side->index);
	side_open(side, TCPXEMU);
	side_connect(side, (uint32_t)atoi(setting->channels));
	memories(&soak);
	for (uint64_t k = 0; k < MAILS; k++) {
		receive_next(&soak, k);
		send_next(&soak, k);
	}
	while (side_stats().received_messages < messages / 2 || soak.sent < mails ||
	       soak.received < mails) {
		uint64_t before = soak.rounds + soak.sent + soak.received;

		for (uint64_t i = 0; i < SLOTS; i++)
			go_on(&soak, i);
		mails_go_on(&soak, mails);
		if (before == soak.rounds + soak.sent + soak.received)
			await_one(&soak);
		else
			check_alive();
	}
	finish(&soak);
	side_meet(side); /* the other's are over, too */
	CHECK(soak.rounds > 0 && soak.cancelled > 0);
	memories_go(&soak);
	side_meet(side);
	printf("%d: %llu messages, %llu rounds, %llu cancelled, %llu mails\n", side->index,
	       (unsigned long long)side_stats().received_messages, (unsigned long long)soak.rounds,
	       (unsigned long long)soak.cancelled, (unsigned long long)mails);
	side_close(side);
}

int main(int argc, char **argv)
{
	static const struct setting settings[] = {
		{"host_one_socket", "1", "1", "4", "67108864", false},
		{"host_eight_sockets", "4", "2", "2", "67108864", false},
		{"gpu_one_socket", "1", "1", "4", "67108864", true},
		{"gpu_one_channel", "2", "1", "1", "2097152", true},
		{"gpu_eight_sockets", "4", "2", "2", "67108864", true},
	};

	if (argc > 2)
		messages = strtoull(argv[2], NULL, 0);
	return side_main(run, settings, sizeof(settings) / sizeof(*settings), sizeof(*settings),
			 argc > 1 ? argv[1] : NULL);
}

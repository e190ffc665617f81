/* SPDX-License-Identifier: Apache-2.0 */
/* A core alone, without a world: sizes that no simulated memory has, turns, wrong calls. */
#include "sim_cases.h"

static void *stub_alloc(void *arg, size_t bytes)
{
	(void)arg;
	return calloc(1, bytes);
}

static void stub_free(void *arg, void *ptr, size_t bytes)
{
	(void)arg, (void)bytes;
	free(ptr);
}

static void stub_channel(void *arg, uint32_t channel)
{
	(void)arg, (void)channel;
}

static void stub_fence(void *arg, uint32_t channel, uint32_t epoch, uint64_t applied,
		       const struct core_nack *nacks, uint32_t count)
{
	(void)arg, (void)channel, (void)epoch, (void)applied, (void)nacks, (void)count;
}

static void stub_ended(void *arg, struct core_xfer *xfer)
{
	(void)xfer;
	++*(int *)arg;
}

static void stub_stage_give(void *arg, uint64_t bytes)
{
	(void)arg, (void)bytes;
}

static void stub_fill(void *arg)
{
	(void)arg;
}

static void stub_fill_drop(void *arg, struct core_job *job)
{
	(void)arg, (void)job;
}

static uint64_t stub_stage_take(void *arg, uint64_t want, uint64_t least)
{
	(void)arg, (void)least;
	return want;
}

static uint64_t ahead_most;

static uint64_t stub_stage_ahead(void *arg, uint64_t want)
{
	(void)arg;
	return want < ahead_most ? want : ahead_most;
}

static const struct core_ops ops = {.ended = stub_ended,
				    .fill = stub_fill,
				    .fill_drop = stub_fill_drop,
				    .kick = stub_channel,
				    .close_channel = stub_channel,
				    .channel_free = stub_channel,
				    .fence = stub_fence,
				    .stage_take = stub_stage_take,
				    .stage_ahead = stub_stage_ahead,
				    .stage_give = stub_stage_give,
				    .note_give = stub_stage_give,
				    .alloc = stub_alloc,
				    .free = stub_free};
static struct core_link alone_link;
static int ended;

static void link_open(void)
{
	struct core_config cfg = {.chunk_bytes = 512 << 10,
				  .filled_chunk_bytes = 2 << 20,
				  .bulk_channels = 1,
				  .credit_out = {4096, 4096, 64, 0},
				  .ops = &ops,
				  .arg = &ended};

	CHECK_EQ(core_link_init(&alone_link, &cfg), TCPX_OK);
}

/* A transfer of one segment of any size; its memory is never looked at. */
struct alone {
	struct core_xfer xfer;
	struct core_segs segs;
	struct core_seg seg[2];
	uint64_t key;
};

static void alone_init(struct alone *alone, enum tcpx_op op, uint64_t total)
{
	*alone = (struct alone){.seg[1].linear = total, .key = 77};
	alone->segs = (struct core_segs){.total = total,
					 .nseg = 1,
					 .seg = alone->seg,
					 .remote = &alone->key,
					 .nlocal = 1,
					 .nremote = 1};
	alone->xfer.op = op;
	alone->xfer.segs = &alone->segs;
}

static void alone_post(struct alone *alone, enum tcpx_op op, uint64_t total)
{
	alone_init(alone, op, total);
	CHECK_EQ(core_xfer_post(&alone_link, &alone->xfer), TCPX_OK);
}

static void alone_post_write(struct alone *alone, uint64_t total)
{
	alone_post(alone, TCPX_OP_WRITE, total);
}

static void alone_post_staged(struct alone *alone, uint64_t total)
{
	alone_init(alone, TCPX_OP_WRITE, total);
	alone->xfer.local_staged = true;
	CHECK_EQ(core_xfer_post(&alone_link, &alone->xfer), TCPX_OK);
}

static void alone_post_by_ref(struct alone *alone, uint64_t total)
{
	alone_init(alone, TCPX_OP_WRITE, total);
	alone->xfer.path = CORE_PATH_REFERENCE;
	CHECK_EQ(core_xfer_post(&alone_link, &alone->xfer), TCPX_OK);
}

/* All requests of the READ; returns the bytes they ask for. */
static uint64_t requests(void)
{
	uint64_t asked = 0;
	struct core_tx tx;

	while (core_tx_next(&alone_link, CORE_PRIO, &tx)) {
		if (tx.frame.type == FRAME_READ_REQ) {
			CHECK_EQ(tx.frame.linear, asked);
			asked += tx.frame.offset;
		}
		core_tx_sent(&alone_link, CORE_PRIO, true);
	}
	return asked;
}

/* Lengths of requests that are lost with their channel are not cut to 32 bits. */
void case_read_of_more_than_4_gib_after_a_loss(void *arg)
{
	uint64_t total = (5ull << 30) + 12345;
	static struct alone read;

	(void)arg;
	link_open();
	CHECK_EQ(core_chan_up(&alone_link, CORE_PRIO, 1), TCPX_OK);
	alone_post(&read, TCPX_OP_READ, total);
	CHECK_EQ(requests(), total);
	core_chan_lost(&alone_link, CORE_PRIO);
	CHECK_EQ(core_chan_fence(&alone_link, CORE_PRIO, 1, 0, NULL, 0), TCPX_OK);
	CHECK_EQ(core_chan_up(&alone_link, CORE_PRIO, 2), TCPX_OK);
	CHECK_EQ(requests(), total);
	CHECK_EQ(ended, 0);
	core_link_fail(&alone_link, TCPX_ERR_DISCONNECTED);
	CHECK_EQ(ended, 1);
	core_link_fini(&alone_link);
}

/* The peer has taken all that was sent. */
static void take_all(uint64_t seq)
{
	struct frame ack = {.type = FRAME_ACK, .epoch = 1, .linear = seq, .key = seq};
	struct core_rx rx;

	CHECK_EQ(core_rx_begin(&alone_link, 1, &ack, &rx), TCPX_OK);
	CHECK_EQ(core_rx_end(&alone_link, 1, true, TCPX_OK, ""), TCPX_OK);
}

/* Three bulk transfers of one priority, of so many turns each. */
static void take_turns(uint64_t quantum, uint64_t each, bool by_ref, uint64_t refs)
{
	static struct alone writes[3];
	uint64_t last = UINT64_MAX, bytes = 0, turns = 0;
	struct core_tx tx;
	int i;

	link_open();
	core_link_refs(&alone_link, refs);
	CHECK_EQ(core_chan_up(&alone_link, 1, 1), TCPX_OK);
	for (i = 0; i < 3; i++)
		(by_ref ? alone_post_by_ref : alone_post_write)(&writes[i], each * quantum);
	while (core_tx_next(&alone_link, 1, &tx)) {
		core_tx_sent(&alone_link, 1, true);
		if (tx.frame.type != FRAME_DATA)
			continue;
		if (tx.frame.xfer != last) {
			turns++;
			bytes = 0;
		}
		last = tx.frame.xfer;
		bytes += tx.frame.payload_bytes;
		CHECK(bytes <= quantum || turns > 3 * each - 3);
		take_all(tx.frame.seq);
	}
	CHECK(turns >= 3 * each - 3);
	CHECK_EQ(ended, 3);
	ended = 0;
	core_link_fail(&alone_link, TCPX_ERR_DISCONNECTED);
	core_link_fini(&alone_link);
}

/* By reference turns are as long as the copies that the peer makes of neighbours. */
void case_bulk_transfers_take_turns(void *arg)
{
	(void)arg;
	take_turns(CORE_QUANTUM_BYTES, 16, false, 0);
	take_turns(CORE_REF_QUANTUM * CORE_REF_BYTES, 4, true, 0);
	take_turns(CORE_REF_QUANTUM * CORE_REF_BYTES, 4, true, CORE_REF_MOST);
}

/* Everything posted is filled. */
static void fill_all(void)
{
	struct core_fill fill;

	while (core_fill_next(&alone_link, &fill)) {
		CHECK(fill.bytes <= 2 << 20);
		core_fill_begin(&alone_link, &fill);
		core_fill_end(&alone_link, fill.job, fill.linear + fill.bytes, TCPX_OK);
	}
}

/* What is cut until nothing is left to cut, or the window is full, in KiB. */
static int cut_all(uint32_t *kib, int most, uint64_t *out_seq)
{
	struct core_tx tx;
	int n = 0;

	while (n < most && core_tx_next(&alone_link, 1, &tx)) {
		if (tx.frame.type == FRAME_DATA)
			kib[n++] = tx.frame.payload_bytes >> 10;
		*out_seq = tx.frame.seq ? tx.frame.seq : *out_seq;
		core_tx_sent(&alone_link, 1, true);
	}
	return n;
}

/* A small chunk for each channel first, then large ones while there is enough for all channels or
 * more than one transfer, small ones at the end; of large ones two are on their way. */
void case_chunks_of_filled_sources(void *arg)
{
	static const uint32_t alone_kib[] = {256, 1792, 2048, 2048, 1024, 512, 512};
	static struct alone writes[2];
	uint32_t kib[16];
	uint64_t seq = 0;
	int n = 0, i;

	(void)arg;
	link_open();
	CHECK_EQ(core_chan_up(&alone_link, 1, 1), TCPX_OK);
	alone_post_staged(&writes[0], 8 << 20);
	fill_all();
	CHECK_EQ(cut_all(kib, 16, &seq), 3);
	for (n = 3; n < 7;) {
		take_all(seq);
		i = cut_all(kib + n, 16 - n, &seq);
		CHECK(i > 0);
		n += i;
	}
	CHECK_EQ(n, 7);
	for (i = 0; i < n; i++)
		CHECK_EQ(kib[i], alone_kib[i]);
	take_all(seq);
	CHECK_EQ(ended, 1);
	for (i = 0; i < 2; i++)
		alone_post_staged(&writes[i], 2 << 20);
	fill_all();
	CHECK_EQ(cut_all(kib, 16, &seq), 3);
	CHECK_EQ(kib[0], 2048); /* another one waits */
	CHECK_EQ(kib[1], 256);
	CHECK_EQ(kib[2], 256);
	core_link_fail(&alone_link, TCPX_ERR_DISCONNECTED);
	CHECK_EQ(ended, 3);
	core_link_fini(&alone_link);
}

/* An unsequenced frame of the peer on the prio. */
static void prio_got(const struct frame *frame)
{
	struct core_rx rx;

	CHECK_EQ(core_rx_begin(&alone_link, CORE_PRIO, frame, &rx), TCPX_OK);
	CHECK_EQ(core_rx_end(&alone_link, CORE_PRIO, true, TCPX_OK, ""), TCPX_OK);
}

/* What goes next on the priority channel must be of this type. */
static struct frame prio_sends(uint8_t type)
{
	struct core_tx tx;

	CHECK_EQ(core_tx_next(&alone_link, CORE_PRIO, &tx), 1);
	CHECK_EQ(tx.frame.type, type);
	core_tx_sent(&alone_link, CORE_PRIO, true);
	return tx.frame;
}

static void post_to_staged(struct alone *alone, uint64_t bytes)
{
	alone_init(alone, TCPX_OP_WRITE, bytes);
	alone->xfer.remote_staged = true;
	CHECK_EQ(core_xfer_post(&alone_link, &alone->xfer), TCPX_OK);
}

/* The first one asks and waits; what the peer grants ahead is used by the next ones, which ask when
 * half of it is gone. More than it lets us keep goes back. */
void case_small_writes_have_grants(void *arg)
{
	struct frame credit = {.type = FRAME_CREDIT, .epoch = 1, .key = FRAME_CREDIT_STAGE};
	static struct alone writes[40];
	struct core_tx tx;
	int i;

	(void)arg;
	link_open();
	CHECK_EQ(core_chan_up(&alone_link, CORE_PRIO, 1), TCPX_OK);
	post_to_staged(&writes[0], 16 << 10);
	CHECK_EQ(prio_sends(FRAME_STAGE_REQ).linear, 16 << 10);
	CHECK_EQ(core_tx_next(&alone_link, CORE_PRIO, &tx), 0);
	credit.linear = (16 << 10) + (512 << 10);
	credit.offset = 512 << 10;
	prio_got(&credit);
	CHECK_EQ(prio_sends(FRAME_DATA).payload_bytes, 16 << 10);
	for (i = 1; i <= 16; i++) { /* half of it */
		post_to_staged(&writes[i], 16 << 10);
		CHECK_EQ(prio_sends(FRAME_DATA).payload_bytes, 16 << 10);
	}
	post_to_staged(&writes[17], 16 << 10);
	CHECK_EQ(prio_sends(FRAME_STAGE_REQ).linear, 18 * 16 << 10);
	CHECK_EQ(prio_sends(FRAME_DATA).payload_bytes, 16 << 10);
	credit.linear = 18 * (16 << 10) + (512 << 10) + 100;
	prio_got(&credit);
	CHECK_EQ(prio_sends(FRAME_STAGE_REQ).offset, 100);
	core_link_fail(&alone_link, TCPX_ERR_DISCONNECTED);
	core_link_fini(&alone_link);
}

/* The peer asks for 100 bytes and gets a chunk more where the pool has room for those who rest. */
void case_who_rests_keeps_what_the_pool_allows(void *arg)
{
	static const uint64_t most[] = {0, 512 << 10};
	struct frame wish = {.type = FRAME_STAGE_REQ, .epoch = 1, .linear = 100};
	struct core_tx tx;
	struct frame got;

	(void)arg;
	for (int i = 0; i < 2; i++) {
		ahead_most = most[i];
		link_open();
		CHECK_EQ(core_chan_up(&alone_link, CORE_PRIO, 1), TCPX_OK);
		wish.linear = 100;
		prio_got(&wish);
		got = prio_sends(FRAME_CREDIT);
		CHECK_EQ(got.linear, 100 + most[i]);
		CHECK_EQ(got.offset, most[i]);
		wish.linear = 300; /* what it kept is used: there will be as much again */
		prio_got(&wish);
		got = prio_sends(FRAME_CREDIT);
		CHECK_EQ(got.linear, 300 + most[i]);
		CHECK_EQ(core_tx_next(&alone_link, CORE_PRIO, &tx), 0);
		core_link_fail(&alone_link, TCPX_ERR_DISCONNECTED);
		core_link_fini(&alone_link);
	}
}

/* Each acknowledgement brings what it made room for. */
static void window_of(uint32_t chunk)
{
	static struct alone write;
	uint64_t total = (1ull << 30) + 1, cut = 0, seq = 0;
	uint32_t kib[64], n = CORE_REF_WINDOW / chunk;

	alone_post_by_ref(&write, total);
	CHECK_EQ(cut_all(kib, 64, &seq), n);
	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(kib[i], chunk >> 10);
	CHECK_EQ(alone_link.ref_bytes, CORE_REF_WINDOW);
	for (cut = alone_link.ref_bytes; cut < total; cut += alone_link.ref_bytes) {
		take_all(seq);
		CHECK_EQ(alone_link.ref_bytes, 0);
		CHECK(cut_all(kib, 64, &seq) > 0);
		CHECK(alone_link.ref_bytes <= CORE_REF_WINDOW);
	}
	take_all(seq);
	CHECK_EQ(ended, 1);
	ended = 0;
	CHECK_EQ(alone_link.ref_bytes, 0);
}

/* As much as the window holds; a peer that takes larger chunks gets them. */
void case_window_of_chunks_by_reference(void *arg)
{
	static const uint64_t told[] = {1, 2 * CORE_REF_BYTES, UINT64_MAX, 1};
	static const uint32_t cut[] = {CORE_REF_BYTES, 2 * CORE_REF_BYTES, CORE_REF_MOST,
				       CORE_REF_MOST};

	(void)arg;
	link_open();
	CHECK_EQ(core_chan_up(&alone_link, 1, 1), TCPX_OK);
	for (int i = 0; i < 4; i++) {
		core_link_refs(&alone_link, told[i]);
		window_of(cut[i]);
	}
	core_link_fail(&alone_link, TCPX_ERR_DISCONNECTED);
	core_link_fini(&alone_link);
}

/* A dead link whose peer may still copy keeps its requests; one whose peer does not, ends them. */
void case_lease_of_a_dead_link(void *arg)
{
	static struct alone write;
	uint64_t seq = 0;
	uint32_t kib[4];
	int leased;

	(void)arg;
	for (leased = 0; leased < 2; leased++) {
		ended = 0;
		link_open();
		CHECK_EQ(core_chan_up(&alone_link, 1, 1), TCPX_OK);
		alone_post_by_ref(&write, 20 << 20);
		CHECK_EQ(cut_all(kib, 4, &seq), 2);
		alone_link.leased = leased;
		core_link_fail(&alone_link, TCPX_ERR_PEER_SILENT);
		CHECK_EQ(ended, !leased);
		CHECK_EQ(core_xfer_cancel(&alone_link, &write.xfer, TCPX_ERR_CANCELLED),
			 leased ? TCPX_OK : TCPX_ERR_STATE);
		CHECK_EQ(ended, !leased);
		core_link_unlease(&alone_link);
		core_link_unlease(&alone_link);
		CHECK_EQ(ended, 1);
		CHECK_EQ(write.xfer.status, TCPX_ERR_PEER_SILENT);
		core_link_fini(&alone_link);
	}
}

/* More requests at once than the first table of ids holds; none is found by another's id. */
void case_a_thousand_requests_at_once(void *arg)
{
	static struct alone reads[1000];
	int i, j;

	(void)arg;
	link_open();
	for (i = 0; i < 1000; i++)
		alone_post(&reads[i], TCPX_OP_READ, 100);
	for (i = 0; i < 1000; i++)
		for (j = 0; j < i; j++)
			CHECK(reads[i].xfer.id != reads[j].xfer.id);
	for (i = 0; i < 1000; i += 2)
		CHECK_EQ(core_xfer_cancel(&alone_link, &reads[i].xfer, TCPX_ERR_CANCELLED),
			 TCPX_OK);
	CHECK_EQ(ended, 500);
	core_link_fail(&alone_link, TCPX_ERR_DISCONNECTED);
	CHECK_EQ(ended, 1000);
	core_link_fini(&alone_link);
}

void case_wrong_calls_are_refused(void *arg)
{
	static struct alone write;
	struct frame frame = {.type = FRAME_NOP, .epoch = 1, .seq = 1};
	struct core_rx rx;

	(void)arg;
	link_open();
	CHECK_EQ(core_chan_up(&alone_link, 2, 1), TCPX_ERR_PROTOCOL); /* no such channel */
	CHECK_EQ(core_rx_begin(&alone_link, 0, &frame, &rx), TCPX_ERR_PROTOCOL); /* not up */
	CHECK_EQ(core_link_channels_up(&alone_link), 0);
	CHECK_EQ(core_chan_up(&alone_link, 0, 1), TCPX_OK);
	CHECK_EQ(core_chan_up(&alone_link, 0, 2), TCPX_ERR_STALE); /* up already */
	CHECK_EQ(core_link_channels_up(&alone_link), 1);
	alone_post(&write, TCPX_OP_WRITE, 10);
	CHECK_EQ(core_xfer_post(&alone_link, &write.xfer), TCPX_ERR_STATE);
	CHECK_EQ(core_xfer_cancel(&alone_link, &write.xfer, TCPX_ERR_CANCELLED), TCPX_OK);
	CHECK_EQ(core_xfer_cancel(&alone_link, &write.xfer, TCPX_ERR_CANCELLED), TCPX_ERR_STATE);
	CHECK_EQ(core_chan_fence(&alone_link, 7, 1, 0, NULL, 0), TCPX_ERR_PROTOCOL);
	core_link_fail(&alone_link, TCPX_ERR_PEER_SILENT);
	core_link_fail(&alone_link, TCPX_ERR_PEER_CLOSED); /* the first word holds */
	CHECK_EQ(core_xfer_post(&alone_link, &write.xfer), TCPX_ERR_PEER_SILENT);
	CHECK_EQ(core_note_send(&alone_link, "x", 1), TCPX_ERR_PEER_SILENT);
	CHECK_EQ(core_chan_up(&alone_link, 0, 9), TCPX_ERR_PEER_SILENT);
	CHECK_EQ(core_rx_begin(&alone_link, 0, &frame, &rx), TCPX_ERR_PEER_SILENT);
	CHECK_EQ(core_chan_fence(&alone_link, 0, 1, 0, NULL, 0), TCPX_ERR_PEER_SILENT);
	CHECK_EQ(ended, 1);
	core_link_fini(&alone_link);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The raw peer of fuzz_session: sockets, handshake, frames out and in. */
#include "session_raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "ctl/handshake.h"
#include "sys/sock.h"
#include "wire/frame_codec.h"

#define HANG_MS 20000 /* a guard, never a verdict about speed */
#define SETTLE_MS 30  /* longer: a new connection is cheaper */
#define SCRATCH (64u << 10)

/* ---- connections ---- */

static void close_fd(struct raw_chan *chan)
{
	struct linger reset = {.l_onoff = 1}; /* no port is left behind in TIME_WAIT */

	if (chan->fd >= 0) {
		setsockopt(chan->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(chan->fd);
	}
	chan->fd = -1;
	chan->have = chan->nrest = 0;
	chan->skip = 0;
}

static int wait_fd(int fd, short events)
{
	struct pollfd pfd = {.fd = fd, .events = events};
	int ready;

	do
		ready = poll(&pfd, 1, HANG_MS);
	while (ready < 0 && errno == EINTR); /* libFuzzer's own alarm */
	return ready;
}

static tcpx_status move(int fd, struct ctl_message *msg, bool out)
{
	tcpx_status status;
	int err;

	for (;;) {
		status = out ? ctl_message_send(fd, msg, &err) : ctl_message_recv(fd, msg, &err);
		if (status != TCPX_IN_PROGRESS)
			return status;
		FUZZ_CHECK(wait_fd(fd, out ? POLLOUT : POLLIN) > 0);
	}
}

static int connect_fd(int fd, const struct sockaddr_storage *addr)
{
	socklen_t len = sizeof(int);
	int err =
		connect(fd, (const struct sockaddr *)addr, sizeof(struct sockaddr_in)) ? errno : 0;

	if (err == EINTR &&
	    (wait_fd(fd, POLLOUT) <= 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len)))
		return -1;
	return err;
}

/* The dialler's side of the handshake. The descriptor, or -1. */
static int dial(const struct raw *raw, struct ctl_handshake *hs)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	tcpx_status status;

	FUZZ_CHECK(fd >= 0);
	FUZZ_CHECK(!connect_fd(fd, &raw->addr));
	FUZZ_CHECK(!fcntl(fd, F_SETFL, O_NONBLOCK));
	sys_sock_nodelay(fd);
	status = ctl_handshake_dial(hs);
	FUZZ_CHECK(status == TCPX_OK);
	hs->answer_msg.len = hs->answer_msg.done = 0;
	status = move(fd, &hs->dial_msg, true);
	if (status == TCPX_OK)
		status = move(fd, &hs->answer_msg, false);
	if (status == TCPX_OK)
		status = ctl_handshake_check_answer(hs);
	if (status == TCPX_OK)
		status = ctl_handshake_proof(hs);
	if (status == TCPX_OK)
		status = move(fd, &hs->proof_msg, true);
	if (status == TCPX_OK)
		return fd;
	close_fd(&(struct raw_chan){.fd = fd});
	return -1;
}

static bool dial_channel(struct raw *raw, uint32_t channel, uint32_t epoch)
{
	struct raw_chan *chan = &raw->chan[channel];
	struct ctl_handshake hs = {.dial = {.role = WIRE_ROLE_DATA,
					    .auth = ctl_data_auth(WIRE_AUTH_NONE, 1),
					    .channel = (uint16_t)channel,
					    .epoch = epoch,
					    .key_id = raw->link_id}};
	uint8_t *rest = chan->rest;
	uint32_t cap = chan->cap_rest;
	int fd;

	memcpy(hs.key, raw->session_key, sizeof(hs.key));
	fd = dial(raw, &hs);
	if (fd < 0)
		return false;
	*chan = (struct raw_chan){
		.fd = fd, .epoch = epoch, .next_seq = 1, .rest = rest, .cap_rest = cap};
	return true;
}

static bool receive(struct raw *raw, struct raw_chan *chan);

/* The acceptor's first frame: only then it knows the link that the channels name. */
static void await_offer(struct raw *raw)
{
	while (!raw->frames_in) {
		FUZZ_CHECK(wait_fd(raw->ctl.fd, POLLIN) > 0);
		(void)receive(raw, &raw->ctl);
		FUZZ_CHECK(raw->alive);
	}
}

void raw_connect_half(struct raw *raw, uint16_t port)
{
	struct ctl_handshake hs = {.dial = {.role = WIRE_ROLE_CONTROL,
					    .auth = WIRE_AUTH_NONE,
					    .channels = RAW_CHANNELS - 1,
					    .chunk_bytes = 65536,
					    .notify_budget = 1 << 20,
					    .eager_budget = 1 << 20,
					    .read_budget = 64,
					    .name = "raw"}};
	const char *name = raw->name;
	struct sockaddr_in *in = (struct sockaddr_in *)&raw->addr;
	static uint64_t number;
	uint8_t *rest[RAW_CHANNELS];

	for (uint32_t i = 0; i < RAW_CHANNELS; i++)
		rest[i] = raw->chan[i].rest;
	*raw = (struct raw){
		.ctl = {.fd = -1}, .secret = raw->secret, .secret_bytes = raw->secret_bytes};
	raw->name = name;
	if (name)
		snprintf(hs.dial.name, sizeof(hs.dial.name), "%s", name);
	for (uint32_t i = 0; i < RAW_CHANNELS; i++)
		raw->chan[i] = (struct raw_chan){
			.fd = -1, .rest = rest[i], .cap_rest = rest[i] ? SCRATCH : 0};
	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	number++;
	memcpy(raw->uuid, &number, sizeof(number));
	raw->uuid[15] = 1;
	memcpy(hs.dial.uuid, raw->uuid, sizeof(raw->uuid));
	memcpy(hs.dial.incarnation, raw->uuid, sizeof(raw->uuid));
	raw->ctl.fd = dial(raw, &hs);
	FUZZ_CHECK(raw->ctl.fd >= 0);
	FUZZ_CHECK(ctl_handshake_session_key(&hs, raw->session_key) == TCPX_OK);
	raw->link_id = hs.answer.key_id;
	raw->channels = hs.answer.channels + 1;
	FUZZ_CHECK(raw->channels == RAW_CHANNELS);
	raw->alive = true;
	await_offer(raw);
}

void raw_connect(struct raw *raw, uint16_t port)
{
	raw_connect_half(raw, port);
	for (uint32_t i = 0; i < RAW_CHANNELS; i++)
		FUZZ_CHECK(dial_channel(raw, i, 1));
}

void raw_close(struct raw *raw)
{
	close_fd(&raw->ctl);
	for (uint32_t i = 0; i < RAW_CHANNELS; i++)
		close_fd(&raw->chan[i]);
	raw->alive = false;
}

void raw_redial(struct raw *raw, uint32_t channel)
{
	if (raw->alive && raw->chan[channel].fd < 0)
		(void)dial_channel(raw, channel, raw->chan[channel].epoch + 1);
}

void raw_drop_channel(struct raw *raw, uint32_t channel)
{
	close_fd(&raw->chan[channel]);
}

/* ---- what arrives ---- */

static void learn(struct raw_ring *ring, const struct frame *frame)
{
	ring->at[ring->count++ % RAW_LEARNED] = (struct raw_seen){.xfer = frame->xfer,
								  .linear = frame->linear,
								  .key = frame->key,
								  .offset = frame->offset,
								  .flags = frame->flags};
}

static void take_frame(struct raw *raw, struct raw_chan *chan)
{
	const struct frame *frame = &chan->frame;

	raw->frames_in++;
	if (chan != &raw->ctl) {
		FUZZ_CHECK(frame->epoch == chan->epoch);
		if (frame->seq)
			FUZZ_CHECK(frame->seq == ++chan->rx_seq);
	}
	switch (frame->type) {
	case FRAME_ACK:
		FUZZ_CHECK(frame->linear >= chan->acked && frame->linear < chan->next_seq);
		chan->acked = frame->linear;
		break;
	case FRAME_READ_REQ:
		learn(&raw->reads, frame);
		break;
	case FRAME_SEND:
	case FRAME_RTS:
		learn(&raw->sends, frame);
		break;
	case FRAME_CTS:
		learn(&raw->cts, frame);
		break;
	case FRAME_CREDIT:
		FUZZ_CHECK(frame->key < FRAME_CREDIT_COUNT);
		/* While the lane is down another channel carries them: in order on each only. */
		FUZZ_CHECK(frame->linear >= chan->credit[frame->key]);
		chan->credit[frame->key] = frame->linear;
		if (frame->linear > raw->credit[frame->key])
			raw->credit[frame->key] = frame->linear;
		break;
	default:
		break;
	}
}

static void parse(struct raw *raw, struct raw_chan *chan, const uint8_t *bytes, size_t count)
{
	while (count) {
		size_t take;

		if (chan->skip) {
			take = chan->skip < count ? chan->skip : count;
			chan->skip -= take;
		} else {
			take = FRAME_HEADER_BYTES - chan->have;
			take = take < count ? take : count;
			memcpy(chan->in + chan->have, bytes, take);
			chan->have += (uint32_t)take;
			if (chan->have == FRAME_HEADER_BYTES) {
				/* What a hostile peer says must not make ours malformed. */
				FUZZ_CHECK(wire_frame_decode(chan->in, &chan->frame) == TCPX_OK);
				chan->have = 0;
				chan->skip = chan->frame.table_bytes + chan->frame.payload_bytes;
				if (chan->frame.payload_bytes && chan != &raw->ctl)
					chan->skip += FRAME_TRAILER_BYTES;
				take_frame(raw, chan);
			}
		}
		bytes += take;
		count -= take;
	}
}

/* False: nothing more is there. */
static bool receive(struct raw *raw, struct raw_chan *chan)
{
	static uint8_t bytes[SCRATCH];
	ssize_t got;

	if (chan->fd < 0)
		return false;
	got = recv(chan->fd, bytes, sizeof(bytes), 0);
	if (got > 0) {
		FUZZ_CHECK(!memmem(bytes, (size_t)got, raw->secret, raw->secret_bytes));
		parse(raw, chan, bytes, (size_t)got);
		return true;
	}
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	close_fd(chan);
	if (chan == &raw->ctl)
		raw_close(raw);
	return false;
}

static void acknowledge(struct raw *raw, uint32_t channel)
{
	struct raw_chan *chan = &raw->chan[channel];
	struct frame ack = {.type = FRAME_ACK, .linear = chan->rx_seq, .key = chan->rx_seq};

	if (chan->fd >= 0 && chan->rx_seq && !chan->nrest)
		raw_send(raw, channel, &ack, NULL, 0, FRAME_VALID, 0);
}

void raw_drain(struct raw *raw)
{
	for (uint32_t i = 0; i < RAW_CHANNELS && raw->alive; i++) {
		uint64_t before = raw->chan[i].rx_seq;

		while (receive(raw, &raw->chan[i]))
			;
		if (raw->chan[i].rx_seq > before && !raw->stingy)
			acknowledge(raw, i);
	}
	while (raw->alive && receive(raw, &raw->ctl))
		;
}

/* ---- what leaves ---- */

static void put(struct raw *raw, struct raw_chan *chan, const uint8_t *bytes, size_t count)
{
	int64_t limit = clock_now_ns() + (int64_t)HANG_MS * CLOCK_MS_NS;

	while (count && chan->fd >= 0) {
		ssize_t sent = send(chan->fd, bytes, count, MSG_NOSIGNAL);

		if (sent >= 0) {
			bytes += sent;
			count -= (size_t)sent;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR) {
			close_fd(chan);
			if (chan == &raw->ctl)
				raw_close(raw);
			return;
		}
		/* It reads whatever we say: at worst it waits for us to read. */
		FUZZ_CHECK(clock_now_ns() < limit);
		for (uint32_t i = 0; i < RAW_CHANNELS; i++)
			(void)receive(raw, &raw->chan[i]);
		(void)receive(raw, &raw->ctl);
	}
}

static void put_rest(struct raw *raw, struct raw_chan *chan)
{
	uint32_t count = chan->nrest;

	chan->nrest = 0;
	put(raw, chan, chan->rest, count);
}

void raw_send_bytes(struct raw *raw, uint32_t channel, const void *bytes, uint32_t count)
{
	struct raw_chan *chan = &raw->chan[channel];

	chan->used = true;
	put(raw, chan, bytes, count);
}

void raw_send(struct raw *raw, uint32_t channel, struct frame *frame, const void *table,
	      uint8_t fill, enum frame_trailer_status trailer, uint32_t keep)
{
	static uint8_t
		bytes[FRAME_HEADER_BYTES + FRAME_TABLE_MAX + RAW_PAYLOAD_MAX + FRAME_TRAILER_BYTES];
	struct raw_chan *chan = &raw->chan[channel];
	bool sequenced = frame->type != FRAME_ACK && frame->type != FRAME_CREDIT &&
			 frame->type != FRAME_STAGE_REQ;
	struct frame_trailer end = {.status = trailer};
	uint32_t count = FRAME_HEADER_BYTES;

	if (chan->fd < 0)
		return;
	if (chan->nrest)
		put_rest(raw, chan);
	if (!frame->seq && sequenced)
		frame->seq = chan->next_seq;
	if (!frame->epoch)
		frame->epoch = chan->epoch;
	if (frame->seq == chan->next_seq)
		chan->next_seq++;
	end.seq = frame->seq;
	wire_frame_encode(frame, bytes);
	if (frame->table_bytes)
		memcpy(bytes + count, table, frame->table_bytes);
	count += frame->table_bytes;
	if (frame->payload_bytes) {
		memset(bytes + count, fill, frame->payload_bytes);
		count += frame->payload_bytes;
		wire_trailer_encode(&end, bytes + count);
		count += FRAME_TRAILER_BYTES;
	}
	if (keep >= count)
		keep = count - 1;
	if (keep > SCRATCH)
		keep = SCRATCH;
	raw->frames_out++;
	chan->used = true;
	put(raw, chan, bytes, count - keep);
	if (!keep || chan->fd < 0)
		return;
	if (!chan->rest) {
		chan->rest = malloc(SCRATCH);
		FUZZ_CHECK(chan->rest);
	}
	memcpy(chan->rest, bytes + count - keep, keep);
	chan->nrest = keep;
}

void raw_control(struct raw *raw, struct frame *frame, const void *payload)
{
	uint8_t header[FRAME_HEADER_BYTES];

	if (!raw->alive)
		return;
	wire_frame_encode(frame, header);
	put(raw, &raw->ctl, header, sizeof(header));
	if (raw->alive && frame->payload_bytes)
		put(raw, &raw->ctl, payload, frame->payload_bytes);
	raw->frames_out++;
}

static bool settled(const struct raw *raw)
{
	for (uint32_t i = 0; i < RAW_CHANNELS; i++)
		if (raw->chan[i].fd >= 0 && raw->chan[i].used &&
		    raw->chan[i].acked + 1 < raw->chan[i].next_seq)
			return false;
	return true;
}

bool raw_settle(struct raw *raw)
{
	int64_t limit = clock_now_ns() + SETTLE_MS * CLOCK_MS_NS;

	for (uint32_t i = 0; i < RAW_CHANNELS; i++) {
		struct frame nop = {.type = FRAME_NOP, .flags = FRAME_F_ACK};

		if (raw->chan[i].used)
			raw_send(raw, i, &nop, NULL, 0, FRAME_VALID, 0);
	}
	for (;;) {
		struct pollfd pfd[RAW_CHANNELS + 1] = {{.fd = raw->ctl.fd, .events = POLLIN}};

		raw_drain(raw);
		if (!raw->alive || settled(raw))
			break;
		if (clock_now_ns() > limit)
			return false;
		for (uint32_t i = 0; i < RAW_CHANNELS; i++)
			pfd[i + 1] = (struct pollfd){.fd = raw->chan[i].fd, .events = POLLIN};
		(void)poll(pfd, RAW_CHANNELS + 1, SETTLE_MS);
	}
	for (uint32_t i = 0; i < RAW_CHANNELS; i++)
		raw->chan[i].used = false;
	return true;
}

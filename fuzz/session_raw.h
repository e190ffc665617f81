/* SPDX-License-Identifier: Apache-2.0 */
/* A peer made of plain sockets: the real handshake, then whatever frames the fuzzer asks for. What
 * the other side says is parsed, checked for form and remembered, so that frames can refer to
 * it. */
#ifndef FUZZ_SESSION_RAW_H
#define FUZZ_SESSION_RAW_H

#include <stdbool.h>

#include "ctl/conn.h"
#include "target.h"

#define RAW_CHANNELS 3 /* the lane and two bulk channels */
#define RAW_LEARNED 8
#define RAW_PAYLOAD_MAX 16384

/* What the other side asked for lately. */
struct raw_seen {
	uint64_t xfer, linear, key, offset;
	uint16_t flags;
};

struct raw_ring {
	struct raw_seen at[RAW_LEARNED];
	uint32_t count;
};

struct raw_chan {
	int fd; /* -1: none */
	uint32_t epoch;
	uint64_t next_seq, rx_seq, acked; /* acked: of ours by the other side */
	uint8_t in[FRAME_HEADER_BYTES];
	uint32_t have;
	uint64_t skip; /* bytes of table, payload and trailer still to come */
	struct frame frame;
	uint8_t *rest; /* of a frame of ours that was cut */
	uint32_t nrest, cap_rest;
	bool used;			     /* by this input */
	uint64_t credit[FRAME_CREDIT_COUNT]; /* the last told here */
};

struct raw {
	bool alive;
	const char *name; /* NULL: raw; two of one name are one that restarted */
	struct sockaddr_storage addr;
	uint8_t uuid[WIRE_UUID_BYTES], session_key[CTL_KEY_BYTES];
	uint64_t link_id;
	uint32_t channels; /* what was agreed, lane included */
	struct raw_chan ctl, chan[RAW_CHANNELS];
	bool stingy; /* acknowledges nothing by itself */
	struct raw_ring reads, sends, cts;
	uint64_t granted, stage_wanted, stage_used;
	uint64_t credit[FRAME_CREDIT_COUNT];
	uint64_t send_number, note_number, attach_number;
	const uint8_t *secret; /* must never be seen */
	size_t secret_bytes;
	uint64_t frames_out, frames_in;
};

/* A whole new peer, all channels up; the process ends when the session does not accept it. */
void raw_connect(struct raw *raw, uint16_t port);
/* Its control link alone: it never comes up. */
void raw_connect_half(struct raw *raw, uint16_t port);
void raw_close(struct raw *raw);
/* A lost channel comes back with a higher epoch; it may be refused. */
void raw_redial(struct raw *raw, uint32_t channel);
void raw_drop_channel(struct raw *raw, uint32_t channel);

/* Sends a frame with a right sequence and epoch, unless they are set already. Its payload is fill
 * repeated. keep: that many of its last bytes are kept back until the channel is used again. */
void raw_send(struct raw *raw, uint32_t channel, struct frame *frame, const void *table,
	      uint8_t fill, enum frame_trailer_status trailer, uint32_t keep);
void raw_send_bytes(struct raw *raw, uint32_t channel, const void *bytes, uint32_t count);
void raw_control(struct raw *raw, struct frame *frame, const void *payload);
/* Takes what has arrived. */
void raw_drain(struct raw *raw);
/* Waits until the other side has taken everything of this input; false: it does not say so. */
bool raw_settle(struct raw *raw);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads of the control frames FENCE, LOCAL and RAILS. Layout: docs/design/wire-frames.md. */
#ifndef WIRE_CONTROL_H
#define WIRE_CONTROL_H

#include "base/frame.h"
#include "wire/cursor.h"
#include "wire/hello.h"

/* The payload of FENCE is a list of refusals. A refusal is the sequence of a refused frame and a
 * status, the cause. */
#define WIRE_REFUSAL_BYTES 16
#define WIRE_REFUSALS_MAX (FRAME_CONTROL_MAX / WIRE_REFUSAL_BYTES) /* most refusals in one frame */

/* Writes a refusal. `status` is the cause, a negative number. */
void wire_put_refusal(struct wire_out *o, uint64_t seq, tcpx_status status);
/* Reads the next refusal. Returns 1, or 0 after the last one, or -1 if it is malformed. */
int wire_get_refusal(struct wire_cursor *c, uint64_t *out_seq, tcpx_status *out_status);

/* The payload of LOCAL: the address at which the sender listens for same-host channels and hands
 * out descriptors of shares, and the nonce that whoever connects there must send. */
#define WIRE_LOCAL_NAME_MAX 63
#define WIRE_LOCAL_MAX (WIRE_NONCE_BYTES + WIRE_LOCAL_NAME_MAX)

struct wire_local {
	uint8_t nonce[WIRE_NONCE_BYTES];
	char name[WIRE_LOCAL_NAME_MAX + 1]; /* abstract unix address without its leading NUL */
};

size_t wire_local_encode(const struct wire_local *local, uint8_t out[WIRE_LOCAL_MAX]);
/* Decodes the payload of LOCAL. Returns ERR_PROTOCOL if it is malformed. */
tcpx_status wire_local_decode(const void *buf, size_t len, struct wire_local *out_local);

/* The payload of RAILS is a list of addresses, encoded as in a connection info. */
#define WIRE_ADDRESS_BYTES 23
#define WIRE_RAILS_MAX (WIRE_ADDR_MAX * WIRE_ADDRESS_BYTES)

void wire_put_address(struct wire_out *o, const struct wire_address *addr);
/* Reads an address. Returns 0, or -1 if it is malformed; the cursor is then bad. */
int wire_get_address(struct wire_cursor *c, struct wire_address *out_addr);

/* Encodes `count` addresses, but at most WIRE_ADDR_MAX. Returns the number of bytes written. */
size_t wire_rails_encode(const struct wire_address *addrs, uint32_t count,
			 uint8_t out[WIRE_RAILS_MAX]);
/* Decodes the payload of RAILS. Returns ERR_PROTOCOL if it is malformed. */
tcpx_status wire_rails_decode(const void *buf, size_t len,
			      struct wire_address out_addrs[WIRE_ADDR_MAX], uint32_t *out_count);

#endif

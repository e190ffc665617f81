/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads of the control frames FENCE, LOCAL and RAILS. Layout: docs/design/wire-frames.md. */
#include "base/error.h"
#include "wire/control.h"

#define NEGATED_STATUS_MAX 99 /* largest negated status that a refusal may have */

void wire_put_refusal(struct wire_out *o, uint64_t seq, tcpx_status status)
{
	wire_put_uint(o, seq, 8);
	wire_put_uint(o, (uint64_t)(0 - (int64_t)status), 8);
}

int wire_get_refusal(struct wire_cursor *c, uint64_t *out_seq, tcpx_status *out_status)
{
	uint64_t seq, status;

	if (!c->bad && !wire_left(c))
		return 0;
	seq = wire_get_u64(c);
	status = wire_get_u64(c);
	if (c->bad || !status || status > NEGATED_STATUS_MAX)
		return -1;
	*out_seq = seq;
	*out_status = (tcpx_status)(0 - (int)status);
	return 1;
}

size_t wire_local_encode(const struct wire_local *local, uint8_t out[WIRE_LOCAL_MAX])
{
	struct wire_out o = wire_out_of(out, WIRE_LOCAL_MAX);

	wire_put_bytes(&o, local->nonce, WIRE_NONCE_BYTES);
	wire_put_bytes(&o, local->name, strnlen(local->name, WIRE_LOCAL_NAME_MAX));
	return wire_out_bytes(&o);
}

tcpx_status wire_local_decode(const void *buf, size_t len, struct wire_local *out_local)
{
	struct wire_cursor c = wire_cursor_of(buf, len);
	struct wire_local local = {0};
	size_t name_len;

	wire_get_bytes(&c, local.nonce, WIRE_NONCE_BYTES);
	name_len = wire_left(&c);
	if (c.bad || !name_len || name_len > WIRE_LOCAL_NAME_MAX || memchr(c.pos, 0, name_len))
		return error_set(TCPX_ERR_PROTOCOL, 0, "same-host offer of %zu bytes is malformed",
				 len);
	wire_get_bytes(&c, local.name, name_len);
	*out_local = local;
	return TCPX_OK;
}

void wire_put_address(struct wire_out *o, const struct wire_address *addr)
{
	wire_put_uint(o, addr->family, 1);
	wire_put_uint(o, addr->port, 2);
	wire_put_uint(o, addr->scope, 4);
	wire_put_bytes(o, addr->bytes, sizeof(addr->bytes));
}

int wire_get_address(struct wire_cursor *c, struct wire_address *out_addr)
{
	struct wire_address addr = {0};

	addr.family = wire_get_u8(c);
	addr.port = wire_get_u16(c);
	addr.scope = wire_get_u32(c);
	wire_get_bytes(c, addr.bytes, sizeof(addr.bytes));
	if (addr.family != 4 && addr.family != 6)
		c->bad = 1;
	if (c->bad)
		return -1;
	*out_addr = addr;
	return 0;
}

size_t wire_rails_encode(const struct wire_address *addrs, uint32_t count,
			 uint8_t out[WIRE_RAILS_MAX])
{
	struct wire_out o = wire_out_of(out, WIRE_RAILS_MAX);

	for (uint32_t i = 0; i < count && i < WIRE_ADDR_MAX; i++)
		wire_put_address(&o, &addrs[i]);
	return wire_out_bytes(&o);
}

tcpx_status wire_rails_decode(const void *buf, size_t len,
			      struct wire_address out_addrs[WIRE_ADDR_MAX], uint32_t *out_count)
{
	struct wire_cursor c = wire_cursor_of(buf, len);
	struct wire_address addrs[WIRE_ADDR_MAX];
	uint32_t count = 0;

	if (len > WIRE_RAILS_MAX)
		return error_set(TCPX_ERR_PROTOCOL, 0, "%zu bytes of addresses, allowed: %u", len,
				 WIRE_RAILS_MAX);
	while (wire_left(&c) && !wire_get_address(&c, &addrs[count]))
		count++;
	if (c.bad)
		return error_set(TCPX_ERR_PROTOCOL, 0, "address %u of a peer is malformed", count);
	for (uint32_t i = 0; i < count; i++)
		out_addrs[i] = addrs[i];
	*out_count = count;
	return TCPX_OK;
}

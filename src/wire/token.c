/* SPDX-License-Identifier: Apache-2.0 */
/* Region tokens: 24 bytes that name a region and grant access to it. Layout:
 * docs/design/wire-frames.md. */
#include "base/error.h"
#include "wire/cursor.h"
#include "wire/hello.h"

#define VERSION 1
#define RIGHTS_KNOWN 3u /* TCPX_RIGHT_READ | TCPX_RIGHT_WRITE */
#define FLAGS_KNOWN (WIRE_TOKEN_STABLE | WIRE_TOKEN_STAGED | WIRE_TOKEN_MESSAGES)

void wire_token_encode(const struct wire_token *token, uint8_t out[TCPX_TOKEN_BYTES])
{
	struct wire_out o = wire_out_of(out, TCPX_TOKEN_BYTES);

	wire_put_uint(&o, VERSION, 1);
	wire_put_uint(&o, token->kind, 1);
	wire_put_uint(&o, token->rights, 1);
	wire_put_uint(&o, token->flags, 1);
	wire_put_uint(&o, token->reserved, 4);
	wire_put_uint(&o, token->key, 8);
	wire_put_uint(&o, 0, 8); /* reserved for a MAC per peer */
}

tcpx_status wire_token_decode(const void *buf, size_t len, struct wire_token *out_token)
{
	struct wire_cursor c = wire_cursor_of(buf, len);
	struct wire_token token;
	uint64_t mac;
	uint8_t version;

	if (len != TCPX_TOKEN_BYTES)
		return error_set(TCPX_ERR_INVALID, 0, "a region token has %u bytes, not %zu",
				 TCPX_TOKEN_BYTES, len);
	version = wire_get_u8(&c);
	token.kind = wire_get_u8(&c);
	token.rights = wire_get_u8(&c);
	token.flags = wire_get_u8(&c);
	token.reserved = wire_get_u32(&c);
	token.key = wire_get_u64(&c);
	mac = wire_get_u64(&c);
	if (!version)
		return error_set(TCPX_ERR_INVALID, 0, "not a region token");
	if (version != VERSION)
		return error_set(TCPX_ERR_VERSION, 0, "region token of version %u, ours is %u",
				 version, VERSION);
	if (token.kind > WIRE_TOKEN_KIND_MAX || token.rights & ~RIGHTS_KNOWN ||
	    token.flags & ~(unsigned)FLAGS_KNOWN || mac)
		return error_set(TCPX_ERR_INVALID, 0, "region token with unknown bits set");
	*out_token = token;
	return TCPX_OK;
}

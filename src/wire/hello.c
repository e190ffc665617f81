/* SPDX-License-Identifier: Apache-2.0 */
/* The three handshake messages. Layout: docs/design/wire-frames.md. */
#include "base/error.h"
#include "wire/cursor.h"
#include "wire/hello.h"
#include "wire/tlv.h"

#define MAGIC 0x48504354u /* "TCPH" */
#define FIXED_BYTES 136	  /* bytes before the TLV fields */
#define HELLO_MIN (FIXED_BYTES + WIRE_PROOF_BYTES)
#define MESSAGES_BYTES 16
/* features that a peer may set in `required` */
#define FEATURES_KNOWN (WIRE_FEATURE_LOCAL | WIRE_FEATURE_RESERVED)

enum hello_tlv {
	TLV_NAME = 1,
	TLV_NOTIFY = 2,
	TLV_EAGER = 3,
	TLV_READ = 4,
	TLV_MESSAGES = 5,
	TLV_KEY = 6,
	TLV_EXCHANGE = 7,
	TLV_SIGNATURE = 8, /* always the last field of a message */
	TLV_COVER = 9,
};

static void put_budget(struct wire_out *o, enum hello_tlv type, uint64_t value)
{
	uint8_t bytes[8];
	struct wire_out v = wire_out_of(bytes, sizeof(bytes));

	wire_put_uint(&v, value, 8);
	wire_put_tlv(o, (uint16_t)type, bytes, sizeof(bytes));
}

static void put_messages(struct wire_out *o, const struct wire_messages *messages)
{
	uint8_t bytes[MESSAGES_BYTES];
	struct wire_out v = wire_out_of(bytes, sizeof(bytes));

	wire_put_uint(&v, messages->channels, 4);
	wire_put_uint(&v, messages->bytes, 4);
	wire_put_uint(&v, messages->window, 4);
	wire_put_uint(&v, messages->plugin_chunk, 4);
	wire_put_tlv(o, TLV_MESSAGES, bytes, sizeof(bytes));
}

size_t wire_hello_encode(const struct wire_hello *hello, uint8_t out[WIRE_HELLO_MAX])
{
	struct wire_out o = wire_out_of(out, WIRE_HELLO_MAX);
	size_t name_len = strnlen(hello->name, TCPX_NAME_MAX), total;

	wire_put_uint(&o, MAGIC, 4);
	wire_put_uint(&o, 0, 4); /* the length, written at the end of this function */
	wire_put_uint(&o, hello->step, 1);
	wire_put_uint(&o, hello->role, 1);
	wire_put_uint(&o, hello->auth, 1);
	wire_put_uint(&o, hello->status, 1);
	wire_put_uint(&o, hello->proto_min, 1);
	wire_put_uint(&o, hello->proto_max, 1);
	wire_put_uint(&o, hello->channel, 2);
	wire_put_uint(&o, hello->epoch, 4);
	wire_put_uint(&o, hello->channels, 4);
	wire_put_uint(&o, hello->chunk_bytes, 4);
	wire_put_uint(&o, 0, 4);
	wire_put_uint(&o, hello->features, 8);
	wire_put_uint(&o, hello->required, 8);
	wire_put_uint(&o, hello->key_id, 8);
	wire_put_bytes(&o, hello->uuid, WIRE_UUID_BYTES);
	wire_put_bytes(&o, hello->incarnation, WIRE_UUID_BYTES);
	wire_put_bytes(&o, hello->want_uuid, WIRE_UUID_BYTES);
	wire_put_bytes(&o, hello->nonce, WIRE_NONCE_BYTES);
	if (name_len)
		wire_put_tlv(&o, TLV_NAME, hello->name, (uint16_t)name_len);
	if (hello->notify_budget)
		put_budget(&o, TLV_NOTIFY, hello->notify_budget);
	if (hello->notify_cover)
		put_budget(&o, TLV_COVER, hello->notify_cover);
	if (hello->eager_budget)
		put_budget(&o, TLV_EAGER, hello->eager_budget);
	if (hello->read_budget)
		put_budget(&o, TLV_READ, hello->read_budget);
	if (hello->messages.channels)
		put_messages(&o, &hello->messages);
	if (hello->identity.there) {
		wire_put_tlv(&o, TLV_KEY, hello->identity.key, WIRE_KEY_BYTES);
		wire_put_tlv(&o, TLV_EXCHANGE, hello->identity.exchange, WIRE_KEY_BYTES);
	}
	if (hello->identity.is_signed)
		wire_put_tlv(&o, TLV_SIGNATURE, hello->identity.signature, WIRE_SIGNATURE_BYTES);
	wire_put_bytes(&o, hello->proof, WIRE_PROOF_BYTES);

	total = wire_out_bytes(&o);
	o = wire_out_of(out + 4, 4);
	wire_put_uint(&o, total, 4);
	return total;
}

size_t wire_hello_length(const uint8_t prefix[8])
{
	struct wire_cursor c = wire_cursor_of(prefix, 8);
	uint32_t magic = wire_get_u32(&c), len = wire_get_u32(&c);

	return magic == MAGIC && len >= HELLO_MIN && len <= WIRE_HELLO_MAX ? len : 0;
}

/* Reads a budget of 8 bytes, which may occur once. Returns 0, or -1 if the field is repeated,
 * malformed or 0. */
static int get_budget(struct wire_cursor *value, uint64_t *out)
{
	if (*out || wire_left(value) != 8)
		return -1;
	*out = wire_get_u64(value);
	return *out ? 0 : -1; /* a sender leaves out a budget of 0 */
}

/* Reads the description of plugin channels, which may occur once. Returns 0, or -1 if the field is
 * repeated or malformed, or if channels, bytes or window is 0. A sender without plugin channels
 * leaves the field out. */
static int get_messages(struct wire_cursor *value, struct wire_messages *out)
{
	if (out->channels || wire_left(value) != MESSAGES_BYTES)
		return -1;
	out->channels = wire_get_u32(value);
	out->bytes = wire_get_u32(value);
	out->window = wire_get_u32(value);
	out->plugin_chunk = wire_get_u32(value);
	return out->channels && out->bytes && out->window ? 0 : -1;
}

/* Bits that mark which identity fields a message contained. */
enum { SEEN_KEY = 1, SEEN_EXCHANGE = 2, SEEN_SIGNATURE = 4 };

/* Reads a field of exactly `bytes` bytes, which may occur once, and sets `bit` in *seen. Returns 0,
 * or -1 if the field is repeated or has another length. */
static int get_once(struct wire_cursor *value, unsigned bit, unsigned *seen, uint8_t *out,
		    size_t bytes)
{
	if ((*seen & bit) || wire_left(value) != bytes)
		return -1;
	*seen |= bit;
	wire_get_bytes(value, out, bytes);
	return 0;
}

/* Whether a message may have exactly the identity fields in `seen`. It may have none of them. On a
 * control connection it may also have all those that belong to its step. */
static bool identity_fits(const struct wire_hello *hello, unsigned seen)
{
	if (!seen)
		return true;
	if (hello->role != WIRE_ROLE_CONTROL)
		return false;
	switch (hello->step) {
	case WIRE_HELLO_DIAL:
		return seen == (SEEN_KEY | SEEN_EXCHANGE);
	case WIRE_HELLO_ANSWER:
		return seen == (SEEN_KEY | SEEN_EXCHANGE | SEEN_SIGNATURE);
	default:
		return seen == SEEN_SIGNATURE;
	}
}

static tcpx_status get_fields(struct wire_cursor *c, struct wire_hello *hello)
{
	struct wire_identity *identity = &hello->identity;
	struct wire_tlv tlv;
	unsigned seen = 0;
	int rc = 0;

	while (!rc && wire_get_tlv(c, &tlv)) {
		switch (tlv.type) {
		case TLV_NAME:
			rc = wire_get_name(&tlv.value, hello->name);
			break;
		case TLV_NOTIFY:
			rc = get_budget(&tlv.value, &hello->notify_budget);
			break;
		case TLV_COVER:
			rc = get_budget(&tlv.value, &hello->notify_cover);
			break;
		case TLV_EAGER:
			rc = get_budget(&tlv.value, &hello->eager_budget);
			break;
		case TLV_READ:
			rc = get_budget(&tlv.value, &hello->read_budget);
			break;
		case TLV_MESSAGES:
			rc = get_messages(&tlv.value, &hello->messages);
			break;
		case TLV_KEY:
			rc = get_once(&tlv.value, SEEN_KEY, &seen, identity->key, WIRE_KEY_BYTES);
			break;
		case TLV_EXCHANGE:
			rc = get_once(&tlv.value, SEEN_EXCHANGE, &seen, identity->exchange,
				      WIRE_KEY_BYTES);
			break;
		case TLV_SIGNATURE:
			rc = get_once(&tlv.value, SEEN_SIGNATURE, &seen, identity->signature,
				      WIRE_SIGNATURE_BYTES);
			rc |= wire_left(c) ? -1 : 0;
			break;
		default:
			if (tlv.type & WIRE_TLV_REQUIRED)
				return error_set(TCPX_ERR_VERSION, 0,
						 "hello requires field %#x, unknown here",
						 tlv.type);
		}
	}
	if (rc || c->bad || !identity_fits(hello, seen))
		return error_set(TCPX_ERR_PROTOCOL, 0, "hello with a malformed field");
	identity->there = seen & SEEN_KEY;
	identity->is_signed = seen & SEEN_SIGNATURE;
	return TCPX_OK;
}

static int values_ok(const struct wire_hello *hello)
{
	return hello->step >= WIRE_HELLO_DIAL && hello->step <= WIRE_HELLO_PROOF &&
	       hello->role >= WIRE_ROLE_CONTROL && hello->role <= WIRE_ROLE_DATA &&
	       hello->auth <= WIRE_AUTH_BARE;
}

tcpx_status wire_hello_decode(const void *buf, size_t len, struct wire_hello *out_hello)
{
	struct wire_cursor c = wire_cursor_of(buf, len), tlvs;
	struct wire_hello hello = {0};
	const uint8_t *fields;
	uint32_t reserved;
	tcpx_status status;

	if (len < HELLO_MIN || wire_hello_length(buf) != len)
		return error_set(TCPX_ERR_PROTOCOL, 0, "hello of %zu bytes is malformed", len);
	(void)wire_take(&c, 8);
	hello.step = wire_get_u8(&c);
	hello.role = wire_get_u8(&c);
	hello.auth = wire_get_u8(&c);
	hello.status = wire_get_u8(&c);
	hello.proto_min = wire_get_u8(&c);
	hello.proto_max = wire_get_u8(&c);
	if (hello.proto_min > hello.proto_max)
		return error_set(TCPX_ERR_PROTOCOL, 0, "hello with versions %u..%u",
				 hello.proto_min, hello.proto_max);
	if (hello.proto_min > WIRE_PROTO_MAX || hello.proto_max < WIRE_PROTO_MIN)
		return error_set(TCPX_ERR_VERSION, 0, "peer speaks versions %u..%u, we %u..%u",
				 hello.proto_min, hello.proto_max, WIRE_PROTO_MIN, WIRE_PROTO_MAX);
	hello.channel = wire_get_u16(&c);
	hello.epoch = wire_get_u32(&c);
	hello.channels = wire_get_u32(&c);
	hello.chunk_bytes = wire_get_u32(&c);
	reserved = wire_get_u32(&c);
	hello.features = wire_get_u64(&c);
	hello.required = wire_get_u64(&c);
	hello.key_id = wire_get_u64(&c);
	wire_get_bytes(&c, hello.uuid, WIRE_UUID_BYTES);
	wire_get_bytes(&c, hello.incarnation, WIRE_UUID_BYTES);
	wire_get_bytes(&c, hello.want_uuid, WIRE_UUID_BYTES);
	wire_get_bytes(&c, hello.nonce, WIRE_NONCE_BYTES);
	fields = wire_take(&c, len - HELLO_MIN);
	wire_get_bytes(&c, hello.proof, WIRE_PROOF_BYTES);
	if (!values_ok(&hello) || reserved)
		return error_set(TCPX_ERR_PROTOCOL, 0, "hello with step %u, role %u, auth %u",
				 hello.step, hello.role, hello.auth);
	if (hello.required & ~(uint64_t)FEATURES_KNOWN)
		return error_set(TCPX_ERR_VERSION, 0, "peer requires features %#llx, unknown here",
				 (unsigned long long)(hello.required & ~(uint64_t)FEATURES_KNOWN));
	tlvs = wire_cursor_of(fields, len - HELLO_MIN);
	status = get_fields(&tlvs, &hello);
	if (status)
		return status;
	*out_hello = hello;
	return TCPX_OK;
}

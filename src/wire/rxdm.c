/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding of RxDM's messages: the few protobuf fields that they use. */
#include "wire/rxdm.h"

#include <string.h>

#include "base/error.h"
#include "wire/cursor.h"

enum { FIELD_STATUS = 5 };

/* Protobuf's wire types, which are the low three bits of a field's tag. */
enum form { FORM_VARINT = 0, FORM_8 = 1, FORM_BYTES = 2, FORM_4 = 5 };

/* A protobuf field. */
struct field {
	uint32_t number;
	enum form form;
	uint64_t value;		  /* of a FORM_VARINT */
	struct wire_cursor bytes; /* content of a FORM_BYTES */
};

/* Reads the next field. Returns 1, or 0 after the last field. Also returns 0, and sets c->bad,
 * if the field is malformed. */
static int get_field(struct wire_cursor *c, struct field *out)
{
	const uint8_t *bytes;
	uint64_t tag, len;

	if (c->bad || !wire_left(c))
		return 0;
	tag = wire_get_varint(c);
	if (tag >> 3 == 0 || tag >> 3 > (1u << 29) - 1)
		c->bad = 1;
	*out = (struct field){.number = (uint32_t)(tag >> 3), .form = tag & 7};
	switch (out->form) {
	case FORM_VARINT:
		out->value = wire_get_varint(c);
		break;
	case FORM_8:
		wire_take(c, 8);
		break;
	case FORM_4:
		wire_take(c, 4);
		break;
	case FORM_BYTES:
		len = wire_get_varint(c);
		bytes = c->bad ? NULL : wire_take(c, len);
		out->bytes = wire_cursor_of(bytes, bytes ? len : 0);
		break;
	default: /* including groups, which protobuf has abandoned */
		c->bad = 1;
	}
	return !c->bad;
}

/* Whether the field has this number and wire type. If it has the number with another wire type,
 * sets c->bad and returns 0. */
static int is_field(struct wire_cursor *c, const struct field *field, uint32_t number,
		    enum form form)
{
	if (field->number != number)
		return 0;
	if (field->form != form)
		c->bad = 1;
	return !c->bad;
}

static void get_text(struct wire_cursor *c, const struct field *field, char *out)
{
	size_t len = wire_left(&field->bytes);

	if (len >= WIRE_RXDM_TEXT_MAX || memchr(field->bytes.pos, 0, len)) {
		c->bad = 1;
		return;
	}
	memcpy(out, field->bytes.pos, len);
	out[len] = '\0';
}

/* Reads one end of a flow. This and the other functions with a parameter `in` read a message inside
 * another message. `in` is the inner message, the value of a field. If it is malformed, the cursor
 * `c` of the outer message becomes bad. */
static void get_end(struct wire_cursor *c, struct wire_cursor in, struct wire_rxdm_end *out)
{
	struct field field;

	while (get_field(&in, &field)) {
		if (is_field(&in, &field, 1, FORM_BYTES))
			get_text(&in, &field, out->ip);
		else if (is_field(&in, &field, 2, FORM_VARINT))
			out->port = (int32_t)field.value;
	}
	c->bad |= in.bad;
}

static void get_tuple(struct wire_cursor *c, struct wire_cursor in, struct wire_rxdm_rule *out)
{
	struct field field;

	while (get_field(&in, &field)) {
		if (is_field(&in, &field, 1, FORM_VARINT))
			out->flow = (int32_t)field.value;
		else if (is_field(&in, &field, 2, FORM_BYTES))
			get_end(&in, field.bytes, &out->src);
		else if (is_field(&in, &field, 3, FORM_BYTES))
			get_end(&in, field.bytes, &out->dst);
	}
	c->bad |= in.bad;
}

static void get_rule(struct wire_cursor *c, struct wire_cursor in, struct wire_rxdm *out)
{
	struct field field;

	out->rule = (struct wire_rxdm_rule){.queue = -1};
	out->gpu[0] = '\0';
	while (get_field(&in, &field)) {
		if (is_field(&in, &field, 1, FORM_BYTES))
			get_tuple(&in, field.bytes, &out->rule);
		else if (is_field(&in, &field, 2, FORM_VARINT))
			out->rule.queue = (int32_t)field.value;
		else if (is_field(&in, &field, 3, FORM_BYTES))
			get_text(&in, &field, out->gpu);
	}
	c->bad |= in.bad;
}

static void get_query(struct wire_cursor *c, struct wire_cursor in, struct wire_rxdm *out)
{
	struct field field;

	out->gpu[0] = '\0';
	while (get_field(&in, &field))
		if (is_field(&in, &field, 1, FORM_BYTES))
			get_text(&in, &field, out->gpu);
	c->bad |= in.bad;
}

static void get_queue(struct wire_cursor *c, uint64_t value, struct wire_rxdm *out)
{
	if (out->nqueues == WIRE_RXDM_QUEUES_MAX)
		c->bad = 1;
	else
		out->queues[out->nqueues++] = (int32_t)value;
}

/* Reads queue numbers. A protobuf reader must accept one number per field, and all numbers in one
 * field ("packed"). */
static void get_queues(struct wire_cursor *c, struct wire_cursor in, struct wire_rxdm *out)
{
	struct field field;

	out->nqueues = 0;
	while (get_field(&in, &field)) {
		if (field.number != 1)
			continue;
		if (field.form == FORM_VARINT)
			get_queue(&in, field.value, out);
		else if (is_field(&in, &field, 1, FORM_BYTES))
			while (!in.bad && !field.bytes.bad && wire_left(&field.bytes))
				get_queue(&in, wire_get_varint(&field.bytes), out);
		in.bad |= field.bytes.bad;
	}
	c->bad |= in.bad;
}

static void get_status(struct wire_cursor *c, struct wire_cursor in, struct wire_rxdm *out)
{
	struct field field;

	while (get_field(&in, &field)) {
		if (is_field(&in, &field, 1, FORM_VARINT)) {
			out->status = (int32_t)field.value;
		} else if (is_field(&in, &field, 2, FORM_BYTES)) {
			out->words = field.bytes.pos;
			out->words_len = wire_left(&field.bytes);
		}
	}
	c->bad |= in.bad;
}

static void get_register(struct wire_cursor *c, struct wire_cursor in, struct wire_rxdm *out)
{
	struct field field;

	out->client = 0;
	while (get_field(&in, &field))
		if (is_field(&in, &field, 1, FORM_VARINT))
			out->client = field.value != 0;
	c->bad |= in.bad;
}

static void get_content(struct wire_cursor *c, const struct field *field, struct wire_rxdm *out)
{
	if (field->number == FIELD_STATUS) {
		get_status(c, field->bytes, out);
		return;
	}
	switch (field->number) {
	case WIRE_RXDM_BYTES:
		out->bytes = field->bytes.pos;
		out->bytes_len = wire_left(&field->bytes);
		break;
	case WIRE_RXDM_RULE:
		get_rule(c, field->bytes, out);
		break;
	case WIRE_RXDM_QUERY:
		get_query(c, field->bytes, out);
		break;
	case WIRE_RXDM_QUEUES:
		get_queues(c, field->bytes, out);
		break;
	case WIRE_RXDM_REGISTER:
		get_register(c, field->bytes, out);
		break;
	default:
		return;
	}
	out->kind = (enum wire_rxdm_kind)field->number;
}

tcpx_status wire_rxdm_decode(const void *body, size_t len, struct wire_rxdm *out_message)
{
	struct wire_cursor c = wire_cursor_of(body, len);
	struct wire_rxdm message = {.rule = {.queue = -1}};
	struct field field;

	if (len > WIRE_RXDM_BODY_MAX)
		return error_set(TCPX_ERR_PROTOCOL, 0, "a message of RxDM with %zu bytes", len);
	while (get_field(&c, &field)) {
		if (field.number > WIRE_RXDM_REGISTER)
			continue;
		if (is_field(&c, &field, field.number, FORM_BYTES))
			get_content(&c, &field, &message);
	}
	if (c.bad)
		return error_set(TCPX_ERR_PROTOCOL, 0, "%zu bytes are not a message of RxDM", len);
	*out_message = message;
	return TCPX_OK;
}

size_t wire_rxdm_length(const uint8_t head[WIRE_RXDM_HEAD])
{
	return (size_t)head[0] << 8 | head[1];
}

static void put_varint(struct wire_out *o, uint64_t value)
{
	uint8_t bytes[WIRE_VARINT_MAX];

	wire_put_bytes(o, bytes, (size_t)(wire_varint(bytes, value) - bytes));
}

static void put_number(struct wire_out *o, unsigned field, int32_t value)
{
	put_varint(o, field << 3 | FORM_VARINT);
	put_varint(o, (uint64_t)(int64_t)value);
}

static void put_bytes(struct wire_out *o, unsigned field, const void *bytes, size_t len)
{
	put_varint(o, field << 3 | FORM_BYTES);
	put_varint(o, len);
	wire_put_bytes(o, bytes, len);
}

static void put_text(struct wire_out *o, unsigned field, const char *text)
{
	put_bytes(o, field, text, strnlen(text, WIRE_RXDM_TEXT_MAX));
}

/* Writes the message `inner` as the value of a field. `inner` is already encoded, because its
 * length must be written before it. */
static void put_inner(struct wire_out *o, unsigned field, const struct wire_out *inner)
{
	put_bytes(o, field, inner->start, wire_out_bytes(inner));
	o->bad |= inner->bad;
}

static void put_end(struct wire_out *o, unsigned field, const struct wire_rxdm_end *end)
{
	uint8_t buf[WIRE_RXDM_TEXT_MAX + 32];
	struct wire_out inner = wire_out_of(buf, sizeof(buf));

	put_text(&inner, 1, end->ip);
	put_number(&inner, 2, end->port);
	put_inner(o, field, &inner);
}

static void put_rule(struct wire_out *o, const struct wire_rxdm *message)
{
	uint8_t buf[4 * WIRE_RXDM_TEXT_MAX + 64], tuple_buf[sizeof(buf)];
	struct wire_out rule = wire_out_of(buf, sizeof(buf));
	struct wire_out tuple = wire_out_of(tuple_buf, sizeof(tuple_buf));

	put_number(&tuple, 1, message->rule.flow);
	put_end(&tuple, 2, &message->rule.src);
	put_end(&tuple, 3, &message->rule.dst);
	put_inner(&rule, 1, &tuple);
	if (message->rule.queue >= 0)
		put_number(&rule, 2, message->rule.queue);
	if (message->gpu[0])
		put_text(&rule, 3, message->gpu);
	put_inner(o, WIRE_RXDM_RULE, &rule);
}

static void put_query(struct wire_out *o, const struct wire_rxdm *message)
{
	uint8_t buf[WIRE_RXDM_TEXT_MAX + 16];
	struct wire_out inner = wire_out_of(buf, sizeof(buf));

	put_text(&inner, 1, message->gpu);
	put_inner(o, WIRE_RXDM_QUERY, &inner);
}

static void put_queues(struct wire_out *o, const struct wire_rxdm *message)
{
	uint8_t buf[WIRE_RXDM_QUEUES_MAX * (1 + WIRE_VARINT_MAX)];
	struct wire_out inner = wire_out_of(buf, sizeof(buf));

	for (unsigned i = 0; i < message->nqueues && i < WIRE_RXDM_QUEUES_MAX; i++)
		put_number(&inner, 1, message->queues[i]);
	put_inner(o, WIRE_RXDM_QUEUES, &inner);
}

static void put_status(struct wire_out *o, const struct wire_rxdm *message)
{
	uint8_t buf[WIRE_RXDM_BODY_MAX];
	struct wire_out inner = wire_out_of(buf, sizeof(buf));

	put_number(&inner, 1, message->status);
	if (message->words_len)
		put_bytes(&inner, 2, message->words, message->words_len);
	put_inner(o, FIELD_STATUS, &inner);
}

static void put_register(struct wire_out *o, const struct wire_rxdm *message)
{
	uint8_t buf[16];
	struct wire_out inner = wire_out_of(buf, sizeof(buf));

	put_number(&inner, 1, message->client != 0);
	put_inner(o, WIRE_RXDM_REGISTER, &inner);
}

size_t wire_rxdm_encode(const struct wire_rxdm *message, void *out, size_t cap)
{
	struct wire_out o = wire_out_of(out, cap);
	size_t len;

	wire_put_zero(&o, WIRE_RXDM_HEAD);
	switch (message->kind) {
	case WIRE_RXDM_EMPTY:
		break;
	case WIRE_RXDM_BYTES:
		put_bytes(&o, WIRE_RXDM_BYTES, message->bytes, message->bytes_len);
		break;
	case WIRE_RXDM_RULE:
		put_rule(&o, message);
		break;
	case WIRE_RXDM_QUERY:
		put_query(&o, message);
		break;
	case WIRE_RXDM_QUEUES:
		put_queues(&o, message);
		break;
	case WIRE_RXDM_REGISTER:
		put_register(&o, message);
		break;
	}
	if (message->status || message->words_len)
		put_status(&o, message);
	len = wire_out_bytes(&o);
	if (o.bad || len < WIRE_RXDM_HEAD || len - WIRE_RXDM_HEAD > WIRE_RXDM_BODY_MAX)
		return 0;
	((uint8_t *)out)[0] = (uint8_t)((len - WIRE_RXDM_HEAD) >> 8);
	((uint8_t *)out)[1] = (uint8_t)(len - WIRE_RXDM_HEAD);
	return len;
}

/* Writes RxDM's answer to get_gpu_metadata, a C structure, as x86-64 lays it out: an int, four
 * bytes of padding, and two 64-bit numbers. */
void wire_rxdm_memory_encode(const struct wire_rxdm_memory *memory,
			     uint8_t out[WIRE_RXDM_MEMORY_BYTES])
{
	struct wire_out o = wire_out_of(out, WIRE_RXDM_MEMORY_BYTES);

	wire_put_uint(&o, UINT32_MAX, 4); /* -1: RxDM sends the descriptor through another socket */
	wire_put_zero(&o, 4);
	wire_put_uint(&o, memory->size_bytes, 8);
	wire_put_uint(&o, memory->align_bytes, 8);
}

tcpx_status wire_rxdm_memory_decode(const void *bytes, size_t len,
				    struct wire_rxdm_memory *out_memory)
{
	struct wire_cursor c = wire_cursor_of(bytes, len);
	struct wire_rxdm_memory memory;

	if (len != WIRE_RXDM_MEMORY_BYTES)
		return error_set(TCPX_ERR_PROTOCOL, 0,
				 "RxDM describes a GPU's memory in %zu bytes, not %d", len,
				 WIRE_RXDM_MEMORY_BYTES);
	wire_take(&c, 8);
	memory.size_bytes = wire_get_u64(&c);
	memory.align_bytes = wire_get_u64(&c);
	if (!memory.size_bytes || memory.size_bytes >> 48 ||
	    (memory.align_bytes & (memory.align_bytes - 1)))
		return error_set(TCPX_ERR_PROTOCOL, 0,
				 "RxDM describes a GPU's memory of %#llx bytes aligned to %#llx",
				 (unsigned long long)memory.size_bytes,
				 (unsigned long long)memory.align_bytes);
	*out_memory = memory;
	return TCPX_OK;
}

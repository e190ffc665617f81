/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between perf and serve. Decoding expects hostile input. */
#include "perf_message.h"

#include <endian.h>
#include <string.h>

#define MAGIC 0x50435450u /* "PTCP" */
#define HEADER 16

struct header {
	uint32_t magic;
	uint8_t version, type, is_reply, status;
	uint32_t id;
	uint16_t nwords, blob_len;
};

_Static_assert(sizeof(struct header) == HEADER, "no padding");

struct perf_message *perf_message_init(struct perf_message *m, uint8_t type, uint32_t id)
{
	m->type = type;
	m->is_reply = m->status = 0;
	m->id = id;
	m->nwords = m->blob_len = 0;
	return m;
}

void perf_message_put(struct perf_message *m, const void *body, size_t size)
{
	if (size) /* without words body may be NULL */
		memcpy(m->words, body, size);
	m->nwords = (uint16_t)(size / 8);
}

int perf_message_get(const struct perf_message *m, void *body, size_t size)
{
	if (m->nwords * 8u != size)
		return -1;
	memcpy(body, m->words, size);
	return 0;
}

int perf_message_blob(struct perf_message *m, const void *data, size_t len)
{
	if (len > PERF_BLOB_MAX)
		return -1;
	memcpy(m->blob, data, len);
	m->blob[len] = 0;
	m->blob_len = (uint16_t)len;
	return 0;
}

size_t perf_message_encode(const struct perf_message *m, uint8_t out[PERF_MESSAGE_MAX])
{
	struct header h = {
		.magic = htole32(MAGIC),
		.version = PERF_PROTOCOL,
		.type = m->type,
		.is_reply = m->is_reply,
		.status = m->status,
		.id = htole32(m->id),
		.nwords = htole16(m->nwords),
		.blob_len = htole16(m->blob_len),
	};
	size_t at = HEADER;

	memcpy(out, &h, HEADER);
	for (unsigned i = 0; i < m->nwords; i++, at += 8) {
		uint64_t word = htole64(m->words[i]);

		memcpy(out + at, &word, 8);
	}
	memcpy(out + at, m->blob, m->blob_len);
	return at + m->blob_len;
}

int perf_message_decode(const void *data, size_t len, struct perf_message *out)
{
	const uint8_t *p = data;
	struct header h;

	if (len < HEADER)
		return -1;
	memcpy(&h, p, HEADER);
	if (le32toh(h.magic) != MAGIC)
		return -1;
	if (h.version != PERF_PROTOCOL)
		return -2;
	perf_message_init(out, h.type, le32toh(h.id));
	out->is_reply = h.is_reply;
	out->status = h.status;
	out->nwords = le16toh(h.nwords);
	out->blob_len = le16toh(h.blob_len);
	if (out->nwords > PERF_WORDS_MAX || out->blob_len > PERF_BLOB_MAX ||
	    len != HEADER + out->nwords * 8u + out->blob_len)
		return -1;
	p += HEADER;
	for (unsigned i = 0; i < out->nwords; i++, p += 8) {
		memcpy(&out->words[i], p, 8);
		out->words[i] = le64toh(out->words[i]);
	}
	memcpy(out->blob, p, out->blob_len);
	out->blob[out->blob_len] = 0;
	return 0;
}

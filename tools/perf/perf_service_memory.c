/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of serve: the limit for all clients, and the memory of the host. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "perf_memory.h"
#include "perf_service_priv.h"

void perf_service_refuse(struct perf_message *reply, enum perf_answer status, const char *format,
			 ...)
{
	char text[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	reply->nwords = 0;
	reply->status = status;
	perf_message_blob(reply, text, strlen(text));
}

void perf_service_give_back(struct perf_service *s, uint64_t *reserved)
{
	atomic_fetch_sub(&s->house->memory_used, *reserved);
	*reserved = 0;
}

int perf_service_reserve(struct perf_service *s, uint64_t bytes, uint64_t *reserved)
{
	uint64_t used;

	perf_service_give_back(s, reserved);
	used = atomic_fetch_add(&s->house->memory_used, bytes);
	if (bytes > s->house->memory_limit || used > s->house->memory_limit - bytes) {
		atomic_fetch_sub(&s->house->memory_used, bytes);
		return -1;
	}
	*reserved = bytes;
	return 0;
}

void perf_service_touched(struct perf_service *s)
{
	atomic_fetch_sub(&s->house->memory_untouched, s->untouched);
	s->untouched = 0;
}

/* Refuses host memory that is not available, since the kernel would kill a process. Memory of
 * other rows whose pages have not been touched yet counts as used. Returns 0, or -1 after a
 * refusal. */
static int reserve_pages(struct perf_service *s, uint64_t bytes, struct perf_message *reply)
{
	uint64_t before = atomic_fetch_add(&s->house->memory_untouched, bytes);
	uint64_t free_bytes = perf_memory_free();
	char has[BYTES_TEXT_MAX], wants[BYTES_TEXT_MAX];

	s->untouched = bytes;
	if (bytes <= free_bytes && before <= free_bytes - bytes)
		return 0;
	perf_service_touched(s);
	perf_service_refuse(
		reply, PERF_REFUSED,
		"the server has %s of memory free, and this row takes %s of it; lower --size or "
		"--working-set",
		bytes_format(before < free_bytes ? free_bytes - before : 0, has, sizeof(has)),
		bytes_format(bytes, wants, sizeof(wants)));
	return -1;
}

int perf_service_take_row(struct perf_service *s, const struct perf_spec *spec,
			  struct perf_message *reply)
{
	uint64_t bytes = perf_side_bytes(PERF_SERVER, spec);

	if (s->reserved == bytes && s->kind == spec->kind)
		return 0;
	perf_side_close(&s->side);
	perf_service_touched(s);
	if (perf_service_reserve(s, bytes, &s->reserved)) {
		perf_service_refuse(reply, PERF_REFUSED,
				    "other clients use the memory (serve --max-memory)");
		return -1;
	}
	if (spec->kind != TCPX_MEM_CUDA && reserve_pages(s, bytes, reply)) {
		perf_service_give_back(s, &s->reserved);
		return -1;
	}
	s->kind = spec->kind;
	return 0;
}

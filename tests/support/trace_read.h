/* SPDX-License-Identifier: Apache-2.0 */
/* Reads all of a trace file for a test. */
#ifndef SUPPORT_TRACE_READ_H
#define SUPPORT_TRACE_READ_H

#include <stdio.h>
#include <stdlib.h>

#include "trace/file.h"

struct trace_all {
	struct trace_header header;
	struct trace_record *records;	  /* as they lie in the file */
	uint64_t nrecords, room, missing; /* missing: by gaps and positions */
	uint64_t end_dropped;		  /* of the END block */
	unsigned ended, texts, clocks, threads;
	enum trace_read last;
	char text[65536]; /* all lines of context */
	size_t text_len;
};

static inline void trace_all_block(struct trace_all *all, const struct trace_block *block,
				   uint64_t next[64])
{
	uint32_t count = trace_block_records(block);

	all->ended += block->type == TRACE_BLOCK_END;
	all->end_dropped = block->type == TRACE_BLOCK_END ? block->dropped : all->end_dropped;
	all->texts += block->type == TRACE_BLOCK_CONTEXT;
	all->clocks += block->type == TRACE_BLOCK_CLOCK;
	all->threads += block->type == TRACE_BLOCK_THREAD;
	if (block->type == TRACE_BLOCK_CONTEXT &&
	    all->text_len + block->bytes < sizeof(all->text)) {
		memcpy(all->text + all->text_len, block->payload, block->bytes);
		all->text_len += block->bytes;
	}
	if (!count)
		return;
	all->missing += block->first - next[block->thread & 63];
	next[block->thread & 63] = block->first + count;
	if (all->nrecords + count > all->room) {
		all->room = 2 * (all->nrecords + count);
		all->records = realloc(all->records, all->room * sizeof(*all->records));
	}
	for (uint32_t i = 0; i < count; i++) {
		struct trace_record *r = &all->records[all->nrecords++];

		trace_block_record(block, i, r);
		all->missing += r->call == TRACE_GAP ? r->number : 0;
	}
}

/* 0; -1: no file, or no trace. The caller frees records. */
static inline int trace_all_read(const char *path, struct trace_all *all)
{
	FILE *in = fopen(path, "rb");
	uint64_t next[64] = {0};
	struct trace_block block;
	struct wire_cursor c;
	uint8_t *bytes;
	long size;

	memset(all, 0, sizeof(*all));
	if (!in)
		return -1;
	fseek(in, 0, SEEK_END);
	size = ftell(in);
	rewind(in);
	bytes = malloc((size_t)size + 1);
	if (!bytes || fread(bytes, 1, (size_t)size, in) != (size_t)size)
		abort();
	fclose(in);
	c = wire_cursor_of(bytes, (size_t)size);
	all->last = trace_header_get(&c, &all->header);
	while (all->last == TRACE_READ_OK) {
		all->last = trace_block_get(&c, &block);
		if (all->last == TRACE_READ_OK)
			trace_all_block(all, &block, next);
	}
	free(bytes);
	return all->header.version ? 0 : -1;
}

#endif

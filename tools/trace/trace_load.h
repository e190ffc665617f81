/* SPDX-License-Identifier: Apache-2.0 */
/* A trace file, mapped: blocks, context, records in the order in which calls ended, and comms. */
#ifndef TOOLS_TRACE_LOAD_H
#define TOOLS_TRACE_LOAD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trace/file.h"

/* OUT and IN: the directions of a stream channel. */
enum trace_end_kinds { END_LISTEN, END_SEND, END_RECEIVE, END_OUT, END_IN, END_KINDS };

struct trace_pair {		 /* a line of context */
	const char *key, *value; /* NUL-terminated copies */
	unsigned place;		 /* enum trace_context_places */
};

/* One comm. Times are ns since the trace's start. */
struct trace_end {
	uint32_t id;
	enum trace_end_kinds kind;
	unsigned ordinal; /* among the ends of its kind */
	char name[24];	  /* "recv#0" */
	int nic, owner, gpu;
	uint64_t link; /* hash of the handle; of a receive end its listener's */
	uint64_t posted, done, consumed, bytes, posted_bytes;
	int64_t first_ns, last_ns;
	uint64_t setup_retries;
	uint32_t errors, closed, gpu_memory, gap; /* gap: records of it may be missing */
	/* Its records: indices for trace_record_at(), ascending. */
	uint32_t *events;
	uint32_t nevents;
};

#define TRACE_THREAD_BITS 16

struct trace_file {
	const char *path;
	uint8_t *map;
	size_t size;
	struct trace_header header;
	struct trace_moment last; /* the last CLOCK; .ticks 0: none */
	double ns_per_tick;
	struct trace_block *blocks;
	uint32_t nblocks;
	uint64_t nrecords;
	uint64_t missing;	 /* records that are not there: dropped or not written */
	uint64_t end_dropped;	 /* as the END block says */
	int ended;		 /* it has an END block */
	enum trace_read stopped; /* why reading ended */
	struct trace_pair *context;
	uint32_t ncontext;
	unsigned nthreads;
	/* After trace_file_records(). order: of each record its offset in the file <<
	 * TRACE_THREAD_BITS | thread, in the order in which the calls ended. */
	uint64_t *order;
	uint8_t *in_gap; /* by thread: it misses records */
	struct trace_end *ends;
	uint32_t nends;
	int64_t span_ns; /* until the last call or CLOCK, whichever is later */
};

/* Maps and indexes the file, in time by its blocks and not its records. An exit code after a line
 * on stderr, or CLI_OK. The caller calls trace_file_close() in each case. */
int trace_file_open(const char *path, struct trace_file *out);
void trace_file_close(struct trace_file *file);

/* Orders all records, and collects the ends. Once. */
int trace_file_records(struct trace_file *file);

/* The record of an index < nrecords, decoded from the file at each call: its decoded form takes as
 * much memory as the file, and most of the time of opening a large one. */
static inline struct trace_record trace_record_at(const struct trace_file *file, uint64_t index)
{
	uint64_t place = file->order[index];

	return trace_record_get(file->map + (place >> TRACE_THREAD_BITS), (uint16_t)place);
}

int64_t trace_file_ns(const struct trace_file *file, uint64_t ticks); /* since its start */
int64_t trace_wall_ns(const struct trace_file *file, uint64_t ticks);

/* The last value of a key; NULL. */
const char *trace_context_of(const struct trace_file *file, const char *key);
/* "eth1", or "dev 3" in buf. */
const char *trace_nic_name(const struct trace_file *file, int nic, char *buf, size_t cap);

/* NULL: no such comm. */
const struct trace_end *trace_end_of(const struct trace_file *file, uint32_t comm);

/* When the call of a record ended, and began. */
int64_t trace_end_ns(const struct trace_file *file, const struct trace_record *r);
int64_t trace_begin_ns(const struct trace_file *file, const struct trace_record *r);

/* The plugin wants irecvConsumed for what it received. */
int trace_has_queue(const struct trace_file *file);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a trace file. */
#include "trace_load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli_output.h"

#define HUGE_BYTES (2u << 20)
#define THREADS_MAX 65536u
#define COMMS_MAX (1u << 22) /* ids above are damage */
#define RECORDS_MAX (1ull << 31)
/* Times of a damaged file are cut, so that sums and differences stay within an int64_t. */
#define TIME_MAX 100000000000000000 /* three years, in ns */
#define WALL_MAX 3000000000000000000

static void *grown(void *array, uint64_t count, size_t bytes)
{
	if (count & (count - 1))
		return array;
	return realloc(array, (count ? count * 2 : 1) * bytes);
}

static int no_memory(const char *path)
{
	cli_error("%s: no memory for it", path);
	return CLI_FAILED;
}

static char *copied(const char *text, size_t len)
{
	char *copy = malloc(len + 1);

	if (!copy)
		return NULL;
	for (size_t i = 0; i < len; i++) /* what a terminal and JSON take as it is */
		copy[i] = (unsigned char)text[i] < ' ' || (unsigned char)text[i] >= 0x7f ? '?'
											 : text[i];
	copy[len] = '\0';
	return copy;
}

static int take_lines(struct trace_file *file, const struct trace_block *block)
{
	struct trace_line line;
	uint32_t at = 0;

	while (trace_block_line(block, &at, &line)) {
		struct trace_pair *more =
			grown(file->context, file->ncontext, sizeof(*file->context));
		char *key = copied(line.key, line.key_len);
		char *value = copied(line.value, line.value_len);

		if (more)
			file->context = more;
		if (!more || !key || !value) {
			free(key);
			free(value);
			return -1;
		}
		file->context[file->ncontext++] = (struct trace_pair){key, value, block->thread};
	}
	return 0;
}

static int take_block(struct trace_file *file, const struct trace_block *block, uint64_t *next)
{
	uint32_t count = trace_block_records(block);
	struct trace_block *more;

	if (block->type == TRACE_BLOCK_END) {
		file->ended = 1;
		file->end_dropped = block->dropped;
	}
	if (block->type == TRACE_BLOCK_CLOCK && !trace_block_moment(block, &file->last))
		return 0;
	if (block->type == TRACE_BLOCK_CONTEXT)
		return take_lines(file, block);
	if (!count)
		return 0;
	/* the writer counts what it could not write */
	if (block->first > next[block->thread]) {
		file->missing += block->first - next[block->thread];
		file->in_gap[block->thread] = 1;
	}
	next[block->thread] = block->first + count;
	if (block->thread + 1u > file->nthreads)
		file->nthreads = block->thread + 1u;
	more = grown(file->blocks, file->nblocks, sizeof(*file->blocks));
	if (!more)
		return -1;
	file->blocks = more;
	file->blocks[file->nblocks++] = *block;
	file->nrecords += count;
	return 0;
}

static int read_blocks(struct trace_file *file, struct wire_cursor *c)
{
	uint64_t *next = calloc(THREADS_MAX, sizeof(*next));
	struct trace_block block;
	int rc = next && file->in_gap ? 0 : -1;

	while (!rc && (file->stopped = trace_block_get(c, &block)) == TRACE_READ_OK)
		rc = take_block(file, &block, next);
	free(next);
	return rc;
}

static double rate_of(const struct trace_file *file)
{
	uint64_t ticks = file->last.ticks - file->header.start.ticks;
	uint64_t ns = file->last.mono_ns - file->header.start.mono_ns;

	/* of a short trace the estimate is as good */
	if (file->last.ticks > file->header.start.ticks &&
	    file->last.mono_ns > file->header.start.mono_ns + 20000000)
		return (double)ns / (double)ticks;
	return 1e9 / (double)file->header.hz;
}

static int map_file(const char *path, struct trace_file *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		cli_error("%s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return CLI_FAILED;
	}
	out->size = (size_t)st.st_size;
	out->map = S_ISREG(st.st_mode) && st.st_size
			   ? mmap(NULL, out->size, PROT_READ, MAP_PRIVATE, fd, 0)
			   : MAP_FAILED;
	close(fd);
	if (out->map != MAP_FAILED)
		return CLI_OK;
	out->map = NULL;
	cli_error("%s: no trace file; 'tcpx trace run' writes them", path);
	return CLI_FAILED;
}

int trace_file_open(const char *path, struct trace_file *out)
{
	struct wire_cursor c;
	enum trace_read got;
	int rc;

	memset(out, 0, sizeof(*out));
	out->path = path;
	rc = map_file(path, out);
	if (rc != CLI_OK)
		return rc;
	c = wire_cursor_of(out->map, out->size);
	got = trace_header_get(&c, &out->header);
	if (got == TRACE_READ_VERSION) {
		cli_error("%s: a trace of a newer format; use the tcpx that belongs to it", path);
		return CLI_FAILED;
	}
	if (got != TRACE_READ_OK) {
		cli_error("%s: no trace file; 'tcpx trace run' writes them", path);
		return CLI_FAILED;
	}
	if (out->header.start.wall_ns > WALL_MAX)
		out->header.start.wall_ns = WALL_MAX;
	out->in_gap = calloc(THREADS_MAX, 1);
	if (read_blocks(out, &c) || out->nrecords > RECORDS_MAX)
		return no_memory(path);
	out->ns_per_tick = rate_of(out);
	return CLI_OK;
}

void trace_file_close(struct trace_file *file)
{
	for (uint32_t i = 0; i < file->ncontext; i++) {
		free((char *)file->context[i].key);
		free((char *)file->context[i].value);
	}
	for (uint32_t i = 0; i < file->nends; i++)
		free(file->ends[i].events);
	free(file->context);
	free(file->ends);
	free(file->blocks);
	free(file->order);
	free(file->in_gap);
	if (file->map)
		munmap(file->map, file->size);
	memset(file, 0, sizeof(*file));
}

/* ---- time ---- */

static int64_t clamped(double ns)
{
	return ns > TIME_MAX ? TIME_MAX : ns < -TIME_MAX ? -TIME_MAX : (int64_t)ns;
}

int64_t trace_file_ns(const struct trace_file *file, uint64_t ticks)
{
	return clamped((double)(int64_t)(ticks - file->header.start.ticks) * file->ns_per_tick);
}

int64_t trace_wall_ns(const struct trace_file *file, uint64_t ticks)
{
	return (int64_t)((uint64_t)trace_file_ns(file, ticks) + file->header.start.wall_ns);
}

int64_t trace_begin_ns(const struct trace_file *file, const struct trace_record *r)
{
	return trace_file_ns(file, r->time);
}

int64_t trace_end_ns(const struct trace_file *file, const struct trace_record *r)
{
	return trace_file_ns(file, r->time + r->duration);
}

/* ---- context ---- */

const char *trace_context_of(const struct trace_file *file, const char *key)
{
	for (uint32_t i = file->ncontext; i > 0; i--)
		if (!strcmp(file->context[i - 1].key, key))
			return file->context[i - 1].value;
	return NULL;
}

const char *trace_nic_name(const struct trace_file *file, int nic, char *buf, size_t cap)
{
	const char *name;

	if (nic == TRACE_DEV_UNKNOWN)
		return "-";
	if (nic == TRACE_DEV_NOT_LISTED)
		return "(other)";
	snprintf(buf, cap, "nic.%d.name", nic);
	name = trace_context_of(file, buf);
	if (name)
		snprintf(buf, cap, "%s", name);
	else
		snprintf(buf, cap, "dev %d", nic);
	return buf;
}

int trace_has_queue(const struct trace_file *file)
{
	const char *consumed = trace_context_of(file, "plugin.consumed");

	return consumed && !strcmp(consumed, "1");
}

/* ---- records ---- */

/* A cursor over the blocks of one thread. The merge takes the record whose call ended first. */
struct run {
	uint32_t block, index, count; /* the next record */
	uint64_t place;		      /* its entry of trace_file.order */
	uint64_t ends;		      /* when its call ended */
	struct trace_record next;
};

struct merge {
	struct trace_file *file;
	struct run *heap;
	unsigned count;
};

static uint64_t end_of(const struct trace_record *r)
{
	uint64_t end = r->time + r->duration;

	return end < r->time ? UINT64_MAX : end;
}

static int load_next(struct merge *m, struct run *run)
{
	const struct trace_block *block;

	while (run->index == run->count) {
		uint16_t thread = m->file->blocks[run->block].thread;

		do
			run->block++;
		while (run->block < m->file->nblocks &&
		       m->file->blocks[run->block].thread != thread);
		if (run->block == m->file->nblocks)
			return 0;
		run->index = 0;
		run->count = trace_block_records(&m->file->blocks[run->block]);
	}
	block = &m->file->blocks[run->block];
	run->place = (uint64_t)(block->payload - m->file->map) + run->index * TRACE_RECORD_BYTES;
	run->place = run->place << TRACE_THREAD_BITS | block->thread;
	trace_block_record(block, run->index++, &run->next);
	run->ends = end_of(&run->next);
	return 1;
}

static void sift(struct merge *m, unsigned at)
{
	for (;;) {
		unsigned least = at, left = at * 2 + 1;
		struct run swap;

		for (unsigned i = left; i < left + 2 && i < m->count; i++)
			if (m->heap[i].ends < m->heap[least].ends)
				least = i;
		if (least == at)
			return;
		swap = m->heap[at];
		m->heap[at] = m->heap[least];
		m->heap[least] = swap;
		at = least;
	}
}

/* What is known of a file by its records one by one. */
static void take_record(struct trace_file *file, const struct trace_record *r)
{
	int64_t last = trace_end_ns(file, r);

	file->span_ns = last > file->span_ns ? last : file->span_ns;
	if (r->call == TRACE_GAP) {
		file->missing += r->number;
		file->in_gap[r->thread] = 1;
	}
	if (r->comm != TRACE_NONE && r->comm < COMMS_MAX && r->comm >= file->nends)
		file->nends = r->comm + 1;
}

static int merge_records(struct trace_file *file)
{
	struct merge m = {.file = file, .heap = calloc(file->nthreads + 1, sizeof(*m.heap))};
	uint8_t *seen = calloc(THREADS_MAX, 1);
	uint64_t at = 0;

	if (!m.heap || !seen) {
		free(m.heap);
		free(seen);
		return -1;
	}
	for (uint32_t i = 0; i < file->nblocks; i++) {
		struct run run = {.block = i, .count = trace_block_records(&file->blocks[i])};

		if (seen[file->blocks[i].thread])
			continue;
		seen[file->blocks[i].thread] = 1;
		if (load_next(&m, &run))
			m.heap[m.count++] = run;
	}
	for (unsigned i = m.count / 2; i > 0; i--)
		sift(&m, i - 1);
	while (m.count) {
		file->order[at++] = m.heap[0].place;
		take_record(file, &m.heap[0].next);
		if (!load_next(&m, &m.heap[0]))
			m.heap[0] = m.heap[--m.count];
		sift(&m, 0);
	}
	free(m.heap);
	free(seen);
	return 0;
}

/* ---- ends ---- */

const struct trace_end *trace_end_of(const struct trace_file *file, uint32_t comm)
{
	return comm < file->nends && file->ends[comm].nevents ? &file->ends[comm] : NULL;
}

static enum trace_end_kinds kind_of(const struct trace_record *r)
{
	switch (r->call) {
	case TRACE_LISTEN:
	case TRACE_CLOSE_LISTEN:
		return END_LISTEN;
	case TRACE_CONNECT:
	case TRACE_ISEND:
	case TRACE_CLOSE_SEND:
		return END_SEND;
	case TRACE_STREAM_SEND:
		return END_OUT;
	case TRACE_STREAM_RECV:
		return END_IN;
	case TRACE_ACCEPT: /* of one that is not done it is the listener */
		return r->flags & TRACE_DONE ? END_RECEIVE : END_LISTEN;
	case TRACE_IRECV:
	case TRACE_CONSUMED:
	case TRACE_CLOSE_RECV:
		return END_RECEIVE;
	default:
		return END_KINDS;
	}
}

static void count_event(struct trace_end *end, const struct trace_record *r)
{
	int first_part = !r->part, empty = r->flags & TRACE_EMPTY;

	if (r->call == TRACE_STREAM_SEND || r->call == TRACE_STREAM_RECV) {
		end->posted += r->bytes != 0; /* errors are the ends of connections */
		end->done = end->posted;
		end->bytes += r->bytes;
		return;
	}
	end->errors += r->result != 0;
	end->gpu_memory |= (r->flags & TRACE_GPU) != 0;
	if (empty || r->flags & TRACE_UNFINISHED)
		return;
	if (r->call == TRACE_ISEND || r->call == TRACE_IRECV) {
		end->posted += first_part && !r->result;
		end->posted_bytes += r->result ? 0 : r->bytes;
	} else if (r->call == TRACE_TEST && r->flags & TRACE_DONE && r->tag != TRACE_KIND_FLUSH) {
		end->done += first_part;
		end->bytes += r->bytes;
	} else if (r->call == TRACE_CONSUMED) {
		end->consumed += !r->result;
	} else if (r->call >= TRACE_CLOSE_SEND && r->call <= TRACE_CLOSE_LISTEN) {
		end->closed = 1;
	}
}

static int take_event(struct trace_file *file, struct trace_end *end, const struct trace_record *r,
		      uint32_t index)
{
	int64_t begin = trace_begin_ns(file, r), last = trace_end_ns(file, r);
	uint32_t *events = grown(end->events, end->nevents, sizeof(*events));

	if (!events)
		return -1;
	end->events = events;
	if (!end->nevents) {
		end->id = r->comm;
		end->kind = END_KINDS;
		end->first_ns = begin;
		end->nic = end->owner = end->gpu = TRACE_DEV_UNKNOWN;
	}
	if (end->kind == END_KINDS)
		end->kind = kind_of(r);
	if (r->nic != TRACE_DEV_UNKNOWN)
		end->nic = r->nic;
	if (r->owner != TRACE_DEV_UNKNOWN)
		end->owner = r->owner;
	if (r->gpu != TRACE_DEV_UNKNOWN)
		end->gpu = r->gpu;
	if (r->call == TRACE_LISTEN ||
	    ((r->call == TRACE_CONNECT || r->call == TRACE_ACCEPT) && r->flags & TRACE_DONE)) {
		end->link = r->number;
		end->setup_retries = r->repeats;
	}
	end->last_ns = last > end->last_ns ? last : end->last_ns;
	end->events[end->nevents++] = index;
	count_event(end, r);
	return 0;
}

static void name_ends(struct trace_file *file)
{
	static const char *const words[] = {"listen", "send", "recv", "out", "in"};
	unsigned counts[END_KINDS] = {0};

	for (uint32_t i = 0; i < file->nends; i++) {
		struct trace_end *end = &file->ends[i];

		if (!end->nevents)
			continue;
		if (end->kind == END_KINDS)
			end->kind = END_SEND; /* only its registrations are known */
		end->ordinal = counts[end->kind]++;
		snprintf(end->name, sizeof(end->name), "%s#%u", words[end->kind], end->ordinal);
		if (!end->bytes) /* test tells no size of a send, and some plugins none at all */
			end->bytes = end->posted_bytes;
	}
}

static int collect_ends(struct trace_file *file)
{
	file->ends = calloc(file->nends + 1, sizeof(*file->ends));
	if (!file->ends)
		return -1;
	for (uint64_t i = 0; i < file->nrecords; i++) {
		struct trace_record r = trace_record_at(file, i);

		if (r.comm < file->nends && take_event(file, &file->ends[r.comm], &r, (uint32_t)i))
			return -1;
	}
	if (file->last.ticks && trace_file_ns(file, file->last.ticks) > file->span_ns)
		file->span_ns = trace_file_ns(file, file->last.ticks);
	if (file->end_dropped > file->missing) { /* the last ones of some thread */
		file->missing = file->end_dropped;
		memset(file->in_gap, 1, THREADS_MAX);
	}
	for (uint32_t i = 0; i < file->nends; i++)
		for (uint32_t k = 0; k < file->ends[i].nevents && !file->ends[i].gap; k++)
			file->ends[i].gap =
				file->in_gap[(uint16_t)file->order[file->ends[i].events[k]]];
	name_ends(file);
	return 0;
}

/* Huge pages where the kernel has them: most of the time of a large trace is first touches. */
static void *order_room(uint64_t count)
{
	size_t bytes = (count * sizeof(uint64_t) + HUGE_BYTES) & ~(size_t)(HUGE_BYTES - 1);
	void *room = aligned_alloc(HUGE_BYTES, bytes);

	if (room)
		(void)madvise(room, bytes, MADV_HUGEPAGE);
	return room;
}

int trace_file_records(struct trace_file *file)
{
	file->order = order_room(file->nrecords);
	if (!file->order || merge_records(file) || collect_ends(file))
		return no_memory(file->path);
	return CLI_OK;
}

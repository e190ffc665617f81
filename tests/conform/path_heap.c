/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A payload path more than the library has, to show that one is a file and a line: what a socket
 * call could take in place is copied through heap buffers instead, at both ends. Linked in, it
 * carries every payload on the stream between host memories that do not vanish.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/path/paths.h"
#include "engine/link/stage.h"
#include "sys/user.h"

/* One frame a direction and channel. */
struct buffer {
	const struct engine_chan *chan;
	bool sends;
	void *bytes;
	struct buffer *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *buffers;
/* Of the process that starts and those that it forks. */
static struct carried {
	pid_t pid;
	_Atomic uint64_t sent, received;
} * carried;

/* What the last frame of that direction left is freed. bytes may be NULL. */
static void heap_keep(const struct engine_chan *chan, bool sends, void *bytes)
{
	struct buffer *at;

	pthread_mutex_lock(&lock);
	for (at = buffers; at && (at->chan != chan || at->sends != sends); at = at->next)
		;
	if (!at && bytes) {
		at = calloc(1, sizeof(*at));
		if (!at)
			abort();
		*at = (struct buffer){.chan = chan, .sends = sends, .next = buffers};
		buffers = at;
	}
	if (at) {
		free(at->bytes);
		at->bytes = bytes;
	}
	pthread_mutex_unlock(&lock);
}

/* Whoever copies out of it frees it. */
static void heap_forget(const void *bytes)
{
	pthread_mutex_lock(&lock);
	for (struct buffer *at = buffers; at; at = at->next)
		if (at->bytes == bytes)
			at->bytes = NULL;
	pthread_mutex_unlock(&lock);
}

static bool heap_sources(const struct core_tx *frame)
{
	return !frame->job->fills && !frame->segs->vanishing;
}

static enum path_loaded heap_load(struct engine_chan *chan, bool *out_valid)
{
	struct chan_tx *tx = &chan->tx;
	uint64_t bytes = tx->frame.frame.payload_bytes, at = 0;
	uint8_t *copy = malloc(bytes);
	enum path_loaded loaded = path_stream.load(chan, out_valid);

	if (!copy)
		abort();
	for (uint32_t i = 0; i < tx->niov; at += tx->iov[i++].iov_len) {
		const struct iovec *piece = &tx->iov[i];

		if (sys_user_read(copy + at, piece->iov_base, piece->iov_len) < piece->iov_len) {
			free(copy); /* not mapped: the transport says so */
			return loaded;
		}
	}
	tx->iov[0] = (struct iovec){copy, bytes};
	tx->niov = 1;
	heap_keep(chan, true, copy);
	atomic_fetch_add(&carried->sent, bytes);
	return loaded;
}

static void heap_unload(struct engine_chan *chan)
{
	heap_keep(chan, true, NULL);
}

static bool heap_sinks(const struct engine_chan *chan, const struct core_segs *segs)
{
	return !chan->rx.vanishing && !(segs && segs->vanishing) && !path_staged.sinks(chan, segs);
}

/* What has come, and where it goes. */
struct arrived {
	uint64_t bytes;
	uint32_t n;
	struct iovec to[];
};

static uint8_t *heap_bytes(struct arrived *arrived)
{
	return (uint8_t *)&arrived->to[arrived->n];
}

static tcpx_status heap_receive(struct engine_chan *chan, const struct core_segs *segs,
				const uint8_t *sources_at, uint32_t sources_bytes)
{
	struct chan_rx *rx = &chan->rx;
	uint64_t bytes = rx->frame.payload_bytes, left = bytes;
	struct engine_stage *stage = stage_open(chan->peer, NULL, bytes);
	struct core_cursor at = {0}, end;
	struct arrived *arrived;
	uint32_t n = rx->niov;

	(void)sources_at;
	(void)sources_bytes;
	if (segs) {
		at = end = core_cursor_at(segs, rx->core.linear);
		(void)core_cursor_advance(segs, &end, bytes, UINT32_MAX, &n);
	}
	arrived = malloc(sizeof(*arrived) + n * sizeof(arrived->to[0]) + bytes);
	if (!stage || !arrived)
		abort();
	arrived->bytes = bytes;
	arrived->n = n;
	if (segs)
		(void)path_map(segs, &at, &left, arrived->to, n);
	else
		memcpy(arrived->to, rx->iov, n * sizeof(arrived->to[0]));
	(void)copies_init(&stage->copies, (uint8_t *)arrived, 0, stage_commit_done);
	heap_keep(chan, false, arrived);
	rx->stage = stage;
	rx->iov[0] = (struct iovec){heap_bytes(arrived), bytes};
	rx->niov = 1;
	atomic_fetch_add(&carried->received, bytes);
	return TCPX_OK;
}

static void heap_commit(struct engine_chan *chan, struct engine_stage *stage)
{
	struct arrived *arrived = (struct arrived *)stage->copies.slot;
	const uint8_t *from = heap_bytes(arrived);
	tcpx_status status = TCPX_OK;

	(void)chan;
	for (uint32_t i = 0; i < arrived->n; from += arrived->to[i++].iov_len)
		if (sys_user_write(arrived->to[i].iov_base, from, arrived->to[i].iov_len) <
		    arrived->to[i].iov_len)
			status = TCPX_ERR_INVALID; /* not mapped any more */
	heap_forget(arrived);
	free(arrived);
	copies_start(&stage->copies, false, status); /* has none, and ends with the status */
}

static const struct path_ops path_heap = {
	.core = CORE_PATH_STREAM,
	.sources = heap_sources,
	.load = heap_load,
	.unload = heap_unload,
	.sinks = heap_sinks,
	.receive = heap_receive,
	.commit = heap_commit,
};

static void heap_used(void)
{
	if (getpid() != carried->pid || (carried->sent && carried->received))
		return;
	fprintf(stderr, "path heap: %llu bytes sent, %llu received: it carried nothing\n",
		(unsigned long long)carried->sent, (unsigned long long)carried->received);
	_exit(1);
}

/* The far process of two is a program of its own: what it carries, the near one does as well. */
#define NEAR "CONFORM_PATH_HEAP"

__attribute__((constructor)) static void heap_enrol(void)
{
	carried = mmap(NULL, sizeof(*carried), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (carried == MAP_FAILED)
		abort();
	path_enrol(&path_heap);
	if (getenv(NEAR))
		return;
	setenv(NEAR, "1", 1);
	carried->pid = getpid();
	atexit(heap_used);
}

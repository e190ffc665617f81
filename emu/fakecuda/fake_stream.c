/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, one thread each: work of one runs in its order, a little late now and then, so that
 * streams overtake one another. Threads are detached and end with their stream.
 */
#include "fake.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

struct cuda_stream_st {
	struct cuda_stream_st *next;
	cuda_ctx ctx;
	pthread_cond_t wake;
	struct fake_work *first, **last;
	uint64_t pushed, finished, random;
	int started, destroyed;
};

static struct cuda_stream_st *streams;
static uint64_t streams_made, works_pushed;
static _Thread_local cuda_stream running; /* whose work runs on this thread */

int fake_stream_device(void)
{
	return running ? running->ctx->device : -1;
}

int fakecuda_device(void)
{
	return fake_stream_device();
}

cuda_ctx fake_stream_ctx(cuda_stream stream)
{
	return stream->ctx;
}

void fake_streams_wake(void)
{
	for (cuda_stream at = streams; at; at = at->next)
		pthread_cond_signal(&at->wake);
}

static cuda_stream stream_make(cuda_ctx ctx)
{
	cuda_stream stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	pthread_cond_init(&stream->wake, NULL);
	stream->ctx = ctx;
	stream->last = &stream->first;
	stream->random = (fake.seed + ++streams_made) * 0x9e3779b97f4a7c15ull | 1;
	stream->next = streams;
	streams = stream;
	return stream;
}

static void stream_free(cuda_stream stream)
{
	cuda_stream *at = &streams;

	while (*at != stream)
		at = &(*at)->next;
	*at = stream->next;
	pthread_cond_destroy(&stream->wake);
	free(stream);
}

/* One piece of work in eight comes late. */
static void stream_dawdle(cuda_stream stream)
{
	uint64_t random;

	stream->random ^= stream->random >> 12;
	stream->random ^= stream->random << 25;
	stream->random ^= stream->random >> 27;
	random = stream->random * 0x2545f4914f6cdd1dull >> 32;
	if (fake.delay_us && !(random & 7)) {
		struct timespec ts = {0, (long)((random >> 3) % fake.delay_us + 1) * 1000};

		nanosleep(&ts, NULL);
	}
}

static void stream_finish(cuda_stream stream, struct fake_work *work)
{
	if (work->end)
		work->end(work);
	if (work->record)
		fake_event_done(work->record, work->count);
	if (work->wait)
		fake_event_done(work->wait, 0);
	stream->first = work->next;
	if (!stream->first)
		stream->last = &stream->first;
	stream->finished++;
	fake.pending--;
	if (work->record) /* nothing else that ends lets another stream go on */
		fake_streams_wake();
	free(work);
	pthread_cond_broadcast(&fake.changed);
}

/* 1: there is work that may run now. */
static int stream_ready(const struct cuda_stream_st *stream)
{
	const struct fake_work *work = stream->first;

	if (!work)
		return 0;
	if (fake_ctx_state(stream->ctx))
		return 1; /* to be dropped */
	if (fake.device[stream->ctx->device].held)
		return 0;
	return !work->wait || fake_event_reached(work->wait, work->count);
}

static void *stream_main(void *arg)
{
	cuda_stream stream = arg;

	/* else it has the name of the thread that used the stream first */
	(void)pthread_setname_np(pthread_self(), "fakecuda");
	running = stream;
	pthread_mutex_lock(&fake.lock);
	while (stream->first || !stream->destroyed) {
		struct fake_work *work = stream->first;
		struct fake_device *device = &fake.device[stream->ctx->device];

		if (!stream_ready(stream)) {
			pthread_cond_wait(&stream->wake, &fake.lock);
			continue;
		}
		if (!fake_ctx_state(stream->ctx)) {
			device->running++;
			pthread_mutex_unlock(&fake.lock);
			stream_dawdle(stream);
			if (work->run)
				work->run(work);
			pthread_mutex_lock(&fake.lock);
			device->running--;
			if (work->fault && !stream->ctx->sticky)
				stream->ctx->sticky = work->fault;
		}
		stream_finish(stream, work);
	}
	stream_free(stream);
	pthread_mutex_unlock(&fake.lock);
	return NULL;
}

static int stream_start(cuda_stream stream)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	if (stream->started)
		return 0;
	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, &attr, stream_main, stream);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	stream->started = !rc;
	return rc;
}

struct fake_work *fake_work_new(cuda_stream stream)
{
	struct fake_work *work = calloc(1, sizeof(*work));

	if (work)
		work->ctx = stream->ctx;
	return work;
}

static int stream_known(const struct cuda_stream_st *stream)
{
	cuda_stream at = streams;

	while (at && at != stream)
		at = at->next;
	return at && !at->destroyed;
}

cuda_result fake_stream_here(cuda_stream stream, cuda_stream *out)
{
	cuda_result rc;
	cuda_ctx ctx;

	rc = fake_ctx_here(&ctx);
	if (rc)
		return rc;
	if (!stream) {
		if (!ctx->null_stream)
			ctx->null_stream = stream_make(ctx);
		*out = ctx->null_stream;
		return ctx->null_stream ? CUDA_OK : CUDA_ERR_OUT_OF_MEMORY;
	}
	if (!stream_known(stream))
		return CUDA_ERR_INVALID_HANDLE;
	*out = stream;
	return fake_ctx_state(stream->ctx);
}

/* Until all that was pushed up to number ended; its context's fault. */
static cuda_result stream_wait(cuda_stream stream, uint64_t number)
{
	cuda_ctx ctx = stream->ctx;

	while (stream->finished < number && !fake_ctx_state(ctx))
		pthread_cond_wait(&fake.changed, &fake.lock);
	return fake_ctx_state(ctx);
}

cuda_result fake_stream_push(cuda_stream stream, struct fake_work *work, int wait)
{
	if (stream_start(stream)) {
		if (work->end)
			work->end(work);
		free(work);
		return CUDA_ERR_OUT_OF_MEMORY;
	}
	work->number = ++works_pushed;
	*stream->last = work;
	stream->last = &work->next;
	stream->pushed++;
	fake.pending++;
	pthread_cond_signal(&stream->wake);
	return wait ? stream_wait(stream, stream->pushed) : CUDA_OK;
}

cuda_result fake_stream_create(cuda_stream *out, unsigned flags, int priority)
{
	cuda_stream stream = NULL;
	cuda_result rc;
	cuda_ctx ctx;

	(void)priority;
	FAKE_ENTER(stream_create);
	if (flags > CUDA_STREAM_NON_BLOCKING)
		return CUDA_ERR_INVALID_VALUE;
	pthread_mutex_lock(&fake.lock);
	rc = fake_ctx_here(&ctx);
	if (!rc)
		stream = stream_make(ctx);
	if (!rc && !stream)
		rc = CUDA_ERR_OUT_OF_MEMORY;
	if (!rc) {
		fake.live.streams++;
		*out = stream;
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

/* Its work goes on; the thread ends behind it. */
cuda_result fake_stream_destroy(cuda_stream stream)
{
	cuda_result late, rc = CUDA_OK;

	FAKE_ENTER_LATE(stream_destroy, &late);
	pthread_mutex_lock(&fake.lock);
	if (!stream || !stream_known(stream)) {
		rc = CUDA_ERR_INVALID_HANDLE;
	} else {
		fake_gone(&fake.live.streams);
		stream->destroyed = 1;
		pthread_cond_signal(&stream->wake);
		if (!stream->started)
			stream_free(stream);
	}
	pthread_mutex_unlock(&fake.lock);
	return rc ? rc : late;
}

cuda_result fake_stream_query(cuda_stream stream)
{
	cuda_result rc;

	FAKE_ENTER_UNSAFE(stream_query);
	pthread_mutex_lock(&fake.lock);
	rc = fake_stream_here(stream, &stream);
	if (!rc && stream->first)
		rc = CUDA_ERR_NOT_READY;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_stream_synchronize(cuda_stream stream)
{
	cuda_result rc;

	FAKE_ENTER_UNSAFE(stream_synchronize);
	pthread_mutex_lock(&fake.lock);
	rc = fake_stream_here(stream, &stream);
	if (!rc)
		rc = stream_wait(stream, stream->pushed);
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_ctx_synchronize(void)
{
	uint64_t until;
	cuda_result rc;
	cuda_ctx ctx;

	FAKE_ENTER_UNSAFE(ctx_synchronize);
	pthread_mutex_lock(&fake.lock);
	until = works_pushed; /* what comes later is not waited for */
	rc = fake_ctx_here(&ctx);
	while (!rc) {
		cuda_stream at = streams;

		while (at && (at->ctx != ctx || !at->first || at->first->number > until))
			at = at->next;
		if (!at)
			break;
		pthread_cond_wait(&fake.changed, &fake.lock);
		rc = fake_ctx_state(ctx);
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

void fake_device_wait(int device)
{
	uint64_t until = works_pushed;
	cuda_stream at;

	for (;;) {
		for (at = streams; at; at = at->next)
			if (at->ctx->device == device && at->first && at->first->number <= until)
				break;
		if (!at)
			return;
		pthread_cond_wait(&fake.changed, &fake.lock);
	}
}

void fakecuda_hold_device(unsigned ordinal, int on)
{
	fake_once();
	if (ordinal >= (unsigned)fake.devices)
		return;
	pthread_mutex_lock(&fake.lock);
	fake.device[ordinal].held = on;
	fake_streams_wake();
	while (on && fake.device[ordinal].running)
		pthread_cond_wait(&fake.changed, &fake.lock);
	pthread_mutex_unlock(&fake.lock);
}

void fakecuda_hold(int on)
{
	fake_once();
	for (int i = 0; i < fake.devices; i++)
		fakecuda_hold_device((unsigned)i, on);
}

unsigned fakecuda_queued(void)
{
	unsigned pending;

	pthread_mutex_lock(&fake.lock);
	pending = fake.pending;
	pthread_mutex_unlock(&fake.lock);
	return pending;
}

void fakecuda_fault(int result)
{
	if (!running)
		return;
	pthread_mutex_lock(&fake.lock);
	running->ctx->sticky = result;
	fake_streams_wake();
	pthread_cond_broadcast(&fake.changed);
	pthread_mutex_unlock(&fake.lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Events: how often one was recorded, and how many of the records were reached. */
#include "fake.h"

#include <stdlib.h>

struct cuda_event_st {
	struct cuda_event_st *next;
	cuda_ctx ctx;
	uint64_t recorded, done;
	unsigned refs; /* by queued work, and 1 until it is destroyed */
	int destroyed;
};

static struct cuda_event_st *events;

static int event_known(const struct cuda_event_st *event)
{
	cuda_event at = events;

	while (at && at != event)
		at = at->next;
	return at && !at->destroyed;
}

static void event_unref(cuda_event event)
{
	cuda_event *at = &events;

	if (--event->refs)
		return;
	while (*at != event)
		at = &(*at)->next;
	*at = event->next;
	free(event);
}

void fake_event_done(cuda_event event, uint64_t count)
{
	if (count > event->done)
		event->done = count;
	event_unref(event);
}

int fake_event_reached(const struct cuda_event_st *event, uint64_t count)
{
	return event->done >= count;
}

cuda_result fake_event_create(cuda_event *out, unsigned flags)
{
	cuda_event event;
	cuda_result rc;
	cuda_ctx ctx;

	FAKE_ENTER(event_create);
	if (flags > 7)
		return CUDA_ERR_INVALID_VALUE;
	event = calloc(1, sizeof(*event));
	if (!event)
		return CUDA_ERR_OUT_OF_MEMORY;
	pthread_mutex_lock(&fake.lock);
	rc = fake_ctx_here(&ctx);
	if (!rc) {
		event->ctx = ctx;
		event->refs = 1;
		event->next = events;
		events = event;
		fake.live.events++;
		*out = event;
	}
	pthread_mutex_unlock(&fake.lock);
	if (rc)
		free(event);
	return rc;
}

cuda_result fake_event_destroy(cuda_event event)
{
	cuda_result late, rc = CUDA_OK;

	FAKE_ENTER_LATE(event_destroy, &late);
	pthread_mutex_lock(&fake.lock);
	if (!event_known(event)) {
		rc = CUDA_ERR_INVALID_HANDLE;
	} else {
		event->destroyed = 1;
		fake_gone(&fake.live.events);
		event_unref(event);
	}
	pthread_mutex_unlock(&fake.lock);
	return rc ? rc : late;
}

/* Under the lock: work that records the event, or waits for it. */
static cuda_result event_push(cuda_event event, cuda_stream stream, int record)
{
	struct fake_work *work;
	cuda_result rc = fake_stream_here(stream, &stream);

	if (!rc && !event_known(event))
		rc = CUDA_ERR_INVALID_HANDLE;
	if (!rc && record && event->ctx != fake_stream_ctx(stream))
		rc = CUDA_ERR_INVALID_HANDLE;
	if (rc)
		return rc;
	work = fake_work_new(stream);
	if (!work)
		return CUDA_ERR_OUT_OF_MEMORY;
	event->refs++;
	if (record)
		work->record = event;
	else
		work->wait = event;
	work->count = record ? ++event->recorded : event->recorded;
	return fake_stream_push(stream, work, 0);
}

cuda_result fake_event_record(cuda_event event, cuda_stream stream)
{
	cuda_result rc;

	FAKE_ENTER(event_record);
	pthread_mutex_lock(&fake.lock);
	rc = event_push(event, stream, 1);
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_stream_wait_event(cuda_stream stream, cuda_event event, unsigned flags)
{
	cuda_result rc;

	FAKE_ENTER(stream_wait_event);
	if (flags > 1)
		return CUDA_ERR_INVALID_VALUE;
	pthread_mutex_lock(&fake.lock);
	rc = event_push(event, stream, 0);
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_event_query(cuda_event event)
{
	cuda_result rc;

	FAKE_ENTER_UNSAFE(event_query);
	pthread_mutex_lock(&fake.lock);
	if (!event_known(event))
		rc = CUDA_ERR_INVALID_HANDLE;
	else
		rc = fake_ctx_state(event->ctx);
	if (!rc && event->done < event->recorded)
		rc = CUDA_ERR_NOT_READY;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Queue and thread of one client of serve. */
#include "perf_service.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "perf_service_priv.h"

/* Copies the next message out; returns 0 if the service must stop. */
static int perf_service_take(struct perf_service *s, uint8_t *out, size_t *out_len)
{
	int got = 0;

	pthread_mutex_lock(&s->lock);
	while (!s->count && !s->stop)
		pthread_cond_wait(&s->wake, &s->lock);
	if (!s->stop) {
		*out_len = s->queue[s->head].len;
		memcpy(out, s->queue[s->head].data, *out_len);
		s->head = (s->head + 1) % SERVICE_QUEUE;
		s->count--;
		got = 1;
	}
	pthread_mutex_unlock(&s->lock);
	return got;
}

static int perf_service_stopped(struct perf_service *s)
{
	int stop;

	pthread_mutex_lock(&s->lock);
	stop = s->stop;
	pthread_mutex_unlock(&s->lock);
	return stop;
}

static tcpx_status leave_service(const void *arg)
{
	if (perf_service_stopped((struct perf_service *)arg))
		return error_set(TCPX_ERR_CANCELLED, 0, "serve ends, or the client is gone");
	return TCPX_OK;
}

static void answer(struct perf_service *s, const struct perf_message *reply)
{
	uint8_t buf[PERF_MESSAGE_MAX];
	size_t len = perf_message_encode(reply, buf);

	while (tcpx_notify_send(s->house->session, s->peer, buf, len) == TCPX_ERR_AGAIN &&
	       !perf_service_stopped(s))
		nanosleep(&(struct timespec){.tv_nsec = CLOCK_MS_NS}, NULL);
}

static void *service_main(void *arg)
{
	struct perf_service *s = arg;
	uint8_t data[PERF_MESSAGE_MAX];
	struct perf_message request, reply;
	size_t len;

	while (perf_service_take(s, data, &len)) {
		int rc = perf_message_decode(data, len, &request);

		if (rc == -1 || request.is_reply)
			continue; /* an unknown type gets no answer */
		perf_message_init(&reply, request.type, request.id);
		reply.is_reply = 1;
		if (rc) {
			reply.status = PERF_REFUSED;
			perf_message_blob(&reply, "another perf protocol", 21);
		} else {
			perf_service_handle(s, &request, &reply);
		}
		answer(s, &reply);
	}
	perf_service_release(s);
	s->ended = 1;
	return NULL;
}

tcpx_status perf_service_start(struct perf_house *house, tcpx_peer peer,
			       struct perf_service **out_service)
{
	struct perf_service *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "a client's state");
	s->house = house;
	s->peer = peer;
	s->side.session = house->session;
	s->side.peer = peer;
	s->side.end = PERF_SERVER;
	s->side.leave = (struct perf_leave){leave_service, s};
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
	pthread_mutex_init(&s->pong_lock, NULL);
	err = pthread_create(&s->thread, NULL, service_main, s);
	if (err) {
		free(s);
		return error_set(TCPX_ERR_LIMIT, err, "a client's thread");
	}
	*out_service = s;
	return TCPX_OK;
}

/* Handled here and not by the thread, because the sender may leave before the thread gets to it. */
static void hear_goodbye(struct perf_service *s, const void *data, size_t len)
{
	struct perf_message m;
	struct perf_bye bye;

	if (!s->hello || perf_message_decode(data, len, &m) || m.is_reply || m.type != PERF_BYE)
		return;
	s->back = !perf_message_get(&m, &bye, sizeof(bye)) && bye.back;
	text_format(s->failed, sizeof(s->failed), "%s", (const char *)m.blob);
	for (char *at = s->failed; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?'; /* a terminal would interpret control characters */
	s->bye = 1;
}

int perf_service_give(struct perf_service *s, const void *data, size_t len)
{
	int rc = -1;

	if (len > PERF_MESSAGE_MAX)
		return -1;
	hear_goodbye(s, data, len);
	pthread_mutex_lock(&s->lock);
	if (s->count < SERVICE_QUEUE) {
		unsigned at = (s->head + s->count) % SERVICE_QUEUE;

		memcpy(s->queue[at].data, data, len);
		s->queue[at].len = len;
		s->count++;
		pthread_cond_signal(&s->wake);
		rc = 0;
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

void perf_service_pong_arm(struct perf_service *s, uint32_t used)
{
	pthread_mutex_lock(&s->pong_lock);
	s->pongs_posted = 0;
	s->pongs = used;
	pthread_mutex_unlock(&s->pong_lock);
}

uint32_t perf_service_pong_end(struct perf_service *s)
{
	uint32_t posted;

	pthread_mutex_lock(&s->pong_lock);
	posted = s->pongs_posted;
	s->pongs = s->pongs_posted = 0;
	pthread_mutex_unlock(&s->pong_lock);
	return posted;
}

int perf_service_pong(struct perf_service *s)
{
	int rc = -1;

	pthread_mutex_lock(&s->pong_lock);
	if (s->pongs_posted < s->pongs &&
	    tcpx_request_post(s->house->session, s->side.out.requests[s->pongs_posted]) ==
		    TCPX_OK) {
		s->pongs_posted++;
		rc = 0;
	}
	pthread_mutex_unlock(&s->pong_lock);
	return rc;
}

void perf_service_stop(struct perf_service *s)
{
	pthread_mutex_lock(&s->lock);
	s->stop = 1;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

int perf_service_ended(const struct perf_service *s)
{
	return s->ended;
}

void perf_service_join(struct perf_service *s)
{
	pthread_join(s->thread, NULL);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->pong_lock);
	free(s);
}

int perf_service_did_work(const struct perf_service *s)
{
	return s->worked;
}

const char *perf_service_failure(const struct perf_service *s)
{
	return s->bye ? s->failed : "";
}

int perf_service_said_hello(const struct perf_service *s)
{
	return s->hello;
}

int perf_service_said_bye(const struct perf_service *s)
{
	return s->bye;
}

int perf_service_comes_back(const struct perf_service *s)
{
	return s->back;
}

tcpx_peer perf_service_peer(const struct perf_service *s)
{
	return s->peer;
}

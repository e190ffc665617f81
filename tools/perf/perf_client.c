/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of the control protocol. */
#include "perf_client.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli_output.h"
#include "perf_quiet.h"

#define SLICE_NS (50 * CLOCK_MS_NS)
#define ANSWER_NS (120 * CLOCK_S_NS) /* filling and comparing many GiB may take this long */
#define CONNECT_NS (10 * CLOCK_S_NS)

int64_t perf_time_left(const struct perf_client *client, int64_t limit_ns)
{
	int64_t left = client->deadline_ns - clock_now_ns();

	if (!client->deadline_ns || left > limit_ns)
		return limit_ns;
	return left > 0 ? left : 1;
}

tcpx_status perf_go_on(const struct perf_client *client)
{
	if (cli_interrupted)
		return error_set(TCPX_ERR_CANCELLED, 0, "interrupted");
	if (client->deadline_ns && clock_now_ns() > client->deadline_ns)
		return error_set(TCPX_ERR_TIMED_OUT, 0, "the time of --timeout is over");
	return TCPX_OK;
}

tcpx_status perf_leave_client(const void *arg)
{
	return perf_go_on(arg);
}

tcpx_status perf_send(struct perf_client *client, struct perf_message *m)
{
	int64_t limit = clock_now_ns() + perf_time_left(client, ANSWER_NS);
	uint8_t buf[PERF_MESSAGE_MAX];
	size_t len;
	tcpx_status status;

	m->id = ++client->last_id;
	len = perf_message_encode(m, buf);
	for (;;) {
		status = tcpx_notify_send(client->session, client->peer, buf, len);
		if (status != TCPX_ERR_AGAIN)
			return status;
		if (cli_interrupted)
			return error_set(TCPX_ERR_CANCELLED, 0, "interrupted");
		if (clock_now_ns() > limit)
			return error_set(TCPX_ERR_TIMED_OUT, 0, "the other end takes no messages");
		nanosleep(&(struct timespec){.tv_nsec = CLOCK_MS_NS}, NULL);
	}
}

tcpx_status perf_peer_lost(struct perf_client *client)
{
	tcpx_peer_info info = {.sz = sizeof(info)};
	tcpx_error error = {.sz = sizeof(error)};
	tcpx_status status = tcpx_peer_query(client->session, client->peer, &info);

	if (status != TCPX_OK)
		return status;
	if (info.state != TCPX_PEER_DEAD)
		return TCPX_OK;
	if (tcpx_peer_error(client->session, client->peer, &error) == TCPX_OK && error.status < 0)
		return error_raise(&error);
	return error_set(TCPX_ERR_PEER_CLOSED, 0, "the other end is gone");
}

static tcpx_status perf_client_judge(const struct perf_message *reply)
{
	const char *text = (const char *)reply->blob;

	if (reply->status == PERF_DONE)
		return TCPX_OK;
	error_set(reply->status == PERF_REFUSED ? TCPX_ERR_INVALID : TCPX_ERR_REMOTE, 0,
		  "the other end %s: %.120s", reply->status == PERF_REFUSED ? "refused" : "failed",
		  text);
	return error_next("%s", reply->status == PERF_REFUSED ? "change the option it names"
							      : "look at what serve printed");
}

tcpx_status perf_answer(struct perf_client *client, struct perf_message *reply)
{
	int64_t limit = clock_now_ns() + perf_time_left(client, ANSWER_NS);

	for (;;) {
		tcpx_notification note = {.sz = sizeof(note)};
		tcpx_status status = tcpx_notify_take(client->session, SLICE_NS, &note);

		if (status == TCPX_OK) {
			int rc = perf_message_decode(note.data, note.bytes, reply);

			tcpx_notification_release(client->session, &note);
			if (rc == -2)
				return error_set(TCPX_ERR_VERSION, 0,
						 "the other end speaks another perf protocol");
			if (rc)
				return error_set(TCPX_ERR_PROTOCOL, 0,
						 "the other end sent a malformed answer");
			if (reply->is_reply && reply->id == client->last_id)
				return perf_client_judge(reply);
			continue; /* the answer to a request that was given up */
		}
		if (status < 0)
			return status;
		status = perf_peer_lost(client);
		if (status != TCPX_OK)
			return status;
		if (cli_interrupted)
			return error_set(TCPX_ERR_CANCELLED, 0, "interrupted");
		if (clock_now_ns() > limit)
			return error_set(TCPX_ERR_TIMED_OUT, 0, "the other end did not answer");
	}
}

tcpx_status perf_ask(struct perf_client *client, uint8_t type, const void *body, size_t size,
		     void *out_body, size_t out_size)
{
	struct perf_message m;
	tcpx_status status;

	perf_message_init(&m, type, 0);
	perf_message_put(&m, body, size);
	status = perf_send(client, &m);
	if (status == TCPX_OK)
		status = perf_answer(client, &m);
	if (status == TCPX_OK && out_body && perf_message_get(&m, out_body, out_size))
		return error_set(TCPX_ERR_PROTOCOL, 0, "the other end sent a malformed answer");
	return status;
}

/* Takes one line from *text and moves *text past it. */
static void perf_client_take_line(const char **text, char *out, size_t cap)
{
	size_t len = strcspn(*text, "\n");

	snprintf(out, cap, "%.*s", (int)len, *text);
	*text += len + ((*text)[len] == '\n');
}

static tcpx_status hello(struct perf_client *client)
{
	struct perf_message m;
	const char *text = (const char *)m.blob;
	tcpx_status status;

	perf_message_init(&m, PERF_HELLO, 0);
	status = perf_send(client, &m);
	if (status == TCPX_OK)
		status = perf_answer(client, &m);
	if (status != TCPX_OK)
		return status;
	if (perf_message_get(&m, &client->welcome, sizeof(client->welcome)))
		return error_set(TCPX_ERR_PROTOCOL, 0, "the other end is not a 'tcpx serve'");
	perf_client_take_line(&text, client->version, sizeof(client->version));
	perf_client_take_line(&text, client->host, sizeof(client->host));
	snprintf(client->addresses, sizeof(client->addresses), "%s", text);
	return TCPX_OK;
}

tcpx_status perf_client_open(struct perf_client *client, const tcpx_session_opts *opts,
			     const char *address, const char *key, int64_t deadline_ns)
{
	TCPX_OPTS(tcpx_connect_opts, connect, .timeout_ns = CONNECT_NS, .expect_key = key);
	tcpx_error error = {.sz = sizeof(error)};
	tcpx_status status;

	*client = (struct perf_client){.deadline_ns = deadline_ns};
	connect.timeout_ns = perf_time_left(client, CONNECT_NS);
	status = tcpx_session_open(opts, &client->session); /* warns about options */
	if (status != TCPX_OK)
		return status;
	perf_quiet_connecting(opts->plugin != NULL);
	status = tcpx_session_connect_to(client->session, address, &connect, &client->peer);
	if (status == TCPX_OK) {
		client->connected = 1;
		status = hello(client);
	}
	if (status != TCPX_OK) {
		error = *tcpx_last_error();
		perf_client_close(client, 0);
		if (error.status == status) /* closing must not overwrite the last error */
			error_raise(&error);
		perf_quiet_end(&error);
	} else {
		perf_quiet_running();
	}
	return status;
}

void perf_client_close(struct perf_client *client, int back)
{
	struct perf_bye bye = {.back = (uint64_t)back};
	struct perf_message m;

	if (client->connected && perf_go_on(client) == TCPX_OK &&
	    perf_peer_lost(client) == TCPX_OK) {
		/* waiting for the answer keeps the close from overtaking the goodbye */
		client->deadline_ns = clock_now_ns() + CLOCK_S_NS;
		perf_message_init(&m, PERF_BYE, 0);
		perf_message_put(&m, &bye, sizeof(bye));
		perf_message_blob(&m, client->failed, strlen(client->failed));
		if (perf_send(client, &m) != TCPX_OK || perf_answer(client, &m) != TCPX_OK)
			LOG_DEBUG("the other end did not answer the goodbye");
	}
	tcpx_session_close(client->session);
	*client = (struct perf_client){0};
}

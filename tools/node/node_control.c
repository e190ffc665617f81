/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges between rank 0 and the others; messages are notifications of a session. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "cli_output.h"
#include "node_control_priv.h"

#define MAGIC 0x3265646f /* "ode2" */
/* how often Ctrl-C and deadlines are checked while nothing arrives */
#define LOOK_NS (200 * CLOCK_MS_NS)
/* other ranks wait this much longer, so that rank 0's verdict comes first */
#define GRACE_NS (5 * CLOCK_S_NS)
/* time for the failure text of a lost rank to arrive by way of rank 0 */
#define VERDICT_NS (2 * CLOCK_S_NS)
/* time to tell ranks that have not connected yet of a failure */
#define LATE_NS (6 * CLOCK_S_NS)

/* MISFIT: a FAIL because ranks were started with different sizes or ranks. */
enum type { TYPE_AT = 1, TYPE_ALL, TYPE_FAIL, TYPE_MISFIT };

struct head {
	uint32_t magic, type, rank, seq;
	uint64_t bytes;
	char stage[STAGE_MAX], host[HOST_MAX];
	uint32_t size; /* number of ranks that the sender was started with */
	char size_by[SIZE_BY_MAX];
};

static tcpx_status say_why(struct node_control *c)
{
	(void)error_set(c->why, 0, "%s", c->failed);
	if (c->disagree)
		return error_next("start all ranks with the same size, each with a rank of its own "
				  "below it");
	return c->why;
}

static void node_control_failed(struct node_control *c, tcpx_status why, const char *text)
{
	if (*c->failed)
		return;
	c->why = why;
	text_format(c->failed, sizeof(c->failed), "%s", text);
}

static tcpx_status send_to(struct node_control *c, tcpx_peer peer, enum type type, const void *data,
			   size_t bytes)
{
	struct head head = {.magic = MAGIC,
			    .type = type,
			    .rank = c->opts.rank,
			    .size = c->opts.size,
			    .seq = c->seq,
			    .bytes = bytes};
	uint8_t *message = malloc(sizeof(head) + bytes);
	tcpx_status status;

	if (!message)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "a message to other ranks");
	snprintf(head.stage, sizeof(head.stage), "%s", c->stage);
	snprintf(head.host, sizeof(head.host), "%s", c->host);
	snprintf(head.size_by, sizeof(head.size_by), "%s", c->opts.size_by ? c->opts.size_by : "");
	memcpy(message, &head, sizeof(head));
	if (bytes)
		memcpy(message + sizeof(head), data, bytes);
	status = tcpx_notify_send(c->session, peer, message, sizeof(head) + bytes);
	free(message);
	return status;
}

/* Rank 0: sends to all ranks that have connected. */
static void tell_all(struct node_control *c, enum type type, const void *data, size_t bytes)
{
	for (uint32_t i = 1; i < c->opts.size; i++)
		if (c->others[i].known)
			(void)send_to(c, c->others[i].peer, type, data, bytes);
}

/* Rank 0: tells the failure to all. */
static void spread(struct node_control *c)
{
	tell_all(c, c->disagree ? TYPE_MISFIT : TYPE_FAIL, c->failed, strlen(c->failed));
}

/* "has TCPX_SIZE=3" */
static const char *told(char *buf, size_t cap, const char *size_by, uint32_t size)
{
	if (*size_by)
		snprintf(buf, cap, "has %s=%u", size_by, size);
	else
		snprintf(buf, cap, "expects %u ranks", size);
	return buf;
}

/* Rank 0: counts a process once, although it repeats its message until it hears of the failure. */
static void count_told(struct node_control *c, tcpx_peer peer)
{
	for (uint32_t i = 0; i < c->told && i < NODE_CONTROL_NAMED; i++)
		if (c->told_peers[i].id == peer.id)
			return;
	if (c->told < NODE_CONTROL_NAMED)
		c->told_peers[c->told] = peer;
	c->told++;
}

/* Rank 0: whether the sender cannot be a rank of this run; if so, the run fails and the sender
 * is told as well. */
static bool misfits(struct node_control *c, tcpx_peer peer, const struct head *head)
{
	const struct other *other = head->rank < c->opts.size ? &c->others[head->rank] : NULL;
	char text[TEXT_MAX], theirs[48], ours[48];

	if (head->size != c->opts.size)
		snprintf(text, sizeof(text), "rank %u (%s) %s, rank 0 (%s) %s", head->rank,
			 head->host, told(theirs, sizeof(theirs), head->size_by, head->size),
			 c->host,
			 told(ours, sizeof(ours), c->opts.size_by ? c->opts.size_by : "",
			      c->opts.size));
	else if (!other)
		snprintf(text, sizeof(text), "a process (%s) says that it is rank %u of %u",
			 head->host, head->rank, c->opts.size);
	else if (other->known && other->peer.id != peer.id)
		snprintf(text, sizeof(text), "two processes say that they are rank %u: %s and %s",
			 head->rank, other->host, head->host);
	else
		return false;
	if (head->size > c->expected)
		c->expected = head->size;
	c->disagree |= !*c->failed;
	node_control_failed(c, TCPX_ERR_INVALID, text);
	count_told(c, peer);
	spread(c);
	(void)send_to(c, peer, TYPE_MISFIT, c->failed, strlen(c->failed));
	return true;
}

static void take_at(struct node_control *c, tcpx_peer peer, const struct head *head,
		    const uint8_t *data)
{
	struct other *other;

	if (c->opts.rank || !head->rank || misfits(c, peer, head))
		return;
	other = &c->others[head->rank];
	if (c->disagree)
		(void)send_to(c, peer, TYPE_MISFIT, c->failed, strlen(c->failed));
	other->known = true;
	other->peer = peer;
	snprintf(other->host, sizeof(other->host), "%.*s", HOST_MAX - 1, head->host);
	if (head->seq != c->seq || other->data)
		return;
	other->data = malloc(head->bytes + 1);
	if (!other->data)
		return;
	memcpy(other->data, data, head->bytes);
	other->bytes = head->bytes;
}

static void take_fail(struct node_control *c, tcpx_peer peer, const struct head *head,
		      const uint8_t *data)
{
	char text[TEXT_MAX];

	if (c->opts.rank) { /* rank 0 has put the name of the failed rank into the text */
		snprintf(text, sizeof(text), "%.*s", (int)head->bytes, (const char *)data);
		c->disagree = head->type == TYPE_MISFIT;
		node_control_failed(c, TCPX_ERR_REMOTE, text);
		return;
	}
	if (head->rank && head->rank < c->opts.size) {
		c->others[head->rank].known = true;
		c->others[head->rank].peer = peer;
	}
	snprintf(text, sizeof(text), "rank %u (%.*s), stage '%.*s': %.*s", head->rank, HOST_MAX - 1,
		 head->host, STAGE_MAX - 1, head->stage, (int)head->bytes, (const char *)data);
	node_control_failed(c, TCPX_ERR_REMOTE, text);
	spread(c);
}

static void node_control_take(struct node_control *c, const tcpx_notification *n)
{
	struct head head;
	const uint8_t *data = n->data;

	if (n->bytes < sizeof(head))
		return;
	memcpy(&head, data, sizeof(head));
	data += sizeof(head);
	head.stage[STAGE_MAX - 1] = head.host[HOST_MAX - 1] = head.size_by[SIZE_BY_MAX - 1] = '\0';
	if (head.magic != MAGIC || head.bytes != n->bytes - sizeof(head))
		return;
	if (head.type == TYPE_AT) {
		take_at(c, n->peer, &head, data);
	} else if (head.type == TYPE_FAIL || (head.type == TYPE_MISFIT && c->opts.rank)) {
		take_fail(c, n->peer, &head, data);
	} else if (head.type == TYPE_ALL && c->opts.rank && head.seq == c->seq && !hub(c)->data) {
		hub(c)->data = malloc(head.bytes + 1);
		hub(c)->bytes = head.bytes;
		if (hub(c)->data)
			memcpy(hub(c)->data, data, head.bytes);
	}
}

/* Notes that a rank has left. That is a failure only if its contribution is still missing, which
 * look_for_gone() decides. */
static void note_gone(struct node_control *c, tcpx_peer peer)
{
	tcpx_error error = {.sz = sizeof(error)};

	if (tcpx_peer_error(c->session, peer, &error) != TCPX_OK)
		text_format(error.what, sizeof(error.what), "its process ended");
	for (uint32_t i = 0; i < (c->opts.rank ? 1 : c->opts.size); i++)
		if (c->others[i].known && c->others[i].peer.id == peer.id)
			snprintf(c->others[i].gone, sizeof(c->others[i].gone), "%s", error.what);
}

static void look_for_gone(struct node_control *c)
{
	char text[TEXT_MAX];

	for (uint32_t i = 0; i < (c->opts.rank ? 1 : c->opts.size) && !*c->failed; i++) {
		const struct other *other = &c->others[i];

		if (!*other->gone || other->data)
			continue;
		snprintf(text, sizeof(text), "rank %u (%s) is gone, stage '%s': %s", i,
			 *other->host ? other->host : "the first", c->stage, other->gone);
		node_control_failed(c, TCPX_ERR_PEER_CLOSED, text);
		if (!c->opts.rank)
			spread(c);
	}
}

static void take_all(struct node_control *c)
{
	tcpx_notification n = {.sz = sizeof(n)};

	while (tcpx_notify_take(c->session, 0, &n) == TCPX_OK) {
		node_control_take(c, &n);
		tcpx_notification_release(c->session, &n);
	}
}

/* Takes everything that has arrived. */
static void node_control_drain(struct node_control *c)
{
	tcpx_event event = {.sz = sizeof(event)};

	take_all(c);
	while (tcpx_session_event(c->session, &event) == TCPX_OK) {
		if (event.type != TCPX_EVENT_PEER_DOWN)
			continue;
		take_all(c); /* messages that arrived before the peer left */
		note_gone(c, event.peer);
	}
}

static void wait_a_moment(struct node_control *c)
{
	struct pollfd pfd = {.fd = tcpx_session_fd(c->session), .events = POLLIN};

	(void)poll(&pfd, 1, (int)(LOOK_NS / CLOCK_MS_NS));
	node_control_drain(c);
	if (cli_interrupted)
		node_control_fail(c, "interrupted");
}

static uint32_t missing(const struct node_control *c, uint32_t *out_ranks, uint32_t max)
{
	uint32_t count = 0;

	for (uint32_t i = 1; i < c->opts.size; i++) {
		if (c->others[i].data)
			continue;
		if (count < max)
			out_ranks[count] = i;
		count++;
	}
	return count;
}

/* Rank 0: whether the rendezvous now names another process. */
static bool ousted(struct node_control *c)
{
	uint8_t own[TCPX_INFO_MAX_BYTES], there[TCPX_INFO_MAX_BYTES];
	size_t own_bytes, bytes;

	return c->opts.find &&
	       c->opts.find(c->opts.find_arg, there, sizeof(there), &bytes) == TCPX_OK &&
	       tcpx_session_info(c->session, own, sizeof(own), &own_bytes) == TCPX_OK &&
	       (bytes != own_bytes || memcmp(there, own, bytes) != 0);
}

static void time_is_over(struct node_control *c)
{
	char text[TEXT_MAX], who[160] = "";
	uint32_t ranks[8], count = missing(c, ranks, 8), len = 0;

	for (uint32_t i = 0; i < count && i < 8 && len < sizeof(who); i++)
		len += (uint32_t)snprintf(who + len, sizeof(who) - len, "%s%u%s%s%s", i ? ", " : "",
					  ranks[i], c->others[ranks[i]].known ? " (" : "",
					  c->others[ranks[i]].known ? c->others[ranks[i]].host : "",
					  c->others[ranks[i]].known ? ")" : " (never heard of)");
	snprintf(text, sizeof(text), "rank%s %s%s did not come to stage '%s' within %lld s",
		 count > 1 ? "s" : "", who, count > 8 ? " and others" : "", c->stage,
		 (long long)(c->opts.timeout_ns / CLOCK_S_NS));
	if (ousted(c))
		snprintf(text, sizeof(text),
			 "another process that says that it is rank 0 took "
			 "the rendezvous: two ranks are 0, or two runs meet");
	node_control_failed(c, TCPX_ERR_TIMED_OUT, text);
	spread(c);
}

/* Rank 0, after ranks disagreed: stays until late ranks have connected and heard of it.
 * Otherwise they would wait until their deadline for a rank that has left. */
static void tell_late(struct node_control *c)
{
	uint32_t all = c->expected > c->opts.size ? c->expected : c->opts.size;
	int64_t end = clock_now_ns() + LATE_NS;

	for (;;) {
		uint32_t came = c->told;

		for (uint32_t i = 1; i < c->opts.size; i++)
			came += c->others[i].known;
		if (came + 1 >= all || clock_now_ns() >= end || cli_interrupted)
			return;
		wait_a_moment(c);
	}
}

/* Rank 0: waits until all ranks have contributed. */
static void control_await_all(struct node_control *c)
{
	int64_t end = clock_now_ns() + c->opts.timeout_ns;
	struct node_pace pace = node_pace_start(clock_now_ns(), NODE_PACE_NS);
	uint32_t ranks[NODE_CONTROL_NAMED], count;

	while (!*c->failed && (count = missing(c, ranks, NODE_CONTROL_NAMED)) > 0) {
		int64_t now = clock_now_ns();

		if (now >= end) {
			time_is_over(c);
			return;
		}
		if (c->opts.waits && node_pace_due(&pace, now))
			c->opts.waits(c->opts.arg, c->stage, ranks, count, end - now);
		wait_a_moment(c);
		look_for_gone(c);
	}
	if (c->disagree)
		tell_late(c);
}

/* The other ranks: wait for the answer of rank 0. */
static void await_hub(struct node_control *c)
{
	int64_t end = clock_now_ns() + c->opts.timeout_ns + GRACE_NS;
	char text[TEXT_MAX];

	while (!*c->failed && !hub(c)->data) {
		if (clock_now_ns() >= end) {
			snprintf(text, sizeof(text), "rank 0 did not answer in stage '%s'",
				 c->stage);
			node_control_failed(c, TCPX_ERR_TIMED_OUT, text);
			return;
		}
		wait_a_moment(c);
		look_for_gone(c);
	}
}

/* Rank 0 has left. It may have sent the reason, which has not been read yet. */
static tcpx_status heard_before(struct node_control *c, tcpx_status status)
{
	tcpx_error error = *tcpx_last_error();

	node_control_drain(c);
	return error.status == status ? error_raise(&error) : status;
}

/* Packs the contributions of all ranks for rank 0, and answers the others: with all of them if
 * all is set, else with nothing. */
static tcpx_status pack(struct node_control *c, const void *own, size_t own_bytes, bool all)
{
	struct node_blob *blobs = calloc(c->opts.size, sizeof(*blobs));
	size_t bytes = 0;

	if (!blobs)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "what all ranks said");
	blobs[0] = (struct node_blob){own, own_bytes};
	for (uint32_t i = 1; i < c->opts.size; i++)
		blobs[i] = (struct node_blob){c->others[i].data, c->others[i].bytes};
	c->all = node_blobs_pack(blobs, c->opts.size, &bytes);
	free(blobs);
	if (!c->all)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "what all ranks said");
	tell_all(c, TYPE_ALL, c->all, all ? bytes : 0);
	c->all_bytes = bytes;
	return TCPX_OK;
}

static tcpx_status exchange(struct node_control *c, const char *stage, const void *data,
			    size_t bytes, bool all)
{
	tcpx_status status = TCPX_OK;

	free(c->all);
	c->all = NULL;
	snprintf(c->stage, sizeof(c->stage), "%s", stage);
	if (!c->opts.rank) {
		control_await_all(c);
		if (!*c->failed)
			status = pack(c, data, bytes, all);
	} else {
		status = send_to(c, hub(c)->peer, TYPE_AT, data, bytes);
		if (status == TCPX_OK)
			await_hub(c);
		else
			status = heard_before(c, status);
		c->all = hub(c)->data;
		c->all_bytes = hub(c)->bytes;
		hub(c)->data = NULL;
	}
	for (uint32_t i = 1; !c->opts.rank && i < c->opts.size; i++) {
		free(c->others[i].data);
		c->others[i].data = NULL;
	}
	c->seq++;
	return *c->failed ? say_why(c) : status;
}

tcpx_status node_control_gather(struct node_control *c, const char *stage, const void *data,
				size_t bytes, struct node_blob *out_blobs)
{
	tcpx_status status = exchange(c, stage, data, bytes, true);

	return status == TCPX_OK ? node_blobs_unpack(c->all, c->all_bytes, c->opts.size, out_blobs)
				 : status;
}

tcpx_status node_control_collect(struct node_control *c, const char *stage, const void *data,
				 size_t bytes, struct node_blob *out_blobs)
{
	tcpx_status status = exchange(c, stage, data, bytes, false);

	if (status != TCPX_OK || c->opts.rank)
		return status;
	return node_blobs_unpack(c->all, c->all_bytes, c->opts.size, out_blobs);
}

tcpx_status node_control_barrier(struct node_control *c, const char *stage)
{
	return node_control_gather(c, stage, NULL, 0, NULL);
}

void node_control_stage(struct node_control *c, const char *stage)
{
	snprintf(c->stage, sizeof(c->stage), "%s", stage);
}

tcpx_status node_control_look(struct node_control *c)
{
	node_control_drain(c);
	look_for_gone(c);
	if (cli_interrupted)
		node_control_fail(c, "interrupted");
	return *c->failed ? say_why(c) : TCPX_OK;
}

tcpx_status node_control_verdict(struct node_control *c)
{
	int64_t end = clock_now_ns() + VERDICT_NS;

	node_control_drain(c);
	look_for_gone(c);
	while (!*c->failed && !cli_interrupted && clock_now_ns() < end) {
		wait_a_moment(c);
		look_for_gone(c);
	}
	return *c->failed ? say_why(c) : TCPX_OK;
}

int node_control_fd(struct node_control *c)
{
	return tcpx_session_fd(c->session);
}

void node_control_fail(struct node_control *c, const char *text)
{
	char own[TEXT_MAX];

	if (*c->failed) /* all know */
		return;
	if (c->opts.rank) {
		node_control_failed(c, TCPX_ERR_REMOTE, text);
		(void)send_to(c, hub(c)->peer, TYPE_FAIL, text, strlen(text));
		return;
	}
	snprintf(own, sizeof(own), "rank 0 (%s), stage '%s': %s", c->host, c->stage, text);
	node_control_failed(c, TCPX_ERR_REMOTE, own);
	spread(c);
}

tcpx_status node_control_info(struct node_control *c, void *buf, size_t cap, size_t *out_len)
{
	return tcpx_session_info(c->session, buf, cap, out_len);
}

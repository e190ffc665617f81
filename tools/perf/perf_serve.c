/* SPDX-License-Identifier: Apache-2.0 */
/* The serve loop. */
#include "perf_serve.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli_output.h"

#define CLIENTS_MAX 64
#define TICK_NS (200 * CLOCK_MS_NS)
#define NOTES_AT_ONCE 10000
#define ALONE_NS (5 * CLOCK_S_NS) /* another attempt of the same client shows up within this time */

struct client {
	struct perf_service *service;
	int named; /* on stderr */
};

struct serve {
	struct perf_house *house;
	struct client clients[CLIENTS_MAX];
	unsigned count;
	/* clients whose peer has gone but whose thread has not ended */
	struct perf_service *ending[CLIENTS_MAX];
	unsigned nending;
	int once, over, code;
	/* since when the only client is one that never came up; 0: not the case */
	int64_t alone_ns;
	int64_t served_ns; /* when there was a client last */
};

static struct client *perf_serve_find(struct serve *s, tcpx_peer peer)
{
	for (unsigned i = 0; i < s->count; i++)
		if (perf_service_peer(s->clients[i].service).id == peer.id)
			return &s->clients[i];
	return NULL;
}

static void perf_serve_say(struct serve *s, tcpx_peer peer, const char *what)
{
	tcpx_peer_info info = {.sz = sizeof(info)};

	if (s->house->quiet)
		return;
	if (tcpx_peer_query(s->house->session, peer, &info) != TCPX_OK)
		snprintf(info.address, sizeof(info.address), "a client");
	fprintf(stderr, "%s %s%s%s%s\n", info.address, what, *info.auth ? " (trust: " : "",
		info.auth, *info.auth ? ")" : "");
}

static void look_for_dead(struct serve *s);
static void reap(struct serve *s);

static int is_dead(struct serve *s, tcpx_peer peer)
{
	tcpx_peer_info info = {.sz = sizeof(info)};

	return tcpx_peer_query(s->house->session, peer, &info) != TCPX_OK ||
	       info.state == TCPX_PEER_DEAD;
}

static void peer_up(struct serve *s, tcpx_peer peer)
{
	if (perf_serve_find(s, peer))
		return;
	if (s->count + s->nending == CLIENTS_MAX) {
		look_for_dead(s);
		reap(s);
	}
	if (s->count + s->nending == CLIENTS_MAX) {
		cli_error("more than %d clients: one turned away", CLIENTS_MAX);
		tcpx_peer_disconnect(s->house->session, peer);
		return;
	}
	s->clients[s->count].named = 0;
	if (perf_service_start(s->house, peer, &s->clients[s->count].service) != TCPX_OK) {
		cli_error("a client turned away: %s", tcpx_last_error()->what);
		tcpx_peer_disconnect(s->house->session, peer);
		return;
	}
	s->count++;
}

static void peer_down(struct serve *s, tcpx_peer peer, tcpx_status status)
{
	struct client *slot = perf_serve_find(s, peer);
	struct perf_service *service;
	int counts, bye, worked;
	char failed[PERF_FAILED_MAX];

	if (!slot)
		return;
	service = slot->service;
	*slot = s->clients[--s->count];
	perf_service_stop(service);
	counts = !perf_service_comes_back(service);
	bye = perf_service_said_bye(service);
	worked = perf_service_did_work(service);
	text_format(failed, sizeof(failed), "%s", perf_service_failure(service));
	if (counts)
		perf_serve_say(s, peer, bye ? "left" : tcpx_status_text(status));
	s->ending[s->nending++] = service;
	/* frees what the library keeps about a dead peer */
	tcpx_peer_disconnect(s->house->session, peer);
	if (s->once && counts) {
		s->over = 1;
		s->code = bye && worked && !*failed ? CLI_OK : CLI_FAILED;
	}
	if (s->house->quiet || !counts)
		return;
	if (*failed)
		cli_error("the client failed: %s", failed);
	else if (bye && !worked)
		cli_error("the client left before a measurement of it ended");
}

/* A client that ended before it was up has failed, unless it comes back by another address: it
 * gives up the slower of several attempts. */
static void look_for_failed(struct serve *s)
{
	tcpx_counters counters = {.sz = sizeof(counters)};

	if (!s->once || s->count || s->nending ||
	    tcpx_session_counters(s->house->session, &counters) != TCPX_OK ||
	    !counters.peers_failed || counters.peers_connecting) {
		s->alone_ns = 0;
		return;
	}
	if (!s->alone_ns)
		s->alone_ns = clock_now_ns();
	if (clock_now_ns() - s->alone_ns < ALONE_NS)
		return;
	cli_error("the client ended before its connection was up; the log at TCPX_LOG=info says "
		  "why");
	s->over = 1;
	s->code = CLI_FAILED;
}

/* Joins threads that have ended, and waits for no other. */
static void reap(struct serve *s)
{
	for (unsigned i = 0; i < s->nending;) {
		if (!perf_service_ended(s->ending[i])) {
			i++;
			continue;
		}
		perf_service_join(s->ending[i]);
		s->ending[i] = s->ending[--s->nending];
	}
}

/* Sends an echo back unchanged. A client that does not take its echoes loses them. */
static void echo(struct serve *s, const tcpx_notification *note)
{
	if (tcpx_notify_send(s->house->session, note->peer, note->data, note->bytes) ==
	    TCPX_ERR_AGAIN)
		cli_error("an echo was dropped: the client's budget is used up");
}

/* A client that only asks for the addresses comes back at once and is not printed. */
static void name(struct serve *s, struct client *client, const tcpx_notification *note)
{
	struct perf_message m;

	if (client->named || perf_message_decode(note->data, note->bytes, &m) ||
	    m.type == PERF_HELLO || m.type == PERF_BYE)
		return;
	client->named = 1;
	perf_serve_say(s, note->peer, "connected");
}

static void end_client(struct serve *s, tcpx_peer peer, tcpx_status status);

static void deliver(struct serve *s, tcpx_notification *note)
{
	struct client *slot;

	if (note->bytes && *(const uint8_t *)note->data == PERF_ECHO) {
		echo(s, note);
	} else if (note->bytes && *(const uint8_t *)note->data == PERF_PONG) {
		slot = perf_serve_find(s, note->peer);
		if (slot && perf_service_pong(slot->service))
			cli_error("a WRITE of a client was not answered");
	} else {
		slot = perf_serve_find(s, note->peer);
		/* A sender without a slot is new, if its message overtook its event. One that
		 * has ended must not get a slot again, since no event would end it. */
		if (!slot && !is_dead(s, note->peer)) {
			peer_up(s, note->peer);
			slot = perf_serve_find(s, note->peer);
		}
		if (slot)
			name(s, slot, note);
		if (slot && perf_service_give(slot->service, note->data, note->bytes)) {
			cli_error("a client floods: disconnected");
			end_client(s, note->peer, TCPX_ERR_DISCONNECTED);
		}
	}
	tcpx_notification_release(s->house->session, note);
}

/* Takes all messages that have arrived, up to a limit in case clients go on sending. */
static void take_notes(struct serve *s)
{
	tcpx_notification note = {.sz = sizeof(note)};

	for (int i = 0; i < NOTES_AT_ONCE; i++) {
		if (tcpx_notify_take(s->house->session, 0, &note) != TCPX_OK)
			break;
		deliver(s, &note);
	}
}

static void take_events(struct serve *s)
{
	tcpx_event event = {.sz = sizeof(event)};

	while (tcpx_session_event(s->house->session, &event) == TCPX_OK) {
		if (event.type == TCPX_EVENT_PEER_UP || event.type == TCPX_EVENT_PEER_RESTARTED) {
			peer_up(s, event.peer);
		} else if (event.type == TCPX_EVENT_PEER_DOWN) {
			take_notes(s); /* messages that arrived before the peer left */
			peer_down(s, event.peer, event.status);
		}
	}
}

/* Ends a client without an event. Its PEER_UP may still be queued and would make it a new client
 * that failed. */
static void end_client(struct serve *s, tcpx_peer peer, tcpx_status status)
{
	take_events(s);
	peer_down(s, peer, status);
}

/* A peer that sent a message before it was up and never came up has no event. */
static void look_for_dead(struct serve *s)
{
	for (unsigned i = 0; i < s->count; i++) {
		tcpx_peer peer = perf_service_peer(s->clients[i].service);

		if (!is_dead(s, peer))
			continue;
		end_client(s, peer, TCPX_ERR_PEER_CLOSED);
		i = UINT_MAX; /* other clients may have ended as well: start from the first one */
	}
}

/* Without a client there is no need for speed: sleeps until something happens. A client that
 * never comes up has no event, so that wait is limited. */
static void sleep_idle(struct serve *s, const sigset_t *unblocked)
{
	struct pollfd pfd = {.fd = tcpx_session_fd(s->house->session), .events = POLLIN};
	const struct timespec tick = {.tv_nsec = TICK_NS};

	if (!cli_interrupted)
		ppoll(&pfd, 1, s->once || s->house->idle_ns ? &tick : NULL, unblocked);
}

/* Whether no client came for as long as --idle-timeout says. */
static bool is_idle_too_long(struct serve *s)
{
	int64_t now = clock_now_ns();

	if (s->count + s->nending)
		s->served_ns = now;
	if (!s->house->idle_ns || now - s->served_ns < s->house->idle_ns)
		return false;
	if (!s->house->quiet)
		cli_error("no client for %.3g s: ends", (double)s->house->idle_ns / 1e9);
	return true;
}

int perf_serve_loop(struct perf_house *house, int once)
{
	struct serve s = {.house = house, .once = once, .served_ns = clock_now_ns()};
	sigset_t signals, before;

	/* SIGINT and SIGTERM are unblocked only while sleeping, so that none is missed. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, &before);
	while (!s.over && !cli_interrupted) {
		tcpx_notification note = {.sz = sizeof(note)};
		tcpx_status status;

		take_events(&s);
		look_for_failed(&s);
		if (s.over || is_idle_too_long(&s))
			break;
		reap(&s);
		if (!s.count && !s.nending)
			sleep_idle(&s, &before);
		status = tcpx_notify_take(house->session, s.count + s.nending ? TICK_NS : 0, &note);
		if (status == TCPX_OK) {
			deliver(&s, &note);
		} else if (status < 0) {
			s.code = cli_fail(status, "cannot take messages");
			break;
		} else {
			look_for_dead(&s);
		}
		if (s.count + s.nending) {
			struct timespec none = {0};

			if (sigtimedwait(&signals, NULL, &none) > 0)
				cli_interrupt();
		}
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	for (unsigned i = 0; i < s.count; i++)
		perf_service_stop(s.clients[i].service);
	for (unsigned i = 0; i < s.count; i++)
		perf_service_join(s.clients[i].service);
	for (unsigned i = 0; i < s.nending; i++)
		perf_service_join(s.ending[i]);
	return s.code;
}

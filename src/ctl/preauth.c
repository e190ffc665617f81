/* SPDX-License-Identifier: Apache-2.0 */
/* One connection before authentication: the acceptor's side of the handshake. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "ctl/listener.h"
#include "sys/addr.h"
#include "sys/fd.h"
#include "sys/sock.h"

#define LINGER_NS CLOCK_S_NS /* time that a dialler has to read a refusal */
#define LINGER_BYTES 4096    /* bytes that a refused dialler may still send */

static void count_one(_Atomic uint64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- the end of a connection ---- */

/* Removes the connection from the loop and the list, but keeps its descriptor. */
static void detach_preauth(struct ctl_preauth *s)
{
	struct ctl_listener *listener = s->listener;

	sys_watch_del(listener->loop, &s->watch);
	sys_timer_del(listener->loop, &s->timer);
	list_remove(&s->node);
	listener->npreauths--;
	if (!listener->closed)
		sys_watch_set(listener->loop, &listener->watch, EPOLLIN);
}

static void destroy_preauth(struct ctl_preauth *s)
{
	ctl_handshake_wipe(&s->hs);
	free(s);
}

void ctl_preauth_drop(struct ctl_preauth *s, int reset)
{
	int fd = s->watch.fd;

	detach_preauth(s);
	if (reset)
		sys_sock_reset_on_close(fd);
	sys_fd_close(fd);
	destroy_preauth(s);
}

void ctl_preauth_reject(struct ctl_preauth *s, tcpx_status status, const char *why)
{
	struct ctl_listener *listener = s->listener;
	char text[SYS_ADDR_TEXT];

	count_one(&listener->counters->preauth_rejects);
	if (status == TCPX_ERR_AUTH && !s->dial_of_ended_link) {
		count_one(&listener->counters->auth_failures);
		if (log_allow(&listener->auth_log, 5))
			LOG_WARN("refused %s: %s", sys_addr_text(&s->addr, text), why);
	} else if (log_allow(&listener->reject_log, 5)) {
		LOG_INFO("closed %s before authentication: %s", sys_addr_text(&s->addr, text), why);
	}
	ctl_preauth_drop(s, status != TCPX_ERR_AUTH);
}

static void on_preauth_timeout(struct sys_timer *timer, int64_t now_ns)
{
	struct ctl_preauth *s = LIST_ENTRY(timer, struct ctl_preauth, timer);

	(void)now_ns;
	if (s->state == CTL_LINGER)
		ctl_preauth_drop(s, 0);
	else
		ctl_preauth_reject(s, TCPX_ERR_TIMED_OUT, "no complete handshake in time");
}

/* ---- the handshake ---- */

/* Asks the session for the key of the dial, and checks the dial with that key. Returns ERR_AUTH if
 * the session refuses the dial or if BARE is used beyond loopback, else what
 * ctl_handshake_check_dial() returns. */
static tcpx_status find_and_check_key(struct ctl_preauth *s)
{
	struct ctl_listener *listener = s->listener;
	int loopback = sys_addr_is_loopback(&s->addr);

	if (s->hs.dial.auth == WIRE_AUTH_BARE && !loopback)
		return TCPX_ERR_AUTH;
	if (!listener->ops->key(listener->arg, &s->hs.dial, loopback, s->hs.key)) {
		/* A missing key is common while a link ends: the peer dials channels of a link that
		 * has already ended on this side. */
		s->dial_of_ended_link = s->hs.dial.role == WIRE_ROLE_DATA;
		return TCPX_ERR_AUTH;
	}
	return ctl_handshake_check_dial(&s->hs);
}

/* Handles a complete dial: checks it and makes the answer, which may be a refusal. Returns an error
 * if the connection must be closed without an answer. */
static tcpx_status prepare_answer(struct ctl_preauth *s)
{
	struct ctl_listener *listener = s->listener;
	const struct ctl_identity *identity;
	tcpx_status version = ctl_handshake_read_dial(&s->hs), status;

	if (version != TCPX_OK && version != TCPX_ERR_VERSION)
		return version;
	status = find_and_check_key(s);
	if (status != TCPX_OK)
		return status;
	memset(&s->hs.answer, 0, sizeof(s->hs.answer));
	identity = listener->ops->identity ? listener->ops->identity(listener->arg) : NULL;
	if (identity)
		s->hs.identity = *identity;
	if (version != TCPX_OK)
		s->hs.answer.status = -TCPX_ERR_VERSION;
	else
		listener->ops->answer(listener->arg, &s->hs.dial, &s->addr, &s->hs.answer);
	return ctl_handshake_answer(&s->hs);
}

/* Called when the handshake is complete: gives the connection to the session. */
static void hand_to_session(struct ctl_preauth *s)
{
	struct ctl_listener *listener = s->listener;
	struct ctl_conn conn = {.fd = s->watch.fd, .local = s->hs.answer, .remote = s->hs.dial};
	tcpx_status status = ctl_handshake_session_key(&s->hs, conn.session_key);

	if (status == TCPX_OK)
		status = sys_sock_local(conn.fd, &conn.local_addr);
	if (status != TCPX_OK) {
		ctl_preauth_reject(s, status, error_last()->what);
		return;
	}
	conn.remote_addr = s->addr;
	conn.proven = ctl_handshake_proven(&s->hs);
	detach_preauth(s);
	destroy_preauth(s);
	count_one(&listener->counters->accepted);
	listener->ops->ready(listener->arg, &conn); /* may close the listener */
	explicit_bzero(conn.session_key, sizeof(conn.session_key));
}

/* Called after a refusal was sent. Waits until the dialler closes or has sent more than
 * LINGER_BYTES, because an earlier close could become a reset, which discards the refusal. */
static void linger_step(struct ctl_preauth *s)
{
	char bin[512];
	ssize_t got;

	for (;;) {
		got = recv(s->watch.fd, bin, sizeof(bin), 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return;
		s->lingered_bytes += got > 0 ? (size_t)got : 0;
		if (got <= 0 || s->lingered_bytes > LINGER_BYTES) {
			ctl_preauth_drop(s, 0);
			return;
		}
	}
}

/* Runs one state of the handshake. Returns TCPX_OK if the next state can run, and IN_PROGRESS if
 * the connection waits for the socket. Any other status rejects the connection; *why is the
 * reason. */
static tcpx_status preauth_step(struct ctl_preauth *s, const char **why)
{
	struct sys_loop *loop = s->listener->loop;
	int fd = s->watch.fd, err = 0;
	tcpx_status status;

	switch (s->state) {
	case CTL_READ_DIAL:
		*why = "it sent no tcpx handshake";
		status = ctl_message_recv(fd, &s->hs.dial_msg, &err);
		if (status != TCPX_OK)
			return status;
		status = prepare_answer(s);
		if (status == TCPX_ERR_AUTH)
			*why = s->dial_of_ended_link ? "a channel of a link that is not there"
						     : "wrong key";
		else if (status != TCPX_OK && status != TCPX_ERR_PROTOCOL)
			*why = error_last()->what;
		s->state = CTL_SEND_ANSWER;
		return status;
	case CTL_SEND_ANSWER:
		*why = "connection lost";
		status = ctl_message_send(fd, &s->hs.answer_msg, &err);
		if (status != TCPX_OK) {
			sys_watch_set(loop, &s->watch, EPOLLOUT);
			return status;
		}
		sys_watch_set(loop, &s->watch, EPOLLIN);
		s->state = CTL_READ_PROOF;
		if (!s->hs.answer.status)
			return TCPX_OK;
		s->state = CTL_LINGER;
		sys_timer_set(loop, &s->timer, clock_now_ns() + LINGER_NS);
		*why = "connection lost";
		return shutdown(fd, SHUT_WR) ? sys_errno_status(errno) : TCPX_OK;
	case CTL_READ_PROOF:
		*why = "no proof";
		status = ctl_message_recv(fd, &s->hs.proof_msg, &err);
		if (status != TCPX_OK)
			return status;
		status = ctl_handshake_check_proof(&s->hs);
		*why = "wrong proof: a replayed handshake?";
		return status;
	default:
		return TCPX_OK;
	}
}

static void run_preauth(struct ctl_preauth *s)
{
	const char *why = "";
	tcpx_status status;

	for (;;) {
		enum ctl_preauth_state before = s->state;

		if (before == CTL_LINGER) {
			linger_step(s);
			return;
		}
		status = preauth_step(s, &why);
		if (status == TCPX_IN_PROGRESS)
			return;
		if (status != TCPX_OK) {
			ctl_preauth_reject(s, status, why);
			return;
		}
		if (before == CTL_READ_PROOF) {
			hand_to_session(s);
			return;
		}
	}
}

static void on_preauth_event(struct sys_watch *watch, uint32_t events)
{
	struct ctl_preauth *s = LIST_ENTRY(watch, struct ctl_preauth, watch);
	struct ctl_listener *listener = s->listener;

	(void)events; /* recv and send report errors */
	listener->busy++;
	run_preauth(s);
	if (!--listener->busy && listener->closed)
		free(listener);
}

void ctl_preauth_admit(struct ctl_listener *listener, int fd, const struct sockaddr_storage *addr)
{
	struct ctl_preauth *s = calloc(1, sizeof(*s));

	if (!s)
		goto fail;
	s->listener = listener;
	s->addr = *addr;
	s->source = sys_addr_source(addr);
	s->since_ns = clock_now_ns();
	s->watch = (struct sys_watch){.fd = fd, .events = EPOLLIN, .fn = on_preauth_event};
	s->timer.fn = on_preauth_timeout;
	if (sys_watch_add(listener->loop, &s->watch) != TCPX_OK)
		goto fail;
	sys_sock_nodelay(fd);
	sys_timer_set(listener->loop, &s->timer, s->since_ns + listener->preauth_ns);
	list_push_back(&listener->preauths, &s->node);
	listener->npreauths++;
	run_preauth(s); /* with a deferred accept, the dial has arrived already */
	return;
fail:
	count_one(&listener->counters->preauth_rejects);
	sys_sock_reset_on_close(fd);
	sys_fd_close(fd);
	free(s);
}

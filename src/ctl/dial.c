/* SPDX-License-Identifier: Apache-2.0 */
/* The dialler's side of the handshake: connects and authenticates. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "ctl/conn.h"
#include "ctl/handshake.h"
#include "sys/addr.h"
#include "sys/crypto.h"
#include "sys/fd.h"
#include "sys/sock.h"

enum dial_state { CONNECTING, SEND_DIAL, READ_ANSWER, SEND_PROOF };

struct ctl_dial {
	struct sys_loop *loop;
	void (*done)(void *arg, tcpx_status status, int err, const struct ctl_conn *conn);
	tcpx_status (*agree)(void *arg, const struct wire_hello *answer);
	void *arg;
	struct sys_watch watch;
	struct sys_timer timer;
	enum dial_state state;
	/* errno of a failed connect(); the loop reports it, because ctl_dial_start() must not call
	 * `done` */
	int connect_err;
	struct sockaddr_storage remote, local;
	struct ctl_handshake hs;
};

static void destroy_dial(struct ctl_dial *dial)
{
	sys_watch_del(dial->loop, &dial->watch);
	sys_timer_del(dial->loop, &dial->timer);
	ctl_handshake_wipe(&dial->hs);
	free(dial);
}

/* Returns advice for a dial that failed with the status, or NULL if the general advice for the
 * status is used. */
static const char *dial_advice(const struct ctl_dial *dial, tcpx_status status)
{
	switch (status) {
	case TCPX_ERR_TIMED_OUT:
		if (dial->state == CONNECTING)
			return CTL_NEXT_NO_ANSWER;
		return "somebody accepts connections there and says nothing: look whether the "
		       "peer process is stopped, and whether the port belongs to tcpx";
	case TCPX_ERR_REFUSED:
		if (sys_addr_is_loopback(&dial->remote))
			return "nothing listens there: start the peer, or check the port; with a "
			       "key it listens on this host's other addresses only";
		return "nothing listens there: start the peer, or check address and port; without "
		       "a key it listens on loopback only";
	case TCPX_ERR_PEER_RESET:
	case TCPX_ERR_PEER_CLOSED:
		return "check that the port belongs to tcpx, and look whether the peer process "
		       "died";
	default:
		return NULL;
	}
}

/* Ends the dial with an error: sets the thread's last error, frees the dial and calls done. */
static void fail_dial(struct ctl_dial *dial, tcpx_status status, int err, const char *why)
{
	struct ctl_conn refused = {.fd = -1, .remote = dial->hs.answer};
	void (*done)(void *arg, tcpx_status status, int err, const struct ctl_conn *conn) =
		dial->done;
	void *arg = dial->arg;
	const char *next = dial_advice(dial, status);
	char text[SYS_ADDR_TEXT];
	int fd = dial->watch.fd;

	error_set(status, err, "%s: %s", sys_addr_text(&dial->remote, text), why);
	if (next)
		error_next("%s", next);
	LOG_DEBUG("dial: %s: %s", text, why);
	destroy_dial(dial);
	sys_fd_close(fd);
	done(arg, status, err, status == TCPX_ERR_EXISTS ? &refused : NULL);
}

/* Called when the proof is sent: frees the dial and calls `done`, which takes over the connection.
 * Ends the dial with an error if there is no session key. */
static void finish_dial(struct ctl_dial *dial)
{
	void (*done)(void *arg, tcpx_status status, int err, const struct ctl_conn *conn) =
		dial->done;
	void *arg = dial->arg;
	struct ctl_conn conn = {
		.fd = dial->watch.fd,
		.local = dial->hs.dial,
		.remote = dial->hs.answer,
		.local_addr = dial->local,
		.remote_addr = dial->remote,
		.proven = ctl_handshake_proven(&dial->hs),
	};
	tcpx_status status = ctl_handshake_session_key(&dial->hs, conn.session_key);

	if (status != TCPX_OK) {
		fail_dial(dial, status, 0, "no session key");
		return;
	}
	destroy_dial(dial);
	done(arg, TCPX_OK, 0, &conn);
	explicit_bzero(conn.session_key, sizeof(conn.session_key));
}

static const char *answer_text(tcpx_status status)
{
	switch (status) {
	case TCPX_ERR_AUTH:
		return "the answer's proof is wrong: the peer has another key";
	case TCPX_ERR_VERSION:
		return "no common protocol version";
	case TCPX_ERR_PROTOCOL:
		return "the answer is malformed";
	default:
		return "the peer refused the connection";
	}
}

/* Ends the dial because the answer could not be read. An orderly close before the answer's first
 * byte means that the acceptor has no key for our dial, or refused the proof in it. */
static void answer_lost(struct ctl_dial *dial, tcpx_status status, int err)
{
	if (status == TCPX_ERR_PROTOCOL)
		fail_dial(dial, status, err, "the server there is not tcpx");
	else if (status == TCPX_ERR_PEER_CLOSED && !dial->hs.answer_msg.done)
		fail_dial(dial, TCPX_ERR_AUTH, 0,
			  "closed without an answer: the peer requires another key");
	else
		fail_dial(dial, status, err, "lost during the handshake");
}

/* Checks the result of connect(). On an error ends and frees the dial. */
static tcpx_status check_connected(struct ctl_dial *dial)
{
	int err = dial->connect_err ? dial->connect_err : sys_sock_error(dial->watch.fd);
	tcpx_status status;

	if (err) {
		status = err == ETIMEDOUT ? TCPX_ERR_TIMED_OUT : sys_errno_status(err);
		fail_dial(dial, status, err, error_status_text(status));
		return status;
	}
	status = sys_sock_local(dial->watch.fd, &dial->local);
	/* If no process listens on a port of this host, a dial to that port may connect to itself:
	 * the system may choose the same port for the local end. */
	if (status == TCPX_OK && sys_addr_same_host(&dial->local, &dial->remote) &&
	    sys_addr_port(&dial->local) == sys_addr_port(&dial->remote)) {
		sys_sock_reset_on_close(dial->watch.fd);
		status = TCPX_ERR_REFUSED;
	}
	if (status != TCPX_OK)
		fail_dial(dial, status, 0, error_status_text(status));
	return status;
}

/* Runs one state. Returns 0 if the next state can run. Returns 1 if the dial waits for the socket,
 * or has ended and is freed. */
static int dial_step(struct ctl_dial *dial)
{
	struct ctl_handshake *hs = &dial->hs;
	int fd = dial->watch.fd, err = 0;
	tcpx_status status;

	switch (dial->state) {
	case CONNECTING:
		if (check_connected(dial) != TCPX_OK)
			return 1;
		dial->state = SEND_DIAL;
		return 0;
	case SEND_DIAL:
		status = ctl_message_send(fd, &hs->dial_msg, &err);
		if (status == TCPX_IN_PROGRESS)
			return 1;
		if (status != TCPX_OK) {
			fail_dial(dial, status, err, "lost during the handshake");
			return 1;
		}
		sys_watch_set(dial->loop, &dial->watch, EPOLLIN);
		dial->state = READ_ANSWER;
		return 0;
	case READ_ANSWER:
		status = ctl_message_recv(fd, &hs->answer_msg, &err);
		if (status == TCPX_IN_PROGRESS)
			return 1;
		if (status != TCPX_OK) {
			answer_lost(dial, status, err);
			return 1;
		}
		status = ctl_handshake_check_answer(hs);
		if (status == TCPX_OK && dial->agree)
			status = dial->agree(dial->arg, &hs->answer);
		if (status == TCPX_OK)
			status = ctl_handshake_proof(hs);
		if (status != TCPX_OK) {
			fail_dial(dial, status, 0, answer_text(status));
			return 1;
		}
		dial->state = SEND_PROOF;
		return 0;
	default:
		status = ctl_message_send(fd, &hs->proof_msg, &err);
		if (status == TCPX_IN_PROGRESS)
			sys_watch_set(dial->loop, &dial->watch, EPOLLOUT);
		else if (status != TCPX_OK)
			fail_dial(dial, status, err, "lost during the handshake");
		else
			finish_dial(dial);
		return 1;
	}
}

static void on_dial_event(struct sys_watch *watch, uint32_t events)
{
	struct ctl_dial *dial = LIST_ENTRY(watch, struct ctl_dial, watch);

	(void)events;
	while (!dial_step(dial))
		;
}

static void on_dial_timeout(struct sys_timer *timer, int64_t now_ns)
{
	struct ctl_dial *dial = LIST_ENTRY(timer, struct ctl_dial, timer);

	(void)now_ns;
	if (dial->connect_err)
		check_connected(dial);
	else
		fail_dial(dial, TCPX_ERR_TIMED_OUT, 0,
			  dial->state == CONNECTING ? "no connection in time"
						    : "no answer to the handshake in time");
}

/* Binds the local end before connect(), to an interface, an address and a port. If `port` is 0, the
 * system chooses the port. */
static tcpx_status bind_local(int fd, const struct ctl_dial_opts *opts, uint16_t port)
{
	struct sockaddr_storage local = opts->local;
	tcpx_status status = TCPX_OK;

	if (!sys_addr_is_loopback(&opts->remote))
		status = sys_sock_bind_device(fd, opts->device);
	if (status != TCPX_OK)
		return status;
	if (port) {
		/* without a local address, binds to the wildcard */
		local.ss_family = opts->remote.ss_family;
		sys_addr_set_port(&local, port);
		/* Lets connections to different remote ends share a local port, also during
		 * TIME_WAIT. connect() fails if the port has a connection to this remote end. */
		sys_sock_reuse(fd);
	}
	return local.ss_family ? sys_sock_bind(fd, &local) : TCPX_OK;
}

/* Opens a socket and connects it. *out_taken is true if this failed only because the local port is
 * taken. If connect() fails for another reason, stores the errno in dial->connect_err for the loop
 * to report, and returns OK. */
static tcpx_status try_port(struct ctl_dial *dial, const struct ctl_dial_opts *opts, uint16_t port,
			    bool *out_taken)
{
	int fd;
	tcpx_status status = sys_sock_open(opts->remote.ss_family, &fd);

	*out_taken = false;
	if (status != TCPX_OK)
		return status;
	sys_sock_nodelay(fd);
	if (opts->segment_bytes)
		sys_sock_segment(fd, opts->segment_bytes);
	status = bind_local(fd, opts, port);
	if (status != TCPX_OK) {
		*out_taken = port && error_last()->system_errno == EADDRINUSE;
		sys_fd_close(fd);
		return status;
	}
	dial->connect_err = 0;
	if (connect(fd, (const struct sockaddr *)&opts->remote, sys_addr_len(&opts->remote)) &&
	    errno != EINPROGRESS && errno != EINTR)
		dial->connect_err =
			errno == EINVAL ? ENETUNREACH : errno; /* EINVAL: bound to loopback */
	if (port && dial->connect_err == EADDRNOTAVAIL) {
		*out_taken = true;
		sys_fd_close(fd);
		return TCPX_ERR_ADDRESS;
	}
	dial->watch.fd = fd;
	return TCPX_OK;
}

/* Tries the ports of the range until one is free. Starts after the port that was tried last, so
 * that a port is reused as late as possible. */
static tcpx_status try_range(struct ctl_dial *dial, const struct ctl_dial_opts *opts)
{
	static uint32_t turn; /* used by the loop's thread only */
	static struct log_limit limit;
	uint32_t count = opts->port_hi - opts->port_lo + 1u;
	char text[SYS_ADDR_TEXT];

	for (uint32_t i = 0; i < count; i++) {
		bool taken;
		tcpx_status status =
			try_port(dial, opts, (uint16_t)(opts->port_lo + turn++ % count), &taken);

		if (!taken)
			return status;
	}
	sys_addr_text(&opts->remote, text);
	if (log_allow(&limit, 1))
		LOG_WARN("no source port of %u-%u is free to connect to %s", opts->port_lo,
			 opts->port_hi, text);
	error_set(TCPX_ERR_ADDRESS, EADDRINUSE, "no source port of %u-%u is free to connect to %s",
		  opts->port_lo, opts->port_hi, text);
	return error_next("widen TCPX_SOURCE_PORTS: each connection to a peer needs its own port, "
			  "which stays in use for a minute after its end");
}

/* Returns ERR_UNSUPPORTED if the method is BARE and one end is not loopback: a bare secret is
 * readable in the packets, so it must not leave this host. */
static tcpx_status check_bare(const struct ctl_dial_opts *opts)
{
	const struct sockaddr_storage *addr = &opts->remote;
	char text[SYS_ADDR_TEXT];

	if (sys_addr_is_loopback(addr) && opts->local.ss_family)
		addr = &opts->local;
	if (opts->hello.auth != WIRE_AUTH_BARE || sys_addr_is_loopback(addr))
		return TCPX_OK;
	sys_addr_host_text(addr, text);
	if (sys_crypto_available())
		return error_set(TCPX_ERR_UNSUPPORTED, 0,
				 "%s: a bare secret is sent on loopback only", text);
	error_set(TCPX_ERR_UNSUPPORTED, 0, "%s: without a crypto library: loopback only", text);
	return error_next("install OpenSSL 3 (package libssl3); 'tcpx info' says what is missing");
}

/* Checks the options, makes the dial message and begins to connect. On an error no descriptor is
 * left open. */
static tcpx_status begin_dial(struct ctl_dial *dial, const struct ctl_dial_opts *opts)
{
	tcpx_status status = check_bare(opts);
	bool taken;

	if (status == TCPX_OK)
		status = ctl_handshake_dial(&dial->hs);
	if (status != TCPX_OK)
		return status;
	if (opts->local.ss_family && opts->local.ss_family != opts->remote.ss_family)
		return error_set(TCPX_ERR_INVALID, 0,
				 "local and remote address are of different families");
	status = opts->port_lo ? try_range(dial, opts) : try_port(dial, opts, 0, &taken);
	if (status == TCPX_OK)
		status = sys_watch_add(dial->loop, &dial->watch);
	if (status != TCPX_OK && dial->watch.fd >= 0)
		sys_fd_close(dial->watch.fd);
	return status;
}

tcpx_status ctl_dial_start(struct sys_loop *loop, const struct ctl_dial_opts *opts,
			   void (*done)(void *arg, tcpx_status status, int err,
					const struct ctl_conn *conn),
			   void *arg, struct ctl_dial **out_dial)
{
	struct ctl_dial *dial = calloc(1, sizeof(*dial));
	tcpx_status status;

	if (!dial)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a connection attempt");
	dial->loop = loop;
	dial->done = done;
	dial->agree = opts->agree;
	dial->arg = arg;
	dial->remote = opts->remote;
	dial->watch = (struct sys_watch){.fd = -1, .events = EPOLLOUT, .fn = on_dial_event};
	dial->timer.fn = on_dial_timeout;
	dial->hs.dial = opts->hello;
	memcpy(dial->hs.key, opts->key, sizeof(dial->hs.key));
	if (opts->identity)
		dial->hs.identity = *opts->identity;
	status = begin_dial(dial, opts);
	if (status != TCPX_OK) {
		destroy_dial(dial);
		return status;
	}
	sys_timer_set(loop, &dial->timer, dial->connect_err ? 0 : opts->deadline_ns);
	*out_dial = dial;
	return TCPX_OK;
}

void ctl_dial_cancel(struct ctl_dial *dial)
{
	int fd = dial->watch.fd;

	destroy_dial(dial);
	sys_fd_close(fd);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a TCP connection to an authenticated one: listener, dialler and the three-message handshake.
 * Everything here runs on the loop's thread and never blocks; name resolution runs on a disposable
 * thread with a deadline.
 *
 * Proofs (HMAC-SHA256, K = the key of the auth method):
 *   dial.proof   = HMAC(K, "tcpx dial" || dial without proof)      if wrong: closed, no answer
 *   answer.proof = HMAC(K, "tcpx answer" || dial || answer without proof)
 *   proof.proof  = HMAC(K, "tcpx proof" || dial || answer || proof without proof)
 *   session key  = HMAC(K, "tcpx session" || X || dial || answer)  X: of the key exchange
 * and the signatures, by each end's own key, of SHA-256 of
 *   "tcpx answer identity" || dial || answer before its signature
 *   "tcpx proof identity" || dial || answer || proof before its signature
 * A data connection uses ctl_data_auth()'s method with K = the control link's session key.
 */
#ifndef CTL_CONN_H
#define CTL_CONN_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/frame.h"
#include "ctl/keys.h"
#include "sys/loop.h"
#include "wire/hello.h"

/* An authenticated connection. The function that gets it owns fd, from which nothing after the
 * handshake was read. */
struct ctl_conn {
	int fd;			 /* non-blocking, CLOEXEC, TCP_NODELAY */
	struct wire_hello local; /* the dial or answer that this end sent */
	struct wire_hello remote;
	uint8_t session_key[CTL_KEY_BYTES]; /* see ctl_data_auth */
	bool proven; /* remote.uuid and remote.identity.key are proven, not only claimed */
	struct sockaddr_storage local_addr, remote_addr;
};

/* Returns the auth method of the data connections of a control link whose method is control. LINK,
 * with the session key of the control link, unless that link has no key and is on loopback, or is
 * BARE itself: then BARE, which sends the session key in clear and needs no crypto library. */
static inline enum wire_auth ctl_data_auth(enum wire_auth control, int loopback)
{
	return (control == WIRE_AUTH_NONE && loopback) || control == WIRE_AUTH_BARE
		       ? WIRE_AUTH_BARE
		       : WIRE_AUTH_LINK;
}

/* What the session decides about a connection that it accepts; called on the loop's thread. A
 * recorded dial that somebody sends again gets as far as key and answer, so these two must not
 * change the session. Only ready shows that the dialler is alive; only ready may close the
 * listener. */
struct ctl_accept_ops {
	/* Writes the key for this dial and returns 1; 0: refuse the dial silently. With role DATA
	 * dial->key_id names the link. loopback: the remote address is loopback. */
	int (*key)(void *arg, const struct wire_hello *dial, int loopback,
		   uint8_t key[CTL_KEY_BYTES]);
	/* The dial is proven: fill in uuid, incarnation, name, channels, budgets and status of the
	 * answer. A status other than 0 refuses the dialler (restarted, unknown link, superseded
	 * ...): it is sent, and the connection ends. */
	void (*answer)(void *arg, const struct wire_hello *dial,
		       const struct sockaddr_storage *from, struct wire_hello *answer);
	/* The handshake is complete: the session takes over the connection. */
	void (*ready)(void *arg, const struct ctl_conn *conn);
	/* Returns the identity that the answer proves; NULL: the answer proves none. */
	const struct ctl_identity *(*identity)(void *arg);
};

struct ctl_counters {
	_Atomic uint64_t accepted, preauth_rejects, auth_failures;
};

struct ctl_listener;

/* Listens on one address. Limits before authentication: 2 s; 128 connections, 8 of them per source
 * (64 for loopback); one handshake message. At the limit of a source its oldest connection without
 * a proven dial is closed, at 128 that of the source with most of them. *port 0: any port, which is
 * written back. device: as in ctl_dial_opts. ERR_ADDRESS: taken or not a local address;
 * ERR_NO_DESCRIPTORS; ERR_SYSTEM. */
tcpx_status ctl_listener_open(struct sys_loop *loop, const struct sockaddr_storage *addr,
			      const char *device, uint16_t *port, const struct ctl_accept_ops *ops,
			      void *arg, struct ctl_counters *counters,
			      struct ctl_listener **out_listener);
void ctl_listener_close(struct ctl_listener *listener); /* on the loop's thread */

struct ctl_dial;

#define CTL_NEXT_NO_ANSWER                                                                         \
	"check that the host is up and that no firewall drops packets to that port"
struct ctl_dial_opts {
	struct sockaddr_storage remote;
	struct sockaddr_storage local; /* ss_family 0: any; else bound before connect */
	uint16_t port_lo, port_hi;     /* local ports to choose from; 0: the system's choice */
	const char *device;	 /* interface to bind to, unless remote is loopback; NULL: none */
	uint16_t segment_bytes;	 /* largest payload of a packet in both directions; 0: no
					* limit */
	struct wire_hello hello; /* fields of the dial; ctl_dial_start fills in nonce and proof */
	uint8_t key[CTL_KEY_BYTES];
	const struct ctl_identity *identity; /* identity that the dial proves; NULL: none */
	int64_t deadline_ns;		     /* absolute, monotonic */
	/* NULL, or called when the answer is proven and before our proof is sent. The dial goes on
	 * only if TCPX_OK is returned. arg is that of ctl_dial_start. */
	tcpx_status (*agree)(void *arg, const struct wire_hello *answer);
};

/* done is called exactly once, from the loop and never from inside start, unless the dial is
 * cancelled or start fails (descriptors, memory, local address, port or device; ERR_UNSUPPORTED:
 * BARE beyond loopback at either end, nothing was sent). done gets TCPX_OK with the connection and
 * then owns its fd, or the status (REFUSED, UNREACHABLE, TIMED_OUT, AUTH, VERSION, PROTOCOL,
 * PEER_RESET, the status of the answer) with errno and the thread's last error. With ERR_EXISTS
 * conn has fd -1 and in remote the session that answered. PEER_RESET and PEER_CLOSED may be
 * temporary: the acceptor had too many connections. */
tcpx_status ctl_dial_start(struct sys_loop *loop, const struct ctl_dial_opts *opts,
			   void (*done)(void *arg, tcpx_status status, int err,
					const struct ctl_conn *conn),
			   void *arg, struct ctl_dial **out_dial);
void ctl_dial_cancel(struct ctl_dial *dial); /* on the loop's thread, before done was called */

/* Whether the text is well formed and needs a name look-up. */
int ctl_resolve_is_name(const char *text);
/* Resolves "host:port", "[v6]:port" or "host" (default_port) into at most max addresses in the
 * order of getaddrinfo, with the two families alternating. Blocks the calling thread at most until
 * the deadline (a helper thread does the look-up and is abandoned if it hangs). ERR_NOT_FOUND;
 * ERR_TIMED_OUT; ERR_INVALID; ERR_LIMIT: too many abandoned look-ups. */
tcpx_status ctl_resolve(const char *text, uint16_t default_port, int64_t deadline_ns,
			struct sockaddr_storage *out_addrs, unsigned max, unsigned *out_count);

/* A control link on an authenticated fd: frames (header, payload <= FRAME_CONTROL_MAX, no table, no
 * trailer) in both directions, never blocking. The output queue holds at most 1 MiB; beyond that a
 * send returns ERR_LIMIT and queues nothing. If the socket fails or memory is missing, the send
 * fails, the link ends, and the loop calls lost. Used on the loop's thread only. */
struct ctl_link;
struct ctl_link_ops {
	/* A frame arrived. payload is valid during the call, NULL if there is none. A status < 0
	 * ends the link. Both callbacks may close the link. */
	tcpx_status (*frame)(void *arg, const struct frame *frame, const void *payload);
	/* The link has ended: EOF (PEER_CLOSED), reset (PEER_RESET), malformed (PROTOCOL), timed
	 * out ... Called once, from the loop or ctl_link_poll, never from inside ctl_link_send. */
	void (*lost)(void *arg, tcpx_status status, int err);
};
tcpx_status ctl_link_open(struct sys_loop *loop, int fd, const struct ctl_link_ops *ops, void *arg,
			  struct ctl_link **out_link); /* owns fd on success; arms keepalive */
tcpx_status ctl_link_send(struct ctl_link *link, const struct frame *frame, const void *payload);
/* Reads what has arrived, as the loop would: frame and lost may be called, and may close the
 * link. */
void ctl_link_poll(struct ctl_link *link);
int ctl_link_fd(const struct ctl_link *link);
void ctl_link_close(struct ctl_link *link); /* sends what it can without blocking */

#endif

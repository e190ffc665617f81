/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a TCP connection to an authenticated one: listener, dialler and the three-message handshake.
 * Everything here runs on the loop's thread and never blocks. The exception is ctl_resolve(), which
 * blocks its caller until a deadline at most.
 *
 * Proofs (HMAC-SHA256, K = the key of the auth method; for NONE and BARE see handshake.c):
 *   dial.proof   = HMAC(K, "tcpx dial" || dial without proof)      if wrong: closed, no answer
 *   answer.proof = HMAC(K, "tcpx answer" || dial || answer without proof)
 *   proof.proof  = HMAC(K, "tcpx proof" || dial || answer || proof without proof)
 *   session key  = HMAC(K, "tcpx session" || X || dial || answer)  X: result of the key exchange
 * and the signatures, by each end's own key, of SHA-256 of
 *   "tcpx answer identity" || dial || answer before its signature
 *   "tcpx proof identity" || dial || answer || proof before its signature
 * A further connection of a link uses ctl_data_auth()'s method with K = the link's session key.
 */
#ifndef CTL_CONN_H
#define CTL_CONN_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/frame.h"
#include "ctl/keys.h"
#include "sys/loop.h"
#include "wire/hello.h"

/* An authenticated connection. The function that gets it owns fd. Nothing after the handshake was
 * read from fd. */
struct ctl_conn {
	int fd;			 /* non-blocking, CLOEXEC, TCP_NODELAY */
	struct wire_hello local; /* the dial or answer that this end sent */
	struct wire_hello remote;
	uint8_t session_key[CTL_KEY_BYTES]; /* key of further connections of the link */
	bool proven; /* remote.uuid and remote.identity.key are proven, not only claimed */
	struct sockaddr_storage local_addr, remote_addr;
};

/* Returns the auth method of further connections of a link that was made by method `control`: BARE
 * if `control` is BARE, or if it is NONE and the further connection is on loopback; else LINK. LINK
 * proves the link's session key. BARE sends this key in clear and needs no crypto library. */
static inline enum wire_auth ctl_data_auth(enum wire_auth control, int loopback)
{
	return (control == WIRE_AUTH_NONE && loopback) || control == WIRE_AUTH_BARE
		       ? WIRE_AUTH_BARE
		       : WIRE_AUTH_LINK;
}

/* Decisions of the session about connections that it accepts, called on the loop's thread. If an
 * attacker sends a recorded dial again, `key` and `answer` are still called, so these two must not
 * change the session. Only `ready` proves that the dialler is alive, and only `ready` may close the
 * listener. */
struct ctl_accept_ops {
	/* Writes the key for this dial and returns 1. Returns 0 to refuse the dial silently.
	 * dial->key_id names the key or link. `loopback`: the remote address is loopback. */
	int (*key)(void *arg, const struct wire_hello *dial, int loopback,
		   uint8_t key[CTL_KEY_BYTES]);
	/* Called when the dial is proven, unless its version is unknown: fills in uuid, name,
	 * channels, budgets, status and the like. If the status is not 0 (restarted, unknown link,
	 * superseded ...), the answer is a refusal, after which the connection ends. */
	void (*answer)(void *arg, const struct wire_hello *dial,
		       const struct sockaddr_storage *from, struct wire_hello *answer);
	/* Called when the handshake is complete: takes over the connection. */
	void (*ready)(void *arg, const struct ctl_conn *conn);
	/* Returns the identity that the answer proves, or NULL if it proves none. */
	const struct ctl_identity *(*identity)(void *arg);
};

struct ctl_counters {
	_Atomic uint64_t accepted, preauth_rejects, auth_failures;
};

struct ctl_listener;

/* Listens on one address. *port 0 means any port, which is written back. `device` is NULL, or the
 * interface to bind to unless `addr` is loopback. A connection must authenticate within 2 s. At
 * most 128 may be unauthenticated, and of these at most 8 per source (64 for loopback) may lack a
 * proven dial. At 8 (64), the source's oldest one is closed; at 128, see ctl_listener_room().
 * Returns ERR_ADDRESS if the address is taken or not local, or the error of a missing resource. */
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
	struct sockaddr_storage local; /* bound before connect unless ss_family is 0 */
	uint16_t port_lo, port_hi;     /* range of local ports; if 0, the system chooses */
	const char *device;	       /* NULL, or interface to bind to unless remote is loopback */
	uint16_t segment_bytes;	       /* limit of a packet's payload, in either direction; or 0 */
	struct wire_hello hello; /* fields of the dial; ctl_handshake_dial() fills in the others */
	uint8_t key[CTL_KEY_BYTES];
	const struct ctl_identity *identity; /* identity that the dial proves, or NULL */
	int64_t deadline_ns;		     /* absolute, monotonic */
	/* May be NULL. Called when the answer is proven, before our proof is sent. The dial goes on
	 * only if this callback returns TCPX_OK. `arg` is that of ctl_dial_start(). */
	tcpx_status (*agree)(void *arg, const struct wire_hello *answer);
};

/* Starts a dial. Fails if a descriptor, memory, local address, port or device is missing, with
 * ERR_UNSUPPORTED (BARE beyond loopback, no crypto library) or ERR_INVALID (two address families).
 * `done` is called exactly once, from the loop and never from inside ctl_dial_start(); it is not
 * called after a failed start or a cancel. It gets TCPX_OK and a connection whose fd it owns, or an
 * error, its errno, the thread's last error and conn = NULL. With ERR_EXISTS, conn->remote is the
 * answer, and conn->fd -1. PEER_RESET may be temporary: the acceptor had too many connections. */
tcpx_status ctl_dial_start(struct sys_loop *loop, const struct ctl_dial_opts *opts,
			   void (*done)(void *arg, tcpx_status status, int err,
					const struct ctl_conn *conn),
			   void *arg, struct ctl_dial **out_dial);
void ctl_dial_cancel(struct ctl_dial *dial); /* on the loop's thread, before done was called */

/* Whether the text is well formed and needs a name look-up. */
int ctl_resolve_is_name(const char *text);
/* Resolves "host:port", "[v6]:port" or "host" (default_port) into at most `max` addresses in the
 * order of getaddrinfo, but with the two families alternating. Blocks the caller at most until the
 * deadline: a thread does the look-up and is abandoned if it hangs. Errors: ERR_LIMIT (too many
 * abandoned look-ups hang), ERR_NOT_FOUND, ERR_TIMED_OUT, ERR_INVALID, and of missing resources. */
tcpx_status ctl_resolve(const char *text, uint16_t default_port, int64_t deadline_ns,
			struct sockaddr_storage *out_addrs, unsigned max, unsigned *out_count);

/* A control link on an authenticated fd. Sends and receives frames (header, payload <=
 * FRAME_CONTROL_MAX, no table, no trailer) and never blocks. The output queue holds at most 1 MiB;
 * a send beyond that returns ERR_LIMIT and queues nothing. If the socket fails or memory is
 * missing, the send fails, the link ends, and the loop calls `lost`. Used on the loop's thread
 * only. */
struct ctl_link;
struct ctl_link_ops {
	/* Called for each frame. `payload` is valid during the call, and NULL if it is empty. A
	 * returned status < 0 ends the link. This callback and `lost` may close the link. */
	tcpx_status (*frame)(void *arg, const struct frame *frame, const void *payload);
	/* Called once when the link has ended: by EOF (PEER_CLOSED), reset (PEER_RESET), a bad
	 * frame (PROTOCOL), a timeout ... Called from the loop or ctl_link_poll, never from inside
	 * ctl_link_send. */
	void (*lost)(void *arg, tcpx_status status, int err);
};
tcpx_status ctl_link_open(struct sys_loop *loop, int fd, const struct ctl_link_ops *ops, void *arg,
			  struct ctl_link **out_link); /* owns fd on success; turns keepalive on */
tcpx_status ctl_link_send(struct ctl_link *link, const struct frame *frame, const void *payload);
/* Reads what has arrived, as the loop would. `frame` and `lost` may be called and may close the
 * link. */
void ctl_link_poll(struct ctl_link *link);
int ctl_link_fd(const struct ctl_link *link);
void ctl_link_close(struct ctl_link *link); /* sends what it can without blocking */

#endif

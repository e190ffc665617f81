/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a TCP connection to an authenticated one: listener, dialler and the three-message handshake.
 * Everything here runs on the loop's thread and never blocks; name resolution runs on a disposable
 * thread with a deadline.
 *
 * Proofs (HMAC-SHA256, K = the key of the auth method):
 *   dial.proof   = HMAC(K, "tcpx dial" || dial without proof)          a stranger gets no answer
 *   answer.proof = HMAC(K, "tcpx answer" || dial || answer w/o proof)
 *   proof.proof  = HMAC(K, "tcpx proof" || dial || answer || proof w/o proof)
 *   session key  = HMAC(K, "tcpx session" || X || dial || answer)     X: of the key exchange
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
#include "sys/loop.h"
#include "wire/hello.h"

#define CTL_KEY_BYTES 32

/* A session's own key pair (Ed25519). */
struct ctl_identity {
	bool there; /* false: no crypto library, and nothing is proven */
	uint8_t secret[CTL_KEY_BYTES], public_key[CTL_KEY_BYTES];
};
/* A fresh one, or none where there is no crypto. */
tcpx_status ctl_identity_make(struct ctl_identity *out_identity);
/* The uuid that a session of that key and incarnation has: no other key has it. */
tcpx_status ctl_identity_uuid(const uint8_t public_key[CTL_KEY_BYTES],
			      const uint8_t incarnation[WIRE_UUID_BYTES],
			      uint8_t out_uuid[WIRE_UUID_BYTES]);

/* An authenticated connection; the callee owns fd. Nothing was read beyond the handshake. */
struct ctl_conn {
	int fd;			 /* non-blocking, CLOEXEC, TCP_NODELAY */
	struct wire_hello local; /* what we said (dial or answer) */
	struct wire_hello remote;
	uint8_t session_key[CTL_KEY_BYTES]; /* see ctl_data_auth */
	bool proven; /* remote.uuid and remote.identity.key are the other end's; else only said */
	struct sockaddr_storage local_addr, remote_addr;
};

/* How the data connections of a control link prove themselves. A link without a key has a session
 * key that only those know who saw its handshake; over loopback it is shown bare, so that no crypto
 * library is needed. */
static inline enum wire_auth ctl_data_auth(enum wire_auth control, int loopback)
{
	return (control == WIRE_AUTH_NONE && loopback) || control == WIRE_AUTH_BARE
		       ? WIRE_AUTH_BARE
		       : WIRE_AUTH_LINK;
}

/* What the session decides about strangers; called on the loop's thread. key and answer only look:
 * an old dial that somebody replays gets as far as answer, so what changes the session belongs into
 * ready; and only ready may close the listener. */
struct ctl_accept_ops {
	/* Which key proves this dial: fill key and return 1; 0: refuse silently. With role DATA
	 * dial->key_id names the link. loopback: the remote address is one. */
	int (*key)(void *arg, const struct wire_hello *dial, int loopback,
		   uint8_t key[CTL_KEY_BYTES]);
	/* The dial is proven: fill the answer's own fields (uuid, incarnation, name, channels,
	 * budgets, status). A status != 0 is sent and ends the connection (restarted, unknown link,
	 * superseded ...). */
	void (*answer)(void *arg, const struct wire_hello *dial,
		       const struct sockaddr_storage *from, struct wire_hello *answer);
	void (*ready)(void *arg, const struct ctl_conn *conn);
	/* Whom the answer proves us to be; NULL: nobody. */
	const struct ctl_identity *(*identity)(void *arg);
};

struct ctl_counters {
	_Atomic uint64_t accepted, preauth_rejects, auth_failures;
};

struct ctl_listener;

/* Listens on one address. Limits before authentication: 2 s, 128 connections, 8 per source
 * (loopback sources: 64), 4 KiB each; beyond them the oldest pre-auth connection of the greediest
 * source goes. ERR_ADDRESS taken or not ours; ERR_NO_DESCRIPTORS; ERR_SYSTEM. *port 0: any, and the
 * one in use is written back. device: as in ctl_dial_opts. */
tcpx_status ctl_listener_open(struct sys_loop *loop, const struct sockaddr_storage *addr,
			      const char *device, uint16_t *port, const struct ctl_accept_ops *ops,
			      void *arg, struct ctl_counters *counters,
			      struct ctl_listener **out_listener);
void ctl_listener_close(struct ctl_listener *listener); /* loop's thread */

struct ctl_dial;

struct ctl_dial_opts {
	struct sockaddr_storage remote;
	struct sockaddr_storage local; /* ss_family 0: any; else bound before connect */
	uint16_t port_lo, port_hi;     /* local ports to choose from; 0: the system's choice */
	const char *device;	       /* to bind to, where remote is not loopback; NULL: none */
	uint16_t segment_bytes;	       /* the most that either end sends in a packet; 0: no limit */
	struct wire_hello hello;       /* dial fields; nonce and proof are filled here */
	uint8_t key[CTL_KEY_BYTES];
	const struct ctl_identity *identity; /* whom the dial proves us to be; NULL: nobody */
	int64_t deadline_ns;		     /* absolute, monotonic */
	/* NULL, or asked when the answer is proven and our proof not sent: the dial goes on with
	 * TCPX_OK only. arg is the dial's. */
	tcpx_status (*agree)(void *arg, const struct wire_hello *answer);
};

/* done is called exactly once, from the loop and never from inside start, unless the dial is
 * cancelled or start fails (descriptors, memory, local address, port or device; ERR_UNSUPPORTED:
 * BARE beyond loopback at either end, nothing is sent): TCPX_OK with the connection (fd is the
 * callee's), or the status (REFUSED, UNREACHABLE, TIMED_OUT, AUTH, VERSION, PROTOCOL, PEER_RESET,
 * what the answer's status says) with errno and the thread's last error. With ERR_EXISTS conn has
 * fd -1 and says in remote who answered. PEER_RESET and PEER_CLOSED may pass: the acceptor was
 * short of room. The dialler verifies the answer's proof. */
tcpx_status ctl_dial_start(struct sys_loop *loop, const struct ctl_dial_opts *opts,
			   void (*done)(void *arg, tcpx_status status, int err,
					const struct ctl_conn *conn),
			   void *arg, struct ctl_dial **out_dial);
void ctl_dial_cancel(struct ctl_dial *dial); /* loop's thread; not after done */

/* The text is well formed and only a look-up can tell its address. */
int ctl_resolve_is_name(const char *text);
/* Resolves "host:port", "[v6]:port", "host" (default_port) into at most max addresses in the order
 * of getaddrinfo, but the two families by turns. Blocks the calling thread at most until the
 * deadline (a helper thread does the look-up and is left behind when it hangs). ERR_NOT_FOUND;
 * ERR_TIMED_OUT; ERR_INVALID; ERR_LIMIT: too many were left behind. */
tcpx_status ctl_resolve(const char *text, uint16_t default_port, int64_t deadline_ns,
			struct sockaddr_storage *out_addrs, unsigned max, unsigned *out_count);

/* Keys of a key file: one or two, 64 hex digits a line, '#' comments; mode 0600 or stricter, owner
 * ourselves or root. The id is the first 8 bytes of HMAC(key, "tcpx key id"). ERR_AUTH with the
 * remedy; ERR_NOT_FOUND; ERR_UNSUPPORTED without crypto. */
struct ctl_keys {
	unsigned count;
	uint64_t id[2];
	uint8_t key[2][CTL_KEY_BYTES];
};
#define CTL_KEY_TEXT (2 * CTL_KEY_BYTES + 1)
void ctl_key_text(const uint8_t key[CTL_KEY_BYTES], char out_text[CTL_KEY_TEXT]);
/* 64 hex digits and nothing else: 1, else 0. */
int ctl_key_parse(const char *text, size_t len, uint8_t out_key[CTL_KEY_BYTES]);
tcpx_status ctl_keys_load(const char *path, struct ctl_keys *out_keys);
/* A fresh key in a new file (ERR_EXISTS), or as the second one of a file (ERR_NOT_FOUND; ERR_LIMIT:
 * it has two; ERR_AUTH as above). A dialler uses the first, an acceptor takes either. */
tcpx_status ctl_keys_create(const char *path, int append);
/* An identity file: one line, "identity " and the 64 hex digits of the secret half; mode and owner,
 * and the errors, as of a key file. */
tcpx_status ctl_identity_load(const char *path, struct ctl_identity *out_identity);
tcpx_status ctl_identity_create(const char *path);

/* A control link on an authenticated fd: frames (wire_frame header, payload <= FRAME_CONTROL_MAX,
 * no table, no trailer) in both directions, never blocking, bounded output queue (1 MiB; more is
 * ERR_LIMIT and nothing was queued). Any other failure ends the link: lost follows from the loop.
 * Loop's thread only. */
struct ctl_link;
struct ctl_link_ops {
	/* payload is valid during the call, NULL when there is none. A status < 0 ends the link
	 * with it. Both may close the link. */
	tcpx_status (*frame)(void *arg, const struct frame *frame, const void *payload);
	/* EOF (PEER_CLOSED), reset (PEER_RESET), malformed (PROTOCOL), timed out ... Called once,
	 * from the loop, never from inside ctl_link_send. */
	void (*lost)(void *arg, tcpx_status status, int err);
};
tcpx_status ctl_link_open(struct sys_loop *loop, int fd, const struct ctl_link_ops *ops, void *arg,
			  struct ctl_link **out_link); /* owns fd on success; arms keepalive */
tcpx_status ctl_link_send(struct ctl_link *link, const struct frame *frame, const void *payload);
/* Takes what has arrived, as the loop would: frame and lost may run, and may close the link. */
void ctl_link_poll(struct ctl_link *link);
int ctl_link_fd(const struct ctl_link *link);
void ctl_link_close(struct ctl_link *link); /* flushes what goes without blocking */

#endif

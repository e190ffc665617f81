/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Same-host channels: a two-copy ring per direction in one shared memfd; each side accesses only
 * its own memory. A unix stream socket serves as doorbell and reports the death of a side. That
 * both are on one host is proven by reaching an abstract unix address in the peer's network
 * namespace and presenting its nonce (decision 11).
 */
#ifndef NET_LOCAL_LOCAL_H
#define NET_LOCAL_LOCAL_H

#include "net/net.h"
#include "sys/loop.h"

#define LOCAL_NONCE_BYTES 32
#define LOCAL_NAME_MAX 64
#define LOCAL_RING_MIN 4096u
#define LOCAL_RING_MAX (1u << 30)

struct local_listener;

/* A channel arrived and presented a nonce: return 1 to keep it (the callee then owns chan), 0 to
 * refuse. Loop's thread. */
typedef int (*local_arrived_fn)(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
				uint32_t epoch, struct net_chan *chan);

/* A peer asks for the descriptor of that number: return it (the callee keeps it), or -1. Loop's
 * thread; must not close the listener. */
typedef int (*local_asked_fn)(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint64_t number);

struct local_listener_ops {
	/* Whether a peer with that nonce is expected; its memory is examined only then. Loop's
	 * thread. */
	int (*expected)(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES]);
	local_arrived_fn arrived;
	local_asked_fn asked; /* may be NULL */
};

/* name: receives the abstract address to offer, without the leading NUL byte. The caller keeps
 * ops. */
tcpx_status local_listener_open(struct sys_loop *loop, const struct local_listener_ops *ops,
				void *arg, char name[LOCAL_NAME_MAX],
				struct local_listener **out_listener);
void local_listener_close(struct local_listener *listener); /* loop's thread */

/* Dials the offer: creates the memfd (ring_bytes per direction, a power of two) and passes it. Does
 * not block. UNREACHABLE: other host or namespace; REFUSED: process of another user; AGAIN: the
 * queue of the listener is full; NO_DESCRIPTORS, NO_MEMORY, SYSTEM. A refusal by the listener shows
 * later as PEER_CLOSED. */
tcpx_status local_dial(const char *name, const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
		       uint32_t epoch, size_t ring_bytes, struct net_chan **out_chan);

/* The same, but waits until the listener accepted the channel. dialled is called once, on the
 * loop's thread, never from within start and not after cancel. OK: the callee owns chan; REFUSED:
 * process of another user; AGAIN: no answer within 5 s; PEER_CLOSED: the listener was out of
 * resources, or could not use the memory. The errors of start are those of local_dial. Only for a
 * peer with WIRE_FEATURE_LOCAL_ANSWER. */
struct local_dial;
typedef void (*local_dialled_fn)(void *arg, tcpx_status status, struct net_chan *chan);
tcpx_status local_dial_start(struct sys_loop *loop, const char *name,
			     const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
			     uint32_t epoch, size_t ring_bytes, local_dialled_fn dialled, void *arg,
			     struct local_dial **out_dial);
void local_dial_cancel(struct local_dial *dial); /* loop's thread */

/* Asks the listener of that name for a descriptor. fetched is called once, on the loop's thread,
 * never from within start and not after cancel. OK: the callee owns fd, which is close-on-exec
 * and may be of any kind; ERR_AGAIN: none came within 2 s. The errors of start are those of
 * local_dial. */
struct local_fetch;
typedef void (*local_fetched_fn)(void *arg, tcpx_status status, int fd);
tcpx_status local_fetch_start(struct sys_loop *loop, const char *name,
			      const uint8_t nonce[LOCAL_NONCE_BYTES], uint64_t number,
			      local_fetched_fn fetched, void *arg, struct local_fetch **out_fetch);
void local_fetch_cancel(struct local_fetch *fetch); /* loop's thread */

/* Both ends of a ring in one process, for tests. */
tcpx_status local_pair(size_t ring_bytes, struct net_chan **out_a, struct net_chan **out_b);

#endif

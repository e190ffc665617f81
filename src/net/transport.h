/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport contract: how stream channels (net.h) are made, and the registry of transports.
 *
 * A transport makes its channels in one of two ways; the members of transport_ops that belong to
 * the other way are NULL.
 *
 *  - From a socket: the control plane (ctl/) dials, listens, proves both ends in its handshake and
 *    passes a connected socket to adopt, which makes a channel of it.
 *  - By an offer: the acceptor opens a listener of its own and offers the listener's name and a
 *    nonce over the control link; the dialler connects to that name and presents the nonce. The
 *    control link carries one offer, so only the first such transport of the registry is in use.
 *
 * All calls and callbacks of an offer run on the loop's thread, and none of them blocks.
 */
#ifndef NET_TRANSPORT_H
#define NET_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "net/net.h"

#define TRANSPORT_NONCE_BYTES 32
#define TRANSPORT_NAME_MAX 64

struct sys_loop;
struct transport_ops;

/* The first member of a transport's own listener and dial structs. */
struct transport_listener {
	const struct transport_ops *ops;
};

struct transport_dial {
	const struct transport_ops *ops;
};

/* Calls of a listener to the layer above. The nonce is valid during the call. */
struct transport_listen_ops {
	/* Returns 1 if a peer with that nonce is expected. If not, the listener does not use what
	 * the dialler passed. */
	int (*expected)(void *arg, const uint8_t nonce[TRANSPORT_NONCE_BYTES]);
	/* A channel arrived with an expected nonce. Returns 1 if the callee owns chan now, 0 if it
	 * refuses it. May close the listener. */
	int (*arrived)(void *arg, const uint8_t nonce[TRANSPORT_NONCE_BYTES], uint16_t channel,
		       uint32_t epoch, struct net_chan *chan);
	/* A peer asks for the descriptor with that number. Returns the descriptor, which stays the
	 * callee's, or -1. Must not close the listener. NULL: there are no descriptors. */
	int (*asked)(void *arg, const uint8_t nonce[TRANSPORT_NONCE_BYTES], uint64_t number);
};

/* A peer's offer, and the channel to dial with it. A call of `dial` copies what it needs. */
struct transport_target {
	const char *name; /* the name that the peer's listen wrote; untrusted */
	const uint8_t *nonce;
	bool answers; /* the peer's listener answers whether it accepts the channel */
	uint16_t channel;
	uint32_t epoch;
};

/* Called when a dial has ended. Status OK: the callee owns chan. REFUSED: the listener belongs to
 * another user. AGAIN: no answer in time. PEER_CLOSED: the listener was out of resources, or could
 * not use the channel. */
typedef void (*transport_dialled_fn)(void *arg, tcpx_status status, struct net_chan *chan);

struct transport_ops {
	const char *name; /* unique; also the name of its channels (net_ops.name) */

	/* Makes a channel of a connected stream socket, which the channel owns on success.
	 * UNSUPPORTED: this transport does not take the socket, so the next one is asked.
	 * NO_MEMORY. Each end adopts without knowing the transport of the other end, so all
	 * transports that can adopt a socket must send the same bytes. Does not block. Control
	 * thread. */
	tcpx_status (*adopt)(int fd, struct net_chan **out_chan);

	/* Opens a listener and writes the name to offer. The caller keeps ops until unlisten.
	 * NO_DESCRIPTORS, NO_MEMORY, SYSTEM. */
	tcpx_status (*listen)(struct sys_loop *loop, const struct transport_listen_ops *ops,
			      void *arg, char name[TRANSPORT_NAME_MAX],
			      struct transport_listener **out_listener);
	/* Closes a listener and its connections that are not channels yet. Not called within
	 * expected or asked. */
	void (*unlisten)(struct transport_listener *listener);

	/* Dials a target. OK with *out_chan set: the channel is ready, and the caller owns it (a
	 * refusal by the peer shows later, as PEER_CLOSED). OK with *out_dial set: dialled is
	 * called once, never within this call and not after cancel. UNREACHABLE: the peer is on
	 * another host or in another namespace. REFUSED: the listener belongs to another user.
	 * AGAIN: the listener's queue is full. NO_DESCRIPTORS, NO_MEMORY, SYSTEM. */
	tcpx_status (*dial)(struct sys_loop *loop, const struct transport_target *target,
			    transport_dialled_fn dialled, void *arg,
			    struct transport_dial **out_dial, struct net_chan **out_chan);
	void (*cancel)(struct transport_dial *dial); /* frees a dial whose dialled has not run */
};

extern const struct transport_ops transport_local, transport_tcp;

/* Returns the transport with that index in the registry; NULL past the last one. Any thread. */
const struct transport_ops *net_transport_at(unsigned index);
/* Calls adopt of each transport until one takes the socket; returns the result of that one.
 * ERR_UNSUPPORTED: none takes it. */
tcpx_status net_transport_adopt(int fd, struct net_chan **out_chan);
/* Returns the first transport that is dialled by an offer, or NULL if there is none. */
const struct transport_ops *net_transport_of_offers(void);

/* For tests: adds a transport that is asked before all others. The test calls this before it
 * opens a session. */
void net_transport_enrol(const struct transport_ops *transport);

#endif

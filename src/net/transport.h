/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport contract: how stream channels (net.h) come into being, and the registry.
 *
 * A transport gets its channels in one of two ways; the members of the other way are NULL.
 *
 *  - By a socket: dialling, listening and the handshake are the control plane's (ctl/), which
 *    proves both ends and hands over a connected socket; adopt makes a channel of it.
 *  - By an offer: the acceptor listens by itself and offers, over the control link, a name and a
 *    nonce; the dialler presents the nonce there. The control link carries one offer, so the first
 *    such transport of the registry is the one in use.
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

/* First member of a transport's own types. */
struct transport_listener {
	const struct transport_ops *ops;
};

struct transport_dial {
	const struct transport_ops *ops;
};

/* What a listener asks the layer above. The nonce is valid during the call. */
struct transport_listen_ops {
	/* 1: a peer with that nonce is expected. Nothing of the caller is examined before. */
	int (*expected)(void *arg, const uint8_t nonce[TRANSPORT_NONCE_BYTES]);
	/* A channel arrived with an expected nonce. 1: the callee owns chan, 0: refused. May close
	 * the listener. */
	int (*arrived)(void *arg, const uint8_t nonce[TRANSPORT_NONCE_BYTES], uint16_t channel,
		       uint32_t epoch, struct net_chan *chan);
	/* A peer asks for the descriptor with that number: returns it (the callee keeps it), or -1.
	 * Must not close the listener. NULL: there are none. */
	int (*asked)(void *arg, const uint8_t nonce[TRANSPORT_NONCE_BYTES], uint64_t number);
};

/* A peer's offer, and the channel that is dialled with it. Copied by dial. */
struct transport_target {
	const char *name; /* as the peer's listen wrote it; untrusted */
	const uint8_t *nonce;
	bool answers; /* the peer's listener says whether it accepts a channel */
	uint16_t channel;
	uint32_t epoch;
};

/* The end of a dial. OK: the callee owns chan. REFUSED: a process of another user. AGAIN: no answer
 * in time. PEER_CLOSED: the listener was out of resources, or could not use the channel. */
typedef void (*transport_dialled_fn)(void *arg, tcpx_status status, struct net_chan *chan);

struct transport_ops {
	const char *name; /* of its channels, too (net_ops.name); unique */

	/* Makes a channel of a connected stream socket, which it owns on success. UNSUPPORTED:
	 * not with this socket, so the next transport is asked. NO_MEMORY. Both ends adopt on their
	 * own: the bytes on the connection must be those of every transport that could be there.
	 * Does not block. Control thread. */
	tcpx_status (*adopt)(int fd, struct net_chan **out_chan);

	/* Opens a listener and writes the name to offer. The caller keeps ops until unlisten.
	 * NO_DESCRIPTORS, NO_MEMORY, SYSTEM. */
	tcpx_status (*listen)(struct sys_loop *loop, const struct transport_listen_ops *ops,
			      void *arg, char name[TRANSPORT_NAME_MAX],
			      struct transport_listener **out_listener);
	/* Closes it with the connections that are not channels yet. Not within expected or
	 * asked. */
	void (*unlisten)(struct transport_listener *listener);

	/* Dials a target. OK with *out_chan set: the channel stands, and the caller owns it (a
	 * refusal shows later, as PEER_CLOSED). OK with *out_dial set: dialled is called once,
	 * never within this call and not after cancel. UNREACHABLE: the peer is on another host or
	 * in another namespace. REFUSED: a process of another user. AGAIN: its queue is full.
	 * NO_DESCRIPTORS, NO_MEMORY, SYSTEM. */
	tcpx_status (*dial)(struct sys_loop *loop, const struct transport_target *target,
			    transport_dialled_fn dialled, void *arg,
			    struct transport_dial **out_dial, struct net_chan **out_chan);
	void (*cancel)(struct transport_dial *dial); /* before dialled; frees it */
};

extern const struct transport_ops transport_local, transport_tcp;

/* The registry. The transport with that index; NULL past the last one. Any thread. */
const struct transport_ops *net_transport_at(unsigned index);
/* adopt of the first transport that supports the socket. */
tcpx_status net_transport_adopt(int fd, struct net_chan **out_chan);
/* The transport that is dialled by an offer. */
const struct transport_ops *net_transport_of_offers(void);

/* For tests: one more transport, asked before the others. Before any session is opened. */
void net_transport_enrol(const struct transport_ops *transport);

#endif

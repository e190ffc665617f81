/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport contract: how stream channels (net.h) are made, and the registry of transports.
 *
 * A transport makes its channels in one of two ways. The members of transport_ops that belong to
 * the other way are NULL.
 *
 * From a socket: the control plane (ctl/) dials and listens, and its handshake authenticates both
 * ends. It then passes a connected socket to adopt, which makes a channel from it.
 *
 * By an offer: the acceptor opens a listener and offers the listener's name and a nonce to the peer
 * over the control link. The dialler connects to that name and sends the nonce. The control link
 * carries one offer, so only the first such transport of the registry is in use. All calls and
 * callbacks of such a transport run on the loop's thread, and none of them blocks.
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

/* A transport's own listener struct begins with a transport_listener, its own dial struct with a
 * transport_dial. */
struct transport_listener {
	const struct transport_ops *ops;
};

struct transport_dial {
	const struct transport_ops *ops;
};

/* Functions of the layer above, which a listener calls. The nonce is valid only during the call. */
struct transport_listen_ops {
	/* Returns 1 if a peer with this nonce is expected. If not, the listener does not use what
	 * the dialler passed. */
	int (*expected)(void *arg, const uint8_t nonce[TRANSPORT_NONCE_BYTES]);
	/* Called when a channel with an expected nonce has arrived. Returns 1 if the callee takes
	 * chan over, or 0 if it refuses chan. May close the listener. */
	int (*arrived)(void *arg, const uint8_t nonce[TRANSPORT_NONCE_BYTES], uint16_t channel,
		       uint32_t epoch, struct net_chan *chan);
	/* Called when a peer asks for the descriptor with this number. Returns the descriptor,
	 * which still belongs to the callee, or -1 if it has no such descriptor. Must not close the
	 * listener. The member is NULL if no descriptors are passed. */
	int (*asked)(void *arg, const uint8_t nonce[TRANSPORT_NONCE_BYTES], uint64_t number);
};

/* What a dial needs: the name and nonce that the peer sent over the control link, and the channel
 * to dial. transport_ops.dial copies what it needs. */
struct transport_target {
	const char *name; /* the name that `listen` returned on the peer; untrusted */
	const uint8_t *nonce;
	bool answers; /* whether the peer's listener sends an answer to the dialler */
	uint16_t channel;
	uint32_t epoch;
};

/* Called when a dial has ended. If the status is OK, the callee owns chan. REFUSED means that the
 * listener belongs to another user, AGAIN that no answer arrived in time, and PEER_CLOSED that the
 * listener did not expect the nonce, was out of resources or could not use the channel. */
typedef void (*transport_dialled_fn)(void *arg, tcpx_status status, struct net_chan *chan);

struct transport_ops {
	const char *name; /* unique; also net_ops.name of the transport's channels */

	/* Makes a channel from a connected stream socket; on success the channel owns the socket.
	 * Returns UNSUPPORTED if this transport does not take the socket, which is then offered to
	 * the next transport. Returns NO_MEMORY if memory is short. Each end adopts its socket
	 * without knowing the transport of the other end, so all transports that can adopt a socket
	 * must send the same bytes. Does not block. Called on the control thread. */
	tcpx_status (*adopt)(int fd, struct net_chan **out_chan);

	/* Opens a listener and writes the name to offer. The caller must keep ops until unlisten.
	 * Returns NO_DESCRIPTORS, NO_MEMORY or SYSTEM on failure. */
	tcpx_status (*listen)(struct sys_loop *loop, const struct transport_listen_ops *ops,
			      void *arg, char name[TRANSPORT_NAME_MAX],
			      struct transport_listener **out_listener);
	/* Closes a listener and those of its connections that are not channels yet. Must not be
	 * called within expected or asked. */
	void (*unlisten)(struct transport_listener *listener);

	/* Dials a target. If OK is returned with *out_chan set, the channel is ready and the caller
	 * owns it; a refusal by the peer shows later, as PEER_CLOSED or PEER_RESET. If OK is
	 * returned with *out_dial set, `dialled` is called once, but never within this call or
	 * after cancel. Errors: UNREACHABLE if no listener in this network namespace has the name,
	 * REFUSED if the listener belongs to another user, AGAIN if the listener's queue is full,
	 * PEER_RESET if the listener has closed the connection already, NO_DESCRIPTORS, NO_MEMORY,
	 * SYSTEM. */
	tcpx_status (*dial)(struct sys_loop *loop, const struct transport_target *target,
			    transport_dialled_fn dialled, void *arg,
			    struct transport_dial **out_dial, struct net_chan **out_chan);
	void (*cancel)(struct transport_dial *dial); /* frees a dial that is under way */
};

extern const struct transport_ops transport_local, transport_tcp;

/* Returns the transport at this index of the registry, or NULL after the last one. May be called by
 * any thread. */
const struct transport_ops *net_transport_at(unsigned index);
/* Offers the socket to adopt of each transport until one takes it; returns the result of that
 * transport. Returns ERR_UNSUPPORTED if none takes the socket. */
tcpx_status net_transport_adopt(int fd, struct net_chan **out_chan);
/* Returns the first transport that is dialled by an offer, or NULL if no transport is. */
const struct transport_ops *net_transport_of_offers(void);

/* For tests: adds a transport that comes before all others in the registry. The test must call this
 * before it opens a session. */
void net_transport_enrol(const struct transport_ops *transport);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels between two sessions of one host. A channel has one memfd that both ends map, with a
 * ring per direction: the sender copies bytes into the ring and the receiver copies them out. Large
 * pieces may be lent: the receiver then copies them straight from the sender's memory. A unix
 * stream socket carries wake-ups and shows when the other end has closed. The dialler proves that
 * both ends are on one host: it connects to an abstract unix address in the peer's network
 * namespace and sends the nonce that the peer chose (docs/design/decisions.md, 11).
 */
#ifndef NET_LOCAL_LOCAL_H
#define NET_LOCAL_LOCAL_H

#include "net/transport.h"
#include "sys/loop.h"

#define LOCAL_NONCE_BYTES TRANSPORT_NONCE_BYTES
#define LOCAL_NAME_MAX TRANSPORT_NAME_MAX
#define LOCAL_RING_MIN 4096u /* smallest ring, in bytes */
#define LOCAL_RING_MAX (1u << 30)
#define LOCAL_RING_BYTES (2u << 20) /* bytes of each ring of a dialled channel */

/* Open and close a listener: transport_local.listen and .unlisten, which tests also call directly.
 * `name` becomes an abstract unix address without its leading NUL byte. */
tcpx_status local_listener_open(struct sys_loop *loop, const struct transport_listen_ops *ops,
				void *arg, char name[LOCAL_NAME_MAX],
				struct transport_listener **out_listener);
void local_listener_close(struct transport_listener *listener); /* `listener` may be NULL */

/* Dial a channel whose rings have ring_bytes each, a power of two. local_dial asks the listener for
 * no answer and returns the channel at once. local_dial_start calls `dialled` when the answer has
 * arrived or the connection has ended, or with the status AGAIN after 5 s. Both functions return
 * the errors of transport_ops.dial. */
tcpx_status local_dial(const char *name, const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
		       uint32_t epoch, size_t ring_bytes, struct net_chan **out_chan);
tcpx_status local_dial_start(struct sys_loop *loop, const char *name,
			     const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
			     uint32_t epoch, size_t ring_bytes, transport_dialled_fn dialled,
			     void *arg, struct transport_dial **out_dial);
void local_dial_cancel(struct transport_dial *dial); /* called on the loop's thread */
/* Implements transport_local.dial: calls local_dial_start if the peer's listener sends answers,
 * else local_dial. */
tcpx_status local_dial_target(struct sys_loop *loop, const struct transport_target *target,
			      transport_dialled_fn dialled, void *arg,
			      struct transport_dial **out_dial, struct net_chan **out_chan);

/* Asks the listener called `name` for the descriptor with this number. Calls `fetched` once, on the
 * loop's thread, but never within local_fetch_start or after local_fetch_cancel. If its `status` is
 * OK, `fetched` owns `fd`, which is close-on-exec and may be of any kind. Its `status` is ERR_AGAIN
 * if the listener passes no descriptor or none arrives within 2 s. local_fetch_start itself returns
 * OK, an error of local_dial, or ERR_AGAIN if the request cannot be sent. */
struct local_fetch;
typedef void (*local_fetched_fn)(void *arg, tcpx_status status, int fd);
tcpx_status local_fetch_start(struct sys_loop *loop, const char *name,
			      const uint8_t nonce[LOCAL_NONCE_BYTES], uint64_t number,
			      local_fetched_fn fetched, void *arg, struct local_fetch **out_fetch);
void local_fetch_cancel(struct local_fetch *fetch); /* called on the loop's thread */

/* Makes both ends of a channel in one process, for tests. */
tcpx_status local_pair(size_t ring_bytes, struct net_chan **out_a, struct net_chan **out_b);

#endif

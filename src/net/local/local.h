/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Same-host channels: a ring per direction in one shared memfd; the sender copies bytes in and the
 * receiver copies them out, so each side accesses only its own memory. A unix stream socket serves
 * as doorbell and reports the death of a side. The dialler proves that both ends are on one host:
 * it reaches an abstract unix address in the peer's network namespace and presents the peer's
 * nonce (decision 11).
 */
#ifndef NET_LOCAL_LOCAL_H
#define NET_LOCAL_LOCAL_H

#include "net/transport.h"
#include "sys/loop.h"

#define LOCAL_NONCE_BYTES TRANSPORT_NONCE_BYTES
#define LOCAL_NAME_MAX TRANSPORT_NAME_MAX
#define LOCAL_RING_MIN 4096u /* least bytes of a ring */
#define LOCAL_RING_MAX (1u << 30)
#define LOCAL_RING_BYTES (2u << 20) /* ring of a dialled channel; measured: docs/design/local.md */

/* Members listen and unlisten of transport_local, which tests call too. name: an abstract unix
 * address without the leading NUL byte. */
tcpx_status local_listener_open(struct sys_loop *loop, const struct transport_listen_ops *ops,
				void *arg, char name[LOCAL_NAME_MAX],
				struct transport_listener **out_listener);
void local_listener_close(struct transport_listener *listener); /* NULL is allowed */

/* The two forms of transport_local.dial, which tests call with a ring of their own size:
 * ring_bytes per direction, a power of two. local_dial does not wait for an answer of the
 * listener; local_dial_start calls dialled when the answer has come, or with AGAIN after 5 s. The
 * errors of both are those of transport_ops.dial. */
tcpx_status local_dial(const char *name, const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
		       uint32_t epoch, size_t ring_bytes, struct net_chan **out_chan);
tcpx_status local_dial_start(struct sys_loop *loop, const char *name,
			     const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
			     uint32_t epoch, size_t ring_bytes, transport_dialled_fn dialled,
			     void *arg, struct transport_dial **out_dial);
void local_dial_cancel(struct transport_dial *dial); /* called on the loop's thread */
/* Is transport_local.dial. */
tcpx_status local_dial_target(struct sys_loop *loop, const struct transport_target *target,
			      transport_dialled_fn dialled, void *arg,
			      struct transport_dial **out_dial, struct net_chan **out_chan);

/* local_fetch_start asks the listener of that name for the descriptor with that number. fetched is
 * called once, on the loop's thread, never from within local_fetch_start and not after
 * local_fetch_cancel. Its status: OK: the callee owns fd, which is close-on-exec and may be of any
 * kind; ERR_AGAIN: none came within 2 s, or the listener passed none. The errors of
 * local_fetch_start are those of local_dial, and ERR_AGAIN if the listener does not take the
 * request. */
struct local_fetch;
typedef void (*local_fetched_fn)(void *arg, tcpx_status status, int fd);
tcpx_status local_fetch_start(struct sys_loop *loop, const char *name,
			      const uint8_t nonce[LOCAL_NONCE_BYTES], uint64_t number,
			      local_fetched_fn fetched, void *arg, struct local_fetch **out_fetch);
void local_fetch_cancel(struct local_fetch *fetch); /* called on the loop's thread */

/* Makes both ends of a channel in one process, for tests. */
tcpx_status local_pair(size_t ring_bytes, struct net_chan **out_a, struct net_chan **out_b);

#endif

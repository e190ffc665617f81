/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm: messages in one direction, in the order in which they are posted. The rules of the
 * strictest plugin are kept here, so that a caller cannot break them:
 *
 *   posted >= done >= consumed, and of a receiver's comm at most window are posted and not consumed
 *   (of a sender's: posted and not done). Only the oldest posted one is tested, and none that is
 *   done. Received ones are consumed in order, empty ones and those in host memory included.
 *
 * A message's number counts from 0; its tag is the low 31 bits of it. Any answer of the plugin but
 * success ends the comm: the error is kept and every later call answers it without asking again.
 *
 * Thread rule: the thread of the first data call drives the comm; another one's call is refused. A
 * plugin writes to sockets without caring for SIGPIPE, and the threads it makes in these calls have
 * the caller's mask: so it must be a thread of ours, with the signal blocked (sys_thread_start).
 */
#ifndef PLUGIN_COMM_H
#define PLUGIN_COMM_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

#include "abi/ncclnet.h"

#define NET_COMM_WINDOW 16	  /* most requests that a plugin takes */
#define NET_COMM_UNKNOWN SIZE_MAX /* a length that the plugin does not tell */

struct net_comm;
struct net_mr;

struct net_comm_counts {
	uint64_t posted, done, consumed; /* of a sender's comm consumed is done */
	uint64_t put_off;		 /* posts that the plugin took later */
	uint64_t bytes;			 /* sent, or received as far as the plugin tells */
};

/* data and bytes: inside the registered memory; 0 bytes are a message too. OK: *out_number is its
 * number. IN_PROGRESS: the plugin takes it later, nothing is posted. ERR_AGAIN: the window is full,
 * the plugin was not asked. ERR_RANGE: outside. ERR_CHANNEL_LOST: the comm is lost. */
tcpx_status net_comm_send(struct net_comm *comm, struct net_mr *mr, const void *data, size_t bytes,
			  uint64_t *out_number) TCPX_MUST_CHECK;
/* room: how long the message may be. Otherwise as net_comm_send. */
tcpx_status net_comm_recv(struct net_comm *comm, struct net_mr *mr, void *data, size_t room,
			  uint64_t *out_number) TCPX_MUST_CHECK;

/* Looks after the oldest message that is not done; moves all of them. OK: it is done; *out_number
 * and, where the plugin tells, its length (else NET_COMM_UNKNOWN). IN_PROGRESS: not yet, or there
 * is none. Errors: the comm is lost; ERR_TRUNCATED when it is longer than its receive. */
tcpx_status net_comm_poll(struct net_comm *comm, uint64_t *out_number,
			  size_t *out_bytes) TCPX_MUST_CHECK;

/* The received message is copied out: its pages may be used again. number is the oldest one that is
 * done and not consumed; else ERR_STATE, and the plugin is not asked. */
tcpx_status net_comm_consumed(struct net_comm *comm, uint64_t number) TCPX_MUST_CHECK;

/* How many of the oldest are done; any thread. */
uint64_t net_comm_ended(const struct net_comm *comm);

/* The driver, or anybody when it has stopped. */
void net_comm_counts(const struct net_comm *comm, struct net_comm_counts *out_counts);

/* What accept filled in, constant; type NCCLNET_DEVICE_HOST where the version has none. */
const struct ncclnet_device_handle *net_comm_device(const struct net_comm *comm);

/* Where a message of the comm has its entry in the device queue. */
unsigned net_comm_slot(const struct net_comm *comm, uint64_t number);

/* What its post says of a message: the same on both ends. */
static inline unsigned net_comm_tag(uint64_t number)
{
	return (unsigned)(number & 0x7fffffffu);
}

/* How many bytes from data on lie in one registered piece; 0: outside. */
uint64_t net_mr_reach(const struct net_mr *mr, const void *data);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm: messages in one direction, in the order in which they are posted. The functions here keep
 * the rules of the strictest plugin:
 *
 *   posted >= done >= consumed. A receiver's comm has at most window (net_setup_opts) messages that
 *   are posted and not consumed, a sender's comm at most window messages that are posted and not
 *   done. Only the oldest message that is posted and not done is tested. Received messages are
 *   consumed in order, including empty ones and those in host memory.
 *
 * Messages are numbered from 0; the tag of a message is the low 31 bits of its number. Any result
 * of the plugin other than success ends the comm: every later call returns the same error without
 * calling the plugin.
 *
 * Threads: the thread of the first data call drives the comm, and calls of other threads are
 * refused. That thread must block SIGPIPE (sys_thread_start), because plugins write to sockets
 * without MSG_NOSIGNAL, and the threads that a plugin creates in these calls inherit the caller's
 * mask.
 */
#ifndef PLUGIN_COMM_H
#define PLUGIN_COMM_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

#include "abi/ncclnet.h"

#define NET_COMM_WINDOW 16	  /* requests that a comm of every plugin accepts at a time */
#define NET_COMM_UNKNOWN SIZE_MAX /* the plugin does not report the length */

struct net_comm;
struct net_mr;

struct net_comm_counts {
	uint64_t posted, done, consumed; /* messages; in a sender's comm consumed equals done */
	uint64_t put_off;		 /* posts that the plugin did not accept at once */
	uint64_t bytes;			 /* bytes sent, or received if the plugin reports lengths */
};

/* Sends `bytes` bytes at `data`, which lie in the memory of mr; 0 bytes are a message too. OK:
 * *out_number is the message's number, and the plugin reads the data at least until the message
 * is done. IN_PROGRESS: the plugin does not accept the message now, and nothing is posted.
 * ERR_AGAIN: the window is full; the plugin was not called. ERR_RANGE: the bytes are not within
 * one registered piece of mr, or are too many for one message. ERR_STATE: the comm only receives,
 * mr is of another comm, or the caller is not the thread that drives the comm or does not block
 * SIGPIPE. ERR_CHANNEL_LOST: the comm is lost. */
tcpx_status net_comm_send(struct net_comm *comm, struct net_mr *mr, const void *data, size_t bytes,
			  uint64_t *out_number) TCPX_MUST_CHECK;
/* Receives a message of at most `room` bytes into `data`, which lies in the memory of mr. The
 * results are those of net_comm_send; ERR_STATE: the comm only sends. */
tcpx_status net_comm_recv(struct net_comm *comm, struct net_mr *mr, void *data, size_t room,
			  uint64_t *out_number) TCPX_MUST_CHECK;

/* Tests the oldest message that is posted and not done, which also lets the plugin progress. OK:
 * the message is done; *out_number is its number, *out_bytes its length, or NET_COMM_UNKNOWN if the
 * plugin does not report it. IN_PROGRESS: the message is not done, or none is posted.
 * ERR_TRUNCATED: the message is longer than the buffer of its receive, which ends the comm. Other
 * errors: the comm is lost. */
tcpx_status net_comm_poll(struct net_comm *comm, uint64_t *out_number,
			  size_t *out_bytes) TCPX_MUST_CHECK;

/* Tells the plugin that a received message was copied out, so that the plugin may use the pages
 * again. `number` must be that of the oldest message that is done and not consumed; otherwise,
 * and for a comm that sends, ERR_STATE, and the plugin is not called. */
tcpx_status net_comm_consumed(struct net_comm *comm, uint64_t number) TCPX_MUST_CHECK;

/* The number of messages that are done. May be called by any thread. */
uint64_t net_comm_ended(const struct net_comm *comm);

/* Copies the counts of the comm. May be called by the thread that drives the comm, or, after that
 * thread has stopped, by any thread. */
void net_comm_counts(const struct net_comm *comm, struct net_comm_counts *out_counts);

/* The device handle that accept filled in; it does not change. Its type is NCCLNET_DEVICE_HOST if
 * the plugin's version has no device handle, and in a comm that sends. */
const struct ncclnet_device_handle *net_comm_device(const struct net_comm *comm);

/* The index of a received message's entry in the device queue, in which the plugin lists
 * fragments. */
unsigned net_comm_slot(const struct net_comm *comm, uint64_t number);

/* The tag of a message, the same at both ends. */
static inline unsigned net_comm_tag(uint64_t number)
{
	return (unsigned)(number & 0x7fffffffu);
}

/* The number of bytes from data to the end of its registered piece or, if that is nearer, of mr;
 * 0: data is not in mr. */
uint64_t net_mr_reach(const struct net_mr *mr, const void *data);

#endif

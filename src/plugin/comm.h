/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm: messages in one direction, in the order in which they are posted. The functions below
 * keep the rules of the strictest plugin:
 *
 *   posted >= done >= consumed. At most `window` messages (net_setup_opts) of a receiving comm are
 *   posted and not consumed, and at most `window` messages of a sending comm are posted and not
 *   done. Only the oldest message that is posted and not done is tested. Received messages are
 *   consumed in order, including empty ones and those in host memory.
 *
 * Messages are numbered from 0; the tag of a message is the low 31 bits of its number. If a data
 * call of the plugin does not succeed, the comm is lost: every later data call returns the same
 * error without calling the plugin.
 *
 * Threads: the thread of the first data call becomes the driver of the comm, and data calls of
 * other threads fail. After the exchange of the first, empty message (setup.h) the comm has no
 * driver again. The driver must block SIGPIPE (sys_thread_start), because plugins write to sockets
 * without MSG_NOSIGNAL. The threads that a plugin creates in a data call inherit the driver's
 * signal mask.
 */
#ifndef PLUGIN_COMM_H
#define PLUGIN_COMM_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

#include "abi/ncclnet.h"

#define NET_COMM_WINDOW 16 /* most messages of a comm at a time; every plugin accepts so many */
#define NET_COMM_UNKNOWN SIZE_MAX /* a length that the plugin does not report */

struct net_comm;
struct net_mr;

struct net_comm_counts {
	uint64_t posted, done, consumed; /* messages; if the comm sends, `consumed` equals `done` */
	uint64_t put_off;		 /* calls that the plugin answered with "not now" */
	uint64_t bytes;			 /* bytes sent, or received if the plugin reports lengths */
};

/* Sends `bytes` bytes at `data`, which lie in the memory of `mr`; a message of 0 bytes is allowed.
 * Returns OK and the message's number in *out_number. The plugin may read the data until the peer
 * has received the message or the comm is closed, even after the message is done. Returns
 * IN_PROGRESS if the plugin does not accept the message now; nothing is posted then. Returns
 * ERR_AGAIN if the window is full; the plugin was not called. Returns ERR_RANGE if the bytes are
 * not within one registered piece of `mr`, or are too many for one message. Returns ERR_STATE if
 * the comm only receives, `mr` belongs to another comm, or the caller cannot be the driver: it does
 * not block SIGPIPE, or another thread is the driver. Returns ERR_CHANNEL_LOST if the plugin
 * failed. If the comm was lost earlier, returns the error with which it was lost. */
tcpx_status net_comm_send(struct net_comm *comm, struct net_mr *mr, const void *data, size_t bytes,
			  uint64_t *out_number) TCPX_MUST_CHECK;
/* Receives a message of at most `room` bytes into `data`, which lies in the memory of `mr`. Returns
 * what net_comm_send returns, but ERR_STATE if the comm only sends instead of only receives. */
tcpx_status net_comm_recv(struct net_comm *comm, struct net_mr *mr, void *data, size_t room,
			  uint64_t *out_number) TCPX_MUST_CHECK;

/* Tests the oldest message that is posted and not done, which also lets the plugin progress.
 * Returns OK if the message is done: *out_number is its number, and *out_bytes its length or
 * NET_COMM_UNKNOWN. Returns IN_PROGRESS if the message is not done, or if there is no such message.
 * Returns ERR_TRUNCATED if the plugin reports that the message is longer than the buffer of its
 * receive; the comm is lost then. Other errors are those of net_comm_send: ERR_STATE if the caller
 * cannot be the driver, ERR_CHANNEL_LOST, or the error with which the comm was lost earlier. */
tcpx_status net_comm_poll(struct net_comm *comm, uint64_t *out_number,
			  size_t *out_bytes) TCPX_MUST_CHECK;

/* Tells the plugin that a received message was copied out, so that the plugin may reuse the
 * message's pages. `number` must be the oldest message that is done and not consumed. Otherwise,
 * and for a comm that sends, returns ERR_STATE without calling the plugin. Other errors are those
 * of net_comm_send: ERR_STATE if the caller cannot be the driver, ERR_CHANNEL_LOST, or the error
 * with which the comm was lost earlier. */
tcpx_status net_comm_consumed(struct net_comm *comm, uint64_t number) TCPX_MUST_CHECK;

/* Returns the number of messages that are done. May be called by any thread. */
uint64_t net_comm_ended(const struct net_comm *comm);

/* Copies the counts of the comm. May be called by the driver of the comm, or, after the driver has
 * stopped, by any thread. */
void net_comm_counts(const struct net_comm *comm, struct net_comm_counts *out_counts);

/* Returns the device handle that accept filled in, which does not change. Its type is
 * NCCLNET_DEVICE_HOST if the plugin's version has no device handle, and for a comm that sends. */
const struct ncclnet_device_handle *net_comm_device(const struct net_comm *comm);

/* Returns the index of a received message in the device queue, where the plugin lists the message's
 * fragments. */
unsigned net_comm_slot(const struct net_comm *comm, uint64_t number);

/* The tag of a message, the same at both ends. */
static inline unsigned net_comm_tag(uint64_t number)
{
	return (unsigned)(number & 0x7fffffffu);
}

/* Returns the number of bytes from `data` to the end of its registered piece or of `mr`, whichever
 * is nearer. Returns 0 if `data` is not in `mr`. */
uint64_t net_mr_reach(const struct net_mr *mr, const void *data);

#endif

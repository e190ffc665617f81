/* SPDX-License-Identifier: Apache-2.0 */
/* The framed control link: receives whole frames, queues a limited number of bytes to send, and
 * never blocks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "ctl/conn.h"
#include "sys/fd.h"
#include "sys/sock.h"
#include "wire/frame_codec.h"

#define OUT_MAX (1u << 20) /* most bytes in the output queue */
/* most bytes read per event, so that other links get their turn */
#define READ_BYTES_MAX (256u << 10)
/* TCP keepalive ends the link after 90 s of silence if heartbeats do not. That is longer than the
 * longest limit of silence that a session may set (60 s). */
#define KEEPALIVE_IDLE_S 30
#define KEEPALIVE_INTERVAL_S 10
#define KEEPALIVE_COUNT 6

/* A frame in the output queue. `len` is its length in bytes, of which `done` bytes are sent. */
struct out_frame {
	struct list_node node;
	size_t len, done;
	uint8_t bytes[];
};

struct ctl_link {
	struct sys_loop *loop;
	const struct ctl_link_ops *ops;
	void *arg;
	struct sys_watch watch;
	struct sys_timer failed_timer; /* makes the loop handle a failed send */
	/* `busy` is the number of calls of handle_link_events() in progress, in which the link is
	 * not freed. `closed` is 1 after ctl_link_close(). `lost` is 1 from just before the
	 * callback `lost` is called. */
	int busy, closed, lost;
	tcpx_status send_status; /* TCPX_OK while sending works */
	int send_err;		 /* errno of the send that failed */
	/* input */
	uint8_t header[FRAME_HEADER_BYTES];
	size_t header_done, payload_done;
	struct frame frame;
	uint8_t *payload; /* of the current frame, at most FRAME_CONTROL_MAX */
	/* output */
	struct list_node out;
	size_t out_bytes;
};

static void free_link(struct ctl_link *link)
{
	struct list_node *node;

	while ((node = list_pop_front(&link->out)))
		free(LIST_ENTRY(node, struct out_frame, node));
	free(link->payload);
	free(link);
}

/* ---- output ---- */

/* Marks sending as failed and returns the status. The loop first delivers what the peer sent, then
 * reports the loss. */
static tcpx_status fail_sending(struct ctl_link *link, tcpx_status status, int err)
{
	link->send_status = status;
	link->send_err = err;
	sys_timer_set(link->loop, &link->failed_timer, 0);
	return status;
}

/* Sends the queue. Returns OK if all of it was sent, IN_PROGRESS if the rest waits for room in the
 * socket, or the error of a failed send. */
static tcpx_status flush_queue(struct ctl_link *link)
{
	while (!list_empty(&link->out)) {
		struct out_frame *out = LIST_ENTRY(link->out.next, struct out_frame, node);
		ssize_t put = send(link->watch.fd, out->bytes + out->done, out->len - out->done,
				   MSG_NOSIGNAL);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0 && errno == EAGAIN)
			return TCPX_IN_PROGRESS;
		if (put < 0)
			return fail_sending(link, sys_errno_status(errno), errno);
		out->done += (size_t)put;
		link->out_bytes -= (size_t)put;
		if (out->done == out->len) {
			list_remove(&out->node);
			free(out);
		}
	}
	return TCPX_OK;
}

/* Queues a frame whose first `skip` bytes are already sent. Returns ERR_LIMIT if the queue is full,
 * or ERR_NO_MEMORY. */
static tcpx_status enqueue_frame(struct ctl_link *link, const struct iovec iov[2], size_t skip)
{
	size_t total = iov[0].iov_len + iov[1].iov_len;
	struct out_frame *out;

	if (link->out_bytes + total - skip > OUT_MAX)
		return error_set(TCPX_ERR_LIMIT, 0,
				 "the control link's output queue is full (%u bytes)", OUT_MAX);
	out = malloc(sizeof(*out) + total);
	if (!out)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a control frame");
	out->len = total;
	out->done = skip;
	memcpy(out->bytes, iov[0].iov_base, iov[0].iov_len);
	if (iov[1].iov_len)
		memcpy(out->bytes + iov[0].iov_len, iov[1].iov_base, iov[1].iov_len);
	list_push_back(&link->out, &out->node);
	link->out_bytes += total - skip;
	sys_watch_set(link->loop, &link->watch, EPOLLIN | EPOLLOUT);
	return TCPX_OK;
}

tcpx_status ctl_link_send(struct ctl_link *link, const struct frame *frame, const void *payload)
{
	uint8_t header[FRAME_HEADER_BYTES];
	struct iovec iov[2] = {{header, sizeof(header)}, {(void *)payload, frame->payload_bytes}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = frame->payload_bytes ? 2 : 1};
	ssize_t put = 0;
	tcpx_status status;

	if (link->closed || link->lost)
		return TCPX_ERR_STATE;
	if (link->send_status != TCPX_OK)
		return link->send_status;
	if (frame->payload_bytes > FRAME_CONTROL_MAX || frame->table_bytes)
		return error_set(TCPX_ERR_INVALID, 0, "a control frame of %u bytes, at most %u",
				 frame->payload_bytes, FRAME_CONTROL_MAX);
	wire_frame_encode(frame, header);
	if (list_empty(&link->out)) {
		do {
			put = sendmsg(link->watch.fd, &msg, MSG_NOSIGNAL);
		} while (put < 0 && errno == EINTR);
		if (put < 0 && errno != EAGAIN)
			return fail_sending(link, sys_errno_status(errno), errno);
		if (put == (ssize_t)(iov[0].iov_len + iov[1].iov_len))
			return TCPX_OK;
	}
	status = enqueue_frame(link, iov, put > 0 ? (size_t)put : 0);
	/* Nothing else may be sent on this link if a frame was sent in part. The same holds if
	 * there is no memory for a frame, because the peer may wait for it. This control link then
	 * ends; fences, and unanswered SHARE frames, are sent again on the next control link. If
	 * only the queue is full, the caller decides. */
	if (status != TCPX_OK && (put > 0 || status == TCPX_ERR_NO_MEMORY))
		return fail_sending(link, status, 0);
	return status;
}

/* ---- input ---- */

/* Gives a complete frame to the link's callback `frame`. Returns TCPX_OK, or the status that ends
 * the link. */
static tcpx_status deliver_frame(struct ctl_link *link)
{
	uint8_t *payload = link->payload;
	struct frame frame = link->frame;
	tcpx_status status;

	link->payload = NULL;
	link->header_done = link->payload_done = 0;
	status = link->ops->frame(link->arg, &frame, payload);
	free(payload);
	return status < 0 ? status : TCPX_OK;
}

/* Called when a header is complete: delivers a frame without payload, or allocates the payload. */
static tcpx_status begin_frame(struct ctl_link *link)
{
	tcpx_status status = wire_frame_decode(link->header, &link->frame);

	if (status != TCPX_OK || link->frame.table_bytes ||
	    link->frame.payload_bytes > FRAME_CONTROL_MAX)
		return TCPX_ERR_PROTOCOL;
	if (!link->frame.payload_bytes)
		return deliver_frame(link);
	link->payload = malloc(link->frame.payload_bytes);
	return link->payload ? TCPX_OK : TCPX_ERR_NO_MEMORY;
}

/* Calls recv() once and handles what arrived. Returns OK if there may be more to read, IN_PROGRESS
 * if nothing more has arrived, else the status that ends the link. Reduces *budget by the bytes
 * read. */
static tcpx_status link_read_some(struct ctl_link *link, size_t *budget, int *err)
{
	int in_header = link->header_done < FRAME_HEADER_BYTES;
	uint8_t *into =
		in_header ? link->header + link->header_done : link->payload + link->payload_done;
	size_t want = in_header ? FRAME_HEADER_BYTES - link->header_done
				: link->frame.payload_bytes - link->payload_done;
	ssize_t got = recv(link->watch.fd, into, want, 0);

	if (got == 0)
		return TCPX_ERR_PEER_CLOSED;
	if (got < 0) {
		if (errno == EAGAIN || errno == EINTR)
			return TCPX_IN_PROGRESS;
		*err = errno;
		return sys_errno_status(errno);
	}
	*budget -= (size_t)got < *budget ? (size_t)got : *budget;
	if (in_header) {
		link->header_done += (size_t)got;
		return link->header_done == FRAME_HEADER_BYTES ? begin_frame(link) : TCPX_OK;
	}
	link->payload_done += (size_t)got;
	return link->payload_done == link->frame.payload_bytes ? deliver_frame(link) : TCPX_OK;
}

/* Reads what has arrived, until about READ_BYTES_MAX bytes are read. Returns IN_PROGRESS if nothing
 * more has arrived, OK if there may be more or the link was closed, else the status that ends the
 * link. */
static tcpx_status link_read_all(struct ctl_link *link, int *err)
{
	size_t budget = READ_BYTES_MAX;
	tcpx_status status;

	do {
		status = link_read_some(link, &budget, err);
	} while (status == TCPX_OK && budget && !link->closed);
	return status;
}

/* Sends what is queued, reads what has arrived, and ends the link after an error. Frees the link if
 * a callback closed it. */
static void handle_link_events(struct ctl_link *link, uint32_t events)
{
	tcpx_status status = TCPX_IN_PROGRESS;
	int err = 0;

	link->busy++;
	if (events & EPOLLOUT && link->send_status == TCPX_OK && flush_queue(link) == TCPX_OK)
		sys_watch_set(link->loop, &link->watch, EPOLLIN);
	if (events & ~(uint32_t)EPOLLOUT || link->send_status != TCPX_OK)
		status = link_read_all(link, &err);
	/* Frames that the peer sent before our sending failed are delivered first, so the failure
	 * is handled last. */
	if (status == TCPX_IN_PROGRESS && link->send_status != TCPX_OK) {
		status = link->send_status;
		err = link->send_err;
	}
	if (status < 0 && !link->closed) {
		link->lost = 1;
		sys_watch_del(link->loop, &link->watch);
		sys_timer_del(link->loop, &link->failed_timer);
		link->ops->lost(link->arg, status, err); /* may close the link */
	} else if (link->send_status != TCPX_OK && !link->closed) {
		sys_timer_set(link->loop, &link->failed_timer, 0);
	}
	if (!--link->busy && link->closed)
		free_link(link);
}

static void on_link_event(struct sys_watch *watch, uint32_t events)
{
	handle_link_events(LIST_ENTRY(watch, struct ctl_link, watch), events);
}

static void on_send_failed(struct sys_timer *timer, int64_t now_ns)
{
	(void)now_ns;
	handle_link_events(LIST_ENTRY(timer, struct ctl_link, failed_timer), EPOLLIN);
}

/* ---- opening and closing ---- */

tcpx_status ctl_link_open(struct sys_loop *loop, int fd, const struct ctl_link_ops *ops, void *arg,
			  struct ctl_link **out_link)
{
	struct ctl_link *link = calloc(1, sizeof(*link));
	tcpx_status status;

	if (!link)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a control link");
	link->loop = loop;
	link->ops = ops;
	link->arg = arg;
	link->watch = (struct sys_watch){.fd = fd, .events = EPOLLIN, .fn = on_link_event};
	link->failed_timer.fn = on_send_failed;
	list_init(&link->out);
	status = sys_watch_add(loop, &link->watch);
	if (status != TCPX_OK) {
		free(link);
		return status;
	}
	sys_sock_keepalive(fd, KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_COUNT);
	*out_link = link;
	return TCPX_OK;
}

void ctl_link_poll(struct ctl_link *link)
{
	handle_link_events(link, EPOLLIN);
}

int ctl_link_fd(const struct ctl_link *link)
{
	return link->watch.fd;
}

void ctl_link_close(struct ctl_link *link)
{
	if (!link || link->closed)
		return;
	if (!link->lost && link->send_status == TCPX_OK)
		(void)flush_queue(link);
	link->closed = 1;
	sys_watch_del(link->loop, &link->watch);
	sys_timer_del(link->loop, &link->failed_timer);
	sys_fd_close(link->watch.fd);
	if (!link->busy)
		free_link(link);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Queries to RxDM: connect, send a question, read the answer. */
#include "topo/rxdm_client.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "sys/fd.h"

/* One query to RxDM. */
struct rxdm_query {
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int64_t deadline_ns;
	int fd;
};

/* Sets the advice of the last error if there is a specific one for the status. Returns the
 * status. */
static tcpx_status rxdm_next_step(tcpx_status status, const struct rxdm_query *q)
{
	switch ((int)status) {
	case TCPX_ERR_REFUSED:
		error_next("start RxDM, or name its sockets' folder (default " TOPO_RXDM_PREFIX
			   ")");
		break;
	case TCPX_ERR_TIMED_OUT:
		error_next("check whether RxDM is stopped or still starting");
		break;
	case TCPX_ERR_PROTOCOL:
		error_next("check which process listens at %.60s", q->path);
		break;
	default:
		break;
	}
	return status;
}

/* Sets and returns the error of a query whose step `step` failed with errno `err`. */
static tcpx_status rxdm_failed(const struct rxdm_query *q, const char *step, int err)
{
	tcpx_status status = TCPX_ERR_SYSTEM;

	if (err == EAGAIN || err == EINPROGRESS || err == ETIMEDOUT)
		status = TCPX_ERR_TIMED_OUT;
	else if (err == ENOENT || err == ECONNREFUSED || err == ENOTDIR || err == EACCES)
		status = TCPX_ERR_REFUSED;
	else if (err == EPIPE || err == ECONNRESET || err == EPROTOTYPE)
		status = TCPX_ERR_PROTOCOL;
	else if (err == EMFILE || err == ENFILE)
		status = TCPX_ERR_NO_DESCRIPTORS;
	error_set(status, err, "cannot %s RxDM at %s", step, q->path);
	return rxdm_next_step(status, q);
}

/* Limits the next call on the socket to the time until the deadline. `option` is SO_SNDTIMEO or
 * SO_RCVTIMEO. Returns -1 if no time is left (errno EAGAIN), or if the option cannot be set. */
static int set_timeout(const struct rxdm_query *q, int option)
{
	int64_t left_ns = q->deadline_ns - clock_now_ns();
	int64_t left_us = left_ns / 1000 + 1; /* at least 1, because 0 would mean no limit */
	struct timeval left = {.tv_sec = left_us / 1000000, .tv_usec = left_us % 1000000};

	if (left_ns <= 0) {
		errno = EAGAIN;
		return -1;
	}
	return setsockopt(q->fd, SOL_SOCKET, option, &left, sizeof(left));
}

static tcpx_status send_all(const struct rxdm_query *q, const uint8_t *bytes, size_t len)
{
	while (len) {
		ssize_t sent =
			set_timeout(q, SO_SNDTIMEO) ? -1 : send(q->fd, bytes, len, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return rxdm_failed(q, "send to", errno);
		bytes += sent;
		len -= (size_t)sent;
	}
	return TCPX_OK;
}

static tcpx_status recv_all(const struct rxdm_query *q, uint8_t *bytes, size_t len)
{
	while (len) {
		ssize_t got = set_timeout(q, SO_RCVTIMEO) ? -1 : recv(q->fd, bytes, len, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return rxdm_failed(q, "read from", errno);
		if (!got) {
			error_set(TCPX_ERR_PROTOCOL, 0, "RxDM closed the connection at %s",
				  q->path);
			return rxdm_next_step(TCPX_ERR_PROTOCOL, q);
		}
		bytes += got;
		len -= (size_t)got;
	}
	return TCPX_OK;
}

static tcpx_status build_path(struct rxdm_query *q, const char *prefix, const char *name)
{
	size_t len = strlen(prefix);
	int put;

	while (len > 1 && prefix[len - 1] == '/')
		len--;
	put = snprintf(q->path, sizeof(q->path), "%.*s/%s", (int)(len < 200 ? len : 200), prefix,
		       name);
	if (!len || len >= sizeof(q->path) || put < 0 || (size_t)put >= sizeof(q->path)) {
		error_set(TCPX_ERR_INVALID, 0, "%.80s is not a folder for RxDM's sockets", prefix);
		return error_next("name a folder of at most %zu bytes",
				  sizeof(q->path) - sizeof("/get_gpu_metadata_0000:00:00.0"));
	}
	return TCPX_OK;
}

/* Connects to RxDM. Waits until the deadline if the backlog of RxDM's socket is full. The
 * address is a path in the file system; its length excludes the NUL. */
static tcpx_status connect_rxdm(struct rxdm_query *q)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	size_t len = strlen(q->path);
	int rc;

	memcpy(addr.sun_path, q->path, len);
	q->fd = SYS_FD_OPEN(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	if (q->fd < 0)
		return rxdm_failed(q, "open a socket for", errno);
	do {
		rc = set_timeout(q, SO_SNDTIMEO)
			     ? -1
			     : connect(q->fd, (struct sockaddr *)&addr,
				       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	} while (rc && errno == EINTR);
	return rc ? rxdm_failed(q, "reach", errno) : TCPX_OK;
}

/* Connects, sends the message, reads the answer into `body` and decodes it. Texts in *out_answer
 * point into `body`. */
static tcpx_status exchange_messages(struct rxdm_query *q, const struct wire_rxdm *message,
				     uint8_t body[WIRE_RXDM_BODY_MAX], struct wire_rxdm *out_answer)
{
	uint8_t bytes[256], head[WIRE_RXDM_HEAD];
	size_t len = wire_rxdm_encode(message, bytes, sizeof(bytes));
	tcpx_status status = connect_rxdm(q);

	if (!status)
		status = send_all(q, bytes, len);
	if (!status)
		status = recv_all(q, head, sizeof(head));
	if (status)
		return status;
	len = wire_rxdm_length(head);
	if (len > WIRE_RXDM_BODY_MAX) {
		error_set(TCPX_ERR_PROTOCOL, 0, "RxDM at %s announces a message of %zu bytes",
			  q->path, len);
		return rxdm_next_step(TCPX_ERR_PROTOCOL, q);
	}
	status = recv_all(q, body, len);
	return status ? status : wire_rxdm_decode(body, len, out_answer);
}

static tcpx_status query_rxdm(const char *prefix, const char *name, const struct wire_rxdm *message,
			      int64_t deadline_ns, uint8_t body[WIRE_RXDM_BODY_MAX],
			      struct wire_rxdm *out_answer)
{
	struct rxdm_query q = {.deadline_ns = deadline_ns, .fd = -1};
	tcpx_status status = build_path(&q, prefix, name);

	if (!status)
		status = exchange_messages(&q, message, body, out_answer);
	if (q.fd >= 0)
		sys_fd_close(q.fd);
	return status;
}

/* Sets and returns the error for an answer whose status is not 0 or whose kind the caller does not
 * expect. If the answer has text, and either its status is not 0 or its kind is BYTES, RxDM has
 * refused: returns ERR_NOT_FOUND, and the error quotes the text. Otherwise returns ERR_PROTOCOL. */
static tcpx_status refusal_error(const struct wire_rxdm *answer, const char *gpu)
{
	const uint8_t *words = answer->bytes_len ? answer->bytes : answer->words;
	size_t len = answer->bytes_len ? answer->bytes_len : answer->words_len, printable = 0;

	while (printable < len && words[printable] >= ' ' && words[printable] < 0x7f)
		printable++;
	if (!len || (!answer->status && answer->kind != WIRE_RXDM_BYTES)) {
		error_set(TCPX_ERR_PROTOCOL, 0, "RxDM answers nothing about GPU %s", gpu);
		return TCPX_ERR_PROTOCOL;
	}
	error_set(TCPX_ERR_NOT_FOUND, 0, "RxDM does not serve GPU %s: %.*s", gpu,
		  (int)(printable < 80 ? printable : 80), (const char *)words);
	return error_next("look at the GPUs in RxDM's log at its start");
}

tcpx_status topo_rxdm_queues(const char *prefix, pci_addr gpu, int64_t deadline_ns,
			     struct topo_rxdm_queues *out_queues)
{
	struct wire_rxdm message = {.kind = WIRE_RXDM_QUERY}, answer;
	uint8_t body[WIRE_RXDM_BODY_MAX];
	tcpx_status status;

	pci_format(gpu, message.gpu);
	status = query_rxdm(prefix, "queue_ids_by_gpu", &message, deadline_ns, body, &answer);
	if (status)
		return status;
	if (answer.kind != WIRE_RXDM_QUEUES || answer.status)
		return refusal_error(&answer, message.gpu);
	memcpy(out_queues->ids, answer.queues, sizeof(out_queues->ids));
	out_queues->count = answer.nqueues;
	return TCPX_OK;
}

tcpx_status topo_rxdm_memory(const char *prefix, pci_addr gpu, int64_t deadline_ns,
			     struct wire_rxdm_memory *out_memory)
{
	struct wire_rxdm message = {.kind = WIRE_RXDM_BYTES}, answer;
	uint8_t body[WIRE_RXDM_BODY_MAX];
	char text[PCI_TEXT_MAX], name[64];
	tcpx_status status;

	message.bytes = (const uint8_t *)pci_format(gpu, text);
	message.bytes_len = strlen(text);
	snprintf(name, sizeof(name), "get_gpu_metadata_%s", text);
	status = query_rxdm(prefix, name, &message, deadline_ns, body, &answer);
	if (status)
		return status;
	if (answer.kind != WIRE_RXDM_BYTES || answer.status)
		return refusal_error(&answer, text);
	return wire_rxdm_memory_decode(answer.bytes, answer.bytes_len, out_memory);
}

enum topo_rxdm_answer topo_rxdm_ask(void *arg, pci_addr gpu, int32_t *out_queues, unsigned max,
				    unsigned *out_count)
{
	struct topo_rxdm_asker *asker = arg;
	struct topo_rxdm_queues queues = {.count = 0};
	tcpx_status status;

	if (asker->status)
		return TOPO_RXDM_SILENT;
	status = topo_rxdm_queues(asker->prefix, gpu, asker->deadline_ns, &queues);
	if (status == TCPX_ERR_NOT_FOUND)
		return TOPO_RXDM_DENIED;
	if (status) {
		asker->status = status;
		return TOPO_RXDM_SILENT;
	}
	*out_count = queues.count < max ? queues.count : max;
	memcpy(out_queues, queues.ids, *out_count * sizeof(*out_queues));
	return TOPO_RXDM_KNOWN;
}

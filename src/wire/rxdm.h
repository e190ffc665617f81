/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and decodes the messages of RxDM, the daemon that steers flows to a GPU's queues
 * (docs/design/topo.md). A message consists of a head and a body. The head is the length of the
 * body, two bytes, big-endian. The body is a protobuf message. Both sides of the protocol are
 * supported: the library's client, and the fake RxDM of the tests.
 */
#ifndef WIRE_RXDM_H
#define WIRE_RXDM_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

#define WIRE_RXDM_HEAD 2	/* bytes of the length before a body */
#define WIRE_RXDM_BODY_MAX 4096 /* bytes; real bodies are much shorter */
#define WIRE_RXDM_QUEUES_MAX 256
#define WIRE_RXDM_TEXT_MAX 64 /* most bytes of an IP or PCI address, with its NUL */

/* What a message contains. The values are protobuf field numbers. If a message contains several of
 * these fields, the last one counts. */
enum wire_rxdm_kind {
	WIRE_RXDM_EMPTY = 0,
	WIRE_RXDM_BYTES = 1, /* a request for a GPU's memory, its answer, "Ok.", or an error text */
	WIRE_RXDM_RULE = 2,
	WIRE_RXDM_QUERY = 3,
	WIRE_RXDM_QUEUES = 4,
	WIRE_RXDM_REGISTER = 6,
};

enum wire_rxdm_flow { WIRE_RXDM_TCP4 = 1, WIRE_RXDM_TCP6 = 5 };

/* One end of a flow. */
struct wire_rxdm_end {
	char ip[WIRE_RXDM_TEXT_MAX];
	int32_t port; /* in host byte order */
};

/* A request to steer a flow to a queue of a GPU. */
struct wire_rxdm_rule {
	int32_t flow;		       /* enum wire_rxdm_flow */
	int32_t queue;		       /* -1 lets RxDM choose */
	struct wire_rxdm_end src, dst; /* `src` is the remote end, `dst` the local end */
};

/* A message. `kind` determines which members are used. */
struct wire_rxdm {
	enum wire_rxdm_kind kind;
	/* `bytes` is the content of kind BYTES. `words` is the text of a failed status; a message
	 * of any kind may have a status. Both point into the decoded buffer. */
	const uint8_t *bytes;
	size_t bytes_len;
	int32_t status; /* google.rpc.Code; 0 if OK or not sent */
	const uint8_t *words;
	size_t words_len;
	char gpu[WIRE_RXDM_TEXT_MAX]; /* kinds RULE and QUERY: PCI address, or "" */
	struct wire_rxdm_rule rule;
	int32_t queues[WIRE_RXDM_QUEUES_MAX]; /* kind QUEUES */
	unsigned nqueues;
	int client; /* kind REGISTER */
};

/* Writes head and body. Returns the number of bytes, or 0 if that is more than `cap` or the body
 * has more than WIRE_RXDM_BODY_MAX bytes. */
size_t wire_rxdm_encode(const struct wire_rxdm *message, void *out, size_t cap);

/* Returns the length of the body that follows this head. */
size_t wire_rxdm_length(const uint8_t head[WIRE_RXDM_HEAD]);

/* Decodes one body, and skips unknown fields. Returns ERR_PROTOCOL if it is malformed or longer
 * than WIRE_RXDM_BODY_MAX, or if struct wire_rxdm has no room for its queues or texts. */
tcpx_status wire_rxdm_decode(const void *body, size_t len, struct wire_rxdm *out_message);

/* RxDM's answer to get_gpu_metadata, the C structure {int fd, size_t size, size_t align}. */
struct wire_rxdm_memory {
	uint64_t size_bytes, align_bytes;
};

#define WIRE_RXDM_MEMORY_BYTES 24

void wire_rxdm_memory_encode(const struct wire_rxdm_memory *memory,
			     uint8_t out[WIRE_RXDM_MEMORY_BYTES]);
/* Decodes the answer to get_gpu_metadata. Returns ERR_PROTOCOL if the length is wrong, the size is
 * 0 or at least 2^48 bytes, or the alignment is neither 0 nor a power of two. */
tcpx_status wire_rxdm_memory_decode(const void *bytes, size_t len,
				    struct wire_rxdm_memory *out_memory);

#endif

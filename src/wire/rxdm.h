/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of RxDM, the daemon that steers flows to a GPU's queues (docs/design/topo.md): a
 * length of two bytes, big-endian, then one protobuf message. A bounded codec written by hand, for
 * both sides: our client and the fake RxDM of the tests.
 */
#ifndef WIRE_RXDM_H
#define WIRE_RXDM_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

#define WIRE_RXDM_HEAD 2	/* bytes of the length field */
#define WIRE_RXDM_BODY_MAX 4096 /* real messages are much shorter */
#define WIRE_RXDM_QUEUES_MAX 256
#define WIRE_RXDM_TEXT_MAX 64 /* bytes of an address, IP or PCI, with its NUL */

/* The kind of a message's content; the values are protobuf field numbers. If a message has several
 * contents, the last one counts. */
enum wire_rxdm_kind {
	WIRE_RXDM_EMPTY = 0,
	WIRE_RXDM_BYTES = 1, /* a request for memory, "Ok.", or an error text */
	WIRE_RXDM_RULE = 2,
	WIRE_RXDM_QUERY = 3,
	WIRE_RXDM_QUEUES = 4,
	WIRE_RXDM_REGISTER = 6,
};

enum wire_rxdm_flow { WIRE_RXDM_TCP4 = 1, WIRE_RXDM_TCP6 = 5 };

/* One end of a flow. */
struct wire_rxdm_end {
	char ip[WIRE_RXDM_TEXT_MAX];
	int32_t port; /* host order */
};

/* A request to steer a flow to a queue of a GPU. */
struct wire_rxdm_rule {
	int32_t flow;		       /* enum wire_rxdm_flow */
	int32_t queue;		       /* -1: RxDM chooses */
	struct wire_rxdm_end src, dst; /* src: the remote peer; dst: the local socket */
};

/* A message. Which members are used depends on its kind. */
struct wire_rxdm {
	enum wire_rxdm_kind kind;
	/* bytes: the content of kind BYTES. words: the text of a status other than OK, with any
	 * kind. Both point into the decoded buffer. */
	const uint8_t *bytes;
	size_t bytes_len;
	int32_t status; /* google.rpc.Code; 0: OK, or none was sent */
	const uint8_t *words;
	size_t words_len;
	char gpu[WIRE_RXDM_TEXT_MAX]; /* RULE, QUERY: PCI address; "": not given */
	struct wire_rxdm_rule rule;
	int32_t queues[WIRE_RXDM_QUEUES_MAX]; /* QUEUES */
	unsigned nqueues;
	int client; /* REGISTER */
};

/* Writes head and body. Returns the number of bytes; 0: they are more than `cap`, or the body has
 * more than WIRE_RXDM_BODY_MAX. */
size_t wire_rxdm_encode(const struct wire_rxdm *message, void *out, size_t cap);

/* The length of the body, which the head tells. */
size_t wire_rxdm_length(const uint8_t head[WIRE_RXDM_HEAD]);

/* Decodes one body; unknown fields are skipped. ERR_PROTOCOL: malformed, more than
 * WIRE_RXDM_BODY_MAX bytes, or more queues or a longer text than struct wire_rxdm has room for. */
tcpx_status wire_rxdm_decode(const void *body, size_t len, struct wire_rxdm *out_message);

/* RxDM's answer to get_gpu_metadata: 24 bytes of a C structure {int, size_t size, size_t align}. */
struct wire_rxdm_memory {
	uint64_t size_bytes, align_bytes;
};

#define WIRE_RXDM_MEMORY_BYTES 24

void wire_rxdm_memory_encode(const struct wire_rxdm_memory *memory,
			     uint8_t out[WIRE_RXDM_MEMORY_BYTES]);
/* Decodes such an answer. ERR_PROTOCOL: wrong length, a size of 0 or of 2^48 bytes or more, or an
 * alignment that is no power of two. */
tcpx_status wire_rxdm_memory_decode(const void *bytes, size_t len,
				    struct wire_rxdm_memory *out_memory);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of RxDM, the daemon that steers flows to a GPU's queues (docs/design/topo.md): a
 * length of two bytes, big-endian, then one protobuf message. Written by hand and bounded, in both
 * directions: the client uses one, its stand-in the other.
 */
#ifndef WIRE_RXDM_H
#define WIRE_RXDM_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

#define WIRE_RXDM_HEAD 2	/* bytes of the length */
#define WIRE_RXDM_BODY_MAX 4096 /* real ones stay far below */
#define WIRE_RXDM_QUEUES_MAX 256
#define WIRE_RXDM_TEXT_MAX 64 /* of an address, IP or PCI, with its NUL */

/* What a message carries; the numbers are those of its fields. Of several the last one counts. */
enum wire_rxdm_kind {
	WIRE_RXDM_EMPTY = 0,
	WIRE_RXDM_BYTES = 1, /* a request for memory, "Ok.", or an error in words */
	WIRE_RXDM_RULE = 2,
	WIRE_RXDM_QUERY = 3,
	WIRE_RXDM_QUEUES = 4,
	WIRE_RXDM_REGISTER = 6,
};

enum wire_rxdm_flow { WIRE_RXDM_TCP4 = 1, WIRE_RXDM_TCP6 = 5 };

struct wire_rxdm_end {
	char ip[WIRE_RXDM_TEXT_MAX];
	int32_t port; /* host order */
};

struct wire_rxdm_rule {
	int32_t flow;		       /* enum wire_rxdm_flow */
	int32_t queue;		       /* -1: RxDM chooses */
	struct wire_rxdm_end src, dst; /* the remote peer, the local socket */
};

struct wire_rxdm {
	enum wire_rxdm_kind kind;
	/* BYTES; and whatever the kind, the words of a status other than OK. Both lie in the buffer
	 * that was decoded. */
	const uint8_t *bytes;
	size_t bytes_len;
	int32_t status; /* google.rpc.Code; 0: OK, or none was sent */
	const uint8_t *words;
	size_t words_len;
	char gpu[WIRE_RXDM_TEXT_MAX]; /* RULE, QUERY: its PCI address; "": not named */
	struct wire_rxdm_rule rule;
	int32_t queues[WIRE_RXDM_QUEUES_MAX]; /* QUEUES */
	unsigned nqueues;
	int client; /* REGISTER */
};

/* Head and body; returns their bytes, 0: they do not fit into cap or BODY_MAX. */
size_t wire_rxdm_encode(const struct wire_rxdm *message, void *out, size_t cap);

/* Bytes of the body that a head announces. */
size_t wire_rxdm_length(const uint8_t head[WIRE_RXDM_HEAD]);

/* One body. ERR_PROTOCOL: it is none, or exceeds a bound; unknown fields are skipped. */
tcpx_status wire_rxdm_decode(const void *body, size_t len, struct wire_rxdm *out_message);

/* The answer to get_gpu_metadata: 24 bytes of a C structure {int, size_t size, size_t align}. */
struct wire_rxdm_memory {
	uint64_t size_bytes, align_bytes;
};

#define WIRE_RXDM_MEMORY_BYTES 24

void wire_rxdm_memory_encode(const struct wire_rxdm_memory *memory,
			     uint8_t out[WIRE_RXDM_MEMORY_BYTES]);
/* ERR_PROTOCOL: another length, or a size or alignment that no memory has. */
tcpx_status wire_rxdm_memory_decode(const void *bytes, size_t len,
				    struct wire_rxdm_memory *out_memory);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SEND and RECV of a link. The k-th SEND that was posted, however it ends, is the peer's k-th
 * message; it pairs with the peer's k-th RECV that was not cancelled.
 */
#ifndef CORE_SENDRECV_H
#define CORE_SENDRECV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include <tcpx/types.h>

/* Of a request that is a SEND. */
struct core_send {
	uint64_t number; /* of the message, given at post */
	bool has_credit; /* of the eager budget, which SENDs acquire in order */
	bool eager;	 /* its bytes leave with the announcement */
};

/* Of a request that is a RECV. */
struct core_recv {
	struct list_node node;	/* sendrecv.receives until it is matched */
	uint64_t limit;		/* bytes that both ends agree on */
	uint64_t message_bytes; /* the SEND's length */
	uint64_t sender;	/* the SEND's id */
	bool truncated;
};

/* A SEND of the peer that waits for its RECV, by ops->alloc. */
struct core_send_in {
	struct list_node node; /* sendrecv.sends */
	uint64_t number;
	uint64_t bytes;	 /* whole length */
	uint64_t sender; /* its transfer id */
	uint64_t cost;	 /* of the eager budget */
	bool eager;	 /* its bytes are in data */
	bool dead;
	tcpx_status status;   /* dead: why */
	unsigned char data[]; /* eager: bytes */
};

struct core_sendrecv {
	struct list_node receives;     /* RECVs that are not matched, in order of their posts */
	struct list_node sends;	       /* core_send_in: not matched, by number */
	uint64_t send_next, recv_next; /* the last number given; the next one to match */
};

void core_sendrecv_init(struct core_sendrecv *sr);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* SEND and RECV of a link. The k-th SEND that is posted has the message number k, even if it is
 * cancelled, and is matched with the k-th RECV of the peer. A RECV that is cancelled before its
 * SEND is known does not count. */
#ifndef CORE_SENDRECV_H
#define CORE_SENDRECV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include <tcpx/types.h>

/* The part of a core_xfer for a SEND. */
struct core_send {
	uint64_t number; /* the message number, given when the SEND is posted */
	/* it has acquired its part of the eager budget; SENDs acquire in the order of their
	 * numbers */
	bool has_credit;
	/* its bytes leave in its first frame, a SEND frame; otherwise that frame is an RTS */
	bool eager;
};

/* The part of a core_xfer for a RECV. */
struct core_recv {
	struct list_node node;	/* in sendrecv.receives until its SEND is known */
	uint64_t limit;		/* the smaller of the SEND's length and the RECV's */
	uint64_t message_bytes; /* the SEND's length */
	uint64_t sender;	/* the SEND's id at the peer */
	bool truncated;		/* the SEND is longer than the RECV */
};

/* A SEND of the peer that waits for a RECV. Allocated by ops->alloc(). */
struct core_send_in {
	struct list_node node; /* in sendrecv.sends */
	uint64_t number;
	uint64_t bytes;	      /* length of the whole SEND */
	uint64_t sender;      /* the SEND's id at the peer */
	uint64_t cost;	      /* its part of the eager budget */
	bool eager;	      /* its bytes came with it and are in `data` */
	bool dead;	      /* the peer has ended the SEND, which still consumes its RECV */
	tcpx_status status;   /* if dead: the status with which the RECV ends */
	unsigned char data[]; /* bytes of an eager SEND */
};

struct core_sendrecv {
	/* list of core_xfer: RECVs that are not matched, in the order of their posts */
	struct list_node receives;
	struct list_node sends; /* core_send_in: SENDs that are not matched, by number */
	/* number of the last SEND posted; number of the peer's SEND that is matched next */
	uint64_t send_last, recv_next;
};

void core_sendrecv_init(struct core_sendrecv *sr);

#endif

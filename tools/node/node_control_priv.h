/* SPDX-License-Identifier: Apache-2.0 */
/* State of the control link, for node_control*.c. */
#ifndef TOOLS_NODE_CONTROL_PRIV_H
#define TOOLS_NODE_CONTROL_PRIV_H

#include <stdint.h>

#include "node_control.h"

#define STAGE_MAX 32
#define HOST_MAX 64
#define TEXT_MAX 640
#define SIZE_BY_MAX 32

struct other {
	tcpx_peer peer;
	bool known;
	char host[HOST_MAX], gone[384]; /* gone: why it left; "": it has not */
	/* its contribution to the current exchange; NULL: missing */
	void *data;
	size_t bytes;
};

struct node_control {
	struct node_control_opts opts;
	tcpx_session *session;
	struct other *others; /* on rank 0 indexed by rank; on others one entry, rank 0 */
	char host[HOST_MAX], stage[STAGE_MAX];
	uint32_t seq;
	void *all; /* result of the last exchange */
	size_t all_bytes;
	char failed[TEXT_MAX]; /* "": no failure */
	/* rank 0, if ranks were started with different sizes: */
	bool disagree;
	uint32_t expected; /* largest number of ranks that one of them was started with */
	uint32_t told;	   /* number of processes that do not fit and were told so */
	tcpx_peer told_peers[NODE_CONTROL_NAMED]; /* the first of them */
	tcpx_status why;
};

/* On the other ranks: the entry of rank 0. */
static inline struct other *hub(struct node_control *c)
{
	return &c->others[0];
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a control, for node_control*.c. */
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
	char host[HOST_MAX], gone[384]; /* gone: "": it is there */
	void *data;			/* of the exchange under way; NULL: it has not come */
	size_t bytes;
};

struct node_control {
	struct node_control_opts opts;
	tcpx_session *session;
	struct other *others; /* rank 0: by rank; else one: rank 0 */
	char host[HOST_MAX], stage[STAGE_MAX];
	uint32_t seq;
	void *all; /* what the last exchange brought */
	size_t all_bytes;
	char failed[TEXT_MAX]; /* "": nobody has */
	/* rank 0, where ranks were told different things: */
	bool disagree;
	uint32_t expected; /* ranks, by the largest number that one of them was told */
	uint32_t told;	   /* ranks that have no place among the others */
	tcpx_peer told_peers[NODE_CONTROL_NAMED]; /* the first of them */
	tcpx_status why;
};

/* Rank 0, of the others. */
static inline struct other *hub(struct node_control *c)
{
	return &c->others[0];
}

#endif

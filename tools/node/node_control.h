/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks tell each other: a star around rank 0, over a session of its own. Every exchange is
 * one gather: each rank brings bytes and gets those of all; a barrier is one of nothing. They come
 * in the same order at every rank.
 *
 * A rank that fails, dies or does not come ends the exchange at every rank, with a text that names
 * the rank and the stage. Rank 0 judges by its deadline; the others give it a grace.
 * One thread at a time.
 */
#ifndef TOOLS_NODE_CONTROL_H
#define TOOLS_NODE_CONTROL_H

#include <stdbool.h>
#include <sys/socket.h>

#include <tcpx/tcpx.h>

struct node_control;

/* When a wait is mentioned again: after 3 seconds, 6 more, 12 more and so on. */
struct node_pace {
	int64_t next_ns, step_ns;
};

static inline struct node_pace node_pace_start(int64_t now_ns, int64_t first_ns)
{
	return (struct node_pace){now_ns + first_ns, first_ns};
}

static inline bool node_pace_due(struct node_pace *pace, int64_t now_ns)
{
	if (now_ns < pace->next_ns)
		return false;
	pace->step_ns *= 2;
	pace->next_ns = now_ns + pace->step_ns;
	return true;
}

#define NODE_PACE_NS (3 * 1000000000ll)

#define NODE_CONTROL_NAMED 64 /* ranks that waits() is told of */

struct node_blob {
	const void *data; /* valid until the next exchange */
	size_t bytes;
};

/* node_blobs.c: bytes of all ranks in one piece, sizes first, each at a multiple of 8 of it; free()
 * it. NULL: no memory. */
void *node_blobs_pack(const struct node_blob *blobs, uint32_t count, size_t *out_bytes);
/* They point into data. ERR_PROTOCOL: it is not what count ranks packed. out_blobs may be NULL. */
tcpx_status node_blobs_unpack(const void *data, size_t bytes, uint32_t count,
			      struct node_blob *out_blobs);
/* A text of another rank ends within its field. */
bool node_blob_text(const char *text, size_t cap);

struct node_control_opts {
	uint32_t rank, size;
	const char *size_by; /* the variable that says the size, for texts; or NULL */
	const char *job;     /* names of sessions begin with it */
	const char *host;    /* rank 0's address; of rank 0: NULL */
	/* Or where its connection info is, asked before each try; TCPX_IN_PROGRESS: not there yet.
	 * Rank 0 with it: only holders of the info may come. NULL: by host and port. */
	tcpx_status (*find)(void *find_arg, void *info, size_t cap, size_t *out_bytes);
	void *find_arg;
	const char *bind, *key;
	const char *advertise; /* of rank 0: as tcpx_session_opts has it; or NULL */
	bool insecure;
	uint32_t port;	    /* of rank 0; 0: any */
	int64_t timeout_ns; /* of an exchange */
	/* Optional: called at a node_pace while it waits: what is missing, and the time left. */
	void (*waits)(void *arg, const char *stage, const uint32_t *missing, uint32_t count,
		      int64_t left_ns);
	void *arg;
};

/* Rank 0 listens, the others connect, trying until the deadline: rank 0 may start later, and its
 * host's name may be known later (a pod's DNS entry follows the pod). ERR_TIMED_OUT: who did not
 * come is named by the first exchange. */
tcpx_status node_control_open(const struct node_control_opts *opts,
			      struct node_control **out_control);
/* Rank 0's, for whoever hands it to the others. */
tcpx_status node_control_info(struct node_control *control, void *buf, size_t cap, size_t *out_len);
/* One address that rank 0 listens on, beyond loopback if there is such a one. */
tcpx_status node_control_address(struct node_control *control, struct sockaddr_storage *out);
void node_control_close(struct node_control *control); /* NULL is allowed */

/* out_blobs: by rank; NULL: nobody here wants them. */
tcpx_status node_control_gather(struct node_control *control, const char *stage, const void *data,
				size_t bytes, struct node_blob *out_blobs);
/* Rank 0 alone gets them: what all of many ranks bring grows with their square else. */
tcpx_status node_control_collect(struct node_control *control, const char *stage, const void *data,
				 size_t bytes, struct node_blob *out_blobs);
tcpx_status node_control_barrier(struct node_control *control, const char *stage);

/* What is going on between two exchanges, for texts. */
void node_control_stage(struct node_control *control, const char *stage);
/* Has somebody failed? Never blocks: for whoever works between two exchanges. */
tcpx_status node_control_look(struct node_control *control);
/* A link to another rank was lost: the run's failure, for which it waits for up to 2 s, since the
 * other rank's words come by way of rank 0. OK: nobody has said one. */
tcpx_status node_control_verdict(struct node_control *control);
/* An eventfd that is readable when there may be something to look at. */
int node_control_fd(struct node_control *control);

/* This rank fails: every exchange of every rank ends with the text. */
void node_control_fail(struct node_control *control, const char *text);

#endif

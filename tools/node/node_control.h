/* SPDX-License-Identifier: Apache-2.0 */
/* Communication between ranks: a star around rank 0, over a session of its own. Every exchange
 * is a gather, in which each rank contributes bytes and gets those of all; a barrier is an empty
 * gather. All ranks make the same exchanges in the same order. A rank that fails, dies or does
 * not come ends the exchange at every rank, with a text that names the rank and the stage. Rank
 * 0 applies the deadline; the others wait a little longer. For one thread at a time. */
#ifndef TOOLS_NODE_CONTROL_H
#define TOOLS_NODE_CONTROL_H

#include <stdbool.h>
#include <sys/socket.h>

#include <tcpx/tcpx.h>

struct node_control;

/* When a wait is mentioned: after first_ns, and then at distances that double. */
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

#define NODE_CONTROL_NAMED 64 /* most ranks that waits() gets */

struct node_blob {
	const void *data; /* valid until the next exchange */
	size_t bytes;
};

/* node_blobs.c: packs the bytes of all ranks: the sizes, then each blob at a multiple of 8. The
 * caller frees it. NULL: no memory. */
void *node_blobs_pack(const struct node_blob *blobs, uint32_t count, size_t *out_bytes);
/* The blobs point into data. ERR_PROTOCOL: data is not the pack of count ranks. out_blobs may be
 * NULL. */
tcpx_status node_blobs_unpack(const void *data, size_t bytes, uint32_t count,
			      struct node_blob *out_blobs);
/* Whether a text of another rank ends within its field. */
bool node_blob_text(const char *text, size_t cap);

struct node_control_opts {
	uint32_t rank, size;
	const char *size_by; /* the variable that says the size, for texts; or NULL */
	const char *job;     /* prefix of session names */
	const char *host;    /* address of rank 0; NULL on rank 0 */
	/* Alternative to host and port, or NULL: called before each try for the connection info
	 * of rank 0; TCPX_IN_PROGRESS: not there yet. On rank 0: only holders of the info may
	 * connect. */
	tcpx_status (*find)(void *find_arg, void *info, size_t cap, size_t *out_bytes);
	void *find_arg;
	const char *bind, *key;
	const char *advertise; /* rank 0: as in tcpx_session_opts, or NULL */
	bool insecure;
	uint32_t port;	    /* port of rank 0; 0: any */
	int64_t timeout_ns; /* of an exchange */
	/* Optional: called at a node_pace while it waits: what is missing, and the time left. */
	void (*waits)(void *arg, const char *stage, const uint32_t *missing, uint32_t count,
		      int64_t left_ns);
	void *arg;
};

/* Rank 0 listens. The others try to connect until the deadline, because rank 0 may start later
 * and the name of its host may resolve later (the DNS entry of a pod follows the pod). Rank 0
 * learns in the first exchange who did not come. ERR_TIMED_OUT. */
tcpx_status node_control_open(const struct node_control_opts *opts,
			      struct node_control **out_control);
/* The connection info of rank 0, to be handed to the other ranks. */
tcpx_status node_control_info(struct node_control *control, void *buf, size_t cap, size_t *out_len);
/* An address that rank 0 listens on, one beyond loopback if it has one. */
tcpx_status node_control_address(struct node_control *control, struct sockaddr_storage *out);
void node_control_close(struct node_control *control); /* NULL is allowed */

/* out_blobs: by rank; NULL: not wanted. */
tcpx_status node_control_gather(struct node_control *control, const char *stage, const void *data,
				size_t bytes, struct node_blob *out_blobs);
/* As gather, but only rank 0 gets the blobs, so that traffic does not grow with the square of
 * the ranks. */
tcpx_status node_control_collect(struct node_control *control, const char *stage, const void *data,
				 size_t bytes, struct node_blob *out_blobs);
tcpx_status node_control_barrier(struct node_control *control, const char *stage);

/* Names the stage between two exchanges, for failure texts. */
void node_control_stage(struct node_control *control, const char *stage);
/* Whether a rank has failed, to be called between two exchanges. Never blocks. */
tcpx_status node_control_look(struct node_control *control);
/* To be called after a link to another rank was lost: returns the failure of the run. Waits up
 * to 2 s for it, since the text of the other rank comes by way of rank 0. OK: no rank has
 * reported one. */
tcpx_status node_control_verdict(struct node_control *control);
/* An eventfd that is readable when node_control_look() may have work. */
int node_control_fd(struct node_control *control);

/* Reports that this rank failed: every exchange at every rank ends with the text. */
void node_control_fail(struct node_control *control, const char *text);

#endif

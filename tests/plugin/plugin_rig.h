/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes with a session each, connected by channels of messages over the TCPX emulator, and
 * a socket between them. Each runs the same function; a plugin does not survive a fork, so both
 * fork before they load it.
 */
#ifndef PLUGIN_RIG_H
#define PLUGIN_RIG_H

#include <stdbool.h>

#include "check.h"
#include "tcpxemu/tcpxemu.h"
#include <tcpx/tcpx.h>

#define LONG_NS 100000000000LL /* longer than the hang guard wants; never a verdict */
#define MESSAGE 32768u	       /* bytes of one, and of the plugin's chunk */

struct side {
	int fd;	   /* to the other process */
	int index; /* 0 dials, 1 accepts */
	pid_t other;
	tcpx_session *session;
	tcpx_peer peer;
	bool gpu;	     /* memory is a GPU's, of the stand-in for the driver */
	uint32_t device;     /* that GPU */
	int64_t patience_ns; /* of its connect; 0: the default */
	const char *nic;     /* of the plugin; NULL: as the environment says */
	const char *unpack;  /* likewise */
	uint32_t queue;	     /* 1: what it starts enters the completion queue */
	const char *name;    /* "first" or "second", unless it is set before it is opened */
};

/* Memory that a peer may use; of a GPU if the side says so. */
struct area {
	uintptr_t at;
	uint64_t bytes;
	tcpx_region region, remote; /* remote: the other side's area, behind area_swap */
};

/* Runs run(side, arg) in both; each in a process that has not loaded anything. The second's end is
 * looked at, unless it was killed. */
void side_both(void (*run)(struct side *side, void *arg), void *arg);
/* A program of cases: both run run(side, row) for each row whose name contains only (NULL: all).
 * Rows of so many bytes begin with their name. Returns the exit status. */
int side_main(void (*run)(struct side *side, void *row), const void *rows, size_t count,
	      size_t bytes, const char *only);
void side_env(const char *name, const char *value);
void side_open(struct side *side, const char *plugin);
/* Connected, with so many channels of messages at least; takes the events that tell of them, and
 * none behind those. */
void side_connect(struct side *side, uint32_t channels);
tcpx_peer_info side_peer(struct side *side);
/* The session goes; then no comm is open, no page in use and no rule was broken. */
void side_close(struct side *side);
void side_close_broken(struct side *side); /* the same behind an injected failure */
void side_close_wrong(struct side *side, const char *code); /* the same where a rule was broken */
struct tcpxemu_stats side_stats(void);
uint64_t side_violations(const char *code);
void side_stats_wait(struct tcpxemu_stats *stats); /* for other ones, see tcpxemu_stats_wait */

void side_say(struct side *side, const void *data, size_t bytes);
void side_hear(struct side *side, void *data, size_t bytes);
void side_meet(struct side *side); /* the other one is here, too */

void area_make(struct side *side, struct area *area, uint64_t bytes);
void area_swap(struct side *side, struct area *area);
/* Makes both areas and swaps `open`. Returns a segment from `mine` to the other side's `open`. */
tcpx_segment area_pair(struct side *side, struct area *mine, struct area *open, uint64_t bytes);
void area_free(struct side *side, struct area *area);
/* Bytes of the pattern seed. */
void area_fill(struct side *side, struct area *area, uint64_t off, uint64_t bytes, uint64_t seed);
void area_set(struct side *side, struct area *area, uint64_t off, uint64_t bytes, uint8_t value);
void area_get(struct side *side, struct area *area, uint64_t off, void *data, uint64_t bytes);
bool area_is(struct side *side, struct area *area, uint64_t off, uint64_t bytes, uint64_t seed);
bool area_same(struct side *side, struct area *area, uint64_t off, uint64_t bytes, uint8_t value);

tcpx_request side_start(struct side *side, enum tcpx_op op, const tcpx_segment *segments,
			size_t count);
tcpx_status side_end(struct side *side, tcpx_request request); /* waits, releases */
void side_ok(const char *file, int line, tcpx_status got, tcpx_status want);
#define EXPECT(expr, want) side_ok(__FILE__, __LINE__, expr, want)
#define OK(expr) EXPECT(expr, TCPX_OK)

#endif

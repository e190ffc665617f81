/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a peer still lives, judged from what it sends and from TCP's acknowledgements. Pure: time
 * is an argument, and the caller reads the sockets.
 *
 *   silent   nothing arrives and its kernel acknowledges nothing: the network or the host is gone
 *   stopped  its kernel acknowledges, but the process sends nothing: it is stopped, or hangs
 *   slow     heartbeats arrive, data does not move: never a reason to give the peer up
 *
 * If our own timer was late by more than a second, we were stopped, not the peer, and silence is
 * counted anew from that moment. None is counted during a pause that the peer announced.
 */
#ifndef CORE_ALIVE_H
#define CORE_ALIVE_H

#include <stdbool.h>
#include <stdint.h>

#define CORE_ALIVE_BEAT_NS 1000000000LL	   /* longest time between two heartbeats */
#define CORE_ALIVE_SUSPECT_NS 3000000000LL /* default of suspect_ns */
/* if our own timer fires so much later than it was set to, our process was stopped */
#define CORE_ALIVE_STALL_NS 1000000000LL
#define CORE_ALIVE_PAUSE_MAX_NS 600000000000LL /* longest pause a peer may announce */

struct core_alive_config {
	/* a peer that sent nothing for so long is suspect; 0: CORE_ALIVE_SUSPECT_NS; a value above
	 * one of the next two (if that is > 0) is lowered to it */
	int64_t suspect_ns;
	int64_t silent_ns; /* no sign of life for so long ends the peer; > 0 */
	/* a peer that sent nothing for so long, while its kernel acknowledges, ends; 0: never, as
	 * debuggers need it */
	int64_t stopped_ns;
};

enum core_alive_verdict {
	CORE_ALIVE_OK = 0,
	CORE_ALIVE_SUSPECT,	 /* the peer has sent nothing for suspect_ns; returned once */
	CORE_ALIVE_RECOVERED,	 /* a suspect was heard again; returned once */
	CORE_ALIVE_DEAD_SILENT,	 /* `silent` (see above); later calls return it, too */
	CORE_ALIVE_DEAD_STOPPED, /* `stopped` (see above); later calls return it, too */
};

struct core_alive {
	struct core_alive_config cfg;
	int64_t heard_ns; /* when the last bytes from the peer arrived */
	int64_t acked_ns; /* when the peer's kernel last acknowledged something */
	int64_t sent_ns;  /* when our last frame left on the control link */
	/* silence is counted from this time on, if it is later than the last sign of life */
	int64_t pause_ns;
	int64_t suspected_ns; /* when the peer became suspect */
	int64_t due_ns;	      /* the time that the last core_alive_tick() asked to be called at */
	/* unacked_sent: we sent something, and since then no sample found everything
	 * acknowledged */
	bool suspect, unacked_sent;
	enum core_alive_verdict dead; /* the verdict, once it is final; else 0 */
	/* how often our own timer was late, and how often the peer became suspect */
	uint64_t stalls, suspicions;
};

void core_alive_init(struct core_alive *alive, const struct core_alive_config *cfg, int64_t now_ns);

/* Bytes arrived from the peer, on any channel. */
void core_alive_heard(struct core_alive *alive, int64_t now_ns);

/* A heartbeat arrived; it also ends an announced pause. */
void core_alive_heard_beat(struct core_alive *alive, int64_t now_ns);

/* The peer announced that it will be silent for length_ns. */
void core_alive_heard_pause(struct core_alive *alive, int64_t now_ns, int64_t length_ns);

/* A frame left on the control link; it counts as a heartbeat. */
void core_alive_sent(struct core_alive *alive, int64_t now_ns);

/* What TCP_INFO says of all our sockets to the peer. unacked: sent bytes wait for an
 * acknowledgement; progress: an acknowledgement arrived since the last call. */
void core_alive_sample(struct core_alive *alive, int64_t now_ns, bool unacked, bool progress);

/* Whether this side must send a heartbeat now. False after a verdict that the peer is dead. The
 * caller sends the heartbeat and calls core_alive_sent(). */
bool core_alive_beat_due(const struct core_alive *alive, int64_t now_ns);

/* Judges the peer; call core_alive_sample() first. *out_due: when to call again at the latest. */
enum core_alive_verdict core_alive_tick(struct core_alive *alive, int64_t now_ns, int64_t *out_due);

#endif

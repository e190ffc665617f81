/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a peer still lives, judged from what it sends and from TCP's acknowledgements. Pure: time
 * is an argument, and the caller reads the sockets.
 *
 *   silent   nothing arrives and its kernel acknowledges nothing: the network or the host is gone
 *   stopped  its kernel acknowledges, but the process sends nothing: it is stopped, or hangs
 *   slow     heartbeats arrive, data does not move: never a reason to give the peer up
 *
 * The clocks restart when our own timer was late by more than a second (then we were stopped, not
 * the peer), and stand still while the peer announced a pause.
 */
#ifndef CORE_ALIVE_H
#define CORE_ALIVE_H

#include <stdbool.h>
#include <stdint.h>

#define CORE_ALIVE_BEAT_NS 1000000000LL	   /* longest time between heartbeats */
#define CORE_ALIVE_SUSPECT_NS 3000000000LL /* default of suspect_ns */
/* a timer later than this: our process was stopped */
#define CORE_ALIVE_STALL_NS 1000000000LL
#define CORE_ALIVE_PAUSE_MAX_NS 600000000000LL /* longest pause a peer may announce */

struct core_alive_config {
	int64_t suspect_ns; /* 0: CORE_ALIVE_SUSPECT_NS; never above the two below */
	int64_t silent_ns;  /* no sign of life for so long ends the peer; > 0 */
	/* nothing sent, but acknowledged, for so long ends it; 0: never (for debuggers) */
	int64_t stopped_ns;
};

enum core_alive_verdict {
	CORE_ALIVE_OK = 0,
	CORE_ALIVE_SUSPECT,	 /* returned once */
	CORE_ALIVE_RECOVERED,	 /* returned once, when a suspect was heard again */
	CORE_ALIVE_DEAD_SILENT,	 /* returned from then on */
	CORE_ALIVE_DEAD_STOPPED, /* returned from then on */
};

struct core_alive {
	struct core_alive_config cfg;
	int64_t heard_ns; /* last bytes from the peer */
	int64_t acked_ns; /* last acknowledgement of its kernel */
	int64_t sent_ns;  /* our last frame on the control link */
	/* silence is counted from this time on, if it is later than the last sign of life */
	int64_t pause_ns;
	int64_t suspected_ns; /* when the peer became suspect */
	int64_t due_ns;	      /* when the next tick was asked for */
	bool suspect, unacked_sent;
	enum core_alive_verdict dead;
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

/* What TCP_INFO says of all sockets of the peer. unacked: sent bytes wait for an acknowledgement;
 * progress: an acknowledgement arrived since the last sample. */
void core_alive_sample(struct core_alive *alive, int64_t now_ns, bool unacked, bool progress);

/* True when a heartbeat is due; the caller sends it and calls core_alive_sent. */
bool core_alive_beat_due(const struct core_alive *alive, int64_t now_ns);

/* The verdict; sample first. *out_due: call again by then at the latest. */
enum core_alive_verdict core_alive_tick(struct core_alive *alive, int64_t now_ns, int64_t *out_due);

#endif

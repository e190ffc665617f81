/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges whether a peer is alive, from what the peer sends and from TCP's acknowledgements on the
 * control link. The code does no I/O: time is an argument, and the caller reads the socket.
 *
 *   silent   nothing arrives, and the peer's kernel acknowledges nothing: the network or the host
 *            has failed
 *   stopped  the peer's kernel acknowledges, but the process sends nothing: it is stopped or hangs
 *   slow     heartbeats arrive, but no data: never a reason to end the peer
 *
 * If our own timer fires more than a second late, this process was stopped, not the peer. The
 * peer's silence is then counted from the moment at which the timer fired. A pause that the peer
 * announced does not count as silence.
 */
#ifndef CORE_ALIVE_H
#define CORE_ALIVE_H

#include <stdbool.h>
#include <stdint.h>

#define CORE_ALIVE_BEAT_NS 1000000000LL	   /* longest time between two heartbeats of this side */
#define CORE_ALIVE_SUSPECT_NS 3000000000LL /* default of suspect_ns */
/* if our own timer fires this much too late, our process was stopped */
#define CORE_ALIVE_STALL_NS 1000000000LL
#define CORE_ALIVE_PAUSE_MAX_NS 600000000000LL /* a longer announced pause is cut to this */

struct core_alive_config {
	/* A peer that has sent nothing for this long is suspect. 0 means CORE_ALIVE_SUSPECT_NS. At
	 * most silent_ns, and at most stopped_ns if that is > 0: a larger value is lowered. */
	int64_t suspect_ns;
	/* a peer that neither sends nor acknowledges for this long is dead; must be > 0 */
	int64_t silent_ns;
	/* A peer that sends nothing for this long, although its kernel acknowledges, is dead. 0
	 * means never, which allows a debugger to stop the peer. */
	int64_t stopped_ns;
};

enum core_alive_verdict {
	CORE_ALIVE_OK = 0,
	CORE_ALIVE_SUSPECT,	 /* nothing arrived for suspect_ns; returned once per silence */
	CORE_ALIVE_RECOVERED,	 /* bytes from a suspect peer arrived; returned once per silence */
	CORE_ALIVE_DEAD_SILENT,	 /* silent, as defined above; later calls return it as well */
	CORE_ALIVE_DEAD_STOPPED, /* stopped, as defined above; later calls return it as well */
};

struct core_alive {
	struct core_alive_config cfg;
	int64_t heard_ns; /* when the last bytes from the peer arrived */
	int64_t acked_ns; /* when the peer's kernel last acknowledged something */
	int64_t sent_ns;  /* when our last frame left on the control link */
	/* end of the peer's announced pause, or when our own timer fired too late; the peer's
	 * silence is counted from this time or from heard_ns, whichever is later */
	int64_t pause_ns;
	int64_t suspected_ns; /* when the peer became suspect */
	int64_t due_ns;	      /* latest time for the next core_alive_tick() */
	/* `unacked_sent` is set when a frame leaves on the control link, and cleared when a sample
	 * finds nothing unacknowledged */
	bool suspect, unacked_sent;
	enum core_alive_verdict dead; /* the final verdict; 0 until it is reached */
	/* how often our own timer was late, and how often the peer became suspect */
	uint64_t stalls, suspicions;
};

void core_alive_init(struct core_alive *alive, const struct core_alive_config *cfg, int64_t now_ns);

/* Records that bytes from the peer arrived at `now_ns`, on the control link or on a channel. For
 * channels the caller may report this later. */
void core_alive_heard(struct core_alive *alive, int64_t now_ns);

/* Called when a heartbeat arrives. Also ends an announced pause. */
void core_alive_heard_beat(struct core_alive *alive, int64_t now_ns);

/* Called when the peer announces that it will be silent for length_ns. */
void core_alive_heard_pause(struct core_alive *alive, int64_t now_ns, int64_t length_ns);

/* Called when a frame leaves on the control link. Every such frame counts as a heartbeat. */
void core_alive_sent(struct core_alive *alive, int64_t now_ns);

/* Records what TCP_INFO says of the control link's socket. `now_ns`: when the last acknowledgement
 * arrived. `unacked`: bytes wait to be sent or acknowledged. `progress`: more bytes are
 * acknowledged than at the last call. */
void core_alive_sample(struct core_alive *alive, int64_t now_ns, bool unacked, bool progress);

/* Whether this side must send a heartbeat now; false once the peer is dead. The caller sends the
 * heartbeat and calls core_alive_sent(). */
bool core_alive_beat_due(const struct core_alive *alive, int64_t now_ns);

/* Judges the peer, and returns the verdict. The caller calls core_alive_sample() first, and calls
 * this function again at *out_due at the latest. */
enum core_alive_verdict core_alive_tick(struct core_alive *alive, int64_t now_ns, int64_t *out_due);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Judges whether a peer is alive, suspect, recovered, silent or stopped (core_alive_verdict). */
#include "core/alive.h"

static int64_t alive_later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t alive_sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Returns the time between two heartbeats that this side sends. At least three such times fit into
 * silent_ns, so that one lost or late heartbeat is not taken for silence. */
static int64_t alive_beat_ns(const struct core_alive *alive)
{
	return alive_sooner(CORE_ALIVE_BEAT_NS, alive->cfg.silent_ns / 3);
}

void core_alive_init(struct core_alive *alive, const struct core_alive_config *cfg, int64_t now_ns)
{
	*alive = (struct core_alive){
		.cfg = *cfg,
		.heard_ns = now_ns,
		.acked_ns = now_ns,
		.sent_ns = now_ns,
		.pause_ns = now_ns,
	};
	alive->due_ns = now_ns + alive_beat_ns(alive);
	if (alive->cfg.suspect_ns <= 0)
		alive->cfg.suspect_ns = CORE_ALIVE_SUSPECT_NS;
	alive->cfg.suspect_ns = alive_sooner(alive->cfg.suspect_ns, alive->cfg.silent_ns);
	if (alive->cfg.stopped_ns > 0)
		alive->cfg.suspect_ns = alive_sooner(alive->cfg.suspect_ns, alive->cfg.stopped_ns);
}

void core_alive_heard(struct core_alive *alive, int64_t now_ns)
{
	alive->heard_ns = alive_later(alive->heard_ns, now_ns);
}

void core_alive_heard_beat(struct core_alive *alive, int64_t now_ns)
{
	alive->pause_ns = alive_sooner(alive->pause_ns, now_ns);
	core_alive_heard(alive, now_ns);
}

void core_alive_heard_pause(struct core_alive *alive, int64_t now_ns, int64_t length_ns)
{
	core_alive_heard(alive, now_ns);
	if (length_ns > 0)
		alive->pause_ns = now_ns + alive_sooner(length_ns, CORE_ALIVE_PAUSE_MAX_NS);
}

void core_alive_sent(struct core_alive *alive, int64_t now_ns)
{
	alive->sent_ns = alive_later(alive->sent_ns, now_ns);
	alive->unacked_sent = true;
}

void core_alive_sample(struct core_alive *alive, int64_t now_ns, bool unacked, bool progress)
{
	/* An acknowledgement has arrived if the socket reports one, or if a frame was sent earlier
	 * and nothing is unacknowledged now. */
	if (progress || (!unacked && alive->unacked_sent))
		alive->acked_ns = alive_later(alive->acked_ns, now_ns);
	if (!unacked)
		alive->unacked_sent = false;
}

bool core_alive_beat_due(const struct core_alive *alive, int64_t now_ns)
{
	return !alive->dead && now_ns - alive->sent_ns >= alive_beat_ns(alive);
}

/* Returns the earliest time at which the verdict may change if nothing arrives until then.
 * suspect_ns and stopped_ns count from `heard`: when bytes last arrived or the last pause ended.
 * silent_ns counts from `sign`: `heard`, or the last acknowledgement of the peer's kernel if that
 * is later. */
static int64_t alive_next_change(const struct core_alive *alive, int64_t heard, int64_t sign)
{
	int64_t due = sign + alive->cfg.silent_ns;

	if (!alive->suspect)
		due = alive_sooner(due, heard + alive->cfg.suspect_ns);
	if (alive->cfg.stopped_ns > 0)
		due = alive_sooner(due, heard + alive->cfg.stopped_ns);
	return due;
}

enum core_alive_verdict core_alive_tick(struct core_alive *alive, int64_t now_ns, int64_t *out_due)
{
	enum core_alive_verdict verdict = CORE_ALIVE_OK;
	int64_t heard, sign;

	if (now_ns - alive->due_ns > CORE_ALIVE_STALL_NS) {
		/* This process was stopped, and may not yet have read what the peer sent during
		 * that time. So the peer's silence does not count before now. */
		alive->pause_ns = alive_later(alive->pause_ns, now_ns);
		alive->stalls++;
	}
	heard = alive_later(alive->heard_ns, alive->pause_ns);
	sign = alive_later(heard, alive->acked_ns);
	if (alive->dead) {
		verdict = alive->dead;
	} else if (now_ns - sign >= alive->cfg.silent_ns) {
		verdict = alive->dead = CORE_ALIVE_DEAD_SILENT;
	} else if (alive->cfg.stopped_ns > 0 && now_ns - heard >= alive->cfg.stopped_ns &&
		   now_ns - alive->acked_ns < alive->cfg.suspect_ns) {
		/* The peer's kernel has acknowledged something within suspect_ns. Without that,
		 * only silent_ns ends the peer. */
		verdict = alive->dead = CORE_ALIVE_DEAD_STOPPED;
	} else if (now_ns - heard >= alive->cfg.suspect_ns) {
		if (!alive->suspect) {
			verdict = CORE_ALIVE_SUSPECT;
			alive->suspected_ns = now_ns;
			alive->suspicions++;
		}
		alive->suspect = true;
	} else if (alive->suspect && alive->heard_ns >= alive->suspected_ns) {
		/* Bytes arrived after the peer became suspect. A change of pause_ns alone does not
		 * end the suspicion. */
		alive->suspect = false;
		verdict = CORE_ALIVE_RECOVERED;
	}
	alive->due_ns = alive_sooner(alive->sent_ns + alive_beat_ns(alive),
				     alive_next_change(alive, heard, sign));
	alive->due_ns =
		alive_sooner(alive_later(alive->due_ns, now_ns + 1), now_ns + alive_beat_ns(alive));
	*out_due = alive->due_ns;
	return verdict;
}

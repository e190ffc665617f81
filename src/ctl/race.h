/* SPDX-License-Identifier: Apache-2.0 */
/* Dials several routes to one peer with a head start each; the first one that is proven wins. */
#ifndef CTL_RACE_H
#define CTL_RACE_H

#include "ctl/conn.h"

#define CTL_RACE_WAYS 32
#define CTL_HEAD_START_NS (CLOCK_S_NS / 4) /* as RFC 8305 recommends */

struct ctl_race;

struct ctl_race_opts {
	const struct ctl_dial_opts *ways; /* best first; copied; their agree is not used */
	unsigned count;			  /* 1 .. CTL_RACE_WAYS */
	int64_t head_start_ns;		  /* time until the next way is dialled as well */
	/* As in ctl_dial_opts; EXISTS ends the race, any other error only this way. */
	tcpx_status (*agree)(void *arg, const struct wire_hello *answer);
	/* NULL, or called for each way that failed, or lost the race after it was dialled
	 * (TIMED_OUT). */
	void (*missed)(void *arg, unsigned way, tcpx_status status, int err);
	/* As done of ctl_dial_start; way: the index in ways. Of several failures the most specific
	 * one is reported: a refusal of the handshake rather than silence. */
	void (*done)(void *arg, unsigned way, tcpx_status status, int err,
		     const struct ctl_conn *conn);
};

/* done is called exactly once, from the loop and never from inside start, unless the race is
 * cancelled or start fails: then no way could be dialled, and the last error says why. A way wins
 * before its proof is sent, so an acceptor never sees two proven ones. */
tcpx_status ctl_race_start(struct sys_loop *loop, const struct ctl_race_opts *opts, void *arg,
			   struct ctl_race **out_race);
void ctl_race_cancel(struct ctl_race *race); /* on the loop's thread, before done was called */

#endif

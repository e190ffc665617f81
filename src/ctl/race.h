/* SPDX-License-Identifier: Apache-2.0 */
/* Dials several routes to one peer, each some time after the one before it. The first route whose
 * peer proves itself wins. */
#ifndef CTL_RACE_H
#define CTL_RACE_H

#include "ctl/conn.h"

#define CTL_RACE_ROUTES 32		   /* most routes of a race */
#define CTL_HEAD_START_NS (CLOCK_S_NS / 4) /* as RFC 8305 recommends */

struct ctl_race;

struct ctl_race_opts {
	/* Copied. The best route is first. The member `agree` of each is not used. */
	const struct ctl_dial_opts *routes;
	unsigned count; /* 1 .. CTL_RACE_ROUTES */
	/* time from the dial of a route until the next route is dialled as well */
	int64_t head_start_ns;
	/* May be NULL. Called when the answer on a route is proven, like `agree` of ctl_dial_opts.
	 * ERR_EXISTS ends the race; any other error ends only this route. */
	tcpx_status (*agree)(void *arg, const struct wire_hello *answer);
	/* May be NULL. Called for each route that failed, except with ERR_EXISTS, and for each that
	 * had been dialled for head_start_ns or longer when another one won (TIMED_OUT). */
	void (*missed)(void *arg, unsigned route, tcpx_status status, int err);
	/* Called with the result, like `done` of ctl_dial_start(); `route` is the index in
	 * `routes`. If all routes failed, reports the most specific failure, such as a refusal
	 * rather than a timeout. */
	void (*done)(void *arg, unsigned route, tcpx_status status, int err,
		     const struct ctl_conn *conn);
};

/* `done` is called exactly once, from the loop and never from inside ctl_race_start(). It is not
 * called if the race is cancelled. Nor is it called if ctl_race_start() fails: then no route could
 * be dialled, and the last error says why. A route wins when its answer is proven and `agree`
 * returned OK. Dials on other routes are then cancelled before our proof is sent, and another route
 * is dialled only if the winner fails. */
tcpx_status ctl_race_start(struct sys_loop *loop, const struct ctl_race_opts *opts, void *arg,
			   struct ctl_race **out_race);
void ctl_race_cancel(struct ctl_race *race); /* on the loop's thread, before `done` is called */

#endif

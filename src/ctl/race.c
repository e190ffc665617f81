/* SPDX-License-Identifier: Apache-2.0 */
/* Dials several routes to one peer, each some time after the one before it, and keeps the first
 * route whose peer proves itself. */
#include "ctl/race.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

/* One route of the race. */
struct leg {
	struct ctl_race *race;
	struct ctl_dial *dial; /* NULL if not dialled yet, or ended */
	int64_t begun_ns;      /* when the dial began */
};

struct ctl_race {
	struct sys_loop *loop;
	struct ctl_race_opts opts;
	void *arg;
	struct sys_timer timer;
	/* `next` is the index of the route to dial next; `running` is the number of dials in
	 * progress. */
	unsigned next, running;
	struct leg *winner; /* the route whose answer is proven; NULL until an answer is proven */
	/* the most specific failure of a route so far */
	tcpx_error error;
	unsigned failed_route;
	struct leg legs[CTL_RACE_ROUTES];
	struct ctl_dial_opts routes[];
};

/* Returns a rank for an error, higher if it tells the user more: 1 for an error of our own
 * address, 2 if the peer was not reached, 3 if its host closed or refused the connection, 4 for any
 * other error, such as a wrong key. */
static int error_rank(tcpx_status status)
{
	switch (status) {
	case TCPX_ERR_TIMED_OUT:
	case TCPX_ERR_UNREACHABLE:
	case TCPX_ERR_PEER_SILENT:
		return 2;
	case TCPX_ERR_REFUSED:
	case TCPX_ERR_PEER_RESET:
	case TCPX_ERR_PEER_CLOSED:
		return 3;
	case TCPX_ERR_ADDRESS:
	case TCPX_ERR_INVALID:
		return 1;
	default:
		return 4;
	}
}

/* Keeps the thread's last error as the error of the race, if it ranks above the error kept so
 * far. */
static void keep_error(struct ctl_race *race, unsigned route, tcpx_status status, int err)
{
	if (race->error.status && error_rank(race->error.status) >= error_rank(status))
		return;
	race->failed_route = route;
	race->error = *error_last();
	race->error.status = status;
	race->error.system_errno = err;
}

static void destroy_race(struct ctl_race *race)
{
	sys_timer_del(race->loop, &race->timer);
	for (unsigned i = 0; i < race->opts.count; i++)
		if (race->legs[i].dial)
			ctl_dial_cancel(race->legs[i].dial);
	explicit_bzero(race->routes, race->opts.count * sizeof(*race->routes));
	free(race);
}

static void report_missed(struct ctl_race *race, unsigned route, tcpx_status status, int err)
{
	if (race->opts.missed)
		race->opts.missed(race->arg, route, status, err);
}

/* Frees the race, then calls `done`, which may start another race. */
static void finish_race(struct ctl_race *race, unsigned route, tcpx_status status, int err,
			const struct ctl_conn *conn)
{
	void (*done)(void *arg, unsigned route, tcpx_status status, int err,
		     const struct ctl_conn *conn) = race->opts.done;
	void *arg = race->arg;

	destroy_race(race);
	done(arg, route, status, err, conn);
}

static void on_route_dialled(void *arg, tcpx_status status, int err, const struct ctl_conn *conn);

/* The callback `agree` of each dial, called when the answer on its route is proven. Calls the
 * race's `agree`. If that returns OK, the route wins: cancels the dials on other routes before they
 * send their proof. */
static tcpx_status on_answer_proven(void *arg, const struct wire_hello *answer)
{
	int64_t now_ns = clock_now_ns();
	struct leg *leg = arg;
	struct ctl_race *race = leg->race;
	tcpx_status status = race->opts.agree ? race->opts.agree(race->arg, answer) : TCPX_OK;

	if (status != TCPX_OK)
		return status;
	race->winner = leg;
	sys_timer_del(race->loop, &race->timer);
	for (unsigned i = 0; i < race->opts.count; i++) {
		struct leg *other = &race->legs[i];

		if (other == leg || !other->dial)
			continue;
		ctl_dial_cancel(other->dial);
		other->dial = NULL;
		race->running--;
		/* a dial that began later than that tells nothing about its route */
		if (now_ns - other->begun_ns >= race->opts.head_start_ns)
			report_missed(race, i, TCPX_ERR_TIMED_OUT, 0);
	}
	return TCPX_OK;
}

/* Dials the next route that can be dialled. Returns false if none is left. */
static bool race_begin_next(struct ctl_race *race)
{
	while (race->next < race->opts.count) {
		unsigned route = race->next++;
		struct leg *leg = &race->legs[route];
		tcpx_status status;

		leg->begun_ns = clock_now_ns();
		status = ctl_dial_start(race->loop, &race->routes[route], on_route_dialled, leg,
					&leg->dial);
		if (status == TCPX_OK) {
			race->running++;
			if (race->next < race->opts.count)
				sys_timer_set(race->loop, &race->timer,
					      clock_now_ns() + race->opts.head_start_ns);
			return true;
		}
		leg->dial = NULL;
		keep_error(race, route, status, error_last()->system_errno);
		report_missed(race, route, status, error_last()->system_errno);
	}
	return false;
}

static void on_route_dialled(void *arg, tcpx_status status, int err, const struct ctl_conn *conn)
{
	struct leg *leg = arg;
	struct ctl_race *race = leg->race;
	unsigned route = (unsigned)(leg - race->legs);

	leg->dial = NULL;
	race->running--;
	if (status == TCPX_OK || status == TCPX_ERR_EXISTS) {
		finish_race(race, route, status, err, conn);
		return;
	}
	keep_error(race, route, status, err);
	report_missed(race, route, status, err);
	/* a route failed, perhaps the winner after its answer was proven: dial the next one */
	race->winner = NULL;
	if (race_begin_next(race) || race->running)
		return;
	error_raise(&race->error);
	finish_race(race, race->failed_route, race->error.status, race->error.system_errno, NULL);
}

static void on_head_start_over(struct sys_timer *timer, int64_t now_ns)
{
	struct ctl_race *race = LIST_ENTRY(timer, struct ctl_race, timer);

	(void)now_ns;
	if (!race->winner)
		(void)race_begin_next(race);
}

tcpx_status ctl_race_start(struct sys_loop *loop, const struct ctl_race_opts *opts, void *arg,
			   struct ctl_race **out_race)
{
	unsigned count = opts->count < CTL_RACE_ROUTES ? opts->count : CTL_RACE_ROUTES;
	struct ctl_race *race = calloc(1, sizeof(*race) + count * sizeof(*race->routes));

	if (!race)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a connection attempt");
	race->loop = loop;
	race->opts = *opts;
	race->opts.count = count;
	race->opts.routes = race->routes;
	race->arg = arg;
	race->timer.fn = on_head_start_over;
	list_init(&race->timer.node);
	memcpy(race->routes, opts->routes, count * sizeof(*race->routes));
	for (unsigned i = 0; i < count; i++) {
		race->legs[i].race = race;
		race->routes[i].agree = on_answer_proven;
	}
	if (race_begin_next(race)) {
		*out_race = race;
		return TCPX_OK;
	}
	error_set(TCPX_ERR_UNREACHABLE, 0, "no address to dial");
	if (race->error.status)
		error_raise(&race->error);
	destroy_race(race);
	return error_last()->status;
}

void ctl_race_cancel(struct ctl_race *race)
{
	destroy_race(race);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Several routes to one peer: when each is dialled, which is taken, what is told of the others. */
#include "ctl_rig.h"

#include <poll.h>

#include "ctl/race.h"
#include "sys/sock.h"

#define WAYS 4

/* Added to the clock, which no test waits for. */
static int64_t skipped_ns;

int __real_clock_gettime(clockid_t id, struct timespec *out);
int __wrap_clock_gettime(clockid_t id, struct timespec *out);
int __wrap_clock_gettime(clockid_t id, struct timespec *out)
{
	int rc = __real_clock_gettime(id, out);

	out->tv_sec += skipped_ns / CLOCK_S_NS;
	return rc;
}

struct outcome {
	struct rig *rig;
	int ndone, nagree;
	unsigned route;
	tcpx_status status, refuse; /* refuse: what agree says */
	tcpx_status missed[WAYS];
	int fd;
};

static tcpx_status on_agree(void *arg, const struct wire_hello *answer)
{
	struct outcome *out = arg;

	assert_string_equal(answer->name, "acceptor");
	out->nagree++;
	return out->refuse;
}

static void on_missed(void *arg, unsigned route, tcpx_status status, int err)
{
	struct outcome *out = arg;

	(void)err;
	assert_true(route < WAYS);
	assert_int_equal(out->missed[route], TCPX_OK); /* told once */
	out->missed[route] = status;
}

static void on_done(void *arg, unsigned route, tcpx_status status, int err,
		    const struct ctl_conn *conn)
{
	struct outcome *out = arg;

	(void)err;
	out->ndone++;
	out->route = route;
	out->status = status;
	out->fd = status == TCPX_OK ? conn->fd : -1;
	if (status != TCPX_OK)
		assert_int_equal(error_last()->status, status);
}

/* A listening socket that nobody accepts from: connections are made, and nothing is said. */
static int mute(const struct rig *rig, struct sockaddr_storage *out_addr)
{
	uint16_t port = 0;
	int fd;

	*out_addr = rig->addr;
	assert_int_equal(sys_sock_listen(out_addr, NULL, &port, 16, &fd), TCPX_OK);
	sys_addr_set_port(out_addr, port);
	return fd;
}

/* A port that refuses. */
static struct sockaddr_storage closed(const struct rig *rig)
{
	struct sockaddr_storage addr;
	int fd = mute(rig, &addr);

	close(fd);
	return addr;
}

static struct ctl_race *start(struct outcome *out, const struct ctl_dial_opts *routes,
			      unsigned count, int64_t head_start_ns)
{
	struct ctl_race_opts opts = {.routes = routes,
				     .count = count,
				     .head_start_ns = head_start_ns,
				     .agree = on_agree,
				     .missed = on_missed,
				     .done = on_done};
	struct ctl_race *race = NULL;

	assert_int_equal(ctl_race_start(&out->rig->loop, &opts, out, &race), TCPX_OK);
	assert_int_equal(out->ndone, 0);
	return race;
}

static void overtaken(void **state)
{
	struct rig rig;
	struct outcome out = {.rig = &rig};
	struct ctl_dial_opts routes[2];
	int silent;

	(void)state;
	rig_open(&rig, "127.0.0.1");
	routes[0] = routes[1] = rig_opts(&rig);
	silent = mute(&rig, &routes[0].remote);
	start(&out, routes, 2, CLOCK_MS_NS);
	RIG_UNTIL(&rig, out.ndone);
	assert_int_equal(out.status, TCPX_OK);
	assert_int_equal(out.route, 1);
	assert_int_equal(out.missed[0], TCPX_ERR_TIMED_OUT);
	assert_int_equal(out.missed[1], TCPX_OK);
	close(out.fd);
	close(silent);
	rig_close(&rig);
}

/* A route is proven just after the next one was begun, which had not its time: nothing is told of
 * that one. */
static void overtaken_early(void **state)
{
	const int64_t head_start_ns = 1000 * CLOCK_S_NS;
	struct rig rig, slow;
	struct outcome out = {.rig = &rig};
	struct ctl_dial_opts routes[2];
	struct pollfd begun = {.events = POLLIN};

	(void)state;
	rig_open(&rig, "127.0.0.1");
	rig_open(&slow, "127.0.0.1"); /* says nothing before its loop has a round */
	routes[0] = routes[1] = rig_opts(&slow);
	begun.fd = mute(&rig, &routes[1].remote);
	routes[0].deadline_ns = routes[1].deadline_ns += 2 * head_start_ns;
	start(&out, routes, 2, head_start_ns);
	sys_loop_round(&rig.loop, 0);
	assert_int_equal(poll(&begun, 1, 0), 0);
	skipped_ns += head_start_ns;
	RIG_UNTIL(&rig, poll(&begun, 1, 0) == 1);
	RIG_UNTIL(&rig, (sys_loop_round(&slow.loop, 0), out.ndone));
	assert_int_equal(out.status, TCPX_OK);
	assert_int_equal(out.route, 0);
	assert_int_equal(out.missed[1], TCPX_OK);
	close(out.fd);
	close(begun.fd);
	rig_close(&slow);
	rig_close(&rig);
}

/* Both lead to the peer, which sees one of them proven. */
static void one_is_proven(void **state)
{
	struct rig rig;
	struct outcome out = {.rig = &rig};
	struct ctl_dial_opts routes[2];

	(void)state;
	rig_open(&rig, "127.0.0.1");
	routes[0] = routes[1] = rig_opts(&rig);
	start(&out, routes, 2, 0);
	RIG_UNTIL(&rig, out.ndone && !ctl_listener_preauths(rig.listener));
	assert_int_equal(out.status, TCPX_OK);
	assert_int_equal(out.nagree, 1);
	assert_int_equal(rig.nready, 1);
	close(out.fd);
	rig_close(&rig);
}

/* A route that fails does not wait for its head start; the failure that says most is told. */
static void all_fail(void **state)
{
	struct rig rig;
	struct outcome out = {.rig = &rig};
	struct ctl_dial_opts routes[3];
	int silent;

	(void)state;
	rig_open(&rig, "127.0.0.1");
	for (unsigned i = 0; i < 3; i++)
		routes[i] = rig_opts(&rig);
	silent = mute(&rig, &routes[2].remote);
	routes[0].remote = closed(&rig);
	routes[1].key[0] ^= 1; /* answers a wrong proof by a close */
	routes[2].deadline_ns = clock_now_ns() + 200 * CLOCK_MS_NS;
	start(&out, routes, 3, 3600 * CLOCK_S_NS);
	RIG_UNTIL(&rig, out.ndone);
	assert_int_equal(out.status, TCPX_ERR_AUTH);
	assert_int_equal(out.route, 1);
	assert_int_equal(out.missed[0], TCPX_ERR_REFUSED);
	assert_int_equal(out.missed[1], TCPX_ERR_AUTH);
	assert_int_equal(out.missed[2], TCPX_ERR_TIMED_OUT);
	assert_int_equal(rig.nready, 0);
	close(silent);
	rig_close(&rig);
}

static void linked_already(void **state)
{
	struct rig rig;
	struct outcome out = {.rig = &rig, .refuse = TCPX_ERR_EXISTS};
	struct ctl_dial_opts routes[2];

	(void)state;
	rig_open(&rig, "127.0.0.1");
	routes[0] = routes[1] = rig_opts(&rig);
	start(&out, routes, 2, 3600 * CLOCK_S_NS);
	RIG_UNTIL(&rig, out.ndone);
	assert_int_equal(out.status, TCPX_ERR_EXISTS);
	assert_int_equal(out.nagree, 1);
	assert_int_equal(rig.nready, 0);
	rig_close(&rig);
}

static void none_can_begin(void **state)
{
	struct rig rig;
	struct outcome out = {.rig = &rig};
	struct ctl_dial_opts route;
	struct ctl_race_opts opts = {
		.routes = &route, .count = 1, .missed = on_missed, .done = on_done};
	struct ctl_race *race = NULL;

	(void)state;
	rig_open(&rig, "127.0.0.1");
	route = rig_opts(&rig);
	assert_int_equal(sys_addr_parse("::1", 0, &route.local), TCPX_OK); /* another family */
	assert_int_equal(ctl_race_start(&rig.loop, &opts, &out, &race), TCPX_ERR_INVALID);
	assert_int_equal(error_last()->status, TCPX_ERR_INVALID);
	assert_null(race);
	assert_int_equal(out.ndone, 0);
	opts.count = 0;
	assert_int_equal(ctl_race_start(&rig.loop, &opts, &out, &race), TCPX_ERR_UNREACHABLE);
	rig_close(&rig);
}

static void cancelled(void **state)
{
	struct rig rig;
	struct outcome out = {.rig = &rig};
	struct ctl_dial_opts routes[2];
	unsigned before;
	int silent;

	(void)state;
	rig_open(&rig, "127.0.0.1");
	routes[0] = routes[1] = rig_opts(&rig);
	silent = mute(&rig, &routes[0].remote);
	routes[1].remote = routes[0].remote;
	before = open_descriptors();
	ctl_race_cancel(start(&out, routes, 2, 0));
	for (int i = 0; i < 3; i++)
		sys_loop_round(&rig.loop, 0);
	assert_int_equal(out.ndone, 0);
	assert_int_equal(open_descriptors(), before);
	close(silent);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overtaken),	   cmocka_unit_test(one_is_proven),
		cmocka_unit_test(all_fail),	   cmocka_unit_test(linked_already),
		cmocka_unit_test(none_can_begin),  cmocka_unit_test(cancelled),
		cmocka_unit_test(overtaken_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

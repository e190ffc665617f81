/* SPDX-License-Identifier: Apache-2.0 */
/* Who a peer is: its key says it, and nothing else does. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conform.h"
#include "engine/session/calls.h"
#include "sys/crypto.h"

/* A session beside those of the environment, in this process. */
struct one {
	tcpx_session *session;
	uint8_t info[TCPX_INFO_MAX_BYTES];
	size_t len;
	char key[65], address[64];
};

static void one_open(struct one *one, const char *name, const char *identity_file)
{
	tcpx_session_opts opts;
	uint16_t port;

	conform_opts(&opts, name);
	opts.identity_file = identity_file;
	OK(tcpx_session_open(&opts, &one->session));
	OK(tcpx_session_listen(one->session, NULL, &port));
	OK(tcpx_session_info(one->session, one->info, sizeof(one->info), &one->len));
	OK(tcpx_session_key(one->session, one->key));
	conform_near_address(one->address, port);
}

static tcpx_status one_connect(struct one *from, struct one *to, tcpx_peer *out_peer)
{
	return tcpx_session_connect(from->session, to->info, to->len, NULL, out_peer);
}

/* Ways to say to be somebody else, with all that can be known of it. */
enum disguise { OWN_KEY, ITS_KEY, NO_KEY, DISGUISES };

static void put_on(struct one *who, const tcpx_session *whose, enum disguise how)
{
	const struct engine_session *theirs = (const struct engine_session *)whose;
	struct engine_session *ours = (struct engine_session *)who->session;

	memcpy(ours->uuid, theirs->uuid, sizeof(ours->uuid));
	memcpy(ours->incarnation, theirs->incarnation, sizeof(ours->incarnation));
	memcpy(ours->name, theirs->name, sizeof(ours->name));
	if (how == ITS_KEY)
		memcpy(ours->identity.own.public_key, theirs->identity.own.public_key,
		       sizeof(ours->identity.own.public_key));
	ours->identity.own.there = how != NO_KEY;
}

static uint64_t impostors(tcpx_session *session)
{
	tcpx_counters counters = {.sz = sizeof(counters)};

	OK(tcpx_session_counters(session, &counters));
	return counters.impostors;
}

static void check_key(tcpx_session *session, tcpx_peer peer, const char *key)
{
	tcpx_peer_info info = {.sz = sizeof(info)};

	OK(tcpx_peer_query(session, peer, &info));
	CHECK_MSG(!strcmp(info.key, key), "'%s'", info.key);
}

/* What `from` sends to the peer arrives at `to`. */
static void check_way(struct one *from, tcpx_peer peer, struct one *to)
{
	tcpx_notification note = {.sz = sizeof(note)};

	OK(tcpx_notify_send(from->session, peer, "secret", 6));
	OK(tcpx_notify_take(to->session, LONG_NS, &note));
	CHECK(note.bytes == 6 && !memcmp(note.data, "secret", 6));
	tcpx_notification_release(to->session, &note);
}

/* It connects in the name of a session before we dial that one. */
static void case_identity_taken(struct env *env)
{
	(void)env;
	for (int how = OWN_KEY; how < DISGUISES; how++) {
		struct one a = {0}, b = {0}, x = {0};
		tcpx_notification note = {.sz = sizeof(note)};
		tcpx_peer peer, of_x;
		tcpx_status status;

		one_open(&a, "alice", NULL);
		one_open(&b, "bob", NULL);
		one_open(&x, "mallory", NULL);
		put_on(&x, a.session, (enum disguise)how);
		/* by the info of b, which it has */
		status = one_connect(&x, &b, &of_x);
		CHECK_MSG(status == TCPX_ERR_AUTH || is_peer_error(status), "%s",
			  tcpx_status_name(status));
		/* by address, which needs no proof on loopback */
		if (how == NO_KEY && !config.key) {
			OK(tcpx_session_connect_to(x.session, b.address, NULL, &of_x));
			session_event(b.session, TCPX_EVENT_PEER_UP);
		}
		OK(one_connect(&b, &a, &peer));
		check_key(b.session, peer, a.key);
		check_way(&b, peer, &a);
		if (how == NO_KEY && !config.key) {
			CHECK_EQ(session_event(b.session, TCPX_EVENT_PEER_DOWN).status,
				 TCPX_ERR_AUTH);
			session_event(x.session, TCPX_EVENT_PEER_DOWN);
			CHECK_EQ(impostors(b.session), 1);
			/* and once more, now that the true one is linked */
			status = tcpx_session_connect_to(x.session, b.address, NULL, &of_x);
			CHECK(status == TCPX_OK || is_peer_error(status));
			check_way(&b, peer, &a);
			CHECK_EQ(impostors(b.session), 2);
		} else {
			CHECK_EQ(impostors(b.session), 0);
		}
		EXPECT(tcpx_notify_take(x.session, 0, &note), TCPX_IN_PROGRESS);
		OK(tcpx_peer_disconnect(b.session, peer));
		tcpx_session_close(x.session);
		tcpx_session_close(b.session);
		tcpx_session_close(a.session);
	}
}

/* It connects in the name of the session that we dial and that does not answer yet. */
static void case_identity_race(struct env *env)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .nonblocking = 1, .timeout_ns = LONG_NS);
	struct one b = {0}, x = {0};
	tcpx_notification note = {.sz = sizeof(note)};
	tcpx_status status;
	tcpx_peer of_x;
	uint64_t bytes;

	struct engine_session *ours;
	struct wire_info far;

	if (config.key)
		return;
	env_far(env, NULL);
	one_open(&b, "near", NULL);
	env->session = b.session;
	one_open(&x, "mallory", NULL);
	ours = (struct engine_session *)x.session;
	far_stop(env);
	OK(tcpx_session_connect(b.session, env->info, env->info_len, &opts, &env->peer));
	OK(tcpx_notify_send(b.session, env->peer, "secret", 6));
	OK(wire_info_decode(env->info, env->info_len, &far));
	memcpy(ours->uuid, far.uuid, sizeof(ours->uuid));
	memcpy(ours->name, far.name, sizeof(ours->name));
	ours->identity.own.there = false;
	status = tcpx_session_connect_to(x.session, b.address, NULL, &of_x);
	CHECK(is_peer_error(status));
	CHECK_EQ(impostors(b.session), 1); /* counted before the connection closes */
	CHECK(kill(env->pid, SIGCONT) == 0);
	CHECK_EQ(near_event(env, TCPX_EVENT_PEER_UP).peer.id, env->peer.id);
	OK(far_simple(env, FAR_ACCEPT, 0, (uint64_t)LONG_NS, 0, 0, 0));
	OK(far_take(env, &(struct far_take){.timeout_ns = LONG_NS}, &bytes));
	CHECK_EQ(bytes, 6);
	EXPECT(tcpx_notify_take(x.session, 0, &note), TCPX_IN_PROGRESS);
	tcpx_session_close(x.session);
}

/* One dial of a schedule, begun some time after the others. */
struct dialled {
	struct one *from, *to;
	bool by_address, liar; /* who lies may wait for long, and is not waited for */
	useconds_t after_us;
	tcpx_peer peer;
	tcpx_status status;
};

static void *dial_later(void *arg)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .timeout_ns = LONG_NS);
	struct dialled *dial = arg;

	opts.nonblocking = dial->liar;
	usleep(dial->after_us); /* the schedule itself, no wait for anything */
	dial->status = dial->by_address
			       ? tcpx_session_connect_to(dial->from->session, dial->to->address,
							 &opts, &dial->peer)
			       : tcpx_session_connect(dial->from->session, dial->to->info,
						      dial->to->len, &opts, &dial->peer);
	return NULL;
}

/* Two honest sessions dial each other while a third one, which has both their infos, dials both in
 * the name of the other: whatever the order, each of the two ends up with the other. */
static void case_identity_schedules(struct env *env)
{
	unsigned seed = 1, rounds = config.light ? 12 : 60;

	(void)env;
	for (unsigned round = 0; round < rounds; round++) {
		struct one a = {0}, b = {0}, x[2] = {{0}};
		struct dialled dials[4] = {{.from = &a, .to = &b},
					   {.from = &b, .to = &a},
					   {.from = &x[0], .to = &b},
					   {.from = &x[1], .to = &a}};
		tcpx_notification note = {.sz = sizeof(note)};
		pthread_t threads[4];

		one_open(&a, "alice", NULL);
		one_open(&b, "bob", NULL);
		for (int i = 0; i < 2; i++) {
			enum disguise how = (enum disguise)((round / 2 + (unsigned)i) % DISGUISES);

			one_open(&x[i], "mallory", NULL);
			put_on(&x[i], (i ? &b : &a)->session, how);
			dials[2 + i].liar = true;
			dials[2 + i].by_address = how == NO_KEY && !config.key;
		}
		for (int i = 0; i < 4; i++) {
			dials[i].after_us = (useconds_t)rand_r(&seed) % 3000;
			CHECK(!pthread_create(&threads[i], NULL, dial_later, &dials[i]));
		}
		for (int i = 0; i < 4; i++)
			CHECK(!pthread_join(threads[i], NULL));
		OK(dials[0].status);
		OK(dials[1].status);
		check_key(a.session, dials[0].peer, b.key);
		check_key(b.session, dials[1].peer, a.key);
		check_way(&a, dials[0].peer, &b);
		check_way(&b, dials[1].peer, &a);
		for (int i = 0; i < 2; i++)
			EXPECT(tcpx_notify_take(x[i].session, 0, &note), TCPX_IN_PROGRESS);
		for (int i = 0; i < 2; i++)
			tcpx_session_close(x[i].session);
		tcpx_session_close(b.session);
		tcpx_session_close(a.session);
	}
}

static void case_identity_expected(struct env *env)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .expect_key = NULL);
	struct one a = {0}, b = {0};
	tcpx_peer peer;

	(void)env;
	one_open(&a, "alice", NULL);
	one_open(&b, "bob", NULL);
	for (int by_info = 0; by_info < 2; by_info++) {
		static const char *const bad[] = {"abc", "g", "00"};

		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			opts.expect_key = bad[i];
			EXPECT(by_info ? tcpx_session_connect(b.session, a.info, a.len, &opts,
							      &peer)
				       : tcpx_session_connect_to(b.session, a.address, &opts,
								 &peer),
			       TCPX_ERR_INVALID);
		}
		opts.expect_key = b.key; /* a key, but another's */
		EXPECT(by_info ? tcpx_session_connect(b.session, a.info, a.len, &opts, &peer)
			       : tcpx_session_connect_to(b.session, a.address, &opts, &peer),
		       TCPX_ERR_AUTH);
		CHECK(strstr(tcpx_last_error()->what, "key"));
	}
	opts.expect_key = a.key;
	OK(tcpx_session_connect_to(b.session, a.address, &opts, &peer));
	check_key(b.session, peer, a.key);
	opts.expect_key = b.key; /* one that is linked is not taken for it either */
	EXPECT(tcpx_session_connect_to(b.session, a.address, &opts, &peer), TCPX_ERR_AUTH);
	opts.expect_key = NULL;
	EXPECT(tcpx_session_connect_to(b.session, b.address, &opts, &peer), TCPX_ERR_INVALID);
	CHECK(strstr(tcpx_last_error()->what, "itself"));
	OK(one_connect(&b, &b, &peer)); /* asked for */
	check_key(b.session, peer, b.key);
	tcpx_session_close(b.session);
	tcpx_session_close(a.session);
}

/* An info with another's key in it is of nobody. */
static void case_identity_mixed_info(struct env *env)
{
	struct one a = {0}, b = {0};
	struct wire_info mixed, other;
	uint8_t bytes[TCPX_INFO_MAX_BYTES];
	tcpx_peer peer;
	size_t len;

	(void)env;
	one_open(&a, "alice", NULL);
	one_open(&b, "bob", NULL);
	OK(wire_info_decode(a.info, a.len, &mixed));
	OK(wire_info_decode(b.info, b.len, &other));
	memcpy(mixed.key, other.key, sizeof(mixed.key));
	len = wire_info_encode(&mixed, bytes, sizeof(bytes));
	EXPECT(tcpx_session_connect(b.session, bytes, len, NULL, &peer), TCPX_ERR_INVALID);
	tcpx_session_close(b.session);
	tcpx_session_close(a.session);
}

/* A name is a label: two that have the same one do not disturb each other. */
static void case_identity_names(struct env *env)
{
	struct one a[2] = {0}, b = {0};
	tcpx_peer peer[2], ours;

	(void)env;
	one_open(&b, "bob", NULL);
	for (int i = 0; i < 2; i++) {
		one_open(&a[i], "alice", NULL);
		OK(one_connect(&a[i], &b, &peer[i]));
		OK(tcpx_session_accept(b.session, LONG_NS, &ours));
		check_key(b.session, ours, a[i].key);
	}
	for (int i = 0; i < 2; i++)
		check_way(&a[i], peer[i], &b);
	tcpx_session_close(a[1].session);
	tcpx_session_close(a[0].session);
	tcpx_session_close(b.session);
}

/* A session that comes back with its key is known again, and what was of it before is over. */
static void case_identity_restart(struct env *env)
{
	char path[] = "/tmp/tcpx-identity-XXXXXX";
	struct one a[2] = {0}, b = {0};
	tcpx_peer of_a, old, new;
	tcpx_error error = {.sz = sizeof(error)};

	(void)env;
	CHECK(mkdtemp(path));
	CHECK(chdir(path) == 0);
	OK(tcpx_identity_create("me"));
	one_open(&b, "bob", NULL);
	one_open(&a[0], "alice", "me");
	OK(one_connect(&a[0], &b, &of_a));
	OK(tcpx_session_accept(b.session, LONG_NS, &old));
	one_open(&a[1], "another name", "me");
	CHECK(!strcmp(a[0].key, a[1].key));
	OK(one_connect(&a[1], &b, &of_a));
	OK(tcpx_session_accept(b.session, LONG_NS, &new));
	CHECK(new.id != old.id);
	OK(tcpx_peer_error(b.session, old, &error));
	CHECK_EQ(error.status, TCPX_ERR_PEER_RESTARTED);
	check_key(b.session, new, a[0].key);
	check_way(&a[1], of_a, &b);
	tcpx_session_close(a[1].session);
	tcpx_session_close(a[0].session);
	tcpx_session_close(b.session);
	CHECK(unlink("me") == 0 && rmdir(path) == 0);
}

const struct case_row cases_identity[] = {
	{"identity_taken", case_identity_taken, CASE_BARE | CASE_CRYPTO},
	{"identity_race", case_identity_race, CASE_BARE | CASE_CRYPTO | CASE_TWO},
	{"identity_schedules", case_identity_schedules, CASE_BARE | CASE_CRYPTO},
	{"identity_expected", case_identity_expected, CASE_BARE | CASE_CRYPTO},
	{"identity_mixed_info", case_identity_mixed_info, CASE_BARE | CASE_CRYPTO},
	{"identity_names", case_identity_names, CASE_BARE | CASE_CRYPTO},
	{"identity_restart", case_identity_restart, CASE_BARE | CASE_CRYPTO},
	{0},
};

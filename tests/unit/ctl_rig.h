/* SPDX-License-Identifier: Apache-2.0 */
/* A listener and diallers on one loop over loopback, driven by the test's own thread. */
#ifndef UNIT_CTL_RIG_H
#define UNIT_CTL_RIG_H

#include "descriptors.h"
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "ctl/conn.h"
#include "ctl/listener.h"
#include "sys/addr.h"
#include "sys/crypto.h"

#define RIG_HANG_NS (20 * CLOCK_S_NS) /* a wide guard, never a verdict */

struct rig {
	struct sys_loop loop;
	struct ctl_listener *listener;
	struct ctl_counters counters;
	struct sockaddr_storage addr;
	uint16_t port;
	/* what the acceptor's session decides */
	uint8_t key[CTL_KEY_BYTES];
	uint8_t auth; /* the only method it takes */
	uint8_t answer_status;
	struct ctl_identity acceptor, dialler;
	/* what came of it */
	int nkey, nanswer, nready, ndone;
	struct ctl_conn accepted, dialled;
	tcpx_status status; /* of the last dial */
	int err;
};

/* The uuid that goes with an identity, or one that is only said. */
static inline void rig_uuid(const struct ctl_identity *identity, uint8_t said,
			    struct wire_hello *hello)
{
	memset(hello->uuid, said, sizeof(hello->uuid));
	if (identity->there)
		assert_int_equal(
			ctl_identity_uuid(identity->public_key, hello->incarnation, hello->uuid),
			TCPX_OK);
}

static inline int rig_key(void *arg, const struct wire_hello *dial, int loopback,
			  uint8_t key[CTL_KEY_BYTES])
{
	struct rig *rig = arg;

	assert_true(loopback);
	rig->nkey++;
	memcpy(key, rig->key, CTL_KEY_BYTES);
	return dial->auth == rig->auth;
}

static inline void rig_answer(void *arg, const struct wire_hello *dial,
			      const struct sockaddr_storage *from, struct wire_hello *answer)
{
	struct rig *rig = arg;

	(void)from;
	rig->nanswer++;
	rig_uuid(&rig->acceptor, 0xaa, answer);
	snprintf(answer->name, sizeof(answer->name), "acceptor");
	answer->key_id = 77;
	answer->channels = dial->channels;
	answer->status = rig->answer_status;
}

static inline void rig_ready(void *arg, const struct ctl_conn *conn)
{
	struct rig *rig = arg;

	if (rig->nready++)
		close(rig->accepted.fd);
	rig->accepted = *conn;
}

static inline void rig_done(void *arg, tcpx_status status, int err, const struct ctl_conn *conn)
{
	struct rig *rig = arg;

	rig->ndone++;
	rig->status = status;
	rig->err = err;
	if (status == TCPX_OK) {
		if (rig->dialled.fd >= 0)
			close(rig->dialled.fd);
		rig->dialled = *conn;
	} else {
		assert_null(conn);
		assert_int_equal(error_last()->status, status);
	}
}

static inline const struct ctl_identity *rig_identity(void *arg)
{
	return &((struct rig *)arg)->acceptor;
}

static const struct ctl_accept_ops rig_ops = {
	.key = rig_key, .answer = rig_answer, .ready = rig_ready, .identity = rig_identity};

static inline void rig_open(struct rig *rig, const char *host)
{
	memset(rig, 0, sizeof(*rig));
	rig->dialled.fd = rig->accepted.fd = -1;
	rig->auth = WIRE_AUTH_KEY;
	memset(rig->key, 0x5c, sizeof(rig->key));
	assert_int_equal(ctl_identity_make(&rig->acceptor), TCPX_OK);
	assert_int_equal(ctl_identity_make(&rig->dialler), TCPX_OK);
	log_sink_set(NULL, NULL, TCPX_LOG_ERROR);
	assert_int_equal(sys_loop_init(&rig->loop), TCPX_OK);
	assert_int_equal(sys_addr_parse(host, 0, &rig->addr), TCPX_OK);
	assert_int_equal(ctl_listener_open(&rig->loop, &rig->addr, NULL, &rig->port, &rig_ops, rig,
					   &rig->counters, &rig->listener),
			 TCPX_OK);
	assert_int_not_equal(rig->port, 0);
	sys_addr_set_port(&rig->addr, rig->port);
}

static inline void rig_close(struct rig *rig)
{
	ctl_listener_close(rig->listener);
	if (rig->dialled.fd >= 0)
		close(rig->dialled.fd);
	if (rig->accepted.fd >= 0)
		close(rig->accepted.fd);
	sys_loop_fini(&rig->loop);
}

/* Rounds until the condition holds. */
#define RIG_UNTIL(rig, condition)                                                                  \
	do {                                                                                       \
		int64_t rig_end = clock_now_ns() + RIG_HANG_NS;                                    \
		while (!(condition)) {                                                             \
			assert_true(clock_now_ns() < rig_end);                                     \
			sys_loop_round(&(rig)->loop, 10 * CLOCK_MS_NS);                            \
		}                                                                                  \
	} while (0)

/* A dial with the rig's own key and method; change it before rig_dial(). */
static inline struct ctl_dial_opts rig_opts(const struct rig *rig)
{
	struct ctl_dial_opts opts = {
		.remote = rig->addr,
		.hello = {.role = WIRE_ROLE_CONTROL,
			  .auth = rig->auth,
			  .key_id = 5,
			  .channels = 4,
			  .chunk_bytes = 512 << 10,
			  .notify_budget = 1 << 20,
			  .name = "dialler"},
		.deadline_ns = clock_now_ns() + RIG_HANG_NS,
	};

	memcpy(opts.key, rig->key, sizeof(opts.key));
	opts.identity = &rig->dialler;
	rig_uuid(&rig->dialler, 0xdd, &opts.hello);
	return opts;
}

static inline tcpx_status rig_dial(struct rig *rig, const struct ctl_dial_opts *opts)
{
	struct ctl_dial *dial;
	int before = rig->ndone;

	assert_int_equal(ctl_dial_start(&rig->loop, opts, rig_done, rig, &dial), TCPX_OK);
	RIG_UNTIL(rig, rig->ndone > before);
	return rig->status;
}

/* A plain blocking-connect, then non-blocking socket to the listener. */
static inline int rig_raw(const struct rig *rig)
{
	int fd = socket(rig->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&rig->addr, sys_addr_len(&rig->addr)),
			 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

/* What the other side said until it closed: its bytes, or -1 when it was a reset with none. */
static inline ssize_t rig_drain(struct rig *rig, int fd, void *buf, size_t cap)
{
	int64_t end = clock_now_ns() + RIG_HANG_NS;
	size_t len = 0;

	for (;;) {
		ssize_t got = recv(fd, (char *)buf + len, cap - len, 0);

		if (got == 0)
			return (ssize_t)len;
		if (got > 0)
			len += (size_t)got;
		else if (errno != EAGAIN)
			return len ? (ssize_t)len : -1;
		assert_true(clock_now_ns() < end);
		sys_loop_round(&rig->loop, CLOCK_MS_NS);
	}
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing of the control session. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "cli_address.h"
#include "cli_output.h"
#include "node_control_priv.h"
#include "sys/addr.h"
#include "sys/crypto.h"

#define FLUSH_NS (2 * CLOCK_S_NS)
/* between two dials, since nothing signals that rank 0 listens */
#define AGAIN_US 100000
#define TRY_NS (300 * CLOCK_MS_NS) /* pause and shortest useful dial together */
#define NAME_US 1000000	  /* longest pause between two look-ups, to spare the name server */
#define SAY_NS CLOCK_S_NS /* an unknown name is reported early, since it may be misspelt */

static tcpx_status dial_once(struct node_control *c, int64_t left_ns)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .timeout_ns = left_ns);
	char address[300];

	snprintf(address, sizeof(address), strchr(c->opts.host, ':') ? "[%s]:%u" : "%s:%u",
		 c->opts.host, c->opts.port);
	return tcpx_session_connect_to(c->session, address, &opts, &hub(c)->peer);
}

/* Any failure may be caused by info that an earlier run left there, so it only means "not yet". */
static tcpx_status find_once(struct node_control *c, int64_t left_ns)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .timeout_ns = left_ns);
	uint8_t info[TCPX_INFO_MAX_BYTES];
	size_t bytes = 0;
	tcpx_status status = c->opts.find(c->opts.find_arg, info, sizeof(info), &bytes);

	if (status == TCPX_OK &&
	    tcpx_session_connect(c->session, info, bytes, &opts, &hub(c)->peer) != TCPX_OK)
		status = TCPX_ERR_REFUSED;
	return status;
}

/* Whether a later try may succeed: rank 0 may start later, and its host's name may resolve
 * later. */
static bool may_come(tcpx_status status)
{
	return status == TCPX_IN_PROGRESS || status == TCPX_ERR_REFUSED ||
	       status == TCPX_ERR_UNREACHABLE || status == TCPX_ERR_NOT_FOUND;
}

/* why: the error of the last try that failed before its deadline, or no error. */
static tcpx_status nobody_came(struct node_control *c, tcpx_status status, const tcpx_error *why)
{
	long long seconds = (long long)(c->opts.timeout_ns / CLOCK_S_NS);

	if (status == TCPX_IN_PROGRESS)
		return error_set(TCPX_ERR_TIMED_OUT, 0,
				 "rank 0 did not come to the rendezvous in %lld s", seconds);
	if (why->status != TCPX_ERR_NOT_FOUND)
		return status;
	(void)error_set(TCPX_ERR_NOT_FOUND, why->system_errno, "tried for %lld s: %s", seconds,
			why->what);
	return error_next("check the name, give the address itself, or raise --timeout");
}

static tcpx_status try_once(struct node_control *c, int64_t left_ns)
{
	int before = log_level;
	tcpx_status status;

	log_level_set(TCPX_LOG_ERROR); /* a refusal is expected here and not worth a warning */
	left_ns = left_ns > CLOCK_MS_NS ? left_ns : CLOCK_MS_NS;
	status = c->opts.find ? find_once(c, left_ns) : dial_once(c, left_ns);
	log_level_set(before);
	return status;
}

/* Says what is waited for, after a try that failed with status. */
static void say_dialling(const struct node_control *c, tcpx_status status, const tcpx_error *why,
			 int64_t left_ns)
{
	long long seconds = (long long)(left_ns / CLOCK_S_NS);

	if (status == TCPX_ERR_NOT_FOUND)
		cli_error("%s; trying again for %lld s", why->what, seconds);
	else if (c->opts.find)
		cli_error("rank 0 has not come to the rendezvous; waiting for %lld s more",
			  seconds);
	else
		cli_error("no rank 0 at %s port %u yet; waiting for %lld s more", c->opts.host,
			  c->opts.port, seconds);
}

/* Tries to connect until the deadline. */
static tcpx_status dial(struct node_control *c)
{
	int64_t end = clock_now_ns() + c->opts.timeout_ns, say = clock_now_ns() + SAY_NS;
	struct node_pace pace = node_pace_start(clock_now_ns(), NODE_PACE_NS);
	uint32_t pause_us = AGAIN_US;
	tcpx_error why = {.sz = sizeof(why)};

	for (;;) {
		tcpx_status status = try_once(c, end - clock_now_ns());
		int64_t now = clock_now_ns();

		if (status == TCPX_OK) {
			hub(c)->known = true;
			return TCPX_OK;
		}
		if (status != TCPX_ERR_TIMED_OUT && status != TCPX_IN_PROGRESS)
			why = *tcpx_last_error();
		/* A very short try would only report its own timeout, not the cause. */
		if (!may_come(status) || now + TRY_NS >= end || cli_interrupted)
			return nobody_came(c, status, &why);
		if (status == TCPX_ERR_NOT_FOUND && now >= say) {
			say_dialling(c, status, &why, end - now);
			say = end;
		} else if (status != TCPX_ERR_NOT_FOUND && node_pace_due(&pace, now)) {
			say_dialling(c, status, &why, end - now);
		}
		pause_us = status != TCPX_ERR_NOT_FOUND ? AGAIN_US
			   : 2 * pause_us < NAME_US	? 2 * pause_us
							: NAME_US;
		usleep(now + pause_us * 1000ll + TRY_NS < end ? pause_us : AGAIN_US);
	}
}

static tcpx_status node_control_open_listens(struct node_control *c)
{
	TCPX_OPTS(tcpx_listen_opts, opts, .port = c->opts.port);
	uint16_t port;

	return tcpx_session_listen(c->session, &opts, &port);
}

tcpx_status node_control_open(const struct node_control_opts *opts,
			      struct node_control **out_control)
{
	TCPX_OPTS(tcpx_session_opts, session, .bind = opts->bind, .key_file = opts->key,
		  .advertise = opts->rank ? NULL : opts->advertise, .channels = 1, .plugin = "",
		  .flags = opts->insecure ? TCPX_SESSION_INSECURE : 0);
	struct node_control *c = calloc(1, sizeof(*c));
	char name[TCPX_NAME_MAX + 1];
	tcpx_status status;
	uint32_t salt;

	if (c)
		c->others = calloc(opts->size, sizeof(*c->others));
	if (!c || !c->others) {
		free(c);
		return error_set(TCPX_ERR_NO_MEMORY, 0, "%u ranks", opts->size);
	}
	c->opts = *opts;
	if (gethostname(c->host, sizeof(c->host) - 1))
		snprintf(c->host, sizeof(c->host), "?");
	snprintf(c->stage, sizeof(c->stage), "control");
	/* The name is unique: with equal names two processes of one rank would replace each
	 * other. */
	if (sys_random(&salt, sizeof(salt)) != TCPX_OK)
		salt = (uint32_t)getpid();
	snprintf(name, sizeof(name), "%.30s-control-%u-%08x", opts->job, opts->rank, salt);
	session.name = name;
	if (opts->find)
		session.flags = TCPX_SESSION_INFO_ONLY;
	status = tcpx_session_open(&session, &c->session);
	if (status == TCPX_OK)
		status = opts->rank ? dial(c) : node_control_open_listens(c);
	if (status != TCPX_OK) {
		tcpx_error error = *tcpx_last_error();

		tcpx_session_close(c->session);
		free(c->others);
		free(c);
		return error_raise(&error);
	}
	*out_control = c;
	return TCPX_OK;
}

tcpx_status node_control_address(struct node_control *c, struct sockaddr_storage *out)
{
	uint8_t buf[TCPX_INFO_MAX_BYTES];
	struct wire_info info;
	size_t bytes;
	tcpx_status status = tcpx_session_info(c->session, buf, sizeof(buf), &bytes);

	if (status == TCPX_OK)
		status = wire_info_decode(buf, bytes, &info);
	explicit_bzero(buf, sizeof(buf));
	if (status != TCPX_OK)
		return status;
	explicit_bzero(info.secret, sizeof(info.secret));
	for (uint32_t i = info.naddrs; i-- > 0;) {
		struct sockaddr_storage addr;

		cli_address(&info.addrs[i], &addr);
		if (i == info.naddrs - 1 || !sys_addr_is_loopback(&addr))
			*out = addr;
	}
	return info.naddrs ? TCPX_OK : error_set(TCPX_ERR_NOT_FOUND, 0, "no address");
}

/* Whether everything sent to the peer has arrived; false: the peer has left or does not answer. */
static bool heard(struct node_control *c, tcpx_peer peer)
{
	return tcpx_peer_flush(c->session, peer, FLUSH_NS) == TCPX_OK;
}

void node_control_close(struct node_control *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < (c->opts.rank ? 1 : c->opts.size); i++) {
		if (c->others[i].known)
			c->others[i].known = heard(c, c->others[i].peer);
		free(c->others[i].data);
	}
	/* ranks that did not fit were told why */
	for (uint32_t i = 0; i < c->told && i < NODE_CONTROL_NAMED; i++)
		(void)heard(c, c->told_peers[i]);
	tcpx_session_close(c->session);
	free(c->all);
	free(c->others);
	free(c);
}

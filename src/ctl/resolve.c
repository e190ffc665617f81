/* SPDX-License-Identifier: Apache-2.0 */
/* Name resolution with a deadline: the look-up runs on a thread that may be abandoned. */
#include "ctl/resolve.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ctl/conn.h"
#include "sys/addr.h"
#include "sys/cpu.h"
#include "sys/fork.h"
#include "sys/futex.h"
#include "sys/iface.h"
#include "sys/sock.h"

#define RESOLVE_ADDRS 32

/* State of a look-up. The thread of the look-up sets DONE at its end; the caller sets LEFT if it
 * gives up before. */
enum lookup_state { RUNNING, DONE, LEFT };

/* A look-up, shared by its caller and its thread; the last of the two frees it. */
struct lookup {
	_Atomic uint32_t state, holders;
	char host[SYS_HOST_MAX];
	int rc, err; /* results of getaddrinfo: rc, and errno with EAI_SYSTEM */
	unsigned count;
	struct sockaddr_storage addrs[RESOLVE_ADDRS];
};

static _Atomic(ctl_lookup_fn) lookup_fn;
/* The lower half is the number of abandoned look-ups that still hang. The upper half is the fork
 * generation of the process that counted them, because a child process has none of its parent's
 * threads. */
static _Atomic uint64_t stuck;

void ctl_resolve_set_lookup(ctl_lookup_fn fn)
{
	atomic_store(&lookup_fn, fn);
}

/* Returns `value`, or a count of 0 if a parent process counted. */
static uint64_t stuck_now(uint64_t value)
{
	uint64_t generation = (uint64_t)sys_fork_generation() << 32;

	return (value ^ generation) >> 32 ? generation : value;
}

static void stuck_add(int change)
{
	uint64_t old = atomic_load(&stuck);

	while (!atomic_compare_exchange_weak(&stuck, &old, stuck_now(old) + (uint64_t)change))
		;
}

/* Marks a look-up as abandoned and returns 1. Returns 0 if the look-up has ended before that; its
 * result is valid. Counts before it marks, so that the thread of the look-up decrements only what
 * was counted. */
static int abandon_lookup(struct lookup *l)
{
	uint32_t running = RUNNING;

	stuck_add(1);
	if (atomic_compare_exchange_strong(&l->state, &running, LEFT))
		return 1;
	stuck_add(-1); /* the look-up has just ended */
	return 0;
}

static void put_lookup(struct lookup *l)
{
	if (atomic_fetch_sub(&l->holders, 1) == 1)
		free(l);
}

/* Copies the IPv4 and IPv6 addresses of the list, each once, at most RESOLVE_ADDRS. */
static void collect_addresses(struct lookup *l, const struct addrinfo *list)
{
	for (; list && l->count < RESOLVE_ADDRS; list = list->ai_next) {
		struct sockaddr_storage addr = {0};
		unsigned i;

		if ((list->ai_family != AF_INET && list->ai_family != AF_INET6) ||
		    list->ai_addrlen > sizeof(addr))
			continue;
		memcpy(&addr, list->ai_addr, list->ai_addrlen);
		for (i = 0; i < l->count; i++)
			if (sys_addr_same_host(&l->addrs[i], &addr))
				break;
		if (i == l->count)
			l->addrs[l->count++] = addr;
	}
}

static void *lookup_thread(void *arg)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct lookup *l = arg;
	struct addrinfo *list = NULL;
	ctl_lookup_fn fn = atomic_load(&lookup_fn);

	if (!fn)
		fn = getaddrinfo;
	errno = 0;
	l->rc = fn(l->host, NULL, &hints, &list);
	l->err = l->rc == EAI_SYSTEM ? errno : 0;
	if (!l->rc) {
		collect_addresses(l, list);
		freeaddrinfo(list);
	}
	if (atomic_exchange(&l->state, DONE) == LEFT)
		stuck_add(-1);
	sys_futex_wake(&l->state, 1);
	put_lookup(l);
	return NULL;
}

static tcpx_status address_error(const char *text, const char *why)
{
	error_set(TCPX_ERR_INVALID, 0, "'%.80s' is not an address%s%s", text, *why ? ": " : "",
		  why);
	return error_next("write HOST, HOST:PORT, ADDRESS or [IPv6]:PORT, port 1..65535");
}

/* Writes the addresses so that the two families alternate, beginning with that of the first address
 * (RFC 8305). A dialler that goes through them in order soon tries the other family. */
static void alternate_families(const struct lookup *l, uint16_t port, struct sockaddr_storage *out,
			       unsigned max, unsigned *out_count)
{
	sa_family_t family = l->addrs[0].ss_family;
	unsigned count = 0, own = 0, other = 0;

	while (count < l->count && count < max) {
		bool first = count % 2 == 0;
		unsigned *at = first ? &own : &other;

		while (*at < l->count && (l->addrs[*at].ss_family == family) != first)
			++*at;
		if (*at == l->count) { /* only the other family is left */
			at = first ? &other : &own;
			while ((l->addrs[*at].ss_family == family) == first)
				++*at;
		}
		out[count] = l->addrs[(*at)++];
		sys_addr_set_port(&out[count++], port);
	}
	*out_count = count;
}

/* Returns the status of a look-up that has ended, and sets its error. */
static tcpx_status lookup_status(const struct lookup *l)
{
	const char *why = l->rc == EAI_SYSTEM ? "the look-up failed" : gai_strerror(l->rc);

	if (!l->rc && l->count)
		return TCPX_OK;
	if (!l->rc)
		why = "it has no IPv4 or IPv6 address";
	if (l->rc == EAI_MEMORY)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory to look up %.80s", l->host);
	if (l->rc == EAI_SYSTEM && sys_errno_status(l->err) == TCPX_ERR_NO_DESCRIPTORS)
		return error_set(TCPX_ERR_NO_DESCRIPTORS, l->err, "cannot look up %.80s", l->host);
	error_set(TCPX_ERR_NOT_FOUND, l->err, "host %.80s: %s", l->host, why);
	return error_next("check the name, or give the address itself");
}

/* Starts the thread of the look-up. Returns ERR_LIMIT if too many look-ups hang. */
static tcpx_status start_lookup(struct lookup *l)
{
	pthread_t thread;
	tcpx_status status;

	if ((uint32_t)stuck_now(atomic_load(&stuck)) >= CTL_RESOLVE_STUCK_MAX) {
		error_set(TCPX_ERR_LIMIT, 0, "%d name look-ups hang already",
			  CTL_RESOLVE_STUCK_MAX);
		return error_next("check the name server, or give the address itself");
	}
	atomic_store(&l->holders, 2);
	status = sys_thread_start(&thread, "tcpx-resolve", lookup_thread, l);
	if (status == TCPX_OK) {
		pthread_detach(thread);
		return TCPX_OK;
	}
	atomic_store(&l->holders, 1);
	return status;
}

int ctl_resolve_is_name(const char *text)
{
	char host[SYS_HOST_MAX];
	uint16_t port = 0;
	struct sockaddr_storage addr;

	return !sys_addr_split(text, host, &port) && *text != '[' && !strchr(host, ':') &&
	       sys_addr_parse(host, port, &addr) != TCPX_OK;
}

tcpx_status ctl_resolve(const char *text, uint16_t default_port, int64_t deadline_ns,
			struct sockaddr_storage *out_addrs, unsigned max, unsigned *out_count)
{
	char host[SYS_HOST_MAX];
	uint16_t port = default_port;
	struct lookup *l;
	tcpx_status status;
	const char *why;

	why = text && max ? sys_addr_split(text, host, &port) : "";
	if (why)
		return address_error(text ? text : "", why);
	if (sys_addr_parse(host, port, out_addrs) == TCPX_OK) {
		sys_iface_complete(out_addrs);
		*out_count = 1;
		return TCPX_OK;
	}
	if (*text == '[' || strchr(host, ':'))
		return address_error(text, strchr(host, '%') ? "no such interface" : "");
	l = calloc(1, sizeof(*l));
	if (!l)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory to look up %.80s", host);
	atomic_store(&l->holders, 1);
	snprintf(l->host, sizeof(l->host), "%s", host);
	status = start_lookup(l);
	while (status == TCPX_OK && atomic_load(&l->state) == RUNNING)
		if (sys_futex_wait(&l->state, RUNNING, deadline_ns) && abandon_lookup(l)) {
			error_set(TCPX_ERR_TIMED_OUT, 0, "looking up %.80s took too long", host);
			status = error_next("check the name server, or give the address itself");
		}
	if (status == TCPX_OK)
		status = lookup_status(l);
	if (status == TCPX_OK)
		alternate_families(l, port, out_addrs, max, out_count);
	put_lookup(l);
	return status;
}

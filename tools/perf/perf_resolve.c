/* SPDX-License-Identifier: Apache-2.0 */
/* Name resolution on a thread of its own, which is abandoned if the name servers do not answer. */
#include "perf_resolve.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli_output.h"

#define RESOLVE_NS (60 * CLOCK_S_NS)

struct lookup {
	_Atomic int owners; /* the last one frees */
	_Atomic int done;
	int rc, err;
	struct addrinfo *list;
	char host[256];
};

static void perf_resolve_put(struct lookup *lookup)
{
	if (atomic_fetch_sub(&lookup->owners, 1) > 1)
		return;
	if (lookup->list)
		freeaddrinfo(lookup->list);
	free(lookup);
}

static void *lookup_main(void *arg)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct lookup *lookup = arg;

	lookup->rc = getaddrinfo(lookup->host, "9", &hints, &lookup->list);
	lookup->err = errno;
	lookup->done = 1;
	perf_resolve_put(lookup);
	return NULL;
}

static tcpx_status wait_done(struct lookup *lookup, int64_t limit)
{
	while (!lookup->done) {
		if (cli_interrupted)
			return error_set(TCPX_ERR_CANCELLED, 0, "interrupted");
		if (clock_now_ns() > limit)
			return error_set(TCPX_ERR_TIMED_OUT, 0, "looking up host '%.80s'",
					 lookup->host);
		nanosleep(&(struct timespec){.tv_nsec = CLOCK_MS_NS / 4}, NULL);
	}
	if (!lookup->rc)
		return TCPX_OK;
	return error_set(TCPX_ERR_NOT_FOUND, lookup->rc == EAI_SYSTEM ? lookup->err : 0,
			 "host '%.80s': %s", lookup->host, gai_strerror(lookup->rc));
}

tcpx_status perf_resolve(const char *host, int64_t deadline_ns, struct addrinfo **out_list)
{
	struct lookup *lookup = calloc(1, sizeof(*lookup));
	pthread_t thread;
	tcpx_status status;
	int err;

	if (!lookup)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "looking up a host");
	snprintf(lookup->host, sizeof(lookup->host), "%s", host);
	lookup->owners = 2;
	err = pthread_create(&thread, NULL, lookup_main, lookup);
	if (err) {
		free(lookup);
		return error_set(TCPX_ERR_LIMIT, err, "a thread to look up a host");
	}
	pthread_detach(thread);
	status = wait_done(lookup, deadline_ns ? deadline_ns : clock_now_ns() + RESOLVE_NS);
	if (status == TCPX_OK) {
		*out_list = lookup->list;
		lookup->list = NULL;
	}
	perf_resolve_put(lookup);
	return status;
}

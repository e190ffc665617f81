/* SPDX-License-Identifier: Apache-2.0 */
/* A ping-pong over one plain socket, blocking or spinning. */
#include "ceiling_ping.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "ceiling_lane.h"
#include "perf_samples.h"

#define WARM_UP 200
#define TRIPS 2000
#define SERIES_NS (300 * CLOCK_MS_NS) /* enough where other spinning threads hold the cores */
#define SPIN_NS (2 * CLOCK_MS_NS)     /* after that the other end is not answering soon: block */

static void set_nodelay(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* Polls without blocking for a while, then blocks. */
static int receive_spinning(int fd, void *data, size_t len)
{
	int64_t limit = clock_now_ns() + SPIN_NS;
	uint8_t *p = data;

	while (len) {
		ssize_t n = recv(fd, p, len, MSG_DONTWAIT);

		if (n > 0) {
			p += n;
			len -= (size_t)n;
			continue;
		}
		if (!n || (errno != EAGAIN && errno != EINTR)) {
			errno = n ? errno : 0;
			return -1;
		}
		if (clock_now_ns() > limit)
			return ceiling_receive(fd, p, len);
	}
	return 0;
}

static int receive(int fd, void *buf, size_t len, enum ceiling_ping how)
{
	return how == CEILING_PING_SPINNING ? receive_spinning(fd, buf, len)
					    : ceiling_receive(fd, buf, len);
}

void ceiling_ping_answer(int fd, void *buf, size_t len, enum ceiling_ping how)
{
	set_nodelay(fd);
	while (!receive(fd, buf, len, how))
		if (ceiling_send(fd, buf, len))
			break;
}

int ceiling_ping_measure(int fd, void *buf, size_t len, enum ceiling_ping how, double *out_half)
{
	struct perf_samples samples = {0};
	int64_t limit = clock_now_ns() + SERIES_NS;
	int rc = perf_samples_reserve(&samples, TRIPS);

	set_nodelay(fd);
	for (unsigned i = 0; !rc && i < WARM_UP + TRIPS; i++) {
		int64_t start = clock_now_ns();

		if (start > limit && samples.count)
			break;

		rc = ceiling_send(fd, buf, len) || receive(fd, buf, len, how);
		if (!rc && (i >= WARM_UP || start > limit))
			perf_samples_add(&samples, (uint64_t)(clock_now_ns() - start));
	}
	if (!rc)
		*out_half = perf_samples_summary(&samples, 0.5).p50;
	perf_samples_free(&samples);
	return rc ? -1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers at a port: connects and says something that is no hello, or nothing at all.
 * strangers KIND ADDRESS PORT COUNT [SECONDS]; prints what became of them. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define OPEN_MAX_AT_ONCE 200

static struct sockaddr_storage where;
static socklen_t where_len;
static uint64_t seed = 88172645463325252ull;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static uint64_t random_u64(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void parse(const char *address, const char *port)
{
	struct sockaddr_in *v4 = (void *)&where;
	struct sockaddr_in6 *v6 = (void *)&where;

	if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)atoi(port));
		where_len = sizeof(*v4);
	} else if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)atoi(port));
		where_len = sizeof(*v6);
	} else {
		exit(2);
	}
}

static int dial(void)
{
	struct linger hard = {1, 0};
	int fd = socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	/* no TIME_WAIT: the ports of this machine last for all of them */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	if (connect(fd, (void *)&where, where_len)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* The first bytes of a hello with a length that is too large, or too small. */
static size_t say(const char *kind, uint8_t *out, size_t cap)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: tcpx\r\nUser-Agent: stranger\r\n\r\n";
	static const uint8_t tls[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
	size_t len;

	if (strcmp(kind, "http") == 0) {
		memcpy(out, http, sizeof(http) - 1);
		return sizeof(http) - 1;
	}
	if (strcmp(kind, "tls") == 0) {
		memcpy(out, tls, sizeof(tls));
		for (len = sizeof(tls); len < 300; len++)
			out[len] = (uint8_t)random_u64();
		return len;
	}
	len = strcmp(kind, "large") == 0 ? cap : 1 + random_u64() % 500;
	for (size_t i = 0; i < len; i++)
		out[i] = (uint8_t)random_u64();
	return len;
}

/* Bytes of the real hello's beginning, given as hex in the environment by the test. */
static size_t half_hello(uint8_t *out, size_t cap)
{
	const char *hex = getenv("STRANGER_HEX");
	size_t len = 0;

	while (hex && len < cap && sscanf(hex + 2 * len, "%2hhx", &out[len]) == 1)
		len++;
	return len;
}

/* Returns when the port has taken everybody who dialled before: connections are accepted in the
 * order they came, and this one, the last, is turned away. */
static int last_one(void)
{
	static uint8_t http[64];
	size_t len = say("http", http, sizeof(http));
	int fd = dial(), turned_away;

	if (fd < 0)
		return -1;
	(void)!send(fd, http, len, MSG_NOSIGNAL);
	turned_away = recv(fd, http, 1, 0) <= 0;
	close(fd);
	return turned_away ? 0 : -1;
}

/* The pace is what the test asks for. */
static void await_turn(double when)
{
	struct timespec ts = {(time_t)when, (long)((when - (double)(time_t)when) * 1e9)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* Talks and goes, spread over the seconds; a batch stays open a little so that limits are met. */
static int talk(const char *kind, int count, double seconds)
{
	double begin = now();
	static uint8_t bytes[65536];
	int open[OPEN_MAX_AT_ONCE], nopen = 0, failed = 0;

	for (int i = 0; i < count; i++) {
		const char *now_kind = kind;
		size_t len;
		int fd;

		await_turn(begin + seconds * i / count);
		fd = dial();
		if (fd < 0) {
			failed++;
			continue;
		}
		if (strcmp(kind, "mix") == 0)
			now_kind = (const char *[]){"random", "http", "tls",
						    "large",  "half", "nothing"}[i % 6];
		len = strcmp(now_kind, "half") == 0	 ? half_hello(bytes, sizeof(bytes))
		      : strcmp(now_kind, "nothing") == 0 ? 0
							 : say(now_kind, bytes, sizeof(bytes));
		if (len && send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			failed += errno != EPIPE && errno != ECONNRESET && errno != EAGAIN;
		if (i % 3) {
			close(fd);
			continue;
		}
		open[nopen++] = fd;
		if (nopen == OPEN_MAX_AT_ONCE)
			while (nopen)
				close(open[--nopen]);
	}
	while (nopen)
		close(open[--nopen]);
	if (last_one())
		return 1;
	printf("talked %d failed %d\n", count, failed);
	return 0;
}

/* Stays: silent, or a byte a second. Prints when the last one was dropped and what was said. */
static int stay(const char *kind, int count, double seconds)
{
	struct pollfd *pfd = calloc((size_t)count, sizeof(*pfd));
	double begin = now(), worst = 0, next = begin + 1;
	int left = 0, answered = 0, drip = strcmp(kind, "drip") == 0;
	uint8_t hello[4096], byte;
	size_t at = 0, len = half_hello(hello, sizeof(hello));

	for (int i = 0; pfd && i < count; i++) {
		pfd[i] = (struct pollfd){.fd = dial(), .events = POLLIN};
		left += pfd[i].fd >= 0;
	}
	printf("dialled %d\n", left);
	fflush(stdout);
	while (pfd && left && now() < begin + seconds) {
		poll(pfd, (nfds_t)count, 50);
		for (int i = 0; i < count; i++) {
			if (pfd[i].fd < 0 || !pfd[i].revents)
				continue;
			if (recv(pfd[i].fd, &byte, 1, MSG_DONTWAIT) > 0) {
				answered++;
				continue;
			}
			close(pfd[i].fd);
			pfd[i].fd = -1;
			left--;
			worst = now() - begin;
		}
		if (drip && now() > next && at < len) {
			for (int i = 0; i < count; i++)
				if (pfd[i].fd >= 0)
					(void)!send(pfd[i].fd, &hello[at], 1, MSG_NOSIGNAL);
			at++;
			next += 1;
		}
	}
	printf("left %d answered %d worst %.3f\n", left, answered, worst);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	parse(argv[2], argv[3]);
	if (strcmp(argv[1], "silent") == 0 || strcmp(argv[1], "drip") == 0)
		return stay(argv[1], atoi(argv[4]), argc > 5 ? atof(argv[5]) : 20);
	return talk(argv[1], atoi(argv[4]), argc > 5 ? atof(argv[5]) : 0);
}

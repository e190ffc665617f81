/* SPDX-License-Identifier: Apache-2.0 */
/* One session serves many at once: bytes a second of all, and how evenly they share. */
#include <getopt.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_pair.h"
#include "bench_util.h"

#define PEERS_MOST 256
#define DEPTH 4
#define FAR_BYTES (256ull << 20)

/* Shared by all processes of the run. */
struct board {
	struct bench_offer offer;
	pthread_barrier_t start;
	int64_t begin_ns, end_ns;
	double seconds;
	uint64_t size;
	unsigned peers;
	uint64_t bytes[PEERS_MOST]; /* that ended within the time */
};

struct client {
	struct board *board;
	unsigned index;
	pthread_t thread;
};

/* The next completions. Nobody takes this session's events: they would keep the wait awake. */
static int await_ends(tcpx_session *session, tcpx_completion *ends, uint32_t max)
{
	tcpx_event event = {.sz = sizeof(event)};
	int got;

	while (!(got = tcpx_session_poll(session, ends, max))) {
		while (tcpx_session_event(session, &event) == TCPX_OK)
			;
		must("wait", tcpx_session_wait(session, TCPX_WAIT_FOREVER));
	}
	if (got < 0)
		die("poll");
	return got;
}

/* Keeps DEPTH writes in flight, around its share of a cold set; counts those that end in time. */
static void write_until(struct board *b, unsigned index, tcpx_session *session, tcpx_peer peer,
			const tcpx_request *requests, size_t count)
{
	tcpx_request *idle = calloc(count, sizeof(*idle)); /* a ring, by the order of the ends */

	tcpx_completion ends[DEPTH] = {{.sz = sizeof(ends[0])}};
	uint64_t posted = 0, ended = 0;
	int over = 0;

	if (!idle)
		die("memory");
	memcpy(idle, requests, count * sizeof(*idle)); /* the first DEPTH are posted at once */
	pthread_barrier_wait(&b->start);	       /* all are connected */
	pthread_barrier_wait(&b->start);	       /* the clock runs */
	for (; posted < DEPTH; posted++)
		must("post", tcpx_request_post(session, idle[posted]));
	while (!over) {
		int got = await_ends(session, ends, DEPTH);

		over = now_ns() >= b->end_ns;
		for (int i = 0; i < got && !over; i++) {
			must("write", ends[i].status);
			/* in its place, the one that has rested longest */
			idle[ended++ % count] = ends[i].request;
			must("post", tcpx_request_post(session, idle[posted++ % count]));
		}
	}
	b->bytes[index] = ended * b->size;
	must("flush", tcpx_peer_flush(session, peer, TCPX_WAIT_FOREVER));
	free(idle);
}

static void *client_main(void *arg)
{
	struct client *c = arg;
	struct board *b = c->board;
	TCPX_OPTS(tcpx_session_opts, opts, .flags = TCPX_SESSION_NO_LOCAL);
	uint64_t share = FAR_BYTES / b->peers, at = c->index * share;
	tcpx_region near_region, far_region;
	size_t count = share / b->size;
	tcpx_request *requests = calloc(count, sizeof(*requests));
	tcpx_session *session;
	tcpx_peer peer;

	if (!requests)
		die("memory");
	must("open", tcpx_session_open(&opts, &session));
	must("connect", tcpx_session_connect(session, b->offer.info, b->offer.len, NULL, &peer));
	must("register",
	     tcpx_region_register(session, bench_memory(share), share, NULL, &near_region));
	must("import", tcpx_region_import(session, peer, b->offer.token, sizeof(b->offer.token),
					  &far_region));
	for (size_t i = 0; i < count; i++) {
		TCPX_OPTS(tcpx_request_opts, queued, .queue = 1);
		tcpx_segment piece = {.local = near_region,
				      .local_offset = i * b->size,
				      .remote = far_region,
				      .remote_offset = at + i * b->size,
				      .length = b->size};

		must("prepare", tcpx_request_prepare(session, peer, TCPX_OP_WRITE, &piece, 1,
						     &queued, &requests[i]));
	}
	write_until(b, c->index, session, peer, requests, count);
	tcpx_session_close(session);
	free(requests);
	return NULL;
}

/* One process: its clients are threads, each with a session. */
static int run_clients(struct board *b, unsigned first, unsigned count)
{
	static struct client clients[PEERS_MOST];

	for (unsigned i = 0; i < count; i++) {
		clients[i] = (struct client){.board = b, .index = first + i};
		if (pthread_create(&clients[i].thread, NULL, client_main, &clients[i]))
			die("thread");
	}
	for (unsigned i = 0; i < count; i++)
		pthread_join(clients[i].thread, NULL);
	return 0;
}

static struct board *make_board(unsigned peers, uint64_t size, double seconds)
{
	struct board *b =
		mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attr;

	if (b == MAP_FAILED)
		die("mmap");
	b->peers = peers;
	b->size = size;
	b->seconds = seconds;
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&b->start, &attr, peers + 1);
	return b;
}

/* The server, in a process of its own; it ends when its end of the pair does. */
static int serve(struct board *b, int fd)
{
	tcpx_session *session;
	char byte = 0;

	bench_serve(&b->offer, &session, FAR_BYTES, 0);
	if (write(fd, &byte, 1) != 1)
		return 1;
	while (read(fd, &byte, 1) > 0)
		;
	tcpx_session_close(session);
	return 0;
}

static void report(const struct board *b, unsigned processes)
{
	uint64_t sum = 0, least = UINT64_MAX, most = 0;

	for (unsigned i = 0; i < b->peers; i++) {
		sum += b->bytes[i];
		least = b->bytes[i] < least ? b->bytes[i] : least;
		most = b->bytes[i] > most ? b->bytes[i] : most;
	}
	printf("{\"peers\": %u, \"processes\": %u, \"size\": %llu, \"seconds\": %.3f, "
	       "\"bytes_per_second\": %.0f, \"max_to_min\": %.3f}\n",
	       b->peers, processes, (unsigned long long)b->size, b->seconds,
	       (double)sum / b->seconds, least ? (double)most / (double)least : 9999.0);
}

static pid_t fork_or_die(void)
{
	pid_t child = fork();

	if (child < 0)
		die("fork");
	return child;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"peers", 1, NULL, 'p'},
						{"processes", 1, NULL, 'P'},
						{"time", 1, NULL, 't'},
						{"size", 1, NULL, 's'},
						{NULL, 0, NULL, 0}};
	unsigned peers = 16, processes = 1;
	uint64_t size = 1 << 20;
	double seconds = 2;
	int c, ends[2], status, failed = 0;
	struct board *b;
	char byte;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'p')
			peers = (unsigned)atoi(optarg);
		else if (c == 'P')
			processes = (unsigned)atoi(optarg);
		else if (c == 't')
			seconds = atof(optarg);
		else if (c == 's')
			size = strtoull(optarg, NULL, 10);
		else
			return 2;
	}
	if (!peers || peers > PEERS_MOST || !processes || peers % processes || !size ||
	    size * DEPTH > FAR_BYTES / peers) {
		fprintf(stderr,
			"many_peers: --processes divides --peers, %d sizes fit in %llu / "
			"peers\n",
			DEPTH, (unsigned long long)FAR_BYTES);
		return 2;
	}
	b = make_board(peers, size, seconds);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		die("socketpair");
	if (!fork_or_die()) {
		close(ends[0]);
		exit(serve(b, ends[1]));
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		die("server");
	for (unsigned i = 0; i < processes; i++)
		if (!fork_or_die()) {
			close(ends[0]);
			exit(run_clients(b, i * (peers / processes), peers / processes));
		}
	pthread_barrier_wait(&b->start);
	b->begin_ns = now_ns();
	b->end_ns = b->begin_ns + (int64_t)(seconds * 1e9);
	pthread_barrier_wait(&b->start);
	for (unsigned i = 0; i < processes; i++)
		failed |= wait(&status) < 0 || status;
	close(ends[0]);
	failed |= wait(&status) < 0 || status;
	if (!failed)
		report(b, processes);
	return failed;
}

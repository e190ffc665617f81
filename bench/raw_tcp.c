/* SPDX-License-Identifier: Apache-2.0 */
/* Independent yardstick: plain blocking TCP sockets between two processes, one JSON line. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_util.h"

#define MAX_SOCKETS 64
#define IOV_MOST 1024

/* What the client asks for; both ends are the same program on the same kind of machine. */
struct plan {
	uint64_t bytes;	 /* of all sockets, timed */
	uint64_t set;	 /* working set of a side, all sockets */
	uint64_t call;	 /* bytes of a call */
	uint64_t pieces; /* bytes of a scattered piece, 0: contiguous */
	uint32_t sockets;
	uint32_t ping; /* 0: bandwidth, 1: blocking, 2: spinning */
	uint32_t message;
	uint32_t trips;
};

struct lane {
	const struct plan *plan;
	pthread_barrier_t *start;
	int fd;
	int sends;
	char *base;
	uint64_t share;	 /* bytes of the working set */
	uint64_t *order; /* offsets of pieces */
	size_t count;
	pthread_t thread;
};

static void move_all(int fd, void *data, size_t bytes, int sends)
{
	char *p = data;

	while (bytes) {
		ssize_t n = sends ? send(fd, p, bytes, MSG_NOSIGNAL) : recv(fd, p, bytes, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die(sends ? "send" : "recv");
		p += n;
		bytes -= (size_t)n;
	}
}

static size_t least(uint64_t a, uint64_t b)
{
	return (size_t)(a < b ? a : b);
}

/* Bytes of the stream in calls of one size, around the lane's share of the working set. */
static void move_plain(struct lane *l, uint64_t bytes)
{
	uint64_t at = 0;

	while (bytes) {
		size_t part = least(least(bytes, l->plan->call), l->share - at);

		move_all(l->fd, l->base + at, part, l->sends);
		at = (at + part) % l->share;
		bytes -= part;
	}
}

static void move_iov(int fd, struct iovec *iov, size_t count, int sends)
{
	while (count) {
		struct msghdr m = {.msg_iov = iov, .msg_iovlen = count};
		ssize_t n = sends ? sendmsg(fd, &m, MSG_NOSIGNAL) : recvmsg(fd, &m, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die(sends ? "sendmsg" : "recvmsg");
		while (count && (size_t)n >= iov->iov_len) {
			n -= (ssize_t)iov->iov_len;
			iov++;
			count--;
		}
		if (n) {
			iov->iov_base = (char *)iov->iov_base + n;
			iov->iov_len -= (size_t)n;
		}
	}
}

/* The same in pieces at random places, up to IOV_MOST of them a call. */
static void move_scattered(struct lane *l, uint64_t bytes)
{
	struct iovec iov[IOV_MOST];
	size_t at = 0;

	while (bytes) {
		size_t n = 0;

		for (; n < IOV_MOST && bytes; n++, at = (at + 1) % l->count) {
			iov[n].iov_base = l->base + l->order[at];
			iov[n].iov_len = least(bytes, l->plan->pieces);
			bytes -= iov[n].iov_len;
		}
		move_iov(l->fd, iov, n, l->sends);
	}
}

static void move(struct lane *l, uint64_t bytes)
{
	char byte = 0;

	if (l->plan->pieces)
		move_scattered(l, bytes);
	else
		move_plain(l, bytes);
	move_all(l->fd, &byte, 1, !l->sends); /* the far end has it all */
}

static void *lane_main(void *arg)
{
	struct lane *l = arg;

	move(l, l->share); /* warm: pages, windows */
	pthread_barrier_wait(l->start);
	pthread_barrier_wait(l->start);
	move(l, l->plan->bytes / l->plan->sockets);
	return NULL;
}

static void prepare_lane(struct lane *l, char *memory, unsigned index)
{
	const struct plan *p = l->plan;

	l->share = p->set / p->sockets;
	l->base = memory + index * l->share;
	if (!p->pieces)
		return;
	l->count = l->share / p->pieces;
	l->order = malloc(l->count * sizeof(*l->order));
	if (!l->order || !l->count)
		die("pieces");
	for (size_t i = 0; i < l->count; i++)
		l->order[i] = i * p->pieces;
	shuffle(l->order, l->count, 2 * index + (unsigned)l->sends + 1);
}

/* Both ends of a bandwidth run; seconds of the timed part, and its CPU seconds. */
static double run_bandwidth(const struct plan *p, const int *fds, int sends, double *out_cpu)
{
	static struct lane lanes[MAX_SOCKETS];
	pthread_barrier_t start;
	int64_t begin;
	double cpu;
	char *memory =
		mmap(NULL, p->set, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	memset(memory, sends ? 0x5a : 0, p->set);
	pthread_barrier_init(&start, NULL, p->sockets + 1);
	for (unsigned i = 0; i < p->sockets; i++) {
		lanes[i] = (struct lane){.plan = p, .start = &start, .fd = fds[i], .sends = sends};
		prepare_lane(&lanes[i], memory, i);
		if (pthread_create(&lanes[i].thread, NULL, lane_main, &lanes[i]))
			die("thread");
	}
	pthread_barrier_wait(&start);
	begin = now_ns();
	cpu = cpu_seconds();
	pthread_barrier_wait(&start);
	for (unsigned i = 0; i < p->sockets; i++)
		pthread_join(lanes[i].thread, NULL);
	*out_cpu = cpu_seconds() - cpu;
	return (double)(now_ns() - begin) / 1e9;
}

static void receive_ping(int fd, char *data, size_t len, int spins)
{
	if (!spins) {
		move_all(fd, data, len, 0);
		return;
	}
	while (len) {
		ssize_t n = recv(fd, data, len, MSG_DONTWAIT);

		if (n > 0) {
			data += n;
			len -= (size_t)n;
		} else if (!n || (errno != EAGAIN && errno != EINTR)) {
			die("recv");
		}
	}
}

/* A round trip at a time; half of each is a sample. Answers: trips and no samples. */
static void run_ping(const struct plan *p, int fd, int64_t *samples)
{
	char *data = calloc(1, p->message);
	unsigned warm = p->trips / 10;

	if (!data)
		die("memory");
	for (unsigned i = 0; i < p->trips + warm; i++) {
		int64_t begin = now_ns();

		if (samples)
			move_all(fd, data, p->message, 1);
		receive_ping(fd, data, p->message, p->ping == 2);
		if (!samples)
			move_all(fd, data, p->message, 1);
		else if (i >= warm)
			samples[i - warm] = (now_ns() - begin) / 2;
	}
	free(data);
}

static struct sockaddr_in parse_address(const char *text)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	const char *colon = strchr(text, ':');
	char host[64];

	snprintf(host, sizeof(host), "%.*s", colon ? (int)(colon - text) : 63, text);
	a.sin_port = htons((uint16_t)(colon ? atoi(colon + 1) : 0));
	if (inet_pton(AF_INET, host, &a.sin_addr) != 1) {
		fprintf(stderr, "raw_tcp: '%s' is not ADDR:PORT\n", text);
		exit(2);
	}
	return a;
}

static int listen_at(struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, (struct sockaddr *)a, sizeof(*a)) || listen(fd, MAX_SOCKETS + 1) ||
	    getsockname(fd, (struct sockaddr *)a, &len))
		die("listen");
	return fd;
}

static void set_congestion(int fd, const char *name)
{
	if (name && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)))
		die("congestion control");
}

/* One client: the plan on the first connection, then the data sockets, at the end CPU seconds. */
static int serve(int listener, const char *congestion)
{
	int control, on = 1, fds[MAX_SOCKETS];
	struct plan p;
	double cpu = 0;

	set_congestion(listener, congestion);
	control = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (control < 0)
		die("accept");
	move_all(control, &p, sizeof(p), 0);
	for (unsigned i = 0; i < p.sockets && i < MAX_SOCKETS; i++) {
		fds[i] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fds[i] < 0)
			die("accept");
		setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	}
	if (p.ping)
		run_ping(&p, fds[0], NULL);
	else
		run_bandwidth(&p, fds, 0, &cpu);
	move_all(control, &cpu, sizeof(cpu), 1);
	return 0;
}

static int dial(const struct sockaddr_in *a, const char *congestion)
{
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	set_congestion(fd, congestion);
	if (fd < 0 || connect(fd, (const struct sockaddr *)a, sizeof(*a)))
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

static void print_ping(const struct plan *p, int64_t *samples, const char *congestion)
{
	int64_t p50 = percentile(samples, p->trips, 0.5), p99 = percentile(samples, p->trips, 0.99);

	printf("{\"mode\": \"ping\", \"wait\": \"%s\", \"message\": %u, \"trips\": %u, "
	       "\"congestion\": \"%s\", \"p50\": %.9f, \"p99\": %.9f}\n",
	       p->ping == 2 ? "spin" : "block", p->message, p->trips, congestion, (double)p50 / 1e9,
	       (double)p99 / 1e9);
}

static int run_client(struct plan *p, const struct sockaddr_in *a, const char *congestion)
{
	int control = dial(a, congestion), fds[MAX_SOCKETS];
	double seconds, cpu, far_cpu, gb;
	int64_t *samples = calloc(p->trips, sizeof(*samples));
	char name[16] = "?";
	socklen_t len = sizeof(name);

	if (!samples)
		die("memory");
	move_all(control, p, sizeof(*p), 1);
	for (unsigned i = 0; i < p->sockets; i++)
		fds[i] = dial(a, congestion);
	getsockopt(fds[0], IPPROTO_TCP, TCP_CONGESTION, name, &len);
	if (p->ping) {
		run_ping(p, fds[0], samples);
		print_ping(p, samples, name);
		move_all(control, &far_cpu, sizeof(far_cpu), 0);
		return 0;
	}
	seconds = run_bandwidth(p, fds, 1, &cpu);
	move_all(control, &far_cpu, sizeof(far_cpu), 0);
	gb = (double)(p->bytes / p->sockets * p->sockets) / 1e9;
	printf("{\"mode\": \"bandwidth\", \"sockets\": %u, \"pieces\": %llu, \"congestion\": "
	       "\"%s\", \"bytes\": %.0f, \"seconds\": %.6f, \"bytes_per_second\": %.0f, "
	       "\"cpu_seconds_per_gb\": {\"send\": %.6f, \"receive\": %.6f}}\n",
	       p->sockets, (unsigned long long)p->pieces, name, gb * 1e9, seconds,
	       gb * 1e9 / seconds, cpu / gb, far_cpu / gb);
	return 0;
}

static uint64_t bytes_of(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);

	return n << (*end == 'G' ? 30 : *end == 'M' ? 20 : *end == 'K' ? 10 : 0);
}

static const char USAGE[] =
	"Usage: raw_tcp [options]            both ends here, over 127.0.0.1\n"
	"       raw_tcp --serve ADDR:PORT    the receiving end of one run\n"
	"       raw_tcp --to ADDR:PORT [options]\n"
	"  --sockets N [1]     --bytes N [4G]    --set N [256M]    --call N [512K]\n"
	"  --pieces N          random pieces of so many bytes, sendmsg and recvmsg\n"
	"  --ping block|spin   half round trips instead\n"
	"  --message N [8]     --trips N [10000]\n"
	"  --congestion NAME   by socket option; a route's setting is stronger\n";

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"serve", 1, NULL, 'L'},  {"to", 1, NULL, 't'},		{"sockets", 1, NULL, 's'},
		{"bytes", 1, NULL, 'b'},  {"set", 1, NULL, 'w'},	{"call", 1, NULL, 'c'},
		{"pieces", 1, NULL, 'p'}, {"ping", 1, NULL, 'i'},	{"message", 1, NULL, 'm'},
		{"trips", 1, NULL, 'n'},  {"congestion", 1, NULL, 'C'}, {NULL, 0, NULL, 0}};
	struct plan p = {.bytes = 4ull << 30,
			 .set = 256 << 20,
			 .call = 512 << 10,
			 .sockets = 1,
			 .message = 8,
			 .trips = 10000};
	const char *to = NULL, *at = NULL, *congestion = NULL;
	struct sockaddr_in a;
	int c, listener, status = 0, failed;
	pid_t child;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'L':
			at = optarg;
			break;
		case 't':
			to = optarg;
			break;
		case 's':
			p.sockets = (uint32_t)atoi(optarg);
			break;
		case 'b':
			p.bytes = bytes_of(optarg);
			break;
		case 'w':
			p.set = bytes_of(optarg);
			break;
		case 'c':
			p.call = bytes_of(optarg);
			break;
		case 'p':
			p.pieces = bytes_of(optarg);
			break;
		case 'i':
			p.ping = strcmp(optarg, "spin") ? 1 : 2;
			break;
		case 'm':
			p.message = (uint32_t)bytes_of(optarg);
			break;
		case 'n':
			p.trips = (uint32_t)atoi(optarg);
			break;
		case 'C':
			congestion = optarg;
			break;
		default:
			fputs(USAGE, stderr);
			return 2;
		}
	}
	if (!p.sockets || p.sockets > MAX_SOCKETS || !p.bytes || !p.set || !p.call || !p.message ||
	    !p.trips) {
		fputs(USAGE, stderr);
		return 2;
	}
	a = parse_address(at ? at : to ? to : "127.0.0.1:0");
	if (to)
		return run_client(&p, &a, congestion);
	listener = listen_at(&a);
	if (at)
		return serve(listener, congestion);
	child = fork();
	if (child < 0)
		die("fork");
	if (!child)
		return serve(listener, congestion);
	close(listener);
	failed = run_client(&p, &a, congestion);
	return waitpid(child, &status, 0) != child || status || failed;
}

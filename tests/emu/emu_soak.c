/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many messages of random sizes between two processes, consumed late, every byte compared; and the
 * pages that messages of several chunks lose. Usage: emu_soak [CASE [MESSAGES]]
 */
#include "emu_rig.h"

#include <sched.h>

#define SOAK_PATTERN ((size_t)1 << 20)
#define SOAK_SENDS 12
#define SOAK_RECEIVES 14

struct soak {
	const char *socks, *threads, *frag, *pool, *nic; /* nic: of the sender */
	uint32_t chunk;
	uint64_t messages, seed;
};

/* A setting; the checker of races takes ten times as long for each. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
static uint64_t soak_messages = 2500;
#else
static uint64_t soak_messages = 25000;
#endif

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

/* Both ends know the sizes and the places in the pattern. */
static size_t next_size(const struct soak *soak, uint64_t *state, size_t *out_at)
{
	static const size_t edges[] = {0, 1, 4095, 4096, 4097};
	uint64_t pick = next_random(state) % 16;
	size_t size = pick < 5 ? edges[pick] : next_random(state) % (soak->chunk + 1);

	if (pick == 15)
		size = soak->chunk;
	*out_at = next_random(state) % (SOAK_PATTERN - soak->chunk);
	return size;
}

static void soak_env(const struct soak *soak)
{
	char chunk[16];

	snprintf(chunk, sizeof(chunk), "%u", soak->chunk);
	setenv("NCCL_DYNAMIC_CHUNK_SIZE", chunk, 1);
	setenv("NCCL_NSOCKS_PERTHREAD", soak->socks, 1);
	setenv("NCCL_SOCKET_NTHREADS", soak->threads, 1);
	setenv("TCPXEMU_FRAG", soak->frag, 1);
	setenv("TCPXEMU_POOL_BYTES", soak->pool, 1);
	setenv("NCCL_GPUDIRECTTCPX_CTRL_DEV", "eth0", 1);
	rig_start();
}

static void soak_send(int fd, void *arg)
{
	const struct soak *soak = arg;
	struct rig_pair pair = {0};
	void *request[SOAK_SENDS];
	uint64_t state = soak->seed, posted = 0, done = 0;
	char go;

	soak_env(soak);
	rig_far_read(fd, pair.handle, sizeof(pair.handle));
	while (!pair.send)
		CHECK_EQ(rig.net->connect(atoi(soak->nic), pair.handle, &pair.send, NULL), 0);
	pair.from = aligned_alloc(EMU_PAGE, SOAK_PATTERN);
	rig_fill(pair.from, SOAK_PATTERN, soak->seed);
	CHECK_EQ(rig.net->reg_mr(pair.send, pair.from, SOAK_PATTERN, EMU_CUDA, &pair.send_mr), 0);
	rig_far_read(fd, &go, 1);
	while (done < soak->messages) {
		int finished;

		if (posted < soak->messages && posted - done < SOAK_SENDS) {
			size_t at, size = next_size(soak, &state, &at);

			CHECK_EQ(rig_isend(&pair, at, size, &request[posted % SOAK_SENDS]), 0);
			posted++;
		}
		CHECK_EQ(rig.net->test(request[done % SOAK_SENDS], &finished, NULL), 0);
		done += (uint64_t)finished;
		if (!finished)
			sched_yield();
		if (done % 1024 == 0)
			check_alive();
	}
	CHECK_EQ(rig.net->dereg_mr(pair.send, pair.send_mr), 0);
	CHECK_EQ(rig.violations(NULL), 0);
	rig_far_write(fd, &go, 1);
	rig_far_read(fd, &go, 1); /* all is received */
	CHECK_EQ(rig.net->close_send(pair.send), 0);
	free(pair.from);
}

struct receiver {
	struct rig_pair pair;
	const struct soak *soak;
	void *request[SOAK_RECEIVES];
	uint64_t posted, done, consumed, sizes, waits;
	uint8_t *expect, *got;
};

static void receiver_post(struct receiver *at)
{
	while (at->posted < at->soak->messages && at->posted - at->consumed < SOAK_RECEIVES) {
		void **request = &at->request[at->posted % SOAK_RECEIVES];

		CHECK_EQ(rig_irecv(&at->pair, 0, at->soak->chunk, request), 0);
		at->posted++;
	}
}

static void receiver_check(struct receiver *at)
{
	size_t place, size = next_size(at->soak, &at->sizes, &place);

	CHECK_EQ(rig_unpack(&at->pair, at->done, at->got), size);
	CHECK_MSG(!memcmp(at->got, at->expect + place, size), "message %llu",
		  (unsigned long long)at->done);
	at->done++;
}

/* Consumes at random: some at once, some when the window is full. */
static void receiver_consume(struct receiver *at)
{
	bool full = at->posted - at->consumed == SOAK_RECEIVES || at->done == at->soak->messages;

	while (at->consumed < at->done && (full || next_random(&at->waits) % 4 == 0)) {
		void *request = at->request[at->consumed % SOAK_RECEIVES];

		CHECK_EQ(rig.net->irecv_consumed(at->pair.recv, 1, request), 0);
		at->consumed++;
	}
}

static void soak_run(const struct soak *setting)
{
	struct soak soak = *setting;
	struct receiver at = {.soak = &soak, .waits = 77};
	struct tcpxemu_stats stats;
	struct rig_far far;
	char go = 1;
	int finished;

	soak.messages = soak_messages;
	at.sizes = soak.seed;
	rig_far_start(&far, soak_send, &soak);
	soak_env(&soak);
	rig_listen(&at.pair, 0, 1);
	rig_far_write(far.fd, at.pair.handle, sizeof(at.pair.handle));
	at.pair.devhandle = (struct emu_device_handle *)(void *)at.pair.store;
	while (!at.pair.recv)
		CHECK_EQ(rig.net->accept(at.pair.listen, &at.pair.recv, &at.pair.devhandle), 0);
	at.expect = aligned_alloc(EMU_PAGE, SOAK_PATTERN);
	at.got = aligned_alloc(EMU_PAGE, SOAK_PATTERN);
	at.pair.to = at.got;
	rig_fill(at.expect, SOAK_PATTERN, soak.seed);
	CHECK_EQ(rig.net->reg_mr(at.pair.recv, at.got, SOAK_PATTERN, EMU_CUDA, &at.pair.recv_mr),
		 0);
	rig_far_write(far.fd, &go, 1);
	while (at.consumed < soak.messages) {
		receiver_post(&at);
		finished = 0;
		if (at.done < at.posted)
			CHECK_EQ(
				rig.net->test(at.request[at.done % SOAK_RECEIVES], &finished, NULL),
				0);
		if (finished)
			receiver_check(&at);
		else
			sched_yield();
		receiver_consume(&at);
		if (at.done % 1024 == 0)
			check_alive();
	}
	rig_far_read(far.fd, &go, 1);
	rig_far_write(far.fd, &go, 1);
	CHECK_EQ(rig_far_end(&far), 0);
	rig.stats(&stats);
	CHECK_EQ(stats.pages_in_use, 0);
	CHECK_EQ(stats.received_messages, soak.messages);
	printf("   %llu messages, %llu bytes, %llu fragments in %llu reads, %llu pages at most\n",
	       (unsigned long long)stats.received_messages,
	       (unsigned long long)stats.received_bytes, (unsigned long long)stats.fragments,
	       (unsigned long long)stats.reads, (unsigned long long)stats.pages_peak);
	CHECK_EQ(rig.net->dereg_mr(at.pair.recv, at.pair.recv_mr), 0);
	CHECK_EQ(rig.net->close_recv(at.pair.recv), 0);
	CHECK_EQ(rig.net->close_listen(at.pair.listen), 0);
	CHECK_EQ(rig.violations(NULL), 0);
	free(at.expect);
	free(at.got);
}

static void soak_one(void *arg)
{
	(void)arg;
	soak_run(&(struct soak){"1", "1", "rand:1", "67108864", "0", 65536, 0, 11});
}

static void soak_two(void *arg)
{
	(void)arg;
	setenv("TCPXEMU_ZEROCOPY", "1", 1);
	soak_run(&(struct soak){"2", "1", "rand:2", "67108864", "3", 65536, 0, 12});
}

static void soak_four(void *arg)
{
	(void)arg;
	soak_run(&(struct soak){"2", "2", "mtu1460", "67108864", "1", 262144, 0, 13});
}

static void soak_eight(void *arg)
{
	(void)arg;
	soak_run(&(struct soak){"4", "2", "rand:4", "67108864", "2", 65536, 0, 14});
}

/* Few pages: helpers wait for what is consumed. */
static void soak_squeezed(void *arg)
{
	(void)arg;
	soak_run(&(struct soak){"1", "1", "page", "262144", "0", 65536, 0, 15});
}

/* Messages of eight chunks; how many come through before the pool is lost. */
static uint64_t chunks_until_silence(uint64_t most)
{
	struct tcpxemu_stats stats;
	struct rig_pair pair;
	uint64_t count;

	setenv("NCCL_DYNAMIC_CHUNK_SIZE", "65536", 1);
	setenv("TCPXEMU_POOL_BYTES", "4194304", 1);
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	for (count = 0; count < most; count++) {
		rig.stats(&stats);
		if (stats.pages_total - stats.pages_in_use < 128)
			break; /* the next would wait for ever */
		rig_message(&pair, 524288);
	}
	rig.stats(&stats);
	CHECK_EQ(stats.pages_lost, stats.pages_in_use);
	CHECK_EQ(rig.violations("multi-chunk"), count);
	rig_pair_close(&pair);
	rig.stats(&stats);
	CHECK_EQ(stats.pages_in_use, 0);
	CHECK_EQ(stats.pages_lost, 0);
	return count;
}

/* Seven of eight chunks' pages go: 112 of the 1024 a message. */
static void soak_leak_real(void *arg)
{
	(void)arg;
	CHECK_EQ(chunks_until_silence(500), 9);
}

static void soak_leak_fixed(void *arg)
{
	(void)arg;
	setenv("TCPXEMU_LEAK", "fixed", 1);
	CHECK_EQ(chunks_until_silence(500), 500);
}

static const struct check_case cases[] = {
	{"one", soak_one},
	{"two", soak_two},
	{"four", soak_four},
	{"eight", soak_eight},
	{"squeezed", soak_squeezed},
	{"leak-real", soak_leak_real},
	{"leak-fixed", soak_leak_fixed},
};

int main(int argc, char **argv)
{
	if (argc > 2)
		soak_messages = strtoull(argv[2], NULL, 10);
	return check_main(cases, sizeof(cases) / sizeof(*cases),
			  argc > 1 && *argv[1] ? argv[1] : NULL, NULL);
}

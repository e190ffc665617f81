/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about memory, requests and notifications. */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "parts/slow.h"
#include "netpeer.h"

static uint64_t pattern_word(uint64_t seed, uint64_t index)
{
	uint64_t z = (index + 1) * 0x9e3779b97f4a7c15ULL + seed * 0xd1342543de82ef95ULL;

	z = (z ^ z >> 32) * 0xbf58476d1ce4e5b9ULL;
	return z ^ z >> 29;
}

void pattern_fill(uint8_t *p, uint64_t len, uint64_t seed, uint64_t position)
{
	for (uint64_t i = 0; i < len; i++)
		p[i] = (uint8_t)(pattern_word(seed, (position + i) / 8) >> (position + i) % 8 * 8);
}

int64_t pattern_check(const uint8_t *p, uint64_t len, uint64_t seed, uint64_t position)
{
	for (uint64_t i = 0; i < len; i++)
		if (p[i] !=
		    (uint8_t)(pattern_word(seed, (position + i) / 8) >> (position + i) % 8 * 8))
			return (int64_t)i;
	return -1;
}

/* mem ID SIZE [slow]: the answer is the token */
static void do_mem(struct netpeer *np, char **word, int words)
{
	TCPX_OPTS(tcpx_region_opts, opts, .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE,
		  .kind = words > 3 && strcmp(word[3], "slow") == 0 ? MEM_KIND_TEST
								    : TCPX_MEM_HOST);
	struct memory *memory = &np->memory[atoi(word[1]) % MEMORIES];
	uint8_t token[TCPX_TOKEN_BYTES];
	char hex[2 * TCPX_TOKEN_BYTES + 1];
	tcpx_status status;

	memory->size = strtoull(word[2], NULL, 0);
	memory->data = mmap(NULL, memory->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	if (memory->data == MAP_FAILED) {
		answer("no memory");
		return;
	}
	memset(memory->data, 0xa5, memory->size);
	status = tcpx_region_register(np->session, memory->data, memory->size, &opts,
				      &memory->region);
	if (status == TCPX_OK)
		status = tcpx_region_export(np->session, memory->region, token);
	if (status) {
		answer_status(status);
		return;
	}
	for (size_t i = 0; i < sizeof(token); i++)
		sprintf(hex + 2 * i, "%02x", token[i]);
	answer("ok %s", hex);
}

/* import ID TOKEN */
static void do_import(struct netpeer *np, char **word)
{
	uint8_t token[TCPX_TOKEN_BYTES] = {0};

	for (size_t i = 0; i < sizeof(token) && word[2][2 * i]; i++)
		if (sscanf(word[2] + 2 * i, "%2hhx", &token[i]) != 1)
			break;
	answer_status(tcpx_region_import(np->session, np->peer, token, sizeof(token),
					 &np->remote[atoi(word[1]) % MEMORIES]));
}

int command_memory(struct netpeer *np, char **word, int words)
{
	struct memory *memory = words > 1 ? &np->memory[atoi(word[1]) % MEMORIES] : NULL;
	uint64_t arg[3];

	for (int i = 0; i < 3; i++)
		arg[i] = words > 2 + i ? strtoull(word[2 + i], NULL, 0) : 0;
	if (strcmp(word[0], "hold") == 0 && words == 2) {
		mem_slow_hold(atoi(word[1]));
		answer("ok");
	} else if (strcmp(word[0], "mem") == 0 && words >= 3) {
		do_mem(np, word, words);
	} else if (strcmp(word[0], "import") == 0 && words == 3) {
		do_import(np, word);
	} else if (strcmp(word[0], "fill") == 0 && words == 5) { /* ID OFF LEN SEED */
		pattern_fill(memory->data + arg[0], arg[1], arg[2], arg[0]);
		answer("ok");
	} else if (strcmp(word[0], "check") == 0 && words == 5) {
		int64_t bad = pattern_check(memory->data + arg[0], arg[1], arg[2], arg[0]);

		answer(bad < 0 ? "ok" : "wrong %" PRId64, bad);
	} else if (strcmp(word[0], "poison") == 0 && words >= 2) { /* ID [FROM] */
		memset(memory->data + arg[0], 0xa5, memory->size - arg[0]);
		answer("ok");
	} else if (strcmp(word[0], "poisoned") == 0 && words >= 2) {
		const uint8_t *from = memory->data + arg[0];

		answer(*from == 0xa5 && memcmp(from, from + 1, memory->size - arg[0] - 1) == 0
			       ? "ok"
			       : "touched");
	} else if (strcmp(word[0], "dereg") == 0 && words == 3) { /* ID MS */
		double begin = now();
		tcpx_status status = tcpx_region_deregister(np->session, memory->region,
							    (int64_t)arg[0] * 1000000);

		answer("%s %.6f", status ? tcpx_status_name(status) : "ok", now() - begin);
	} else {
		return 0;
	}
	return 1;
}

static void request_over(struct netpeer *np, const tcpx_completion *done)
{
	struct request *request = done->user;
	tcpx_status status = done->status;

	request->active = false;
	np->active--;
	if (request->looped && status == TCPX_OK) {
		np->rounds++;
		if (np->loop)
			status = tcpx_request_post(np->session, request->handle);
		if (np->loop && status == TCPX_OK) {
			request->active = true;
			np->active++;
			return;
		}
	}
	/* One that could not be posted again because the peer died just then ended as well. */
	if (!request->looped || status != TCPX_OK)
		printf("ended %d %s %s %" PRIu64 " %.9f\n", (int)(request - np->request),
		       request->op, tcpx_status_name(status), done->bytes, now());
	tcpx_request_release(np->session, request->handle);
	request->used = false;
}

void take_completions(struct netpeer *np)
{
	tcpx_completion done[64] = {{.sz = sizeof(done[0])}};
	int got;

	while ((got = tcpx_session_poll(np->session, done, 64)) > 0)
		for (int i = 0; i < got; i++)
			request_over(np, &done[i]);
}

static enum tcpx_op op_of(const char *name)
{
	return strcmp(name, "write") == 0  ? TCPX_OP_WRITE
	       : strcmp(name, "read") == 0 ? TCPX_OP_READ
	       : strcmp(name, "send") == 0 ? TCPX_OP_SEND
					   : TCPX_OP_RECV;
}

/* post|loop OP COUNT MEMORY REMOTE OFF LEN [DEADLINE_MS]: request i covers OFF + i * LEN on both
 * sides; loop posts each again when it ended well. */
static void do_post(struct netpeer *np, char **word, int words)
{
	static const char *const names[] = {"", "write", "read", "send", "recv"};
	TCPX_OPTS(tcpx_request_opts, opts, .queue = 1);
	enum tcpx_op op = op_of(word[1]);
	int count = atoi(word[2]), posted = 0;
	uint64_t off = strtoull(word[5], NULL, 0), len = strtoull(word[6], NULL, 0);
	tcpx_status status = TCPX_OK;

	np->loop = strcmp(word[0], "loop") == 0;
	opts.deadline_ns = words > 7 ? atoll(word[7]) * 1000000 : 0;
	for (int i = 0; i < REQUESTS && posted < count && status == TCPX_OK; i++) {
		struct request *request = &np->request[i];
		tcpx_segment segment = {
			.local = np->memory[atoi(word[3]) % MEMORIES].region,
			.remote = np->remote[atoi(word[4]) % MEMORIES],
			.local_offset = off + (uint64_t)posted * len,
			.remote_offset = off + (uint64_t)posted * len,
			.length = len,
		};

		if (request->used)
			continue;
		*request = (struct request){.op = names[op],
					    .looped = np->loop,
					    .used = true,
					    .active = true,
					    .posted = now()};
		opts.user = request;
		status = tcpx_request_start(np->session, np->peer, op, &segment, 1, &opts,
					    &request->handle);
		if (status) {
			request->used = false;
			break;
		}
		np->active++;
		posted++;
	}
	if (status)
		answer_status(status);
	else
		answer("ok %d %.9f", posted, now());
}

/* Until nothing is active, or the time is over. */
static void do_wait(struct netpeer *np, double seconds)
{
	struct pollfd pfd = {.fd = tcpx_session_fd(np->session), .events = POLLIN};
	double end = now() + seconds;

	while (np->active && now() < end) {
		poll(&pfd, 1, 20);
		pump(np);
	}
	if (np->active)
		answer("busy %u", np->active);
	else
		answer("ok %" PRIu64, np->rounds);
}

/* Until so many more rounds of the loop ended well, or nothing is under way any more. */
static void do_move(struct netpeer *np, uint64_t rounds, double seconds)
{
	struct pollfd pfd = {.fd = tcpx_session_fd(np->session), .events = POLLIN};
	uint64_t want = np->rounds + rounds;
	double end = now() + seconds;

	while (np->active && np->rounds < want && now() < end) {
		poll(&pfd, 1, (int)((end - now()) * 1e3) + 1);
		pump(np);
	}
	if (np->rounds < want)
		answer("%" PRIu64 " rounds of %" PRIu64 ", %u under way", np->rounds, want,
		       np->active);
	else
		answer("ok %" PRIu64, np->rounds);
}

static void do_cancel(struct netpeer *np)
{
	double begin = now();
	int count = 0;

	np->loop = false;
	for (int i = 0; i < REQUESTS; i++) {
		if (np->request[i].used && np->request[i].active) {
			(void)tcpx_request_cancel(np->session, np->request[i].handle);
			count++;
		}
	}
	for (int i = 0; i < REQUESTS; i++)
		if (np->request[i].used && np->request[i].active &&
		    tcpx_request_wait(np->session, np->request[i].handle, 100000000000LL, NULL) ==
			    TCPX_IN_PROGRESS)
			count = -1;
	answer("ok %d %.6f", count, now() - begin);
}

int command_load(struct netpeer *np, char **word, int words)
{
	if ((strcmp(word[0], "post") == 0 || strcmp(word[0], "loop") == 0) && words >= 7) {
		do_post(np, word, words);
	} else if (strcmp(word[0], "wait") == 0 && words == 2) {
		do_wait(np, atof(word[1]));
	} else if (strcmp(word[0], "stop") == 0) { /* of a loop; wait follows */
		np->loop = false;
		answer("ok");
	} else if (strcmp(word[0], "move") == 0 && words == 3) { /* ROUNDS S */
		do_move(np, strtoull(word[1], NULL, 0), atof(word[2]));
	} else if (strcmp(word[0], "rounds") == 0) {
		answer("ok %" PRIu64, np->rounds);
	} else if (strcmp(word[0], "cancel") == 0) {
		do_cancel(np);
	} else if (strcmp(word[0], "notify") == 0 && words == 2) {
		answer_status(tcpx_notify_send(np->session, np->peer, word[1], strlen(word[1])));
	} else if (strcmp(word[0], "flood") == 0 && words == 2) { /* until AGAIN: how many */
		uint8_t *data = calloc(1, (size_t)atoi(word[1]) + 1);
		int sent = 0;

		while (data && sent < 100000 &&
		       tcpx_notify_send(np->session, np->peer, data, (size_t)atoi(word[1])) ==
			       TCPX_OK)
			sent++;
		free(data);
		answer("ok %d", sent);
	} else if (strcmp(word[0], "echo") == 0 && words == 2) {
		np->echo = atoi(word[1]);
		answer("ok");
	} else if (strcmp(word[0], "deaf") == 0 && words == 2) { /* takes no notifications */
		np->deaf = atoi(word[1]);
		answer("ok");
	} else if (strcmp(word[0], "flush") == 0 && words == 2) {
		answer_status(tcpx_peer_flush(np->session, np->peer, atoll(word[1]) * 1000000));
	} else {
		return 0;
	}
	return 1;
}

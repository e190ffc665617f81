/* SPDX-License-Identifier: Apache-2.0 */
/* The session under attack of fuzz_session. */
#include "session_victim.h"

#include <sys/mman.h>
#include <unistd.h>

#include "mem/kind.h"
#include "wire/hello.h"

#define HANG_NS 20000000000 /* a guard, never a verdict about speed */
#define PAGE 4096u
#define INSET 64u /* a region begins and ends within a page */
#define CANARY 0xc5
#define POISON 0x9b
#define STABLE 0x3c /* what the readable region holds */

const uint8_t victim_secret[16] = "7$cKq!0zPw#2mXe";

static const struct {
	uint32_t rights;
	enum tcpx_mem_kind kind;
} kinds[VICTIM_REGIONS] = {
	[VICTIM_OPEN] = {TCPX_RIGHT_READ | TCPX_RIGHT_WRITE, TCPX_MEM_HOST},
	[VICTIM_READABLE] = {TCPX_RIGHT_READ, TCPX_MEM_HOST},
	[VICTIM_SECRET] = {TCPX_RIGHT_WRITE, TCPX_MEM_HOST},
	[VICTIM_LOCAL] = {0, TCPX_MEM_HOST},
	[VICTIM_STAGED] = {TCPX_RIGHT_READ | TCPX_RIGHT_WRITE, MEM_KIND_TEST},
	[VICTIM_STAGED_LOCAL] = {0, MEM_KIND_TEST},
	[VICTIM_FLEETING] = {TCPX_RIGHT_READ | TCPX_RIGHT_WRITE, TCPX_MEM_HOST},
	[VICTIM_FRIEND] = {TCPX_RIGHT_READ | TCPX_RIGHT_WRITE, TCPX_MEM_HOST},
};

static uint64_t region_bytes(int which)
{
	return which == VICTIM_LOCAL || which == VICTIM_STAGED_LOCAL
		       ? (uint64_t)VICTIM_SLOTS * VICTIM_SLOT_BYTES
		       : VICTIM_REGION_BYTES;
}

/* Bytes between the two pages that nobody may touch at all. */
static uint64_t map_bytes(int which)
{
	return 3 * PAGE + region_bytes(which);
}

static void register_region(struct victim *v, int which)
{
	TCPX_OPTS(tcpx_region_opts, opts, .kind = kinds[which].kind, .rights = kinds[which].rights);
	uint8_t token[TCPX_TOKEN_BYTES];
	struct wire_token parts;

	FUZZ_CHECK(tcpx_region_register(v->session, v->mem[which], region_bytes(which), &opts,
					&v->region[which]) == TCPX_OK);
	FUZZ_CHECK(tcpx_region_export(v->session, v->region[which], token) == TCPX_OK);
	FUZZ_CHECK(wire_token_decode(token, sizeof(token), &parts) == TCPX_OK);
	v->key[which] = parts.key;
}

static void make_region(struct victim *v, int which)
{
	uint8_t *base = mmap(NULL, map_bytes(which) + 2 * PAGE, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	FUZZ_CHECK(base != MAP_FAILED);
	v->map[which] = base + PAGE;
	FUZZ_CHECK(!mprotect(v->map[which], map_bytes(which), PROT_READ | PROT_WRITE));
	v->mem[which] = v->map[which] + PAGE + INSET;
	memset(v->map[which], CANARY, map_bytes(which));
	memset(v->mem[which], which == VICTIM_READABLE ? STABLE : 0, region_bytes(which));
	register_region(v, which);
}

static void fill_secret(struct victim *v)
{
	for (uint64_t i = 0; i < VICTIM_REGION_BYTES; i += sizeof(victim_secret))
		memcpy(v->mem[VICTIM_SECRET] + i, victim_secret, sizeof(victim_secret));
}

static void connect_friend(struct victim *v)
{
	TCPX_OPTS(tcpx_session_opts, opts, .name = "friend", .flags = TCPX_SESSION_NO_LOCAL,
		  .channels = 1);
	char address[32];

	FUZZ_CHECK(tcpx_session_open(&opts, &v->friend) == TCPX_OK);
	snprintf(address, sizeof(address), "127.0.0.1:%u", v->port);
	FUZZ_CHECK(tcpx_session_connect_to(v->friend, address, NULL, &v->to_victim) == TCPX_OK);
	FUZZ_CHECK(tcpx_session_accept(v->session, HANG_NS, &v->to_friend) == TCPX_OK);
}

void victim_open(struct victim *v)
{
	TCPX_OPTS(tcpx_session_opts, opts, .name = "victim", .flags = TCPX_SESSION_NO_LOCAL,
		  .channels = 2, .chunk_bytes = 4096, .silent_ms = 60000, .stopped_ms = 600000,
		  .notify_budget_bytes = 1 << 20, .memory_budget_bytes = 64 << 20, .workers = 2);
	TCPX_OPTS(tcpx_listen_opts, listen, .port = 0);

	tcpx_log_set(NULL, NULL, TCPX_LOG_ERROR);
	FUZZ_CHECK(tcpx_session_open(&opts, &v->session) == TCPX_OK);
	FUZZ_CHECK(tcpx_session_listen(v->session, &listen, &v->port) == TCPX_OK);
	for (int i = 0; i < VICTIM_REGIONS; i++)
		make_region(v, i);
	fill_secret(v);
	for (uint32_t i = 0; i < VICTIM_SLOTS; i++)
		v->slot[i].mem = NULL;
	connect_friend(v);
}

void victim_accept(struct victim *v)
{
	struct wire_token token = {
		.kind = TCPX_MEM_HOST, .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE, .key = 0x1234};
	uint8_t bytes[TCPX_TOKEN_BYTES];

	FUZZ_CHECK(tcpx_session_accept(v->session, HANG_NS, &v->peer) == TCPX_OK);
	for (int i = 0; i < 2; i++) {
		token.flags = i ? WIRE_TOKEN_STAGED : 0;
		wire_token_encode(&token, bytes);
		FUZZ_CHECK(tcpx_region_import(v->session, v->peer, bytes, sizeof(bytes),
					      &v->remote[i]) == TCPX_OK);
	}
}

static bool filled(const uint8_t *mem, uint64_t bytes, uint8_t with)
{
	return !bytes || (mem[0] == with && !memcmp(mem, mem + 1, bytes - 1));
}

/* A request that is over left its memory alone since. */
static void check_slot(const struct victim_slot *slot)
{
	if (slot->mem && !slot->active)
		FUZZ_CHECK(filled(slot->mem, VICTIM_SLOT_BYTES, POISON));
}

void victim_release(struct victim *v, uint32_t index)
{
	struct victim_slot *slot = &v->slot[index];

	if (!slot->used)
		return;
	/* Everything ends: the attacker cannot keep our memory. */
	if (slot->active)
		FUZZ_CHECK(tcpx_request_cancel_wait(v->session, slot->request, HANG_NS) !=
			   TCPX_IN_PROGRESS);
	memset(slot->mem, POISON, VICTIM_SLOT_BYTES);
	FUZZ_CHECK(tcpx_request_release(v->session, slot->request) == TCPX_OK);
	slot->active = slot->used = false;
}

void victim_poll(struct victim *v)
{
	for (uint32_t i = 0; i < VICTIM_SLOTS; i++) {
		struct victim_slot *slot = &v->slot[i];

		if (!slot->active ||
		    tcpx_request_test(v->session, slot->request, NULL) == TCPX_IN_PROGRESS)
			continue;
		slot->active = false;
		memset(slot->mem, POISON, VICTIM_SLOT_BYTES);
	}
}

void victim_cancel(struct victim *v, uint32_t index)
{
	if (v->slot[index].active)
		(void)tcpx_request_cancel(v->session, v->slot[index].request);
}

void victim_post(struct victim *v, uint32_t index, enum tcpx_op op, uint32_t bytes, uint32_t how)
{
	static const uint8_t note[256];
	TCPX_OPTS(tcpx_request_opts, opts, .notify = note, .notify_bytes = how >> 8 & 0xff,
		  .has_notify = (op == TCPX_OP_WRITE || op == TCPX_OP_READ) && (how & 4),
		  .deadline_ns = how & 8 ? 2000000 : 0);
	struct victim_slot *slot = &v->slot[index];
	int local = how & 1 ? VICTIM_STAGED_LOCAL : VICTIM_LOCAL;
	uint64_t offset = (uint64_t)index * VICTIM_SLOT_BYTES;
	tcpx_segment segment[4];
	size_t count = 1 + (how >> 4 & 3);
	tcpx_status status;

	victim_release(v, index);
	if (!slot->mem)
		memset(v->mem[local] + offset, POISON, VICTIM_SLOT_BYTES);
	else
		check_slot(slot);
	slot->mem = v->mem[local] + offset;
	memset(slot->mem, 0x11, VICTIM_SLOT_BYTES);
	bytes = bytes % (VICTIM_SLOT_BYTES - 64);
	for (size_t i = 0; i < count; i++)
		segment[i] = (tcpx_segment){.local = v->region[local],
					    .local_offset = offset + i * (bytes / count + 8),
					    .remote = v->remote[how >> 1 & 1],
					    .remote_offset = i * 77,
					    .length = bytes / count};
	if (op == TCPX_OP_NOTIFY || !(bytes / count))
		count = 0;
	status = tcpx_request_start(v->session, v->peer, op, segment, count, &opts, &slot->request);
	slot->active = slot->used = status == TCPX_OK;
	if (status != TCPX_OK)
		memset(slot->mem, POISON, VICTIM_SLOT_BYTES);
}

void victim_notify(struct victim *v, uint32_t bytes)
{
	static const uint8_t note[32768];

	(void)!tcpx_notify_send(v->session, v->peer, note, bytes % sizeof(note));
}

void victim_take_notifications(struct victim *v)
{
	tcpx_notification note = {.sz = sizeof(note)};
	uint64_t sum = 0;

	while (tcpx_notify_take(v->session, 0, &note) == TCPX_OK) {
		const uint8_t *data = note.data;

		for (size_t i = 0; i < note.bytes; i++)
			sum += data[i];
		tcpx_notification_release(v->session, &note);
	}
	(void)sum;
}

void victim_reregister(struct victim *v)
{
	FUZZ_CHECK(tcpx_region_deregister(v->session, v->region[VICTIM_FLEETING], HANG_NS) ==
		   TCPX_OK);
	/* What is quiesced stays so: the next check finds a late write. */
	memset(v->mem[VICTIM_FLEETING], POISON, VICTIM_REGION_BYTES);
	FUZZ_CHECK(filled(v->mem[VICTIM_FLEETING], VICTIM_REGION_BYTES, POISON));
	register_region(v, VICTIM_FLEETING);
}

void victim_part(struct victim *v)
{
	tcpx_peer_disconnect(v->session, v->peer);
	for (uint32_t i = 0; i < VICTIM_SLOTS; i++)
		if (v->slot[i].used)
			FUZZ_CHECK(tcpx_request_wait(v->session, v->slot[i].request, HANG_NS,
						     NULL) != TCPX_IN_PROGRESS);
	for (uint32_t i = 0; i < VICTIM_SLOTS; i++)
		victim_release(v, i);
	for (int i = 0; i < 2; i++)
		tcpx_region_deregister(v->session, v->remote[i], HANG_NS);
	victim_take_notifications(v);
	victim_check(v, false);
	fill_secret(v);
}

void victim_check(struct victim *v, bool thorough)
{
	uint64_t most = thorough ? PAGE : 64;

	for (int i = 0; i < VICTIM_REGIONS; i++) {
		uint8_t *end = v->mem[i] + region_bytes(i);
		uint64_t after = (uint64_t)(v->map[i] + map_bytes(i) - end);

		FUZZ_CHECK(filled(v->mem[i] - (most < PAGE ? most : PAGE + INSET),
				  most < PAGE ? most : PAGE + INSET, CANARY));
		FUZZ_CHECK(filled(end, most < after ? most : after, CANARY));
	}
	for (uint32_t i = 0; i < VICTIM_SLOTS; i++)
		check_slot(&v->slot[i]);
	if (thorough)
		FUZZ_CHECK(filled(v->mem[VICTIM_READABLE], VICTIM_REGION_BYTES, STABLE));
}

static void finish(tcpx_session *session, tcpx_request request)
{
	tcpx_status status = tcpx_request_wait(session, request, HANG_NS, NULL);

	if (status != TCPX_OK)
		fprintf(stderr, "the friend's request: %s\n", tcpx_status_name(status));
	FUZZ_CHECK(status == TCPX_OK);
	FUZZ_CHECK(tcpx_request_release(session, request) == TCPX_OK);
}

void victim_serve_friend(struct victim *v)
{
	static uint8_t mem[2][20000];
	uint8_t token[TCPX_TOKEN_BYTES];
	tcpx_segment segment = {.length = sizeof(mem[0])};
	tcpx_segment mine = {.local = v->region[VICTIM_FRIEND], .length = sizeof(mem[0])};
	tcpx_request request[2];

	v->rounds++;
	memset(mem[0], (int)v->rounds, sizeof(mem[0]));
	memset(mem[1], 0, sizeof(mem[1]));
	FUZZ_CHECK(tcpx_region_export(v->session, v->region[VICTIM_FRIEND], token) == TCPX_OK);
	FUZZ_CHECK(tcpx_region_import(v->friend, v->to_victim, token, sizeof(token),
				      &segment.remote) == TCPX_OK);
	FUZZ_CHECK(tcpx_region_register(v->friend, mem, sizeof(mem), NULL, &segment.local) ==
		   TCPX_OK);
	FUZZ_CHECK(tcpx_request_start(v->friend, v->to_victim, TCPX_OP_WRITE, &segment, 1, NULL,
				      &request[0]) == TCPX_OK);
	finish(v->friend, request[0]);
	segment.local_offset = sizeof(mem[0]);
	FUZZ_CHECK(tcpx_request_start(v->friend, v->to_victim, TCPX_OP_READ, &segment, 1, NULL,
				      &request[0]) == TCPX_OK);
	finish(v->friend, request[0]);
	FUZZ_CHECK(!memcmp(mem[0], mem[1], sizeof(mem[0])));
	memset(v->mem[VICTIM_FRIEND], 0, sizeof(mem[0]));
	segment.local_offset = 0;
	FUZZ_CHECK(tcpx_request_start(v->session, v->to_friend, TCPX_OP_RECV, &mine, 1, NULL,
				      &request[0]) == TCPX_OK);
	FUZZ_CHECK(tcpx_request_start(v->friend, v->to_victim, TCPX_OP_SEND, &segment, 1, NULL,
				      &request[1]) == TCPX_OK);
	finish(v->session, request[0]);
	finish(v->friend, request[1]);
	FUZZ_CHECK(!memcmp(mem[0], v->mem[VICTIM_FRIEND], sizeof(mem[0])));
	tcpx_region_deregister(v->friend, segment.local, HANG_NS);
	tcpx_region_deregister(v->friend, segment.remote, HANG_NS);
}

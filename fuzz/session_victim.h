/* SPDX-License-Identifier: Apache-2.0 */
/* The session under attack, and an honest one beside it: guarded regions, requests of its own. */
#ifndef FUZZ_SESSION_VICTIM_H
#define FUZZ_SESSION_VICTIM_H

#include <stdbool.h>

#include "target.h"
#include <tcpx/tcpx.h>

#define VICTIM_SLOTS 8
#define VICTIM_SLOT_BYTES (32u << 10) /* memory of one request */
#define VICTIM_REGION_BYTES (64u << 10)

/* What the attacker knows the keys of. */
enum victim_region {
	VICTIM_OPEN = 0, /* READ and WRITE */
	VICTIM_READABLE, /* READ only: must never change */
	VICTIM_SECRET,	 /* WRITE only: must never be seen */
	VICTIM_LOCAL,	 /* no rights: where requests of ours read and write */
	VICTIM_STAGED,	 /* READ and WRITE, of the staged test kind */
	VICTIM_STAGED_LOCAL,
	VICTIM_FLEETING, /* READ and WRITE, deregistered now and then */
	VICTIM_FRIEND,	 /* READ and WRITE, the honest peer's */
	VICTIM_REGIONS,
};

struct victim_slot {
	bool active, used;
	tcpx_request request;
	uint8_t *mem;
};

struct victim {
	tcpx_session *session, *friend;
	uint16_t port;
	tcpx_peer peer;	     /* the attacker */
	tcpx_peer to_victim; /* the friend's handle of us */
	tcpx_peer to_friend; /* our handle of the friend */
	uint8_t *map[VICTIM_REGIONS], *mem[VICTIM_REGIONS];
	tcpx_region region[VICTIM_REGIONS];
	uint64_t key[VICTIM_REGIONS];
	tcpx_region remote[2]; /* of the attacker, as it says: host memory, staged */
	struct victim_slot slot[VICTIM_SLOTS];
	uint64_t rounds;
};

extern const uint8_t victim_secret[16];

void victim_open(struct victim *v);
/* The attacker connected: takes its handle. */
void victim_accept(struct victim *v);
/* The attacker is gone: everything of ours ended, and its memory is quiet. */
void victim_part(struct victim *v);

void victim_post(struct victim *v, uint32_t slot, enum tcpx_op op, uint32_t bytes, uint32_t how);
void victim_cancel(struct victim *v, uint32_t slot);
void victim_release(struct victim *v, uint32_t slot);
/* Notices what ended by itself: from then on its memory is left alone. */
void victim_poll(struct victim *v);
void victim_reregister(struct victim *v);
void victim_notify(struct victim *v, uint32_t bytes);
void victim_take_notifications(struct victim *v);

/* Nothing beside a region was touched, and what nobody may change is as it was. */
void victim_check(struct victim *v, bool thorough);
/* The honest peer is served as ever. */
void victim_serve_friend(struct victim *v);

#endif

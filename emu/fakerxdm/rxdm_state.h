/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the stand-in share: its table of GPUs and NICs, its rules, its answers. */
#ifndef FAKERXDM_STATE_H
#define FAKERXDM_STATE_H

#include "fakerxdm.h"
#include "wire/rxdm.h"

#define RXDM_NICS 16
#define RXDM_GPUS 32
#define RXDM_QUEUES 4	/* of a GPU, from 8 on */
#define RXDM_RULES 4096 /* of all NICs together */

struct rxdm_nic {
	char name[16], ip[48];
	pci_addr pci;
	unsigned rules;
};

struct rxdm_gpu {
	pci_addr pci;
	unsigned nic; /* its owner */
	int first_queue;
	unsigned flows[RXDM_QUEUES];
	int pool_fd; /* -1: none */
	uint64_t size_bytes, align_bytes;
};

struct rxdm_state {
	struct rxdm_nic nics[RXDM_NICS];
	struct rxdm_gpu gpus[RXDM_GPUS];
	unsigned nnics, ngpus;
	struct fakerxdm_rule rules[RXDM_RULES];
	unsigned nrules, max_rules;
	struct fakerxdm_counts counts;
};

int rxdm_state_parse(struct rxdm_state *state, const char *topo); /* 0; -1: malformed */

/* Which socket a question came by. */
enum rxdm_door {
	RXDM_INSTALL,
	RXDM_UNINSTALL,
	RXDM_QUEUES_OF,
	RXDM_REGISTRY,
	RXDM_FD,
	RXDM_MEMORY
};

/* The answer to a question; text is where its words may stand. gpu: of RXDM_MEMORY. */
void rxdm_state_answer(struct rxdm_state *state, enum rxdm_door door, unsigned gpu,
		       const struct wire_rxdm *question, struct wire_rxdm *out_answer, char *text,
		       size_t cap);
void rxdm_state_refuse(struct rxdm_state *state, int code, const char *why,
		       struct wire_rxdm *out_answer, char *text, size_t cap);

/* Replaces the file by the state as JSON. */
void rxdm_state_write(const struct rxdm_state *state, const char *path);

/* Gives every GPU its pool. 0; -1, said on standard error. */
int rxdm_pools_open(struct rxdm_state *state, const char *cuda, size_t bytes);
void rxdm_pools_close(struct rxdm_state *state);

#endif

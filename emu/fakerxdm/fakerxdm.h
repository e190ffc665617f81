/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for RxDM: its sockets, its answers, and its way with rules: a rule goes to the NIC
 * that owns the GPU, wherever the flow arrives, and the answer is "Ok." (docs/design/topo.md). A
 * program, and an object for tests that want it in their own process. Nothing is steered anywhere.
 */
#ifndef FAKERXDM_H
#define FAKERXDM_H

#include <stddef.h>
#include <stdint.h>

#include "base/pci.h"

/* How it answers, to whatever question. */
enum fakerxdm_mode {
	FAKERXDM_OK,
	FAKERXDM_REFUSE,  /* an error in words, and a status */
	FAKERXDM_SILENT,  /* takes the question, answers nothing */
	FAKERXDM_HANG_UP, /* closes instead of answering */
	FAKERXDM_GARBAGE, /* bytes that are no message */
};

/* Two NICs and more as NAME=IP:PCI:BUS[,BUS...] with ';' between; a GPU is the device 00.0 of its
 * bus, in domain 0. This is the preset of A3 hosts on addresses of the loopback interface. */
#define FAKERXDM_A3VM                                                                              \
	"eth1=127.0.1.1:06:00.0:04,05;eth2=127.0.2.1:0c:00.0:0a,0b;"                               \
	"eth3=127.0.3.1:86:00.0:84,85;eth4=127.0.4.1:8c:00.0:8a,8b"

#define FAKERXDM_POOL_BYTES (64u << 20) /* of a GPU; the real one has 4 GiB */

struct fakerxdm_opts {
	const char *prefix; /* folder of the sockets; made when it is not there */
	const char *topo;   /* NULL: FAKERXDM_A3VM */
	const char *stats;  /* JSON file, replaced after every answer; NULL: none */
	const char *cuda;   /* driver library: pools are its memory, exported; NULL: a memfd each */
	size_t pool_bytes;  /* 0: FAKERXDM_POOL_BYTES */
	unsigned max_rules; /* of a NIC; 0: as many as there is room for */
	unsigned slow_ms;   /* every answer comes that much later */
	enum fakerxdm_mode mode;
	/* The last registered application left: the real one ends itself then. On its thread. */
	void (*last_left)(void *arg);
	void *arg;
};

struct fakerxdm_rule {
	char src[64], dst[64]; /* "127.0.1.1:40983" */
	pci_addr gpu;
	char nic[16]; /* where the rule was put */
	int queue;
	int elsewhere; /* the flow arrives on another NIC: it is not steered */
};

struct fakerxdm_counts {
	unsigned installed, uninstalled, duplicates, refused;
	unsigned queries, memory, descriptors, registered;
};

struct fakerxdm;

/* Listens when it returns. 0; -1, said on standard error. */
int fakerxdm_start(const struct fakerxdm_opts *opts, struct fakerxdm **out);
void fakerxdm_stop(struct fakerxdm *rxdm); /* removes the sockets; NULL is allowed */

void fakerxdm_mode_set(struct fakerxdm *rxdm, enum fakerxdm_mode mode, unsigned slow_ms);
/* Rules in force; at most max of them are written. Returns their number. */
unsigned fakerxdm_rules(struct fakerxdm *rxdm, struct fakerxdm_rule *out, unsigned max);
void fakerxdm_counts(struct fakerxdm *rxdm, struct fakerxdm_counts *out);

#endif

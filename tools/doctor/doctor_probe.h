/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at this machine, and at the other end, and writes down what is there. Nothing is judged. */
#ifndef TOOLS_DOCTOR_PROBE_H
#define TOOLS_DOCTOR_PROBE_H

#include "doctor_facts.h"

#define DOCTOR_LINE_MAX 1024

struct doctor_probe_opts {
	uint64_t chosen; /* rules, bit by index: what none of them reads may be left out */
	const char *nic, *plugin, *key_file, *peer; /* NULL: not given */
	int insecure;
	int gpu;	     /* -1: not given */
	int64_t deadline_ns; /* set by doctor_probe(): of everything, less what comes after */
};

#define DOCTOR_LOCAL_NS 4500000000 /* a run takes 5 s at most, and judges and writes at its end */
#define DOCTOR_PAIR_NS 13500000000 /* 15 s; a connection is closed by 1 s more */
#define DOCTOR_LAST_NS 1000000000  /* of that, for the environment, which comes last */

/* Everything, with a deadline for each part. What cannot be found out is left out. */
void doctor_probe(struct doctor_facts *facts, struct doctor_probe_opts *opts);

/* So long from now, and not beyond opts->deadline_ns: every deadline of a probe is made by it. */
int64_t doctor_until(const struct doctor_probe_opts *opts, int64_t ns);

/* 1 when one of the rules "D01,D07" is wanted. */
int doctor_wants(const struct doctor_probe_opts *opts, const char *rules);

/* The parts. */
/* GPUs and NICs on PCI, and their owners; RxDM is asked until then. */
void doctor_probe_machine(struct doctor_facts *facts, int64_t deadline_ns);
void doctor_probe_rxdm(struct doctor_facts *facts);
/* With cuda: GPUs by the driver. Where the plugin is; with load: what it is, and if it loads. */
void doctor_probe_plugin(struct doctor_facts *facts, const struct doctor_probe_opts *opts, int cuda,
			 int load);
void doctor_probe_host(struct doctor_facts *facts);
void doctor_probe_nics(struct doctor_facts *facts);
void doctor_probe_port(struct doctor_facts *facts);
void doctor_probe_environment(struct doctor_facts *facts, const struct doctor_probe_opts *opts);
void doctor_probe_key(struct doctor_facts *facts, const char *file);
void doctor_probe_peer(struct doctor_facts *facts, const struct doctor_probe_opts *opts);
/* Pairs of our addresses and the other end's ("a.b.c.d:port" lines): routes, who answers, MTU. */
void doctor_probe_rails(struct doctor_facts *facts, const struct doctor_probe_opts *opts,
			const char *addresses);
/* A transfer into the memory of a GPU, in a process of its own, and what its NICs count. */
void doctor_probe_devmem(struct doctor_facts *facts, const struct doctor_probe_opts *opts);

/* What a serve hands out of itself: the part that the other end compares. */
void doctor_probe_served(struct doctor_facts *facts);

/* The first line of a file, without its end. 0; -1: there is none, line is "". */
int doctor_read_line(const char *path, char *line, size_t cap);

/* The NIC of a name in the facts, a new one when there is none. -1: no room. */
int doctor_nic_row(struct doctor_facts *facts, const char *name);

/* This program, run with arguments (NULL at the end) to answer something. */
struct doctor_asked {
	int pid, fd; /* fd -1: it did not start, or was not asked */
};
void doctor_ask_start(struct doctor_asked *asked, const char *const *args);
/* A function instead, in a copy of this process, before this one has threads. */
void doctor_ask_call(struct doctor_asked *asked, void (*say)(void));
/* What it wrote to stdout and stderr, cut, is text; at the deadline it is killed. 0: it ended with
 * 0; -1: it failed, crashed or took too long. */
int doctor_ask_end(struct doctor_asked *asked, int64_t deadline_ns, char *text, size_t cap);
/* Both. */
int doctor_ask_self(const char *const *args, int64_t deadline_ns, char *text, size_t cap);

/* Copies what follows "name" at the start of a line of text. 0; -1. */
int doctor_line_after(const char *text, const char *name, char *out, size_t cap);

#endif

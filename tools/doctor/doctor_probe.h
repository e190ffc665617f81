/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of this machine and of the other end. They record facts and judge nothing. */
#ifndef TOOLS_DOCTOR_PROBE_H
#define TOOLS_DOCTOR_PROBE_H

#include "doctor_facts.h"

#define DOCTOR_LINE_MAX 1024

struct doctor_probe_opts {
	/* chosen rules, bit by index: facts that none of them reads may be left out */
	uint64_t chosen;
	const char *nic, *plugin, *key_file, *peer; /* NULL: not given */
	int insecure;
	int gpu; /* -1: not given */
	/* set by doctor_probe(): deadline of all probes, less the time of those that follow */
	int64_t deadline_ns;
};

#define DOCTOR_LOCAL_NS 4500000000 /* a run takes at most 5 s, including judging and writing */
#define DOCTOR_PAIR_NS 13500000000 /* 15 s with --peer, and 1 s to close a connection */
#define DOCTOR_LAST_NS 1000000000  /* part of it for the environment, which comes last */

/* Runs all probes, each with a deadline. Facts that cannot be found out are left out. */
void doctor_probe(struct doctor_facts *facts, struct doctor_probe_opts *opts);

/* The deadline of a probe: ns from now, but not after opts->deadline_ns. */
int64_t doctor_until(const struct doctor_probe_opts *opts, int64_t ns);

/* Whether one of the rules "D01,D07" was chosen. */
int doctor_wants(const struct doctor_probe_opts *opts, const char *rules);

/* The parts. */
/* GPUs and NICs on PCI, and their owners; asks RxDM until the deadline. */
void doctor_probe_machine(struct doctor_facts *facts, int64_t deadline_ns);
void doctor_probe_rxdm(struct doctor_facts *facts);
/* The path of the plugin; with cuda: GPUs by the driver; with load: whether the plugin loads,
 * and its properties. */
void doctor_probe_plugin(struct doctor_facts *facts, const struct doctor_probe_opts *opts, int cuda,
			 int load);
void doctor_probe_host(struct doctor_facts *facts);
void doctor_probe_nics(struct doctor_facts *facts);
void doctor_probe_port(struct doctor_facts *facts);
void doctor_probe_environment(struct doctor_facts *facts, const struct doctor_probe_opts *opts);
void doctor_probe_key(struct doctor_facts *facts, const char *file);
void doctor_probe_peer(struct doctor_facts *facts, const struct doctor_probe_opts *opts);
/* Pairs of addresses of this and the other end ("a.b.c.d:port" lines): routes, answers, MTU. */
void doctor_probe_rails(struct doctor_facts *facts, const struct doctor_probe_opts *opts,
			const char *addresses);
/* Transfers into GPU memory, in a child process, and the packet counters of the NICs. */
void doctor_probe_devmem(struct doctor_facts *facts, const struct doctor_probe_opts *opts);

/* The facts that a serve gives to the other end for comparison. */
void doctor_probe_served(struct doctor_facts *facts);

/* Reads the first line of a file, without newline. Returns 0; or -1, with line "", if there is
 * none. */
int doctor_read_line(const char *path, char *line, size_t cap);

/* The index of a NIC in the facts by its name, a new one if there is none. -1: no room. */
int doctor_nic_row(struct doctor_facts *facts, const char *name);

/* Starts this program with arguments (NULL at the end). */
struct doctor_asked {
	int pid, fd; /* fd -1: it was not started, or could not be */
};
void doctor_ask_start(struct doctor_asked *asked, const char *const *args);
/* Calls a function in a fork of this process instead; only before it has threads. */
void doctor_ask_call(struct doctor_asked *asked, void (*say)(void));
/* Collects its stdout and stderr in text, cut; kills it at the deadline. Returns 0 if it exited
 * with 0; -1: it failed, crashed or took too long. */
int doctor_ask_end(struct doctor_asked *asked, int64_t deadline_ns, char *text, size_t cap);
/* Both. */
int doctor_ask_self(const char *const *args, int64_t deadline_ns, char *text, size_t cap);

/* Copies the rest of the line of text that begins with name. Returns 0 or -1. */
int doctor_line_after(const char *text, const char *name, char *out, size_t cap);

#endif

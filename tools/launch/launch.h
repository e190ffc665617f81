/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that a launcher started: who we are, and how rank 0's connection info comes to the others.
 * The info holds a secret, so it travels where only the ranks can read: PMIx, or a file of ours of
 * mode 0600. Where only an address is known, a key must prove the ranks. docs/design/launch.md.
 */
#ifndef TOOLS_LAUNCH_H
#define TOOLS_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include <tcpx/types.h>

#define LAUNCH_TEXT_MAX 300
#define LAUNCH_NAMES "auto, none, tcpx, openmpi, mpich, torchrun, slurm, kubernetes, pmi, pmix"

struct launch {
	const char *by;	     /* "Open MPI"; NULL: nobody launched this process */
	const char *name;    /* as --launcher calls it */
	uint32_t rank, size; /* rank < size */
	const char *size_by; /* the variable that says the size; NULL: no variable does */
	bool has_local;	     /* local_rank is known */
	uint32_t local_rank; /* among the ranks of this host, from 0 */
	bool one_host;	     /* known: all ranks are on this host */
	bool alone_here;     /* known: no other rank is on this host */
	bool many_hosts;     /* known: some are on another */
	char job[80];	     /* the same in all ranks of this run, and no other's; "": not known */
};

/*
 * Who started this process, by its environment. name: "auto", "none" (then nobody did) or the one
 * launcher that is looked for.
 * Returns TCPX_OK; ERR_NOT_FOUND (its variables are not set, or there is no such launcher);
 * ERR_INVALID (they contradict each other, or are no numbers).
 */
tcpx_status launch_find(const char *name, struct launch *out_launch);

/* A variable that counts ranks, or is one. ERR_INVALID: it is no number. */
tcpx_status launch_number(const char *name, uint32_t *out_number);

/* launch_hosts.c: by a file of addresses, one a line with its "slots=N": our rank is the line of
 * one of our own addresses. out_first: the first line's. Errors as above. */
tcpx_status launch_by_hosts(const char *path, struct launch *out_launch,
			    char out_first[LAUNCH_TEXT_MAX]);

enum launch_via { LAUNCH_VIA_ADDRESS, LAUNCH_VIA_FILE, LAUNCH_VIA_PMIX };

struct launch_meet {
	enum launch_via via;
	bool first;		     /* we are rank 0 */
	char where[LAUNCH_TEXT_MAX]; /* the path; or rank 0's host */
	uint32_t port;		     /* of VIA_ADDRESS */
	char job[80];
};

/*
 * How the ranks meet. text: "HOST:PORT", a path (it has a '/'), or "": PMIx where the launcher has
 * it, MASTER_ADDR of torchrun with the port given, or on one host a file of our own.
 * Returns TCPX_OK; ERR_INVALID (no address, no path); ERR_NOT_FOUND (there is no way, and what to
 * set); ERR_AUTH (the folder of our own is somebody else's).
 */
tcpx_status launch_meet_by(const struct launch *launch, const char *text, uint32_t port,
			   struct launch_meet *out_meet);
/* Rank 0's connection info to the others. Not of VIA_ADDRESS. ERR_SYSTEM. */
tcpx_status launch_meet_give(const struct launch_meet *meet, const void *info, size_t bytes);
/* The others: TCPX_IN_PROGRESS: it is not there yet. It may be another one later: that of a run
 * before this one. ERR_AUTH: whoever wrote it is not this user, or others can read it. */
tcpx_status launch_meet_take(const struct launch_meet *meet, void *buf, size_t cap,
			     size_t *out_bytes);
/* All have met: rank 0 takes it away. */
void launch_meet_over(const struct launch_meet *meet);

/* launch_file.c, likewise; job: in the file, to tell runs apart. */
tcpx_status launch_file_give(const char *path, const char *job, const void *info, size_t bytes);
tcpx_status launch_file_take(const char *path, const char *job, void *buf, size_t cap,
			     size_t *out_bytes);

/* launch_pmix.c: the server of the launcher, found by the environment. */
bool launch_pmix_built(void); /* this build knows it, and the library loads */
bool launch_pmix_there(void); /* and its variables are set */
tcpx_status launch_pmix_find(struct launch *out_launch); /* as launch_find() */
tcpx_status launch_pmix_give(const void *info, size_t bytes);
tcpx_status launch_pmix_take(void *buf, size_t cap, size_t *out_bytes);
/* Before the process ends: a launcher takes one that does not say so for a crash. */
void launch_pmix_close(void);

#endif

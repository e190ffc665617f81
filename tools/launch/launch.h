/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that a launcher started: the rank of this process, and how the others get the connection
 * info of rank 0. The info holds a secret, so it travels by ways that only the ranks can read:
 * PMIx, or a file of mode 0600. If only an address is known, ranks must prove a key. See
 * docs/design/launch.md. */
#ifndef TOOLS_LAUNCH_H
#define TOOLS_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include <tcpx/types.h>

#define LAUNCH_TEXT_MAX 300
#define LAUNCH_NAMES "auto, none, tcpx, openmpi, mpich, torchrun, slurm, kubernetes, pmi, pmix"

struct launch {
	const char *by;	     /* "Open MPI"; NULL: not started by a launcher */
	const char *name;    /* as --launcher calls it */
	uint32_t rank, size; /* rank < size */
	const char *size_by; /* the variable that the size came from, or NULL */
	bool has_local;	     /* local_rank is known */
	uint32_t local_rank; /* index among the ranks of this host */
	bool one_host;	     /* it is known that all ranks are on this host */
	bool alone_here;     /* it is known that no other rank is on this host */
	bool many_hosts;     /* it is known that some ranks are on another host */
	/* identifies the run: equal in all its ranks, and unique; "": unknown */
	char job[80];
};

/* Finds the launcher of this process by the environment. name: "auto", "none" or the name of a
 * launcher. ERR_NOT_FOUND: its variables are not set, or there is no such launcher; ERR_INVALID:
 * variables contradict each other or are not numbers. */
tcpx_status launch_find(const char *name, struct launch *out_launch);

/* Reads a variable with a rank or a number of ranks. ERR_INVALID: not a number. */
tcpx_status launch_number(const char *name, uint32_t *out_number);

/* launch_hosts.c: ranks by a file of addresses, one per line, with optional "slots=N": the rank
 * is the line of an address of this host. out_first: the address of the first line. Errors as
 * above. */
tcpx_status launch_by_hosts(const char *path, struct launch *out_launch,
			    char out_first[LAUNCH_TEXT_MAX]);

enum launch_via { LAUNCH_VIA_ADDRESS, LAUNCH_VIA_FILE, LAUNCH_VIA_PMIX };

struct launch_meet {
	enum launch_via via;
	bool first;		     /* we are rank 0 */
	char where[LAUNCH_TEXT_MAX]; /* the path; or rank 0's host */
	uint32_t port;		     /* for VIA_ADDRESS */
	char job[80];
};

/* Decides how the ranks meet. text: "HOST:PORT"; a path, which has a '/'; or "": by PMIx if the
 * launcher has it, by MASTER_ADDR of torchrun with the given port, or on one host by a file in a
 * folder of the user. ERR_INVALID: neither address nor path; ERR_NOT_FOUND: there is no way, and
 * the text says what to set; ERR_AUTH: the folder belongs to another user. */
tcpx_status launch_meet_by(const struct launch *launch, const char *text, uint32_t port,
			   struct launch_meet *out_meet);
/* Publishes the connection info of rank 0. Not for VIA_ADDRESS. ERR_SYSTEM. */
tcpx_status launch_meet_give(const struct launch_meet *meet, const void *info, size_t bytes);
/* For the other ranks. TCPX_IN_PROGRESS: not there yet. A later call may give other info, if the
 * first was left by an earlier run. ERR_AUTH: the file belongs to another user, or others can
 * read it. */
tcpx_status launch_meet_take(const struct launch_meet *meet, void *buf, size_t cap,
			     size_t *out_bytes);
/* Rank 0 removes the info after all have met. */
void launch_meet_over(const struct launch_meet *meet);

/* launch_file.c: the same by a file; job is written into it to tell runs apart. */
tcpx_status launch_file_give(const char *path, const char *job, const void *info, size_t bytes);
tcpx_status launch_file_take(const char *path, const char *job, void *buf, size_t cap,
			     size_t *out_bytes);

/* launch_pmix.c: the same by the PMIx server of the launcher. */
bool launch_pmix_built(void); /* built in, and the library loads */
bool launch_pmix_there(void); /* the variables of a server are set as well */
tcpx_status launch_pmix_find(struct launch *out_launch); /* as launch_find() */
tcpx_status launch_pmix_give(const void *info, size_t bytes);
tcpx_status launch_pmix_take(void *buf, size_t cap, size_t *out_bytes);
/* To be called before the process ends, or the launcher takes the end for a crash. */
void launch_pmix_close(void);

#endif

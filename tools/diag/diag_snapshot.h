/* SPDX-License-Identifier: Apache-2.0 */
/* What changes while something runs, at one moment: each kind a text of lines "name: value". */
#ifndef TOOLS_DIAG_SNAPSHOT_H
#define TOOLS_DIAG_SNAPSHOT_H

#include <stdio.h>
#include <sys/types.h>

enum diag_kind {
	DIAG_INTERFACES,
	DIAG_COUNTERS,
	DIAG_ROUTES,
	DIAG_SYSCTLS,
	DIAG_AFFINITY, /* of the threads of a process and of those below it */
	DIAG_IRQS,     /* their CPUs: read, never set */
	DIAG_INTERRUPTS,
	DIAG_CPU,
	DIAG_KINDS,
};
const char *diag_kind_name(enum diag_kind kind); /* "interfaces" */

struct diag_snapshot {
	char *texts[DIAG_KINDS];
};

/* 0; -1: no memory, nothing is kept. */
int diag_snapshot_take(struct diag_snapshot *snapshot, pid_t process);
void diag_snapshot_free(struct diag_snapshot *snapshot);

/* "eth1 rx_bytes: 5" for each counter of each NIC, of the kernel and of its driver. */
void diag_counters(FILE *out);

/* What stays the same: the caller frees the text. NULL: no memory. */
char *diag_topology(void);
/* recorded: what runs of the tool wrote by cli_environ_record(), or NULL; it counts where a name
 * is in both. */
char *diag_environment(const char *recorded);
char *diag_versions(void);

#endif

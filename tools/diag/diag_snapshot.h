/* SPDX-License-Identifier: Apache-2.0 */
/* The state of things that change, at one moment: per kind a text of lines "name: value". */
#ifndef TOOLS_DIAG_SNAPSHOT_H
#define TOOLS_DIAG_SNAPSHOT_H

#include <stdio.h>
#include <sys/types.h>

enum diag_kind {
	DIAG_INTERFACES,
	DIAG_COUNTERS,
	DIAG_ROUTES,
	DIAG_SYSCTLS,
	DIAG_AFFINITY, /* CPUs of the threads of a process and of its descendants */
	DIAG_IRQS,     /* CPUs of interrupts: read, never set */
	DIAG_INTERRUPTS,
	DIAG_CPU,
	DIAG_KINDS,
};
const char *diag_kind_name(enum diag_kind kind); /* "interfaces" */

struct diag_snapshot {
	char *texts[DIAG_KINDS];
};

/* Returns 0, or -1 without memory; then nothing is kept. */
int diag_snapshot_take(struct diag_snapshot *snapshot, pid_t process);
void diag_snapshot_free(struct diag_snapshot *snapshot);

/* Writes "eth1 rx_bytes: 5" for each counter of each NIC, of kernel and driver. */
void diag_counters(FILE *out);

/* Texts about things that do not change; the caller frees them. NULL: no memory. */
char *diag_topology(void);
/* recorded: file written by cli_environ_record() in runs of the tool, or NULL; its values win. */
char *diag_environment(const char *recorded);
char *diag_versions(void);

#endif

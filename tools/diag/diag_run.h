/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command, copies its output to a log and takes snapshots meanwhile. */
#ifndef TOOLS_DIAG_RUN_H
#define TOOLS_DIAG_RUN_H

#include "diag_mask.h"
#include "diag_snapshot.h"

struct diag_run {
	char *const *argv; /* NULL at the end */
	FILE *out_log, *err_log;
	struct diag_mask *mask;
	/* the answer */
	struct diag_snapshot during; /* the last snapshot while it ran */
	unsigned taken;		     /* how many */
	int code;		     /* exit code; 128 + signal; 127: not started */
	double seconds;
};

/* Returns 0, or -1 without pipes. Ctrl-C and SIGTERM are passed on to the command. */
int diag_run_command(struct diag_run *run);

#endif

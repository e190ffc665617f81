/* SPDX-License-Identifier: Apache-2.0 */
/* A command, run while its output goes two ways and snapshots are taken. */
#ifndef TOOLS_DIAG_RUN_H
#define TOOLS_DIAG_RUN_H

#include "diag_mask.h"
#include "diag_snapshot.h"

struct diag_run {
	char *const *argv; /* NULL at the end */
	FILE *out_log, *err_log;
	struct diag_mask *mask;
	/* the answer */
	struct diag_snapshot during; /* the last one while it ran */
	unsigned taken;		     /* how many */
	int code;		     /* its exit code; 128 + a signal; 127: it did not start */
	double seconds;
};

/* 0; -1: no pipes for it. Ctrl-C and SIGTERM are the command's. */
int diag_run_command(struct diag_run *run);

#endif

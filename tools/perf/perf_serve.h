/* SPDX-License-Identifier: Apache-2.0 */
/* The serve loop: peers come and go, messages reach their threads, echoes go straight back. */
#ifndef TOOLS_PERF_SERVE_H
#define TOOLS_PERF_SERVE_H

#include "perf_service.h"

/* Serves until Ctrl-C, or with once until the first client that said hello is gone. Answers an exit
 * code. */
int perf_serve_loop(struct perf_house *house, int once);

#endif

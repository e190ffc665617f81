/* SPDX-License-Identifier: Apache-2.0 */
/* The serve loop: accepts peers, hands messages to their threads, answers echoes. */
#ifndef TOOLS_PERF_SERVE_H
#define TOOLS_PERF_SERVE_H

#include "perf_service.h"

/* Serves until Ctrl-C, until idle_ns have passed without a client, or with once until the first
 * client that said hello has left. Returns an exit code. */
int perf_serve_loop(struct perf_house *house, int once);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* HOST[:PORT] as the user writes it. */
#ifndef TOOLS_PERF_HOST_H
#define TOOLS_PERF_HOST_H

#include "sys/addr.h"

#define PERF_HOST_MAX SYS_HOST_MAX
#define PERF_ADDRESS_TEXT (PERF_HOST_MAX + 8) /* room for brackets and a port */

/* As sys_addr_split(), with port 0 if there is none. */
const char *perf_host_split(const char *text, char host[PERF_HOST_MAX], unsigned *out_port);

/* The port that serve listens on and perf connects to by default. */
unsigned perf_port_default(void);

#endif

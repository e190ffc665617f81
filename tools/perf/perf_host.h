/* SPDX-License-Identifier: Apache-2.0 */
/* HOST[:PORT] as the user writes it. */
#ifndef TOOLS_PERF_HOST_H
#define TOOLS_PERF_HOST_H

#include "sys/addr.h"

#define PERF_HOST_MAX SYS_HOST_MAX
#define PERF_ADDRESS_TEXT (PERF_HOST_MAX + 8) /* with brackets and port */

/* sys_addr_split() with port 0 when there is none. */
const char *perf_host_split(const char *text, char host[PERF_HOST_MAX], unsigned *out_port);

/* Where serve listens and perf connects when no port is given. */
unsigned perf_port_default(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* HOST[:PORT] as the user writes it. */
#ifndef TOOLS_PERF_HOST_H
#define TOOLS_PERF_HOST_H

#define PERF_HOST_MAX 256		      /* a name of DNS and the NUL */
#define PERF_ADDRESS_TEXT (PERF_HOST_MAX + 8) /* with brackets and port */

/* Splits "host[:port]", "[v6]:port" or "v6"; port 0 when there is none. NULL; or why it is none. */
const char *perf_host_split(const char *text, char host[PERF_HOST_MAX], unsigned *out_port);

/* Where serve listens and perf connects when no port is given. */
unsigned perf_port_default(void);

#endif

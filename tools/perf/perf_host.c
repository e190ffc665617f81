/* SPDX-License-Identifier: Apache-2.0 */
/* HOST[:PORT] as the user writes it. */
#include "perf_host.h"

#include "base/config.h"

const char *perf_host_split(const char *text, char host[PERF_HOST_MAX], unsigned *out_port)
{
	uint16_t port = 0;
	const char *why = sys_addr_split(text, host, &port);

	if (!why)
		*out_port = port;
	return why;
}

unsigned perf_port_default(void)
{
	unsigned port = (unsigned)config_u64(CONFIG_OOB_PORT);

	return port ? port : (unsigned)config_u64(CONFIG_PORT_BASE);
}

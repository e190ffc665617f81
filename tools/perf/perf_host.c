/* SPDX-License-Identifier: Apache-2.0 */
/* HOST[:PORT] as the user writes it. */
#include "perf_host.h"

#include <string.h>

#include "base/config.h"

/* 1 .. 65535, 0: it is none. */
static unsigned parse_port(const char *text)
{
	size_t len = strspn(text, "0123456789");
	unsigned port = 0;

	if (!len || len > 5 || text[len])
		return 0;
	for (; *text; text++)
		port = port * 10 + (unsigned)(*text - '0');
	return port <= 65535 ? port : 0;
}

const char *perf_host_split(const char *text, char host[PERF_HOST_MAX], unsigned *out_port)
{
	const char *end, *colon = NULL;
	unsigned port = 0;
	size_t len;

	if (*text == '[') {
		end = strchr(++text, ']');
		if (!end)
			return "the ] is missing";
		if (end[1] && end[1] != ':')
			return "after ] comes :PORT or nothing";
		colon = end[1] ? end + 1 : NULL;
	} else {
		colon = strchr(text, ':');
		if (colon && strchr(colon + 1, ':')) /* a bare v6 address */
			colon = NULL;
		end = colon ? colon : text + strlen(text);
	}
	len = (size_t)(end - text);
	if (!len)
		return "the host is empty";
	if (len >= PERF_HOST_MAX)
		return "the host is longer than 255 bytes";
	if (colon)
		port = parse_port(colon + 1);
	if (colon && !port)
		return "the port is none of 1..65535";
	memcpy(host, text, len);
	host[len] = 0;
	*out_port = port;
	return NULL;
}

unsigned perf_port_default(void)
{
	unsigned port = (unsigned)config_u64(CONFIG_OOB_PORT);

	return port ? port : (unsigned)config_u64(CONFIG_PORT_BASE);
}

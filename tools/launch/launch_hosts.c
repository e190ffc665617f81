/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks by a file of addresses: the same command runs on each host, and each finds its own line. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "launch.h"

#define EXAMPLE                                                                                    \
	"one address a line: '10.0.0.1', '10.0.0.2 slots=8' or '10.0.0.2 8'; '#' begins a comment"

static bool launch_hosts_is_ours(const struct ifaddrs *list, const char *text)
{
	struct in6_addr want, is;
	int family = strchr(text, ':') ? AF_INET6 : AF_INET;

	if (inet_pton(family, text, &want) != 1)
		return false;
	for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
		if (!at->ifa_addr || at->ifa_addr->sa_family != family)
			continue;
		if (family == AF_INET6) {
			is = ((const struct sockaddr_in6 *)(const void *)at->ifa_addr)->sin6_addr;
			if (!memcmp(&is, &want, sizeof(is)))
				return true;
		} else if (!memcmp(&((const struct sockaddr_in *)(const void *)at->ifa_addr)
					    ->sin_addr,
				   &want, sizeof(struct in_addr))) {
			return true;
		}
	}
	return false;
}

struct line {
	char host[64];
	unsigned slots;
};

/* Parses "4" or "slots=4", as in files for other launchers; 0: neither, or not 1 to 1024. */
static unsigned take_slots(const char *text)
{
	unsigned slots = 0;

	if (!strncmp(text, "slots=", 6))
		text += 6;
	for (; slots <= 1024 && *text >= '0' && *text <= '9'; text++)
		slots = slots * 10 + (unsigned)(*text - '0');
	return *text || slots > 1024 ? 0 : slots;
}

/* Returns 1: a host; 0: nothing; -1: the last error. */
static int launch_hosts_parse(const char *path, int number, char *text, struct line *out)
{
	struct in6_addr any;
	char slots[16] = "1", rest;

	text[strcspn(text, "#\n")] = '\0';
	if (!text[strspn(text, " \t\r")])
		return 0;
	if (sscanf(text, " %63s %15s %c", out->host, slots, &rest) > 2 ||
	    !(out->slots = take_slots(slots))) {
		(void)error_set(TCPX_ERR_INVALID, 0, "%.200s:%d: '%.60s' is not a host", path,
				number, text);
		(void)error_next(EXAMPLE);
		return -1;
	}
	if (inet_pton(AF_INET, out->host, &any) != 1 && inet_pton(AF_INET6, out->host, &any) != 1) {
		(void)error_set(TCPX_ERR_INVALID, 0, "%.200s:%d: '%.60s' is not an address", path,
				number, out->host);
		(void)error_next(EXAMPLE);
		return -1;
	}
	return 1;
}

static tcpx_status take_lines(const char *path, FILE *file, const struct ifaddrs *own,
			      struct launch *out, char out_first[LAUNCH_TEXT_MAX])
{
	char text[256];
	uint32_t slots = 0;
	struct line line;
	int got;

	for (int number = 1; fgets(text, sizeof(text), file); number++) {
		got = launch_hosts_parse(path, number, text, &line);
		if (got < 0)
			return tcpx_last_error()->status;
		if (!got)
			continue;
		if (!out->size)
			snprintf(out_first, LAUNCH_TEXT_MAX, strchr(line.host, ':') ? "[%s]" : "%s",
				 line.host);
		if (launch_hosts_is_ours(own, line.host)) {
			if (slots)
				return error_set(TCPX_ERR_INVALID, 0,
						 "%.200s:%d: %s is an address of this host, and so "
						 "is an earlier one",
						 path, number, line.host);
			out->rank = out->size;
			slots = line.slots;
		}
		out->size += line.slots;
	}
	if (!slots) {
		(void)error_set(TCPX_ERR_NOT_FOUND, 0, "%.200s names no address of this host",
				path);
		return error_next(EXAMPLE);
	}
	if (slots > 1 && !out->has_local)
		return error_set(TCPX_ERR_INVALID, 0,
				 "%.200s: %u ranks on this host; TCPX_LOCAL_RANK says which one",
				 path, slots);
	if (out->local_rank >= slots)
		return error_set(TCPX_ERR_INVALID, 0, "TCPX_LOCAL_RANK=%u, and %.200s has %u slots",
				 out->local_rank, path, slots);
	out->rank += out->local_rank;
	out->alone_here = slots == 1;
	out->many_hosts = slots < out->size;
	return TCPX_OK;
}

tcpx_status launch_by_hosts(const char *path, struct launch *out, char out_first[LAUNCH_TEXT_MAX])
{
	const char *local = getenv("TCPX_LOCAL_RANK");
	struct ifaddrs *own = NULL;
	FILE *file = fopen(path, "re");
	tcpx_status status;

	*out = (struct launch){.by = "the hostfile", .name = "hostfile"};
	if (!file) {
		(void)error_set(TCPX_ERR_NOT_FOUND, errno, "hostfile %.200s", path);
		return error_next(EXAMPLE);
	}
	out->has_local = local && *local;
	status = out->has_local ? launch_number("TCPX_LOCAL_RANK", &out->local_rank) : TCPX_OK;
	(void)getifaddrs(&own);
	if (status == TCPX_OK)
		status = take_lines(path, file, own, out, out_first);
	freeifaddrs(own);
	fclose(file);
	return status;
}

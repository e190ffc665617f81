/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about sessions and peers. */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "netpeer.h"
#include "parts/filter.h"

/* key=value words to options. */
static int parse_open(tcpx_session_opts *opts, char **word, int words)
{
	for (int i = 1; i < words; i++) {
		char *value = strchr(word[i], '=');

		if (!value)
			return 0;
		*value++ = 0;
		if (strcmp(word[i], "name") == 0)
			opts->name = value;
		else if (strcmp(word[i], "bind") == 0)
			opts->bind = value;
		else if (strcmp(word[i], "advertise") == 0)
			opts->advertise = value;
		else if (strcmp(word[i], "key") == 0)
			opts->key_file = value;
		else if (strcmp(word[i], "filters") == 0)
			filter_choose(value);
		else if (strcmp(word[i], "flags") == 0)
			opts->flags = strtoull(value, NULL, 0);
		else if (strcmp(word[i], "channels") == 0)
			opts->channels = (uint32_t)atoi(value);
		else if (strcmp(word[i], "chunk") == 0)
			opts->chunk_bytes = (uint32_t)atoi(value);
		else if (strcmp(word[i], "silent") == 0)
			opts->silent_ms = (uint32_t)atoi(value);
		else if (strcmp(word[i], "stopped") == 0)
			opts->stopped_ms = (uint32_t)atoi(value);
		else
			return 0;
	}
	return 1;
}

static void do_open(struct netpeer *np, char **word, int words)
{
	tcpx_session_opts opts = {.sz = sizeof(opts)};

	if (!parse_open(&opts, word, words)) {
		answer("bad option");
		return;
	}
	answer_status(tcpx_session_open(&opts, &np->session));
}

static void do_listen(struct netpeer *np, char **word, int words)
{
	TCPX_OPTS(tcpx_listen_opts, opts, .port = words > 1 ? (uint32_t)atoi(word[1]) : 0);
	uint16_t port;
	tcpx_status status = tcpx_session_listen(np->session, &opts, &port);

	if (status)
		answer_status(status);
	else
		answer("ok %u", port);
}

static void do_info(struct netpeer *np)
{
	uint8_t info[TCPX_INFO_MAX_BYTES];
	char hex[2 * TCPX_INFO_MAX_BYTES + 1];
	tcpx_status status;
	size_t len;

	status = tcpx_session_info(np->session, info, sizeof(info), &len);
	if (status) {
		answer_status(status);
		return;
	}
	for (size_t i = 0; i < len; i++)
		sprintf(hex + 2 * i, "%02x", info[i]);
	answer("ok %s", hex);
}

static void do_connect(struct netpeer *np, char **word, int words)
{
	TCPX_OPTS(tcpx_connect_opts, opts,
		  .timeout_ns = (words > 2 ? atoll(word[2]) : 20000) * 1000000);
	uint8_t info[TCPX_INFO_MAX_BYTES];
	size_t len = words > 1 ? strlen(word[1]) / 2 : 0;

	for (size_t i = 0; i < len && i < sizeof(info); i++)
		if (sscanf(word[1] + 2 * i, "%2hhx", &info[i]) != 1)
			len = 0;
	answer_status(tcpx_session_connect(np->session, info, len, &opts, &np->peer));
}

static void do_connect_to(struct netpeer *np, char **word, int words)
{
	TCPX_OPTS(tcpx_connect_opts, opts,
		  .timeout_ns = (words > 2 ? atoll(word[2]) : 20000) * 1000000);

	answer_status(
		tcpx_session_connect_to(np->session, words > 1 ? word[1] : "", &opts, &np->peer));
}

static void do_counters(struct netpeer *np)
{
	tcpx_counters counters = {.sz = sizeof(counters)};
	tcpx_status status = tcpx_session_counters(np->session, &counters);

	if (status) {
		answer_status(status);
		return;
	}
	printf("= ok {\"sz\":%zu", counters.sz);
#define COUNTER_JSON(name, help) printf(",\"%s\":%" PRIu64, #name, counters.name);
	TCPX_COUNTER_MAP(COUNTER_JSON)
	printf("}\n");
	fflush(stdout);
}

static void do_peer(struct netpeer *np)
{
	tcpx_peer_info info = {.sz = sizeof(info)};
	tcpx_status status = tcpx_peer_query(np->session, np->peer, &info);
	tcpx_error error = {.sz = sizeof(error)};

	if (status)
		answer_status(status);
	else if (info.state == TCPX_PEER_DEAD &&
		 tcpx_peer_error(np->session, np->peer, &error) == TCPX_OK)
		answer("ok {\"state\":%d,\"error\":\"%s\",\"what\":\"%s\"}", info.state,
		       tcpx_status_name(error.status), error.what);
	else
		answer("ok {\"state\":%d,\"name\":\"%s\",\"transport\":\"%s\",\"auth\":\"%s\","
		       "\"channels\":%u,\"address\":\"%s\"}",
		       info.state, info.name, info.transport, info.auth, info.channels,
		       info.address);
}

static int count_entries(const char *path)
{
	DIR *dir = opendir(path);
	int count = -2; /* . and .. */

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

static void do_usage(void)
{
	unsigned long size = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%lu %lu", &size, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	answer("ok {\"fds\":%d,\"threads\":%d,\"rss_kib\":%lu}", count_entries("/proc/self/fd") - 1,
	       count_entries("/proc/self/task"), resident * 4);
}

int command_session(struct netpeer *np, char **word, int words)
{
	int64_t number = words > 1 ? atoll(word[1]) : 0;

	if (strcmp(word[0], "open") == 0)
		do_open(np, word, words);
	else if (strcmp(word[0], "usage") == 0)
		do_usage();
	else if (!np->session && strcmp(word[0], "poisoned") == 0)
		return 0; /* what was written can be looked at behind the close */
	else if (!np->session)
		answer("no session");
	else if (strcmp(word[0], "listen") == 0)
		do_listen(np, word, words);
	else if (strcmp(word[0], "info") == 0)
		do_info(np);
	else if (strcmp(word[0], "connect") == 0)
		do_connect(np, word, words);
	else if (strcmp(word[0], "connect_to") == 0)
		do_connect_to(np, word, words);
	else if (strcmp(word[0], "accept") == 0)
		answer_status(tcpx_session_accept(np->session, number * 1000000, &np->peer));
	else if (strcmp(word[0], "disconnect") == 0)
		answer_status(tcpx_peer_disconnect(np->session, np->peer));
	else if (strcmp(word[0], "trust") == 0)
		answer("ok %s", tcpx_session_trust(np->session));
	else if (strcmp(word[0], "counters") == 0)
		do_counters(np);
	else if (strcmp(word[0], "peer") == 0)
		do_peer(np);
	else if (strcmp(word[0], "close") == 0) {
		double begin = now();

		tcpx_session_close(np->session);
		np->session = NULL;
		answer("ok %.6f", now() - begin);
	} else
		return 0;
	return 1;
}

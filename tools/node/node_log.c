/* SPDX-License-Identifier: Apache-2.0 */
/* The library's log in a node. When a rank is lost, each session and each channel of each GPU
 * logs it: some 90 lines for one cause. A few lines per rank are shown, the others are counted. */
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "cli_output.h"
#include "node.h"

#define CAUSES 3 /* lines shown per rank while it is connected */

static struct {
	pthread_mutex_t lock;
	struct {
		uint32_t causes, held;
		bool lost;
	} ranks[NODE_RANKS_MAX];
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The rank that a line is about, from "peer 'node-r1-g4': ..." or "peer node-r1-g4: ..."; -1:
 * the line is about something else. */
static long rank_of(const char *line)
{
	const char *peer = strstr(line, "peer "), *end = peer;
	char *next;
	long rank;

	if (!peer)
		return -1;
	end = peer + 5 + strcspn(peer + 5, ": ");
	for (const char *at = peer; (at = strstr(at, "-r")) != NULL && at < end; at += 2) {
		rank = strtol(at + 2, &next, 10);
		if (isdigit((unsigned char)at[2]) && !strncmp(next, "-g", 2) && rank >= 0 &&
		    rank < NODE_RANKS_MAX)
			return rank;
	}
	return -1;
}

static bool is_loss(const char *line)
{
	static const char *const words[] = {"closed the connection", "connection reset",
					    "control link lost", "live on"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(line, words[i]))
			return true;
	return false;
}

/* Whether a line is shown. The loss of a rank is shown once, and nothing about the rank after
 * it. */
static bool shown(long rank, bool loss)
{
	bool show;

	pthread_mutex_lock(&seen.lock);
	if (seen.ranks[rank].lost)
		show = false;
	else if (loss)
		show = seen.ranks[rank].lost = true;
	else
		show = seen.ranks[rank].causes++ < CAUSES;
	seen.ranks[rank].held += !show;
	pthread_mutex_unlock(&seen.lock);
	return show;
}

static void node_log_take(void *arg, enum tcpx_log_level level, const char *line)
{
	static const char *const names[] = {"ERROR", "WARN", "INFO", "DEBUG", "TRACE"};
	long rank = level == TCPX_LOG_WARN ? rank_of(line) : -1;
	char text[1200];
	int len;

	(void)arg;
	if (rank >= 0 && !shown(rank, is_loss(line)))
		return;
	len = snprintf(text, sizeof(text), "tcpx: %s %s\n", names[level], line);
	if (write(STDERR_FILENO, text, (size_t)len) < 0) /* one write per line, as in the library */
		return;
}

void node_log_start(void)
{
	/* With an explicit log level nothing is held back. */
	if (config_value(CONFIG_LOG)->source == CONFIG_DEFAULT && !getenv("NCCL_DEBUG"))
		tcpx_log_set(node_log_take, NULL, (enum tcpx_log_level)config_u64(CONFIG_LOG));
}

void node_log_end(void)
{
	for (uint32_t rank = 0; rank < NODE_RANKS_MAX; rank++)
		if (seen.ranks[rank].held)
			cli_error("%u more warnings about rank %u are not shown; TCPX_LOG=warn "
				  "shows them",
				  seen.ranks[rank].held, rank);
}

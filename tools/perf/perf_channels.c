/* SPDX-License-Identifier: Apache-2.0 */
/* Message counters: read once they are stable, and printed. */
#include "perf_channels.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"

#define MOMENT_NS CLOCK_S_NS

static int quiet(const tcpx_channel_info *row)
{
	return row->sends_posted == row->sends_done && row->posted == row->consumed;
}

static unsigned read_once(tcpx_session *session, tcpx_peer peer, tcpx_channel_info *rows,
			  int *out_quiet)
{
	unsigned count = 0;

	*out_quiet = 1;
	for (uint32_t i = 0; count < PERF_CHANNELS_MAX; i++) {
		tcpx_channel_info *row = &rows[count];

		*row = (tcpx_channel_info){.sz = sizeof(*row)};
		if (tcpx_channel_query(session, peer, i, row) != TCPX_OK)
			break;
		if (!row->messages)
			continue;
		*out_quiet &= quiet(row);
		count++;
	}
	return count;
}

unsigned perf_channels_read(tcpx_session *session, tcpx_peer peer, tcpx_channel_info *out_rows)
{
	static const struct timespec step = {.tv_nsec = CLOCK_MS_NS};
	int64_t until = clock_now_ns() + MOMENT_NS;
	int all_quiet;
	unsigned count;

	for (;;) {
		count = read_once(session, peer, out_rows, &all_quiet);
		if (all_quiet || clock_now_ns() >= until)
			return count;
		nanosleep(&step, NULL);
	}
}

const char *perf_channels_relay(tcpx_session *session, tcpx_peer peer, char *text, size_t cap)
{
	tcpx_channel_info info = {.sz = sizeof(info)};
	size_t len = 0;

	*text = '\0';
	for (uint32_t i = 0; tcpx_channel_query(session, peer, i, &info) == TCPX_OK; i++)
		if (info.relayed && !strstr(text, info.nic))
			len += text_format(text + len, cap - len, "%s%s", len ? "," : "", info.nic);
	return text;
}

void perf_channels_print(FILE *out, const tcpx_channel_info *rows, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		fprintf(out,
			"# channel %u, %s: sends posted %llu, done %llu; receives posted %llu, "
			"done %llu, unpacked %llu, consumed %llu\n",
			rows[i].channel, rows[i].nic, (unsigned long long)rows[i].sends_posted,
			(unsigned long long)rows[i].sends_done, (unsigned long long)rows[i].posted,
			(unsigned long long)rows[i].done, (unsigned long long)rows[i].unpacked,
			(unsigned long long)rows[i].consumed);
}

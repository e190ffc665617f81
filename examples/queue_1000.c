/* SPDX-License-Identifier: Apache-2.0 */
/* 1,000 WRITEs in flight, each posted four times, watched through the completion queue alone. */
#include <stdio.h>
#include <string.h>
#include <tcpx/tcpx.h>

#define REQUESTS 1000
#define ROUNDS 4
#define PIECE 256
#define BATCH 64

#define MUST(call)                                                                                 \
	do {                                                                                       \
		if ((call) != TCPX_OK) {                                                           \
			fprintf(stderr, "%s: %s\n", #call, tcpx_last_error()->what);               \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

static char source[REQUESTS * PIECE], target[REQUESTS * PIECE];
static tcpx_request requests[REQUESTS];
static tcpx_status statuses[REQUESTS];
static unsigned rounds[REQUESTS];

static int run(tcpx_session *session)
{
	tcpx_completion ends[BATCH] = {{.sz = sizeof(ends[0])}};
	unsigned left = REQUESTS * ROUNDS;

	MUST(tcpx_request_post_many(session, requests, REQUESTS, statuses));
	while (left) {
		tcpx_request again[BATCH];
		int got = tcpx_session_poll(session, ends, BATCH);
		unsigned count = 0;
		tcpx_event event = {.sz = sizeof(event)};

		if (got < 0)
			return 1;
		if (!got) { /* nothing ended: sleep; an event would keep us awake */
			MUST(tcpx_session_wait(session, TCPX_WAIT_FOREVER));
			while (tcpx_session_event(session, &event) == TCPX_OK)
				;
		}
		for (int i = 0; i < got; i++, left--) {
			unsigned *round = ends[i].user;

			MUST(ends[i].status);
			if (++*round < ROUNDS)
				again[count++] = ends[i].request;
		}
		MUST(tcpx_request_post_many(session, again, count, statuses));
	}
	return 0;
}

int main(void)
{
	TCPX_OPTS(tcpx_region_opts, shared, .rights = TCPX_RIGHT_WRITE);
	unsigned char info[TCPX_INFO_MAX_BYTES], token[TCPX_TOKEN_BYTES];
	tcpx_session *client, *server;
	tcpx_region mine, theirs;
	tcpx_peer peer;
	uint16_t port;
	size_t len;

	for (size_t i = 0; i < sizeof(source); i++)
		source[i] = (char)(i * 31);
	MUST(tcpx_session_open(NULL, &server));
	MUST(tcpx_session_listen(server, NULL, &port));
	MUST(tcpx_session_info(server, info, sizeof(info), &len));
	MUST(tcpx_region_register(server, target, sizeof(target), &shared, &theirs));
	MUST(tcpx_region_export(server, theirs, token));

	MUST(tcpx_session_open(NULL, &client));
	MUST(tcpx_session_connect(client, info, len, NULL, &peer));
	MUST(tcpx_region_register(client, source, sizeof(source), NULL, &mine));
	MUST(tcpx_region_import(client, peer, token, sizeof(token), &theirs));
	for (unsigned i = 0; i < REQUESTS; i++) {
		TCPX_OPTS(tcpx_request_opts, opts, .queue = 1, .user = &rounds[i]);
		tcpx_segment piece = {.local = mine,
				      .local_offset = (uint64_t)i * PIECE,
				      .remote = theirs,
				      .remote_offset = (uint64_t)i * PIECE,
				      .length = PIECE};

		MUST(tcpx_request_prepare(client, peer, TCPX_OP_WRITE, &piece, 1, &opts,
					  &requests[i]));
	}
	if (run(client))
		return 1;
	tcpx_session_close(client);
	tcpx_session_close(server);
	if (memcmp(source, target, sizeof(source))) {
		fprintf(stderr, "the bytes differ\n");
		return 1;
	}
	printf("%d WRITEs ended\n", REQUESTS * ROUNDS);
	return 0;
}

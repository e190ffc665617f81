/* SPDX-License-Identifier: Apache-2.0 */
/* READ with a list: gathers 1000 scattered pieces of a peer's memory with one request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tcpx/tcpx.h>

#define PIECES 1000
#define PIECE_BYTES 4096

static unsigned char far_memory[PIECES * PIECE_BYTES * 2], near_memory[PIECES * PIECE_BYTES];

static void must(const char *what, tcpx_status status)
{
	if (status == TCPX_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, tcpx_status_text(status), tcpx_last_error()->what);
	exit(1);
}

/* Offset of piece i in the far memory: every second place, from the end to the beginning. */
static uint64_t far_offset(size_t i)
{
	return (uint64_t)(PIECES - 1 - i) * 2 * PIECE_BYTES;
}

/* The server side: readable memory. Writes info and token. */
static tcpx_session *serve(unsigned char *info, size_t *len, unsigned char *token)
{
	tcpx_session *session;
	tcpx_region region;
	uint16_t port;

	TCPX_OPTS(tcpx_session_opts, opts, .name = "library");
	TCPX_OPTS(tcpx_region_opts, readable, .rights = TCPX_RIGHT_READ);
	must("open", tcpx_session_open(&opts, &session));
	must("listen", tcpx_session_listen(session, NULL, &port));
	must("info", tcpx_session_info(session, info, TCPX_INFO_MAX_BYTES, len));
	must("register",
	     tcpx_region_register(session, far_memory, sizeof(far_memory), &readable, &region));
	must("export", tcpx_region_export(session, region, token));
	return session;
}

int main(void)
{
	static tcpx_segment pieces[PIECES];
	unsigned char info[TCPX_INFO_MAX_BYTES], token[TCPX_TOKEN_BYTES];
	tcpx_session *server, *session;
	tcpx_region mine, theirs;
	tcpx_completion end = {.sz = sizeof(end)};
	tcpx_request request;
	tcpx_peer peer;
	size_t len, wrong = 0;

	for (size_t i = 0; i < sizeof(far_memory); i++)
		far_memory[i] = (unsigned char)(i / PIECE_BYTES + i);
	server = serve(info, &len, token);

	must("open", tcpx_session_open(NULL, &session));
	must("connect", tcpx_session_connect(session, info, len, NULL, &peer));
	must("register",
	     tcpx_region_register(session, near_memory, sizeof(near_memory), NULL, &mine));
	must("import", tcpx_region_import(session, peer, token, sizeof(token), &theirs));
	for (size_t i = 0; i < PIECES; i++)
		pieces[i] = (tcpx_segment){.local = mine,
					   .local_offset = i * PIECE_BYTES,
					   .remote = theirs,
					   .remote_offset = far_offset(i),
					   .length = PIECE_BYTES};

	must("start",
	     tcpx_request_start(session, peer, TCPX_OP_READ, pieces, PIECES, NULL, &request));
	must("wait", tcpx_request_wait(session, request, TCPX_WAIT_FOREVER, &end));
	for (size_t i = 0; i < PIECES; i++)
		wrong += memcmp(near_memory + i * PIECE_BYTES, far_memory + far_offset(i),
				PIECE_BYTES) != 0;
	printf("%llu bytes in %d pieces, %zu pieces wrong\n", (unsigned long long)end.bytes, PIECES,
	       wrong);

	tcpx_session_close(session);
	tcpx_session_close(server);
	return wrong != 0;
}

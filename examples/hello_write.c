/* SPDX-License-Identifier: Apache-2.0 */
/* Hello: one session writes into the memory of another, over loopback, and the bytes are there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tcpx/tcpx.h>

/* Ends the program unless the call went well. */
static void must(const char *what, tcpx_status status)
{
	if (status == TCPX_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, tcpx_status_text(status), tcpx_last_error()->what);
	exit(1);
}

int main(void)
{
	static char source[] = "hello, remote memory", target[64];
	unsigned char info[TCPX_INFO_MAX_BYTES], token[TCPX_TOKEN_BYTES];
	tcpx_session *server, *client;
	tcpx_region served, mine, theirs;
	tcpx_request request;
	tcpx_peer peer;
	uint16_t port;
	size_t len;

	/* The server registers memory that peers may write, and says how to reach it. */
	TCPX_OPTS(tcpx_region_opts, writable, .rights = TCPX_RIGHT_WRITE);
	must("open", tcpx_session_open(NULL, &server));
	must("listen", tcpx_session_listen(server, NULL, &port));
	must("info", tcpx_session_info(server, info, sizeof(info), &len));
	must("register", tcpx_region_register(server, target, sizeof(target), &writable, &served));
	must("export", tcpx_region_export(server, served, token));

	/* The client gets info and token by any means: here, from the same process. */
	must("open", tcpx_session_open(NULL, &client));
	must("connect", tcpx_session_connect(client, info, len, NULL, &peer));
	must("register", tcpx_region_register(client, source, sizeof(source), NULL, &mine));
	must("import", tcpx_region_import(client, peer, token, sizeof(token), &theirs));

	tcpx_segment piece = {.local = mine, .remote = theirs, .length = sizeof(source)};

	must("start", tcpx_request_start(client, peer, TCPX_OP_WRITE, &piece, 1, NULL, &request));
	must("wait", tcpx_request_wait(client, request, TCPX_WAIT_FOREVER, NULL));
	printf("the server's memory says: %s\n", target);

	tcpx_session_close(client);
	tcpx_session_close(server);
	return strcmp(source, target) != 0;
}

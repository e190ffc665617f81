/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two hosts with a shared key file ("tcpx key new FILE"): one lends memory, the other writes there.
 *   hosta$ two_hosts FILE               listens on every interface, waits for one writer, ends
 *   hostb$ two_hosts FILE HOST[:PORT]   writes
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tcpx/tcpx.h>

#define BYTES (1u << 20)
#define LIMIT_NS (30 * 1000000000ll) /* for the other host, once it is connected */

static void must(const char *what, tcpx_status status)
{
	if (status == TCPX_OK)
		return;
	if (status == TCPX_IN_PROGRESS)
		fprintf(stderr, "%s: nothing came in time; the other host is slow, or has ended\n",
			what);
	else
		fprintf(stderr, "%s: %s; next: %s\n", what, tcpx_last_error()->what,
			tcpx_last_error()->next);
	exit(1);
}

static size_t wrong_bytes(const unsigned char *memory)
{
	size_t wrong = 0;

	for (size_t i = 0; i < BYTES; i++)
		wrong += memory[i] != (unsigned char)(i * 7);
	return wrong;
}

/* Waits until a host that has the key connects, and sends it the token of the memory in a
 * notification. */
static int lend(tcpx_session *session, unsigned char *memory)
{
	TCPX_OPTS(tcpx_listen_opts, listen, .port = TCPX_PORT_BASE);
	TCPX_OPTS(tcpx_region_opts, writable, .rights = TCPX_RIGHT_WRITE);
	tcpx_notification end = {.sz = sizeof(end)};
	unsigned char token[TCPX_TOKEN_BYTES];
	tcpx_region region;
	tcpx_peer writer;
	uint16_t port;
	size_t wrong;

	must("register", tcpx_region_register(session, memory, BYTES, &writable, &region));
	must("export", tcpx_region_export(session, region, token));
	must("listen", tcpx_session_listen(session, &listen, &port));
	printf("ready: port %u\n", port);
	fflush(stdout);
	must("accept", tcpx_session_accept(session, TCPX_WAIT_FOREVER, &writer));
	must("send the token", tcpx_notify_send(session, writer, token, sizeof(token)));

	/* The writer attached this notification to its WRITE, so the bytes are in memory. */
	must("take", tcpx_notify_take(session, LIMIT_NS, &end));
	tcpx_notification_release(session, &end);
	wrong = wrong_bytes(memory);
	printf("%u bytes written by the other host, %zu wrong\n", BYTES, wrong);
	return wrong != 0;
}

static int write_to(tcpx_session *session, unsigned char *memory, const char *address)
{
	TCPX_OPTS(tcpx_request_opts, told, .notify = "written", .notify_bytes = 7);
	tcpx_notification token = {.sz = sizeof(token)};
	tcpx_segment piece = {.length = BYTES};
	tcpx_request request;
	tcpx_peer lender;

	for (size_t i = 0; i < BYTES; i++)
		memory[i] = (unsigned char)(i * 7);
	must("register", tcpx_region_register(session, memory, BYTES, NULL, &piece.local));
	must("connect", tcpx_session_connect_to(session, address, NULL, &lender));
	must("take the token", tcpx_notify_take(session, LIMIT_NS, &token));
	must("import", tcpx_region_import(session, lender, token.data, token.bytes, &piece.remote));
	tcpx_notification_release(session, &token);
	must("start",
	     tcpx_request_start(session, lender, TCPX_OP_WRITE, &piece, 1, &told, &request));
	must("wait", tcpx_request_wait(session, request, LIMIT_NS, NULL));
	printf("%u bytes written\n", BYTES);
	return 0;
}

int main(int argc, char **argv)
{
	static unsigned char memory[BYTES];
	tcpx_session *session;
	int failed;

	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: two_hosts KEYFILE [HOST[:PORT]]\n");
		return 2;
	}
	/* The default of bind is loopback, even when there is a key. */
	TCPX_OPTS(tcpx_session_opts, opts, .bind = "auto", .key_file = argv[1]);
	must("open", tcpx_session_open(&opts, &session));
	failed = argc == 2 ? lend(session, memory) : write_to(session, memory, argv[2]);
	tcpx_session_close(session);
	return failed;
}

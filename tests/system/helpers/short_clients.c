/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of a serve process that come, send notifications and go at once.
 * short_clients ADDRESS CLIENTS NOTES */
#include <stdio.h>
#include <stdlib.h>

#include <tcpx/tcpx.h>

static tcpx_status visit(const char *address, int notes)
{
	static const char text[16] = "not of perf";
	tcpx_session *session;
	tcpx_peer peer;
	tcpx_status status = tcpx_session_open(NULL, &session);

	if (status != TCPX_OK)
		return status;
	status = tcpx_session_connect_to(session, address, NULL, &peer);
	for (int i = 0; i < notes && status == TCPX_OK; i++)
		status = tcpx_notify_send(session, peer, text, sizeof(text));
	tcpx_session_close(session);
	return status;
}

int main(int argc, char **argv)
{
	int clients = argc == 4 ? atoi(argv[2]) : 0, came = 0;
	tcpx_session *keep; /* the library's threads, from one client to the next */

	if (!clients || tcpx_session_open(NULL, &keep) != TCPX_OK)
		return 2;
	for (int i = 0; i < clients; i++)
		came += visit(argv[1], atoi(argv[3])) == TCPX_OK;
	tcpx_session_close(keep);
	printf("%d\n", came);
	return !came;
}

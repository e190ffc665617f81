/* SPDX-License-Identifier: Apache-2.0 */
/* Notification ping-pong between two processes: half of a round trip, and every answer checked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <tcpx/tcpx.h>

#define ROUNDS 1000

static void must(const char *what, tcpx_status status)
{
	if (status == TCPX_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, tcpx_status_text(status), tcpx_last_error()->what);
	exit(1);
}

/* The answering process: its connection info goes to the other through the socket pair. */
static int answer(int pair_fd)
{
	unsigned char info[TCPX_INFO_MAX_BYTES];
	tcpx_notification message = {.sz = sizeof(message)};
	tcpx_session *session;
	uint16_t port;
	size_t len;

	must("open", tcpx_session_open(NULL, &session));
	must("listen", tcpx_session_listen(session, NULL, &port));
	must("info", tcpx_session_info(session, info, sizeof(info), &len));
	if (write(pair_fd, info, len) != (ssize_t)len || shutdown(pair_fd, SHUT_WR))
		return 1;
	for (int i = 0; i < ROUNDS; i++) {
		must("take", tcpx_notify_take(session, TCPX_WAIT_FOREVER, &message));
		must("send", tcpx_notify_send(session, message.peer, message.data, message.bytes));
		tcpx_notification_release(session, &message);
	}
	/* The other closes its end when it has the last answer. */
	if (read(pair_fd, info, 1) != 0)
		return 1;
	tcpx_session_close(session);
	return 0;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int ask(int pair_fd)
{
	unsigned char info[TCPX_INFO_MAX_BYTES];
	tcpx_notification message = {.sz = sizeof(message)};
	tcpx_session *session;
	tcpx_peer peer;
	ssize_t part;
	size_t len = 0;
	double begin;
	int wrong = 0;

	while ((part = read(pair_fd, info + len, sizeof(info) - len)) > 0)
		len += (size_t)part;
	must("open", tcpx_session_open(NULL, &session));
	must("connect", tcpx_session_connect(session, info, len, NULL, &peer));
	begin = seconds();
	for (int i = 0; i < ROUNDS; i++) {
		must("send", tcpx_notify_send(session, peer, &i, sizeof(i)));
		must("take", tcpx_notify_take(session, TCPX_WAIT_FOREVER, &message));
		wrong += message.bytes != sizeof(i) || memcmp(message.data, &i, sizeof(i));
		tcpx_notification_release(session, &message);
	}
	printf("%d rounds, half of one takes %.1f us on average, %d wrong answers\n", ROUNDS,
	       (seconds() - begin) / ROUNDS / 2 * 1e6, wrong);
	close(pair_fd);
	tcpx_session_close(session);
	return wrong != 0;
}

int main(void)
{
	int ends[2], status, failed;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || (child = fork()) < 0)
		return 1;
	if (child == 0) {
		close(ends[0]);
		return answer(ends[1]);
	}
	close(ends[1]);
	failed = ask(ends[0]);
	return waitpid(child, &status, 0) != child || status != 0 || failed;
}

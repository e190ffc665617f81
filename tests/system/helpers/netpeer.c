/* SPDX-License-Identifier: Apache-2.0 */
/* Reads commands, answers, and pumps the session in between. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "netpeer.h"

double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

void answer(const char *format, ...)
{
	va_list ap;

	fputs("= ", stdout);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

void answer_status(tcpx_status status)
{
	if (status == TCPX_OK)
		answer("ok");
	else
		answer("%s %s; next: %s", tcpx_status_name(status), tcpx_last_error()->what,
		       tcpx_last_error()->next);
}

static void take_notes(struct netpeer *np)
{
	tcpx_notification note = {.sz = sizeof(note)};

	while (!np->deaf && tcpx_notify_take(np->session, 0, &note) == TCPX_OK) {
		printf("note %zu %.9f %.*s\n", note.bytes, now(),
		       (int)(note.bytes < 100 ? note.bytes : 100), (const char *)note.data);
		if (np->echo && tcpx_notify_send(np->session, note.peer, note.data, note.bytes))
			printf("echo-failed %s\n", tcpx_last_error()->what);
		tcpx_notification_release(np->session, &note);
	}
}

void pump(struct netpeer *np)
{
	static const char *const names[] = {
		"",	     "peer-up",	       "peer-suspect", "peer-recovered",
		"peer-down", "peer-restarted", "channel-down", "channel-up"};
	tcpx_event event = {.sz = sizeof(event)};

	if (!np->session)
		return;
	take_completions(np);
	while (tcpx_session_event(np->session, &event) == TCPX_OK) {
		printf("event %s %s %.9f %" PRIu64 "\n", names[event.type & 7],
		       tcpx_status_name(event.status), now(), event.peer.id);
	}
	take_notes(np);
	fflush(stdout);
}

static int split(char *line, char **word)
{
	char *save, *next = strtok_r(line, " \n", &save);
	int words = 0;

	for (; next && words < WORDS; next = strtok_r(NULL, " \n", &save))
		word[words++] = next;
	return words;
}

/* 0: end of input or quit. */
static int handle_input(struct netpeer *np)
{
	static char text[65536];
	static size_t have;
	char *word[WORDS], *end;
	ssize_t n = read(STDIN_FILENO, text + have, sizeof(text) - 1 - have);
	int words;

	if (n <= 0)
		return n < 0 && errno == EINTR;
	have += (size_t)n;
	text[have] = 0;
	while ((end = strchr(text, '\n'))) {
		*end = 0;
		words = split(text, word);
		if (words && strcmp(word[0], "quit") == 0)
			return 0;
		if (words && !command_session(np, word, words) &&
		    !command_memory(np, word, words) && !command_load(np, word, words))
			answer("unknown command %s", word[0]);
		have -= (size_t)(end + 1 - text);
		memmove(text, end + 1, have + 1);
	}
	return 1;
}

int main(void)
{
	static struct netpeer np;
	struct pollfd pfd[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = -1}};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setvbuf(stdout, NULL, _IOFBF, 65536);
	for (;;) {
		pfd[1].fd = np.session ? tcpx_session_fd(np.session) : -1;
		pfd[1].events = np.deaf ? 0 : POLLIN;
		if (poll(pfd, 2, np.deaf ? 20 : -1) < 0 && errno != EINTR)
			return 1;
		pump(&np);
		if (pfd[0].revents && !handle_input(&np))
			break;
	}
	tcpx_session_close(np.session);
	return 0;
}

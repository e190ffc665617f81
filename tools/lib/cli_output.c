/* SPDX-License-Identifier: Apache-2.0 */
/* Output and exit of the tool. */
#include "cli_output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tcpx/log.h>

#include "base/text.h"
volatile sig_atomic_t cli_interrupted;

static const char *prefix = "tcpx";
static int live_shown;
static char error_text[1024];
static int stdout_err; /* errno of the first failed write to stdout */

void cli_interrupt(void)
{
	cli_interrupted = 1;
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
}

static void on_signal(int number)
{
	(void)number;
	cli_interrupt();
}

void cli_output_init(const char *name)
{
	static char buffer[64 << 10];
	struct sigaction act = {.sa_handler = on_signal};

	prefix = name;
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	act.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &act, NULL);
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer)); /* so that cli_flush() sees the errno */
}

static void cli_output_print_line(const char *format, va_list ap)
{
	cli_live("%s", "");
	cli_flush(stdout);
	text_vformat(error_text, sizeof(error_text), format, ap);
	fprintf(stderr, "%s: %s\n", prefix, error_text);
}

const char *cli_error_text(void)
{
	return error_text;
}

void cli_error(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	cli_output_print_line(format, ap);
	va_end(ap);
}

int cli_usage(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	cli_output_print_line(format, ap);
	va_end(ap);
	return CLI_USAGE;
}

/* Whether the text says in other words what the number of the system's error means. */
static int cli_output_tells(const tcpx_error *error)
{
	return (error->system_errno == EEXIST && strstr(error->what, "exists already")) ||
	       (error->system_errno == ENOENT && strstr(error->what, "there is no "));
}

int cli_fail(tcpx_status status, const char *format, ...)
{
	const tcpx_error *last = tcpx_last_error();
	const char *cause = last->system_errno ? strerror(last->system_errno) : "";
	char text[400]; /* long enough for a host name */
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (last->status == status && *last->what) {
		/* parts that the error contains already are not repeated */
		if (strcasestr(last->what, cause) || cli_output_tells(last))
			cause = "";
		if (strstr(last->what, text))
			*text = 0;
		cli_error("%s%s%s%s%s%s%s", text, *text ? ": " : "", last->what, *cause ? ": " : "",
			  cause, *last->next ? "; " : "", last->next);
	} else {
		const char *next = tcpx_status_next(status);

		cli_error("%s: %s%s%s", text, tcpx_status_text(status), *next ? "; " : "", next);
	}
	return status == TCPX_ERR_TIMED_OUT ? CLI_TIMED_OUT : CLI_FAILED;
}

static int use_colours(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fd) && !(no && *no) && !(term && !strcmp(term, "dumb"));
}

void cli_live(const char *format, ...)
{
	static int terminal = -1;
	char text[120];
	va_list ap;

	if (terminal < 0)
		terminal = isatty(STDERR_FILENO);
	if (!terminal)
		return;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (*text)
		fprintf(stderr, "\r\033[K%s", text);
	else if (live_shown)
		fprintf(stderr, "\r\033[K");
	live_shown = *text != 0;
	fflush(stderr);
}

const char *cli_red(void)
{
	return use_colours(STDOUT_FILENO) ? "\033[31m" : "";
}

const char *cli_green(void)
{
	return use_colours(STDOUT_FILENO) ? "\033[32m" : "";
}

const char *cli_plain(void)
{
	return use_colours(STDOUT_FILENO) ? "\033[0m" : "";
}

int cli_flush(FILE *out)
{
	errno = 0;
	if ((fflush(out) || ferror(out)) && out == stdout && !stdout_err)
		stdout_err = errno ? errno : EIO;
	return out == stdout && stdout_err ? -1 : 0;
}

int cli_finish(int code)
{
	cli_live("%s", "");
	if (!cli_flush(stdout))
		return code;
	if (stdout_err != EPIPE)
		cli_error("cannot write results: %s", strerror(stdout_err));
	return code ? code : CLI_FAILED;
}

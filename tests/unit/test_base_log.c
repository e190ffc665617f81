/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one line per call, where it was sent to, at the level asked for. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"

struct sink {
	int lines;
	enum tcpx_log_level level;
	char last[2048];
};

static void keep(void *arg, enum tcpx_log_level level, const char *line)
{
	struct sink *sink = arg;

	sink->lines++;
	sink->level = level;
	snprintf(sink->last, sizeof(sink->last), "%s", line);
	errno = EIO; /* a careless application */
}

static void the_sink_gets_lines_of_its_level(void **state)
{
	struct sink sink = {0};

	(void)state;
	log_sink_set(keep, &sink, TCPX_LOG_INFO);
	errno = EDOM;
	LOG_INFO("peer %d", 5);
	assert_int_equal(errno, EDOM);
	assert_string_equal(sink.last, "peer 5");
	assert_int_equal(sink.level, TCPX_LOG_INFO);
	LOG_DEBUG("not shown");
	assert_int_equal(sink.lines, 1);
	log_sink_set(keep, &sink, TCPX_LOG_TRACE);
	LOG_DEBUG("shown");
	assert_int_equal(sink.lines, 2);
	log_level_default(TCPX_LOG_ERROR); /* the application's word stands */
	LOG_DEBUG("shown");
	assert_int_equal(sink.lines, 3);
	log_sink_set(NULL, NULL, TCPX_LOG_WARN);
}

static void one_line_stays_one_line(void **state)
{
	struct sink sink = {0};

	(void)state;
	log_sink_set(keep, &sink, TCPX_LOG_WARN);
	LOG_WARN("name %s", "a\nb\x1b[31m\x7f");
	assert_string_equal(sink.last, "name a?b?[31m?");
	log_sink_set(NULL, NULL, TCPX_LOG_WARN);
}

static size_t written_by(void (*fn)(void), char *out, size_t cap)
{
	int fds[2], saved = dup(2);
	ssize_t len;

	assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
	dup2(fds[1], 2);
	fn();
	dup2(saved, 2);
	close(saved);
	len = read(fds[0], out, cap - 1);
	close(fds[0]);
	close(fds[1]);
	len = len < 0 ? 0 : len;
	out[len] = '\0';
	return (size_t)len;
}

static void write_two(void)
{
	LOG_WARN("first %s", "x");
	LOG_ERROR("second");
	LOG_INFO("below the level");
}

static void write_long(void)
{
	char text[5000];

	memset(text, 'y', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	LOG_WARN("%s", text);
}

static void stderr_by_default(void **state)
{
	char text[4096];
	size_t len;

	(void)state;
	log_sink_set(NULL, NULL, TCPX_LOG_WARN);
	written_by(write_two, text, sizeof(text));
	assert_string_equal(text, "tcpx: WARN first x\ntcpx: ERROR second\n");
	len = written_by(write_long, text, sizeof(text));
	assert_in_range(len, 500, 1024); /* cut, and still a line */
	assert_int_equal(text[len - 1], '\n');
}

static void bursts_are_cut_and_counted(void **state)
{
	struct log_limit limit = {0};
	struct sink sink = {0};
	int allowed = 0;

	(void)state;
	log_sink_set(keep, &sink, TCPX_LOG_WARN);
	for (int i = 0; i < 100; i++)
		allowed += log_allow(&limit, 3);
	assert_int_equal(allowed, 3);
	assert_int_equal(limit.dropped, 97);
	assert_int_equal(sink.lines, 0);
	limit.window_ns -= 20000000000LL; /* as if 20 s had passed */
	assert_int_equal(log_allow(&limit, 3), 1);
	assert_string_equal(sink.last, "97 lines like the next one were left out");
	assert_int_equal(limit.dropped, 0);
	log_sink_set(NULL, NULL, TCPX_LOG_WARN);
}

static bool is_second(const char *line)
{
	return !strcmp(line, "second");
}

static void a_filter_hides_all_but_errors(void **state)
{
	struct sink sink = {0};

	(void)state;
	log_sink_set(keep, &sink, TCPX_LOG_WARN);
	log_filter(is_second);
	LOG_WARN("first");
	assert_int_equal(sink.lines, 0);
	LOG_WARN("second");
	assert_string_equal(sink.last, "second");
	LOG_ERROR("third");
	assert_string_equal(sink.last, "third");
	log_filter(NULL);
	LOG_WARN("fourth");
	assert_string_equal(sink.last, "fourth");
	log_sink_set(NULL, NULL, TCPX_LOG_WARN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sink_gets_lines_of_its_level),
		cmocka_unit_test(one_line_stays_one_line),
		cmocka_unit_test(stderr_by_default),
		cmocka_unit_test(bursts_are_cut_and_counted),
		cmocka_unit_test(a_filter_hides_all_but_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

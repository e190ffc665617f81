/* SPDX-License-Identifier: Apache-2.0 */
/* Connection info in a file that all ranks see: "tcpx rendezvous 1 JOB" and the info in hex. It
 * is written under another name with mode 0600 and renamed, so that nobody reads a part of it or
 * before its mode is set. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "launch.h"

#define HEAD "tcpx rendezvous 1 "
#define HEAD_MAX 128

static tcpx_status cannot(const char *what, const char *path)
{
	(void)error_set(TCPX_ERR_SYSTEM, errno, "%s rendezvous file %s", what, path);
	return error_next("name one in a folder that all ranks can write: TCPX_RENDEZVOUS");
}

static int launch_file_put(int fd, const char *job, const uint8_t *info, size_t bytes)
{
	FILE *file = fdopen(fd, "w");
	int bad;

	if (!file) {
		close(fd);
		return -1;
	}
	fprintf(file, HEAD "%s\n", *job ? job : "-");
	for (size_t i = 0; i < bytes; i++)
		fprintf(file, "%02x", info[i]);
	bad = fputc('\n', file) == EOF || fflush(file) || fsync(fd);
	return fclose(file) || bad ? -1 : 0;
}

tcpx_status launch_file_give(const char *path, const char *job, const void *info, size_t bytes)
{
	char beside[LAUNCH_TEXT_MAX + 8];
	int fd;

	snprintf(beside, sizeof(beside), "%s.XXXXXX", path);
	fd = mkostemp(beside, O_CLOEXEC); /* mode 0600 */
	if (fd < 0)
		return cannot("writing", path);
	if (!launch_file_put(fd, job, info, bytes) && !rename(beside, path))
		return TCPX_OK;
	(void)cannot("writing", path);
	(void)unlink(beside);
	return tcpx_last_error()->status;
}

/* A user who can write the file could redirect ranks, and one who can read it could pose as a
 * rank. */
static tcpx_status check_owner(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st))
		return cannot("reading", path);
	if (S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077))
		return TCPX_OK;
	(void)error_set(TCPX_ERR_AUTH, 0,
			"rendezvous file %s is not a file of this user with mode 0600", path);
	return error_next("remove it, or name another in TCPX_RENDEZVOUS");
}

static int digit(int c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Other contents are left by another run and will be replaced soon. */
static tcpx_status launch_file_parse(FILE *file, const char *job, uint8_t *buf, size_t cap,
				     size_t *out_bytes)
{
	char head[HEAD_MAX] = "", want[HEAD_MAX];
	size_t count = 0;
	int c, high;

	snprintf(want, sizeof(want), HEAD "%s\n", *job ? job : "-");
	if (!fgets(head, sizeof(head), file) || strcmp(head, want) != 0)
		return TCPX_IN_PROGRESS;
	while ((c = fgetc(file)) != '\n') {
		high = digit(c);
		c = high < 0 ? -1 : digit(fgetc(file));
		if (c < 0 || count == cap)
			return TCPX_IN_PROGRESS;
		buf[count++] = (uint8_t)(high << 4 | c);
	}
	*out_bytes = count;
	return TCPX_OK;
}

tcpx_status launch_file_take(const char *path, const char *job, void *buf, size_t cap,
			     size_t *out_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	tcpx_status status;
	FILE *file;

	if (fd < 0 && (errno == ENOENT || errno == ESTALE))
		return TCPX_IN_PROGRESS;
	if (fd < 0)
		return cannot("reading", path);
	status = check_owner(fd, path);
	file = status == TCPX_OK ? fdopen(fd, "r") : NULL;
	if (!file) {
		status = status == TCPX_OK ? cannot("reading", path) : status;
		close(fd);
		return status;
	}
	status = launch_file_parse(file, job, buf, cap, out_bytes);
	fclose(file);
	return status;
}

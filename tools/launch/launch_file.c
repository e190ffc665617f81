/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connection info in a file that all ranks see: "tcpx rendezvous 1 JOB" and the info in hex. Made
 * beside its place with mode 0600 and renamed, so nobody reads half of it or before its mode.
 */
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

static int put(int fd, const char *job, const uint8_t *info, size_t bytes)
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
	if (!put(fd, job, info, bytes) && !rename(beside, path))
		return TCPX_OK;
	(void)cannot("writing", path);
	(void)unlink(beside);
	return tcpx_last_error()->status;
}

/* Whoever can write it could bring us to himself, whoever can read it could be one of us. */
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

/* What is no info of this job is one of another run, which ours replaces soon. */
static tcpx_status parse(FILE *file, const char *job, uint8_t *buf, size_t cap, size_t *out_bytes)
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
	status = parse(file, job, buf, cap, out_bytes);
	fclose(file);
	return status;
}

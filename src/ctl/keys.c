/* SPDX-License-Identifier: Apache-2.0 */
/* Key files: one or two shared keys as text, readable by their owner alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "ctl/conn.h"
#include "sys/crypto.h"
#include "sys/fd.h"
#include "sys/sock.h"

#define FILE_MAX 4096
#define LINE_BYTES (2 * CTL_KEY_BYTES + 1)

static tcpx_status system_error(const char *path, int err, const char *what)
{
	if (err == EMFILE || err == ENFILE)
		return error_set(TCPX_ERR_NO_DESCRIPTORS, err, "%s key file %.100s", what, path);
	error_set(TCPX_ERR_SYSTEM, err, "cannot %s key file %.100s", what, path);
	return error_next("check the path and who may read and write there");
}

/* The file must be ours (or root's) and nobody else's to read. */
static tcpx_status check_owner(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st))
		return system_error(path, errno, "look at");
	if (!S_ISREG(st.st_mode)) {
		error_set(TCPX_ERR_AUTH, 0, "key file %.100s is not a regular file", path);
		return error_next("name a file that 'tcpx key new' made");
	}
	if (st.st_uid != geteuid() && st.st_uid != 0) {
		error_set(TCPX_ERR_AUTH, 0, "key file %.100s belongs to user %u", path, st.st_uid);
		return error_next("chown %u %.70s", geteuid(), path);
	}
	if (st.st_mode & (S_IRWXG | S_IRWXO)) {
		error_set(TCPX_ERR_AUTH, 0, "key file %.100s has mode %04o: others may use it",
			  path, st.st_mode & 07777);
		return error_next("chmod 600 %.80s", path);
	}
	return TCPX_OK;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* 64 hex digits and nothing else. */
static int parse_key(const char *text, size_t len, uint8_t key[CTL_KEY_BYTES])
{
	if (len != 2 * CTL_KEY_BYTES)
		return 0;
	for (size_t i = 0; i < CTL_KEY_BYTES; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return 0;
		key[i] = (uint8_t)(high << 4 | low);
	}
	return 1;
}

static tcpx_status key_id(const uint8_t key[CTL_KEY_BYTES], uint64_t *out_id)
{
	const struct sys_span span = {"tcpx key id", 11};
	uint8_t digest[32];
	uint64_t id = 0;
	tcpx_status status = sys_hmac_sha256(key, &span, 1, digest);

	if (status != TCPX_OK)
		return status;
	for (int i = 0; i < 8; i++)
		id |= (uint64_t)digest[i] << (8 * i);
	*out_id = id;
	return TCPX_OK;
}

static tcpx_status parse_line(const char *text, size_t len, unsigned number, const char *path,
			      struct ctl_keys *keys)
{
	while (len && strchr(" \t\r", *text))
		text++, len--;
	while (len && strchr(" \t\r", text[len - 1]))
		len--;
	if (!len || *text == '#')
		return TCPX_OK;
	if (keys->count == 2) {
		error_set(TCPX_ERR_AUTH, 0, "key file %.100s has more than two keys", path);
		return error_next("remove the oldest line");
	}
	if (!parse_key(text, len, keys->key[keys->count])) {
		error_set(TCPX_ERR_AUTH, 0, "key file %.100s, line %u: not 64 hex digits", path,
			  number);
		return error_next("make a key with 'tcpx key new FILE'");
	}
	keys->count++;
	return TCPX_OK;
}

static tcpx_status read_all(int fd, const char *path, char *buf, size_t *out_len)
{
	size_t len = 0;

	for (;;) {
		ssize_t got = read(fd, buf + len, FILE_MAX - len);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return system_error(path, errno, "read");
		if (got == 0)
			break;
		len += (size_t)got;
		if (len == FILE_MAX) {
			error_set(TCPX_ERR_AUTH, 0, "key file %.100s is longer than %d bytes", path,
				  FILE_MAX - 1);
			return error_next("name a file that 'tcpx key new' made");
		}
	}
	*out_len = len;
	return TCPX_OK;
}

static tcpx_status parse_file(int fd, const char *path, struct ctl_keys *keys, int *ends_line)
{
	char buf[FILE_MAX];
	size_t len = 0, pos = 0;
	unsigned number = 0;
	tcpx_status status = read_all(fd, path, buf, &len);

	keys->count = 0;
	while (status == TCPX_OK && pos < len) {
		const char *end = memchr(buf + pos, '\n', len - pos);
		size_t line = end ? (size_t)(end - buf) - pos : len - pos;

		status = parse_line(buf + pos, line, ++number, path, keys);
		pos += line + (end != NULL);
	}
	*ends_line = !len || buf[len - 1] == '\n';
	explicit_bzero(buf, sizeof(buf));
	return status;
}

static tcpx_status open_file(const char *path, int flags, int *out_fd)
{
	/* NONBLOCK: a path that is a pipe must not hang us. */
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);

	if (fd >= 0) {
		*out_fd = fd;
		return TCPX_OK;
	}
	if (!(flags & O_CREAT) && (errno == ENOENT || errno == ENOTDIR)) {
		error_set(TCPX_ERR_NOT_FOUND, errno, "there is no key file %.100s", path);
		return error_next("make one with 'tcpx key new %.60s'", path);
	}
	if (errno == EEXIST) {
		error_set(TCPX_ERR_EXISTS, errno, "key file %.100s is there already", path);
		return error_next("use another name, or append a second key to it");
	}
	return system_error(path, errno, "open");
}

tcpx_status ctl_keys_load(const char *path, struct ctl_keys *out_keys)
{
	struct ctl_keys keys = {0};
	int fd = -1, ends_line;
	tcpx_status status = open_file(path, O_RDONLY, &fd);

	if (status != TCPX_OK)
		return status;
	status = check_owner(fd, path);
	if (status == TCPX_OK)
		status = parse_file(fd, path, &keys, &ends_line);
	sys_fd_close(fd);
	if (status == TCPX_OK && !keys.count) {
		error_set(TCPX_ERR_AUTH, 0, "key file %.100s holds no key", path);
		status = error_next("make a key with 'tcpx key new FILE'");
	}
	for (unsigned i = 0; status == TCPX_OK && i < keys.count; i++)
		status = key_id(keys.key[i], &keys.id[i]);
	if (status == TCPX_OK)
		*out_keys = keys;
	explicit_bzero(&keys, sizeof(keys));
	return status;
}

/* The fresh key as one line, after an end of line when the file lacks its last one. */
static tcpx_status write_key(int fd, const char *path, int ends_line)
{
	uint8_t key[CTL_KEY_BYTES];
	char text[LINE_BYTES + 2], *line = text + 1;
	size_t len = LINE_BYTES;
	tcpx_status status = sys_random(key, sizeof(key));
	ssize_t put;

	if (status != TCPX_OK)
		return status;
	text[0] = '\n';
	for (size_t i = 0; i < sizeof(key); i++)
		snprintf(line + 2 * i, 3, "%02x", key[i]);
	line[len - 1] = '\n';
	if (!ends_line) {
		line = text;
		len++;
	}
	put = write(fd, line, len);
	if (put < 0 || fsync(fd))
		status = system_error(path, errno, "write");
	else if ((size_t)put != len)
		status = system_error(path, ENOSPC, "write");
	explicit_bzero(key, sizeof(key));
	explicit_bzero(text, sizeof(text));
	return status;
}

static tcpx_status append_key(const char *path)
{
	struct ctl_keys keys = {0};
	struct stat st;
	int fd = -1, ends_line;
	tcpx_status status = open_file(path, O_RDWR | O_APPEND, &fd);

	if (status != TCPX_OK)
		return status;
	if (flock(fd, LOCK_EX))
		status = system_error(path, errno, "lock");
	if (status == TCPX_OK)
		status = check_owner(fd, path);
	if (status == TCPX_OK)
		status = parse_file(fd, path, &keys, &ends_line);
	if (status == TCPX_OK && keys.count == 2) {
		error_set(TCPX_ERR_LIMIT, 0, "key file %.100s has two keys already", path);
		status = error_next("remove the line of the older key first");
	}
	if (status == TCPX_OK && fstat(fd, &st))
		status = system_error(path, errno, "look at");
	if (status == TCPX_OK) {
		status = write_key(fd, path, ends_line);
		/* Half a line would spoil the key that works. */
		if (status != TCPX_OK && ftruncate(fd, st.st_size))
			LOG_WARN("key file %s may end in half a line", path);
	}
	explicit_bzero(&keys, sizeof(keys));
	sys_fd_close(fd);
	return status;
}

tcpx_status ctl_keys_create(const char *path, int append)
{
	int fd = -1;
	tcpx_status status;

	if (append)
		return append_key(path);
	status = open_file(path, O_WRONLY | O_CREAT | O_EXCL, &fd);
	if (status != TCPX_OK)
		return status;
	status = write_key(fd, path, 1);
	sys_fd_close(fd);
	if (status != TCPX_OK)
		unlink(path);
	return status;
}

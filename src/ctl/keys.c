/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes key files (one or two shared keys as text) and identity files (the secret key
 * of a session). Only their owner may read them. */
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
#define WORD_MAX 16

/* What distinguishes key files from identity files. A file of one kind is refused where the other
 * kind is wanted, because a key that several hosts share does not identify a session. */
struct key_file_kind {
	const char *name, *word; /* `word` begins each line */
	unsigned keys;		 /* most keys in a file */
	const char *maker;	 /* command that makes such a file */
};

static const struct key_file_kind key_file = {"key file", "", 2, "tcpx key new"};
static const struct key_file_kind identity_file = {"identity file", "identity ", 1,
						   "tcpx key identity"};

static tcpx_status key_file_error(const struct key_file_kind *kind, const char *path, int err,
				  const char *what)
{
	if (err == EMFILE || err == ENFILE)
		return error_set(TCPX_ERR_NO_DESCRIPTORS, err, "%s %s %.100s", what, kind->name,
				 path);
	error_set(TCPX_ERR_SYSTEM, err, "cannot %s %s %.100s", what, kind->name, path);
	return error_next("check the path and its permissions");
}

/* Checks that the file is regular, belongs to this user or root, and is inaccessible to others.
 * Returns ERR_AUTH if not; the error says how to change this. */
static tcpx_status check_owner(const struct key_file_kind *kind, int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st))
		return key_file_error(kind, path, errno, "look at");
	if (!S_ISREG(st.st_mode)) {
		error_set(TCPX_ERR_AUTH, 0, "%s %.100s is not a regular file", kind->name, path);
		return error_next("name a file that '%s' made", kind->maker);
	}
	if (st.st_uid != geteuid() && st.st_uid != 0) {
		error_set(TCPX_ERR_AUTH, 0, "%s %.100s belongs to user %u", kind->name, path,
			  st.st_uid);
		return error_next("chown %u %.70s", geteuid(), path);
	}
	if (st.st_mode & (S_IRWXG | S_IRWXO)) {
		error_set(TCPX_ERR_AUTH, 0, "%s %.100s has mode %04o: others may use it",
			  kind->name, path, st.st_mode & 07777);
		return error_next("chmod 600 %.80s", path);
	}
	return TCPX_OK;
}

static int key_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void ctl_key_text(const uint8_t key[CTL_KEY_BYTES], char out_text[CTL_KEY_TEXT])
{
	for (size_t i = 0; i < CTL_KEY_BYTES; i++)
		snprintf(out_text + 2 * i, 3, "%02x", key[i]);
}

int ctl_key_parse(const char *text, size_t len, uint8_t key[CTL_KEY_BYTES])
{
	if (len != 2 * CTL_KEY_BYTES)
		return 0;
	for (size_t i = 0; i < CTL_KEY_BYTES; i++) {
		int high = key_hex_digit(text[2 * i]), low = key_hex_digit(text[2 * i + 1]);

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

/* Parses one line and adds its key to `keys`. Skips blank lines and comments. Returns ERR_AUTH if
 * the line is malformed or the file has too many keys. */
static tcpx_status key_file_parse_line(const struct key_file_kind *kind, const char *text,
				       size_t len, unsigned number, const char *path,
				       struct ctl_keys *keys)
{
	size_t word = strlen(kind->word);

	while (len && strchr(" \t\r", *text))
		text++, len--;
	while (len && strchr(" \t\r", text[len - 1]))
		len--;
	if (!len || *text == '#')
		return TCPX_OK;
	if (keys->count == kind->keys) {
		error_set(TCPX_ERR_AUTH, 0, "%s %.100s has more than %u keys", kind->name, path,
			  kind->keys);
		return error_next("remove the oldest line");
	}
	if (len < word || memcmp(text, kind->word, word) != 0 ||
	    !ctl_key_parse(text + word, len - word, keys->key[keys->count])) {
		error_set(TCPX_ERR_AUTH, 0, "%s %.100s, line %u: not %s64 hex digits", kind->name,
			  path, number, kind->word);
		return error_next("make one with '%s FILE'", kind->maker);
	}
	keys->count++;
	return TCPX_OK;
}

static tcpx_status key_file_read(const struct key_file_kind *kind, int fd, const char *path,
				 char *buf, size_t *out_len)
{
	size_t len = 0;

	for (;;) {
		ssize_t got = read(fd, buf + len, FILE_MAX - len);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return key_file_error(kind, path, errno, "read");
		if (got == 0)
			break;
		len += (size_t)got;
		if (len == FILE_MAX) {
			error_set(TCPX_ERR_AUTH, 0, "%s %.100s is longer than %d bytes", kind->name,
				  path, FILE_MAX - 1);
			return error_next("name a file that '%s' made", kind->maker);
		}
	}
	*out_len = len;
	return TCPX_OK;
}

/* Parses a whole file. Sets *ends_line to 1 if the file is empty or ends with a line feed, else to
 * 0. */
static tcpx_status key_file_parse(const struct key_file_kind *kind, int fd, const char *path,
				  struct ctl_keys *keys, int *ends_line)
{
	char buf[FILE_MAX];
	size_t len = 0, pos = 0;
	unsigned number = 0;
	tcpx_status status = key_file_read(kind, fd, path, buf, &len);

	keys->count = 0;
	while (status == TCPX_OK && pos < len) {
		const char *end = memchr(buf + pos, '\n', len - pos);
		size_t line = end ? (size_t)(end - buf) - pos : len - pos;

		status = key_file_parse_line(kind, buf + pos, line, ++number, path, keys);
		pos += line + (end != NULL);
	}
	*ends_line = !len || buf[len - 1] == '\n';
	explicit_bzero(buf, sizeof(buf));
	return status;
}

static tcpx_status key_file_open(const struct key_file_kind *kind, const char *path, int flags,
				 int *out_fd)
{
	/* O_NONBLOCK, so that opening a pipe does not block */
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);

	if (fd >= 0) {
		*out_fd = fd;
		return TCPX_OK;
	}
	if (!(flags & O_CREAT) && (errno == ENOENT || errno == ENOTDIR)) {
		error_set(TCPX_ERR_NOT_FOUND, errno, "there is no %s %.100s", kind->name, path);
		return error_next(kind->keys > 1
					  ? "copy the other host's file here, or make one with "
					    "'%s %.60s' and copy it there"
					  : "make one with '%s %.60s'",
				  kind->maker, path);
	}
	if (errno == EEXIST) {
		error_set(TCPX_ERR_EXISTS, errno, "%s %.100s exists already", kind->name, path);
		return error_next(kind->keys > 1 ? "use another name, or append a second key to it"
						 : "use another name, or remove it first");
	}
	return key_file_error(kind, path, errno, "open");
}

static tcpx_status load_key_file(const struct key_file_kind *kind, const char *path,
				 struct ctl_keys *out_keys)
{
	int fd = -1, ends_line;
	tcpx_status status = key_file_open(kind, path, O_RDONLY, &fd);

	if (status != TCPX_OK)
		return status;
	status = check_owner(kind, fd, path);
	if (status == TCPX_OK)
		status = key_file_parse(kind, fd, path, out_keys, &ends_line);
	sys_fd_close(fd);
	if (status == TCPX_OK && !out_keys->count) {
		error_set(TCPX_ERR_AUTH, 0, "%s %.100s holds no key", kind->name, path);
		status = error_next("make one with '%s FILE'", kind->maker);
	}
	return status;
}

tcpx_status ctl_keys_load(const char *path, struct ctl_keys *out_keys)
{
	struct ctl_keys keys = {0};
	tcpx_status status = load_key_file(&key_file, path, &keys);

	for (unsigned i = 0; status == TCPX_OK && i < keys.count; i++)
		status = key_id(keys.key[i], &keys.id[i]);
	if (status == TCPX_OK)
		*out_keys = keys;
	explicit_bzero(&keys, sizeof(keys));
	return status;
}

tcpx_status ctl_identity_load(const char *path, struct ctl_identity *out_identity)
{
	struct ctl_identity identity = {.there = true};
	struct ctl_keys keys = {0};
	tcpx_status status = load_key_file(&identity_file, path, &keys);

	memcpy(identity.secret, keys.key[0], sizeof(identity.secret));
	if (status == TCPX_OK)
		status = sys_sign_public(identity.secret, identity.public_key);
	if (status == TCPX_OK)
		*out_identity = identity;
	explicit_bzero(&keys, sizeof(keys));
	explicit_bzero(&identity, sizeof(identity));
	return status;
}

/* Writes a fresh key as one line, after a line feed if the file does not end with one. */
static tcpx_status key_file_write(const struct key_file_kind *kind, int fd, const char *path,
				  int ends_line)
{
	uint8_t key[CTL_KEY_BYTES];
	char text[WORD_MAX + LINE_BYTES + 2], *line = text + 1;
	size_t word = strlen(kind->word), len = word + LINE_BYTES;
	tcpx_status status = sys_random(key, sizeof(key));
	ssize_t put;

	if (status != TCPX_OK)
		return status;
	text[0] = '\n';
	memcpy(line, kind->word, word);
	for (size_t i = 0; i < sizeof(key); i++)
		snprintf(line + word + 2 * i, 3, "%02x", key[i]);
	line[len - 1] = '\n';
	if (!ends_line) {
		line = text;
		len++;
	}
	put = write(fd, line, len);
	if (put < 0 || fsync(fd))
		status = key_file_error(kind, path, errno, "write");
	else if ((size_t)put != len)
		status = key_file_error(kind, path, ENOSPC, "write");
	explicit_bzero(key, sizeof(key));
	explicit_bzero(text, sizeof(text));
	return status;
}

static tcpx_status key_file_append(const char *path)
{
	const struct key_file_kind *kind = &key_file;
	struct ctl_keys keys = {0};
	struct stat st;
	int fd = -1, ends_line;
	tcpx_status status = key_file_open(kind, path, O_RDWR | O_APPEND, &fd);

	if (status != TCPX_OK)
		return status;
	if (flock(fd, LOCK_EX))
		status = key_file_error(kind, path, errno, "lock");
	if (status == TCPX_OK)
		status = check_owner(kind, fd, path);
	if (status == TCPX_OK)
		status = key_file_parse(kind, fd, path, &keys, &ends_line);
	if (status == TCPX_OK && keys.count == 2) {
		error_set(TCPX_ERR_LIMIT, 0, "key file %.100s has two keys already", path);
		status = error_next("remove the line of the older key first");
	}
	if (status == TCPX_OK && fstat(fd, &st))
		status = key_file_error(kind, path, errno, "look at");
	if (status == TCPX_OK) {
		status = key_file_write(kind, fd, path, ends_line);
		/* A file that ends with half a line is refused, including its valid key. So cut the
		 * file to its former size. */
		if (status != TCPX_OK && ftruncate(fd, st.st_size))
			LOG_WARN("key file %s may end in half a line", path);
	}
	explicit_bzero(&keys, sizeof(keys));
	sys_fd_close(fd);
	return status;
}

static tcpx_status create_key_file(const struct key_file_kind *kind, const char *path)
{
	int fd = -1;
	tcpx_status status = key_file_open(kind, path, O_WRONLY | O_CREAT | O_EXCL, &fd);

	if (status != TCPX_OK)
		return status;
	status = key_file_write(kind, fd, path, 1);
	sys_fd_close(fd);
	if (status != TCPX_OK)
		unlink(path);
	return status;
}

tcpx_status ctl_keys_create(const char *path, int append)
{
	return append ? key_file_append(path) : create_key_file(&key_file, path);
}

tcpx_status ctl_identity_create(const char *path)
{
	return create_key_file(&identity_file, path);
}

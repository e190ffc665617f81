/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of keys. */
#include "cli_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli_secret.h"
#include "sys/crypto.h"

#define KEY_BYTES (CLI_KEY_DIGITS / 2)
#define FILE_MAX 4096 /* same limit as in the library */

/* Parses a line that begins with exactly 64 hex digits. */
static bool parse_key(const char *line, size_t len, uint8_t key[KEY_BYTES])
{
	if (cli_hex_digits(line, len) != CLI_KEY_DIGITS)
		return false;
	for (unsigned i = 0; i < CLI_KEY_DIGITS; i++) {
		char c = line[i];
		uint8_t digit = (uint8_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);

		key[i / 2] = (uint8_t)(key[i / 2] << 4 | digit);
	}
	return true;
}

/* Adds the id that handshakes contain: the first 8 bytes of HMAC(key, "tcpx key id"). */
static tcpx_status add_key_id(const uint8_t key[KEY_BYTES], struct cli_key_ids *ids)
{
	const struct sys_span span = {"tcpx key id", 11};
	uint8_t id[32];
	tcpx_status status = sys_hmac_sha256(key, &span, 1, id);

	if (status == TCPX_OK && ids->count < CLI_KEY_IDS_MAX)
		for (unsigned i = 0; i < 8; i++)
			snprintf(ids->ids[ids->count] + 2 * i, 3, "%02x", id[i]);
	ids->count += status == TCPX_OK;
	return status;
}

/* Reads without stdio, whose buffer would be freed with the keys in it. 0, or -1 with errno. */
static int read_key_file(const char *path, char *buf, size_t size, size_t *out_len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	size_t len = 0;
	ssize_t got = 1;

	if (fd < 0)
		return -1;
	while (len < size && got) {
		got = read(fd, buf + len, size - len);
		if (got < 0 && errno != EINTR)
			break;
		len += got > 0 ? (size_t)got : 0;
	}
	if (got < 0)
		err = errno;
	else if (len == size)
		err = EFBIG;
	close(fd);
	*out_len = len;
	errno = err;
	return err ? -1 : 0;
}

int cli_key_read(const char *path, struct cli_key_ids *out_ids, tcpx_status *out_status)
{
	char buf[FILE_MAX];
	uint8_t key[KEY_BYTES];
	size_t len = 0, pos = 0;
	int failed = read_key_file(path, buf, sizeof(buf), &len), err = errno;

	*out_status = TCPX_OK;
	out_ids->count = 0;
	while (!failed && *out_status == TCPX_OK && pos < len) {
		const char *end = memchr(buf + pos, '\n', len - pos);
		size_t line = end ? (size_t)(end - buf) - pos : len - pos;

		if (parse_key(buf + pos, line, key))
			*out_status = add_key_id(key, out_ids);
		pos += line + 1;
	}
	explicit_bzero(key, sizeof(key));
	explicit_bzero(buf, sizeof(buf));
	errno = err;
	return failed;
}

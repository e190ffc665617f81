/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of keys. */
#include "cli_key.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sys/crypto.h"

#define KEY_BYTES 32

/* 64 hex digits to 32 bytes. 0; -1 when the line is no key. */
static int parse_key(const char *line, uint8_t key[KEY_BYTES])
{
	if (strspn(line, "0123456789abcdefABCDEF") != 2 * KEY_BYTES)
		return -1;
	for (unsigned i = 0; i < KEY_BYTES; i++)
		if (sscanf(line + 2 * i, "%2hhx", &key[i]) != 1)
			return -1;
	return 0;
}

/* The id that hellos carry: the first 8 bytes of HMAC(key, "tcpx key id"). */
static tcpx_status take_id(const uint8_t key[KEY_BYTES], struct cli_key_ids *ids)
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

int cli_key_read(const char *path, struct cli_key_ids *out_ids, tcpx_status *out_status)
{
	uint8_t key[KEY_BYTES];
	char line[256];
	FILE *f = fopen(path, "re");
	int err;

	*out_status = TCPX_OK;
	out_ids->count = 0;
	if (!f)
		return -1;
	while (*out_status == TCPX_OK && fgets(line, sizeof(line), f))
		if (!parse_key(line, key))
			*out_status = take_id(key, out_ids);
	explicit_bzero(key, sizeof(key));
	explicit_bzero(line, sizeof(line));
	err = ferror(f) ? errno : 0;
	fclose(f);
	errno = err;
	return err ? -1 : 0;
}

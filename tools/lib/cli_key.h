/* SPDX-License-Identifier: Apache-2.0 */
/* The ids of the keys in a key file; nothing of a key itself leaves here. */
#ifndef TOOLS_CLI_KEY_H
#define TOOLS_CLI_KEY_H

#include <tcpx/types.h>

#define CLI_KEY_IDS_MAX 16
#define CLI_KEY_ID_TEXT 17

struct cli_key_ids {
	unsigned count; /* keys in the file; ids beyond the array are dropped */
	char ids[CLI_KEY_IDS_MAX][CLI_KEY_ID_TEXT];
};

/* Lines without a key are skipped. 0, or -1 with errno; *out_status: the status of the crypto
 * library, also as the last error. */
int cli_key_read(const char *path, struct cli_key_ids *out_ids, tcpx_status *out_status);

#endif

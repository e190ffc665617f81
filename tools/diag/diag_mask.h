/* SPDX-License-Identifier: Apache-2.0 */
/* What is written down for others to read: keys never, addresses and names of hosts on demand. */
#ifndef TOOLS_DIAG_MASK_H
#define TOOLS_DIAG_MASK_H

#include <stddef.h>
#include <stdio.h>

#define DIAG_MASK_MAX 512
#define DIAG_WORD_MAX 64

/* Words are replaced by "ip-1", "mac-2", "host-1": the same word by the same one, all over. */
struct diag_mask {
	int addresses; /* IP addresses, MAC addresses and this host's name as well */
	char host[65];
	unsigned count;
	struct {
		char word[DIAG_WORD_MAX];
		const char *kind;
		unsigned number;
	} seen[DIAG_MASK_MAX];
};

void diag_mask_init(struct diag_mask *mask, int addresses);

/* Writes text as it may be shown. 64 hex digits in a row may be a key: "(hidden)". */
void diag_mask_write(struct diag_mask *mask, const char *text, size_t len, FILE *out);

#endif

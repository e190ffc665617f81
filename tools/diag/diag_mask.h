/* SPDX-License-Identifier: Apache-2.0 */
/* Masks text that others will read: keys always, addresses and host names on request. */
#ifndef TOOLS_DIAG_MASK_H
#define TOOLS_DIAG_MASK_H

#include <stddef.h>
#include <stdio.h>

#define DIAG_MASK_MAX 512
#define DIAG_WORD_MAX 64

/* Words are replaced by "ip-1", "mac-2", "host-1", equal words by equal ones everywhere. */
struct diag_mask {
	int addresses; /* mask IP addresses, MAC addresses and the name of this host as well */
	char host[65];
	unsigned count;
	struct {
		char word[DIAG_WORD_MAX];
		const char *kind;
		unsigned number;
	} seen[DIAG_MASK_MAX];
};

void diag_mask_init(struct diag_mask *mask, int addresses);

/* Writes the masked text. 64 consecutive hex digits may be a key and become "(hidden)". */
void diag_mask_write(struct diag_mask *mask, const char *text, size_t len, FILE *out);

#endif

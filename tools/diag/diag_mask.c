/* SPDX-License-Identifier: Apache-2.0 */
/* Masks words of a text. */
#include "diag_mask.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli_secret.h"

void diag_mask_init(struct diag_mask *mask, int addresses)
{
	memset(mask, 0, sizeof(*mask));
	mask->addresses = addresses;
	if (gethostname(mask->host, sizeof(mask->host) - 1))
		mask->host[0] = '\0';
}

static void put_alias(struct diag_mask *mask, const char *word, const char *kind, FILE *out)
{
	unsigned number = 1;

	for (unsigned i = 0; i < mask->count; i++) {
		if (!strcasecmp(mask->seen[i].word, word)) {
			fprintf(out, "%s-%u", mask->seen[i].kind, mask->seen[i].number);
			return;
		}
		number += mask->seen[i].kind == kind;
	}
	if (mask->count == DIAG_MASK_MAX) {
		fprintf(out, "%s-more", kind);
		return;
	}
	snprintf(mask->seen[mask->count].word, DIAG_WORD_MAX, "%s", word);
	mask->seen[mask->count].kind = kind;
	mask->seen[mask->count++].number = number;
	fprintf(out, "%s-%u", kind, number);
}

static int is_mac(const char *word)
{
	if (strlen(word) != 17)
		return 0;
	for (unsigned i = 0; i < 17; i++)
		if (i % 3 == 2 ? word[i] != ':' : !isxdigit((unsigned char)word[i]))
			return 0;
	return strcmp(word, "00:00:00:00:00:00") && strcasecmp(word, "ff:ff:ff:ff:ff:ff");
}

/* Addresses that every host has are not masked. */
static int is_common(const char *word)
{
	return !strncmp(word, "127.", 4) || !strcmp(word, "0.0.0.0") || !strcmp(word, "::1") ||
	       !strcmp(word, "::") || !strncmp(word, "255.", 4);
}

/* A run of hex digits, colons and dots. */
static void diag_mask_put_number(struct diag_mask *mask, const char *text, size_t len, FILE *out)
{
	char word[DIAG_WORD_MAX];
	unsigned char addr[16];
	size_t tail = 0;

	while (tail < len && (text[len - tail - 1] == '.' || text[len - tail - 1] == ':'))
		tail++; /* punctuation of a sentence, or the separator before a port */
	if (len - tail >= 2 && len >= 2 && text[len - 1] == ':' && text[len - 2] == ':')
		tail = 0;
	if (mask->addresses && len - tail < sizeof(word)) {
		char *colon;

		memcpy(word, text, len - tail);
		word[len - tail] = '\0';
		colon = strchr(word, ':');
		if (is_mac(word)) {
			put_alias(mask, word, "mac", out);
			text += len - tail;
			len = tail;
		} else if (inet_pton(AF_INET6, word, addr) == 1 && !is_common(word)) {
			put_alias(mask, word, "ip", out);
			text += len - tail;
			len = tail;
		} else {
			if (colon && colon == strrchr(word, ':'))
				*colon = '\0'; /* "10.0.0.1:20000" */
			if (inet_pton(AF_INET, word, addr) == 1 && !is_common(word)) {
				put_alias(mask, word, "ip", out);
				text += strlen(word);
				len -= strlen(word);
			}
		}
	}
	fwrite(text, 1, len, out);
}

static int diag_mask_is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

void diag_mask_write(struct diag_mask *mask, const char *text, size_t len, FILE *out)
{
	const char *end = text + len;
	size_t host = strlen(mask->host);
	int inside = 0; /* part of a word: the digits that follow are not an address */

	while (text < end) {
		size_t run = 0, digits = cli_hex_digits(text, (size_t)(end - text));

		while (text + run < end &&
		       (isxdigit((unsigned char)text[run]) || text[run] == ':' || text[run] == '.'))
			run++;
		if (digits >= CLI_KEY_DIGITS) {
			fputs("(hidden)", out);
			text += digits;
			inside = 1;
		} else if (!inside && mask->addresses && host && (size_t)(end - text) >= host &&
			   !memcmp(text, mask->host, host) &&
			   (text + host == end || !diag_mask_is_word(text[host]))) {
			put_alias(mask, mask->host, "host", out);
			text += host;
			inside = 1;
		} else if (!inside && run && (text + run == end || !diag_mask_is_word(text[run]))) {
			diag_mask_put_number(mask, text, run, out);
			text += run;
			inside = 0;
		} else {
			inside = diag_mask_is_word(*text);
			fputc(*text++, out);
		}
	}
}

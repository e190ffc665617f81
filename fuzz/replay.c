/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target without libFuzzer: every file of a corpus, then seeded mutations of them.
 * Usage: fuzz_NAME_corpus DIR [MUTATIONS [SEED]] */
#include <dirent.h>

#include "base/rng.h"
#include "target.h"

#define INPUTS_MAX 4096
#define INPUT_BYTES_MAX 4096

static struct {
	uint8_t *bytes;
	size_t size;
} inputs[INPUTS_MAX];
static size_t ninputs;

/* In memory of exactly its size, so that a sanitizer sees one byte too far. */
static void run(const uint8_t *bytes, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);

	FUZZ_CHECK(exact);
	if (size)
		memcpy(exact, bytes, size);
	(void)LLVMFuzzerTestOneInput(exact, size);
	free(exact);
}

static void load(const char *dir, const char *name)
{
	uint8_t bytes[INPUT_BYTES_MAX];
	char path[1024];
	size_t size;
	FILE *file;

	if (name[0] == '.' || ninputs == INPUTS_MAX)
		return;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "rb");
	if (!file)
		return;
	size = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	inputs[ninputs].bytes = malloc(size ? size : 1);
	FUZZ_CHECK(inputs[ninputs].bytes);
	memcpy(inputs[ninputs].bytes, bytes, size);
	inputs[ninputs++].size = size;
	run(bytes, size);
}

/* The mutations that find most in formats of lengths and numbers. */
static size_t mutate(struct rng *rng, uint8_t *bytes, size_t size)
{
	static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff};
	size_t at = size ? rng_below(rng, size) : 0, other, len;

	switch (rng_below(rng, 7)) {
	case 0: /* a bit */
		if (size)
			bytes[at] ^= (uint8_t)(1u << rng_below(rng, 8));
		break;
	case 1: /* a byte */
		if (size)
			bytes[at] = (uint8_t)rng_u64(rng);
		break;
	case 2: /* a byte at the edge of something */
		if (size)
			bytes[at] = edges[rng_below(rng, sizeof(edges))];
		break;
	case 3: /* cut */
		size = at;
		break;
	case 4: /* a piece twice */
		len = rng_below(rng, size - at + 1);
		if (size + len <= INPUT_BYTES_MAX) {
			memmove(bytes + at + len, bytes + at, size - at);
			size += len;
		}
		break;
	case 5: /* a piece out */
		len = rng_below(rng, size - at + 1);
		memmove(bytes + at, bytes + at + len, size - at - len);
		size -= len;
		break;
	case 6: /* a piece of another input over this one */
		other = rng_below(rng, ninputs);
		len = inputs[other].size < size - at ? inputs[other].size : size - at;
		if (len)
			memcpy(bytes + at, inputs[other].bytes + inputs[other].size - len, len);
		break;
	}
	return size;
}

int main(int argc, char **argv)
{
	unsigned long mutations = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	uint8_t bytes[INPUT_BYTES_MAX];
	struct dirent **entries;
	struct rng rng;
	int count;

	if (argc < 2) {
		fprintf(stderr, "usage: %s DIR [MUTATIONS [SEED]]\n", argv[0]);
		return 2;
	}
	count = scandir(argv[1], &entries, NULL, alphasort); /* sorted: a seed replays */
	for (int i = 0; i < count; i++) {
		load(argv[1], entries[i]->d_name);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	if (!ninputs) {
		fprintf(stderr, "%s: no corpus in %s\n", argv[0], argv[1]);
		return 1;
	}
	rng_seed(&rng, argc > 3 ? strtoull(argv[3], NULL, 0) : 1);
	for (unsigned long i = 0; i < mutations; i++) {
		size_t pick = rng_below(&rng, ninputs), size = inputs[pick].size;

		memcpy(bytes, inputs[pick].bytes, size);
		for (uint64_t n = rng_range(&rng, 1, 4); n; n--)
			size = mutate(&rng, bytes, size);
		run(bytes, size);
	}
	printf("%zu inputs, %lu mutations\n", ninputs, mutations);
	for (size_t i = 0; i < ninputs; i++)
		free(inputs[i].bytes);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Parses GPU lists, and decides which GPUs are linked. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "node.h"

static tcpx_status not_gpus(const char *text)
{
	return error_set(TCPX_ERR_INVALID, 0, "--gpus '%s' is not a list like 0-3,6", text);
}

tcpx_status node_gpus_parse(const char *text, uint32_t *out_numbers, uint32_t *out_count)
{
	const char *at = text;
	uint32_t count = 0;
	char *end;

	do {
		unsigned long first = strtoul(at, &end, 10), last = first;

		if (end == at || *at == '-' || *at == '+')
			return not_gpus(text);
		at = end;
		if (*at == '-') {
			last = strtoul(at + 1, &end, 10);
			if (end == at + 1)
				return not_gpus(text);
			at = end;
		}
		if (last < first || last > 1023)
			return not_gpus(text);
		for (; first <= last; first++) {
			for (uint32_t i = 0; i < count; i++)
				if (out_numbers[i] == first)
					return error_set(TCPX_ERR_INVALID, 0,
							 "--gpus names GPU %lu twice", first);
			if (count == NODE_GPUS_MAX)
				return error_set(TCPX_ERR_LIMIT, 0, "more than %d GPUs",
						 NODE_GPUS_MAX);
			out_numbers[count++] = (uint32_t)first;
		}
	} while (*at++ == ',');
	if (at[-1])
		return not_gpus(text);
	*out_count = count;
	return TCPX_OK;
}

uint32_t node_end_at(const struct node_hello *hellos, struct node_end end)
{
	uint32_t at = end.gpu;

	for (uint32_t rank = 0; rank < end.rank; rank++)
		at += hellos[rank].ngpus;
	return at;
}

bool node_plan_dials(struct node_end self, struct node_end far)
{
	return self.rank != far.rank ? self.rank > far.rank : self.gpu > far.gpu;
}

/* The index of the GPU with that number; -1: the rank has none. */
static int gpu_of(const struct node_hello *hello, unsigned number)
{
	for (uint32_t i = 0; i < hello->ngpus; i++)
		if (hello->gpus[i].number == number)
			return (int)i;
	return -1;
}

static int node_plan_add(struct node_end *out_far, int count, struct node_end end)
{
	for (int i = 0; i < count; i++)
		if (out_far[i].rank == end.rank && out_far[i].gpu == end.gpu)
			return count; /* the file names the pair from both sides */
	if (count == NODE_LINKS_MAX) {
		(void)error_set(TCPX_ERR_LIMIT, 0, "more than %d peers of a GPU", NODE_LINKS_MAX);
		return -1;
	}
	out_far[count] = end;
	return count + 1;
}

static int plan_by_rule(const struct node_hello *hellos, uint32_t size, bool all,
			struct node_end of, struct node_end *out_far)
{
	unsigned number = hellos[of.rank].gpus[of.gpu].number;
	int count = 0;

	for (uint32_t rank = 0; rank < size && count >= 0; rank++) {
		if (rank == of.rank)
			continue;
		for (uint32_t gpu = 0; gpu < hellos[rank].ngpus && count >= 0; gpu++)
			if (all || hellos[rank].gpus[gpu].number == number)
				count = node_plan_add(out_far, count, (struct node_end){rank, gpu});
	}
	return count;
}

/* Reads a line "RANK:GPU RANK:GPU"; '#' begins a comment. Returns 1; 0: an empty line; -1: the
 * last error. */
static int read_pair(uint32_t size, const char *where, char *line, unsigned rank[2],
		     unsigned gpu[2])
{
	char rest;

	line[strcspn(line, "#\n")] = '\0';
	if (!line[strspn(line, " \t\r")])
		return 0;
	if (sscanf(line, " %u:%u %u:%u %c", &rank[0], &gpu[0], &rank[1], &gpu[1], &rest) != 4) {
		(void)error_set(TCPX_ERR_INVALID, 0, "%s: '%s' is not 'RANK:GPU RANK:GPU'", where,
				line);
		return -1;
	}
	for (int i = 0; i < 2; i++) {
		if (rank[i] >= size) {
			(void)error_set(TCPX_ERR_NOT_FOUND, 0, "%s: there is no rank %u of %u",
					where, rank[i], size);
			return -1;
		}
	}
	if (rank[0] == rank[1]) {
		(void)error_set(TCPX_ERR_INVALID, 0, "%s: '%s' pairs a rank with itself", where,
				line);
		return -1;
	}
	return 1;
}

static int plan_line(const struct node_hello *hellos, uint32_t size, const char *where, char *line,
		     struct node_end *out_pair)
{
	unsigned rank[2], gpu[2];
	int got = read_pair(size, where, line, rank, gpu);

	if (got <= 0)
		return got;
	for (int i = 0; i < 2; i++) {
		int at = gpu_of(&hellos[rank[i]], gpu[i]);

		if (at < 0) {
			(void)error_set(TCPX_ERR_NOT_FOUND, 0, "%s: there is no GPU %u of rank %u",
					where, gpu[i], rank[i]);
			return -1;
		}
		out_pair[i] = (struct node_end){rank[i], (uint32_t)at};
	}
	return 1;
}

static FILE *open_plan(const char *path)
{
	FILE *file = fopen(path, "re");

	if (!file)
		(void)error_set(TCPX_ERR_NOT_FOUND, errno, "--peers %s is not same, all or a file",
				path);
	return file;
}

tcpx_status node_plan_check(const char *peers, uint32_t size)
{
	bool word = !strcmp(peers, "all") || !strcmp(peers, "same");
	FILE *file = word ? NULL : open_plan(peers);
	char line[256], where[300];
	unsigned rank[2], gpu[2];
	int got = 0;

	if (word)
		return TCPX_OK;
	if (!file)
		return tcpx_last_error()->status;
	for (int number = 1; got >= 0 && fgets(line, sizeof(line), file); number++) {
		snprintf(where, sizeof(where), "%s:%d", peers, number);
		got = read_pair(size, where, line, rank, gpu);
	}
	fclose(file);
	return got < 0 ? tcpx_last_error()->status : TCPX_OK;
}

static int plan_by_file(const struct node_hello *hellos, uint32_t size, const char *path,
			struct node_end of, struct node_end *out_far)
{
	FILE *file = open_plan(path);
	struct node_end pair[2];
	char line[256], where[300];
	int count = 0, got = 0;

	if (!file)
		return -1;
	for (int number = 1; got >= 0 && count >= 0 && fgets(line, sizeof(line), file); number++) {
		snprintf(where, sizeof(where), "%s:%d", path, number);
		got = plan_line(hellos, size, where, line, pair);
		for (int i = 0; got > 0 && count >= 0 && i < 2; i++)
			if (pair[i].rank == of.rank && pair[i].gpu == of.gpu)
				count = node_plan_add(out_far, count, pair[!i]);
	}
	fclose(file);
	return got < 0 ? -1 : count;
}

int node_plan_links(const struct node_hello *hellos, uint32_t size, const char *peers,
		    struct node_end of, struct node_end *out_far)
{
	bool all = !strcmp(peers, "all");

	if (all || !strcmp(peers, "same"))
		return plan_by_rule(hellos, size, all, of, out_far);
	return plan_by_file(hellos, size, peers, of, out_far);
}

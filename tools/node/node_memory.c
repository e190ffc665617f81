/* SPDX-License-Identifier: Apache-2.0 */
/* Sums the buffers of all ranks of a host before any of them touches a page: with too little
 * memory the kernel would kill a process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "ceiling_gpu.h"
#include "node.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

void node_memory_read(struct node_hello *own)
{
	FILE *file = fopen(BOOT_ID, "re");

	perf_memory_read("", &own->memory);
	if (!file || fscanf(file, "%39s", own->boot) != 1)
		snprintf(own->boot, sizeof(own->boot), "%.39s", own->host);
	if (file)
		fclose(file);
}

bool node_memory_is_hosts(const struct node_hello *hello)
{
	return !*hello->gpus[0].pci;
}

/* Host memory that a rank needs for `areas` areas of all its GPUs; --ceiling has buffers of its
 * own. */
static uint64_t node_memory_host_bytes(const struct node *node, const struct node_hello *hello,
				       uint32_t areas)
{
	uint64_t bytes = 2ull * areas * node->slots * node->options->size;

	if (!node_memory_is_hosts(hello)) {
		if (!node->options->ceiling)
			return 0;
		return bytes < 2ull * hello->ngpus * CEILING_RING_BYTES
			       ? bytes
			       : 2ull * hello->ngpus * CEILING_RING_BYTES;
	}
	return node->options->ceiling ? 2 * bytes : bytes;
}

/* What ranks need together from one pool of memory: a host or a cgroup. */
struct pool {
	uint64_t bytes, has; /* has: PERF_MEMORY_UNKNOWN if nothing limits it */
	uint32_t ranks;
};

static void node_memory_add(struct pool *pool, uint64_t bytes, uint64_t has)
{
	pool->bytes += bytes;
	pool->ranks += bytes > 0;
	if (has < pool->has)
		pool->has = has;
}

static const char *bytes_text(uint64_t bytes, char *buf, size_t cap)
{
	return bytes == PERF_MEMORY_UNKNOWN ? "?" : bytes_format(bytes, buf, cap);
}

/* The --memory that would fit; at least one transfer per link is needed. */
static void advise(const struct node *node, const struct pool *pool, uint64_t usable)
{
	double share = (double)usable / (double)pool->bytes;
	uint64_t fits = (uint64_t)((double)node->memory * share) >> 20 << 20;
	char least[BYTES_TEXT_MAX], text[BYTES_TEXT_MAX];

	if (node->slots > 1 && fits >= node->least_memory)
		(void)error_next("give --memory %s or less; it is %s",
				 bytes_compact(fits, text, sizeof(text)),
				 bytes_compact(node->memory, least, sizeof(least)));
	else
		(void)error_next("lower --size (%s), give fewer --gpus, or start fewer ranks here",
				 bytes_compact(node->options->size, text, sizeof(text)));
}

static tcpx_status node_memory_judge(const struct node *node, uint64_t own, const struct pool *pool,
				     const char *of)
{
	char all[BYTES_TEXT_MAX], mine[BYTES_TEXT_MAX], has[BYTES_TEXT_MAX];
	uint64_t usable = perf_memory_usable(pool->has);

	if (pool->bytes <= usable)
		return TCPX_OK;
	(void)error_set(TCPX_ERR_NO_MEMORY, 0,
			"buffers take %s of host memory (this rank %s, %u rank%s here), and %s%s "
			"can be taken",
			bytes_format(pool->bytes, all, sizeof(all)),
			bytes_format(own, mine, sizeof(mine)), pool->ranks,
			pool->ranks == 1 ? "" : "s", bytes_format(usable, has, sizeof(has)), of);
	advise(node, pool, usable);
	return TCPX_ERR_NO_MEMORY;
}

tcpx_status node_memory_check(const struct node *node, const uint32_t *areas)
{
	const struct node_hello *self = &node->hellos[node->rank];
	struct pool host = {0, self->memory.available, 0}, group = {0, self->memory.room, 0};
	uint64_t own = node_memory_host_bytes(node, self, areas[node->rank]);
	char text[3][BYTES_TEXT_MAX];
	tcpx_status status;

	if (!own)
		return TCPX_OK;
	for (uint32_t rank = 0; rank < node->size; rank++) {
		const struct node_hello *it = &node->hellos[rank];
		uint64_t bytes = node_memory_host_bytes(node, it, areas[rank]);

		if (strcmp(it->boot, self->boot) != 0)
			continue;
		node_memory_add(&host, bytes, it->memory.available);
		if (it->memory.group == self->memory.group)
			node_memory_add(&group, bytes, it->memory.room);
	}
	if (node->say)
		fprintf(stderr,
			"# host memory: buffers of %s for this rank, %s for the %u ranks of this "
			"host; %s available\n",
			bytes_text(own, text[0], sizeof(text[0])),
			bytes_text(host.bytes, text[1], sizeof(text[1])), host.ranks,
			bytes_text(host.has < group.has ? host.has : group.has, text[2],
				   sizeof(text[2])));
	status = node_memory_judge(node, own, &host, "");
	return status == TCPX_OK ? node_memory_judge(node, own, &group, " in this cgroup") : status;
}

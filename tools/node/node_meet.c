/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges between ranks: hellos, contacts, tokens; and the links that follow from the hellos. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/error.h"
#include "node.h"
#include "node_control.h"

/* A word that is equal at two ranks when their --peers files have the same contents. */
static const char *peers_word(const char *peers, char *buf, size_t cap)
{
	uint32_t crc = 0;
	char line[256];
	FILE *file;

	if (!strcmp(peers, "same") || !strcmp(peers, "all"))
		return peers;
	file = fopen(peers, "re");
	if (!file)
		return peers;
	while (fgets(line, sizeof(line), file))
		crc = crc32c(crc, line, strlen(line));
	fclose(file);
	snprintf(buf, cap, "FILE contents %08x", crc);
	return buf;
}

/* Writes the options that ranks must have in common as text; node_meet_compare() names the first
 * that differs. */
static void node_meet_put_options(const struct node *node, char *out, size_t cap)
{
	const struct node_options *o = node->options;
	char op[16], transport[16], mem[16], peers[32], memory[24] = "default";

	if (o->memory)
		snprintf(memory, sizeof(memory), "%llu", (unsigned long long)o->memory);
	snprintf(out, cap,
		 "%s --op %s --transport %s --mem %s --channels %llu --size %llu --iters %llu "
		 "--memory %s --unpack %s --ceiling %s --repeat %llu --peers %s",
		 node->job, cli_choice_text(NODE_OPS, o->op, op, sizeof(op)),
		 cli_choice_text(NODE_TRANSPORTS, o->transport, transport, sizeof(transport)),
		 cli_choice_text(NODE_MEMS, o->mem, mem, sizeof(mem)),
		 (unsigned long long)o->channels, (unsigned long long)o->size,
		 (unsigned long long)o->iters, memory,
		 o->transport == NODE_GPUDIRECT ? cli_plugin_unpack() : "-",
		 o->ceiling ? "yes" : "no", (unsigned long long)o->repeat,
		 peers_word(o->peers, peers, sizeof(peers)));
}

/* Fails if a rank has another version than rank 0, or other options. */
static tcpx_status node_meet_compare(const struct node *node, uint32_t rank)
{
	const struct node_hello *first = &node->hellos[0], *it = &node->hellos[rank];
	const char *a = first->options, *b = it->options;
	char name[24] = "tcpx"; /* the command comes before the options */

	if (strcmp(first->version, it->version))
		return error_set(TCPX_ERR_VERSION, 0,
				 "rank %u (%s) is version %s, and rank 0 (%s) is %s", rank,
				 it->host, it->version, first->host, first->version);
	while (*a && *a == *b) {
		if (!strncmp(a, "--", 2))
			snprintf(name, sizeof(name), "%.*s", (int)strcspn(a, " "), a);
		a++;
		b++;
	}
	if (!*a && !*b)
		return TCPX_OK;
	while (a > first->options && a[-1] != ' ') { /* the whole word */
		a--;
		b--;
	}
	return error_set(TCPX_ERR_INVALID, 0,
			 "rank %u (%s) was started with %s %.*s, rank 0 (%s) with %s %.*s", rank,
			 it->host, name, (int)strcspn(b, " "), b, first->host, name,
			 (int)strcspn(a, " "), a);
}

/* Without unused entries of gpus. */
static size_t hello_bytes(const struct node_hello *hello)
{
	return offsetof(struct node_hello, gpus) + hello->ngpus * sizeof(hello->gpus[0]);
}

static bool node_meet_texts_end(const struct node_hello *hello)
{
	bool end = node_blob_text(hello->version, sizeof(hello->version)) &&
		   node_blob_text(hello->host, sizeof(hello->host)) &&
		   node_blob_text(hello->options, sizeof(hello->options)) &&
		   node_blob_text(hello->boot, sizeof(hello->boot));

	for (uint32_t i = 0; i < hello->ngpus; i++)
		end = end && node_blob_text(hello->gpus[i].pci, sizeof(hello->gpus[i].pci));
	return end;
}

tcpx_status node_hello_take(const struct node_blob *blob, uint32_t rank, struct node_hello *out)
{
	const size_t head = offsetof(struct node_hello, gpus);

	memset(out, 0, sizeof(*out));
	if (blob->bytes >= head)
		memcpy(out, blob->data, head);
	if (blob->bytes < head || out->ngpus > NODE_GPUS_MAX || blob->bytes != hello_bytes(out))
		return error_set(TCPX_ERR_VERSION, 0, "rank %u is of another version", rank);
	memcpy(out, blob->data, blob->bytes);
	return node_meet_texts_end(out)
		       ? TCPX_OK
		       : error_set(TCPX_ERR_PROTOCOL, 0, "rank %u sent a malformed text", rank);
}

tcpx_status node_meet(struct node *node)
{
	struct node_hello own = {.ngpus = node->ngpus};
	struct node_blob *blobs = calloc(node->size, sizeof(*blobs));
	tcpx_status status;

	node->hellos = calloc(node->size, sizeof(*node->hellos));
	if (!blobs || !node->hellos) {
		free(blobs);
		return error_set(TCPX_ERR_NO_MEMORY, 0, "what %u ranks say", node->size);
	}
	snprintf(own.version, sizeof(own.version), "%s", tcpx_version());
	if (gethostname(own.host, sizeof(own.host) - 1))
		snprintf(own.host, sizeof(own.host), "?");
	node_meet_put_options(node, own.options, sizeof(own.options));
	node_memory_read(&own);
	for (uint32_t i = 0; i < node->ngpus; i++) {
		own.gpus[i].number = node->gpus[i].number;
		snprintf(own.gpus[i].pci, sizeof(own.gpus[i].pci), "%s", node->gpus[i].pci);
	}
	status = node_control_gather(node->control, "hello", &own, hello_bytes(&own), blobs);
	for (uint32_t rank = 0; rank < node->size && status == TCPX_OK; rank++)
		status = node_hello_take(&blobs[rank], rank, &node->hellos[rank]);
	for (uint32_t rank = 1; rank < node->size && status == TCPX_OK; rank++)
		status = node_meet_compare(node, rank);
	free(blobs);
	return status;
}

/* Seed of the pattern from one end to another; both ends compute the same. */
static uint64_t seed_of(struct node_end from, struct node_end to)
{
	return (uint64_t)from.rank << 48 ^ (uint64_t)from.gpu << 32 ^ (uint64_t)to.rank << 16 ^
	       to.gpu;
}

static tcpx_status plan_gpu(struct node *node, struct node_gpu *gpu, struct node_end *ends,
			    struct node_end *back)
{
	const char *peers = node->options->peers;
	struct node_end self = {node->rank, gpu->index};
	int count = node_plan_links(node->hellos, node->size, peers, self, ends);

	if (count < 0)
		return tcpx_last_error()->status;
	gpu->links = calloc((size_t)count + 1, sizeof(*gpu->links));
	if (!gpu->links)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "links of GPU %u", gpu->number);
	gpu->nlinks = (uint32_t)count;
	for (int i = 0; i < count; i++) {
		struct node_link *link = &gpu->links[i];
		int n = node_plan_links(node->hellos, node->size, peers, ends[i], back);

		link->far = ends[i];
		link->want = node_share(node->options, (uint32_t)count);
		if (node_share(node->options, (uint32_t)n) < link->want)
			link->want = node_share(node->options, (uint32_t)n);
		link->out = link->in = true;
		link->seed_out = seed_of(self, ends[i]);
		link->seed_in = seed_of(ends[i], self);
		for (int k = 0; k < n; k++)
			if (back[k].rank == self.rank && back[k].gpu == self.gpu)
				link->far_link = (uint32_t)k;
	}
	return TCPX_OK;
}

/* Sets the number of transfers of a link in one window: as many as fit into the memory of the
 * GPU with most links, the same at all ranks. */
static void plan_windows(struct node *node, uint32_t links_max)
{
	const struct node_options *o = node->options;
	uint64_t slots;

	node->memory = o->memory ? o->memory : NODE_MEMORY_GPU;
	for (uint32_t rank = 0; rank < node->size && !o->memory; rank++)
		if (node_memory_is_hosts(&node->hellos[rank]))
			node->memory = NODE_MEMORY_HOST;
	node->least_memory = o->size * (links_max ? links_max : 1);
	slots = node->memory / node->least_memory;
	if (slots > o->iters)
		slots = o->iters;
	if (slots > PERF_TRANSFERS_MAX)
		slots = PERF_TRANSFERS_MAX;
	node->slots = slots ? (uint32_t)slots : 1;
	node->windows = (uint32_t)((o->iters + node->slots - 1) / node->slots);
}

tcpx_status node_plan(struct node *node)
{
	struct node_end *ends = malloc(2 * NODE_LINKS_MAX * sizeof(*ends));
	uint32_t most = 0, all = 0, *areas = calloc(node->size, sizeof(*areas));
	tcpx_status status = ends && areas ? TCPX_OK : error_set(TCPX_ERR_NO_MEMORY, 0, "links");

	for (uint32_t i = 0; i < node->ngpus && status == TCPX_OK; i++) {
		status = plan_gpu(node, &node->gpus[i], ends, ends + NODE_LINKS_MAX);
		all += node->gpus[i].nlinks;
	}
	for (uint32_t rank = 0; rank < node->size && status == TCPX_OK; rank++)
		for (uint32_t gpu = 0; gpu < node->hellos[rank].ngpus; gpu++) {
			int n = node_plan_links(node->hellos, node->size, node->options->peers,
						(struct node_end){rank, gpu}, ends);

			most = n > (int)most ? (uint32_t)n : most;
			areas[rank] += n > 1 && !node->shared_area ? (uint32_t)n : 1;
		}
	free(ends);
	if (status == TCPX_OK && !all)
		status = error_set(TCPX_ERR_NOT_FOUND, 0,
				   "no GPU of this rank has a peer: --peers %s, --gpus %s",
				   node->options->peers, node->options->gpus);
	if (status == TCPX_OK) {
		plan_windows(node, node->shared_area ? 1 : most);
		status = node_memory_check(node, areas);
	}
	free(areas);
	return status;
}

tcpx_status node_share_all(struct node *node, const char *stage, const void *own, size_t each,
			   void **out_all)
{
	struct node_blob *blobs = calloc(node->size, sizeof(*blobs));
	uint32_t ends = node_end_at(node->hellos, (struct node_end){node->size, 0}), at = 0;
	uint8_t *all = calloc(ends, each);
	tcpx_status status =
		blobs && all ? TCPX_OK : error_set(TCPX_ERR_NO_MEMORY, 0, "what ranks say");

	if (status == TCPX_OK)
		status = node_control_gather(node->control, stage, own, each * node->ngpus, blobs);
	for (uint32_t rank = 0; rank < node->size && status == TCPX_OK; rank++) {
		size_t bytes = each * node->hellos[rank].ngpus;

		if (blobs[rank].bytes != bytes)
			status = error_set(TCPX_ERR_PROTOCOL, 0, "rank %u, stage '%s': %zu bytes",
					   rank, stage, blobs[rank].bytes);
		else
			memcpy(all + at * each, blobs[rank].data, bytes);
		at += node->hellos[rank].ngpus;
	}
	free(blobs);
	if (status == TCPX_OK)
		*out_all = all;
	else
		free(all);
	return status;
}

/* Packs contacts without unused bytes, because rank 0 sends those of all ranks to all ranks. */
static size_t pack_contacts(const struct node *node, uint8_t *out)
{
	size_t at = 0;

	for (uint32_t i = 0; i < node->ngpus; i++) {
		const struct node_contact *own = &node->gpus[i].contact;
		size_t bytes = offsetof(struct node_contact, info) + own->info_bytes;

		memcpy(out + at, own, bytes);
		at += bytes;
	}
	return at;
}

static tcpx_status unpack_contacts(const struct node_blob *blob, uint32_t count,
				   struct node_contact *out)
{
	const size_t head = offsetof(struct node_contact, info);
	const uint8_t *data = blob->data;
	size_t left = blob->bytes;

	for (uint32_t i = 0; i < count; i++, out++) {
		size_t bytes;

		if (left < head)
			return TCPX_ERR_PROTOCOL;
		memcpy(out, data, head);
		bytes = head + out->info_bytes;
		if (out->info_bytes > sizeof(out->info) || left < bytes)
			return TCPX_ERR_PROTOCOL;
		memcpy(out, data, bytes);
		out->nic[sizeof(out->nic) - 1] = '\0';
		data += bytes;
		left -= bytes;
	}
	return left ? TCPX_ERR_PROTOCOL : TCPX_OK;
}

tcpx_status node_share_contacts(struct node *node)
{
	struct node_blob *blobs = calloc(node->size, sizeof(*blobs));
	uint8_t *own = calloc(node->ngpus, sizeof(struct node_contact));
	uint32_t at = 0;
	tcpx_status status;

	node->contacts = calloc(node_end_at(node->hellos, (struct node_end){node->size, 0}),
				sizeof(*node->contacts));
	status = blobs && own && node->contacts ? TCPX_OK
						: error_set(TCPX_ERR_NO_MEMORY, 0, "contacts");
	if (status == TCPX_OK)
		status = node_control_gather(node->control, "listening", own,
					     pack_contacts(node, own), blobs);
	for (uint32_t rank = 0; rank < node->size && status == TCPX_OK; rank++) {
		status = unpack_contacts(&blobs[rank], node->hellos[rank].ngpus,
					 &node->contacts[at]);
		if (status != TCPX_OK)
			(void)error_set(status, 0, "rank %u sent malformed contacts", rank);
		at += node->hellos[rank].ngpus;
	}
	free(blobs);
	free(own);
	return status;
}

tcpx_status node_share_tokens(struct node *node)
{
	struct node_tokens own[NODE_GPUS_MAX];
	void *all = NULL;
	tcpx_status status;

	for (uint32_t i = 0; i < node->ngpus; i++)
		own[i] = node->gpus[i].tokens;
	status = node_share_all(node, "memory", own, sizeof(*own), &all);
	node->tokens = all;
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Results of all ranks: table, JSON, the predecessor's lines. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cli_json.h"
#include "cli_output.h"
#include "node.h"
#include "node_control.h"

#define GIGA 1e9
#define RELAY "relay" /* of the path */

/* The report of a rank, as sent to rank 0, followed by its threads. Plain structs will do, since
 * all ranks have the same version. */
struct report {
	uint64_t elapsed_ns, cpu_ns, ready_ns, ceiling_ns;
	struct cli_devmem devmem; /* of gpudirect */
	uint32_t ngpus;
	struct {
		struct node_row row;
		char nic[NODE_NICS_TEXT], transport[16], unpack[12];
		int numa, nic_numa;
	} gpus[NODE_GPUS_MAX]; /* only ngpus of them are sent */
};

/* Reports of all ranks; other ranks than 0 only have wrong. */
struct results {
	struct report *reports;
	struct node_blob *threads; /* of struct node_thread */
	uint64_t wrong;
};

static uint32_t threads_of(const struct results *all, uint32_t rank)
{
	return (uint32_t)(all->threads[rank].bytes / sizeof(struct node_thread));
}

static double node_result_rate(uint64_t bytes, uint64_t ns)
{
	return ns ? (double)bytes / (double)ns : 0; /* bytes per ns equal GB per second */
}

static void fill_report(struct node *node, struct report *r)
{
	memset(r, 0, sizeof(*r));
	r->elapsed_ns = node->elapsed_ns;
	r->cpu_ns = node->cpu_ns;
	r->ready_ns = node->ready_ns;
	r->ceiling_ns = node->ceiling_ns;
	r->ngpus = node->ngpus;
	for (uint32_t i = 0; i < node->ngpus; i++) {
		const struct node_gpu *gpu = &node->gpus[i];

		r->gpus[i].row = gpu->row;
		r->gpus[i].numa = gpu->numa;
		r->gpus[i].nic_numa = gpu->nic_numa;
		node_gpu_nics(gpu, r->gpus[i].nic);
		memcpy(r->gpus[i].unpack, gpu->unpack, sizeof(gpu->unpack));
		snprintf(r->gpus[i].transport, sizeof(r->gpus[i].transport), "%s",
			 gpu->relayed  ? RELAY
			 : gpu->nlinks ? gpu->links[0].transport
				       : "-");
	}
	r->devmem = node->devmem;
}

struct sums {
	uint64_t bytes, slowest_ns, cpu_ns;
	double rate, ceiling; /* bytes per second; ceiling 0: not measured */
};

static struct sums add_up(const struct node *node, const struct results *all)
{
	uint64_t ceiling_ns = 0;
	struct sums s = {0};

	for (uint32_t rank = 0; rank < node->size; rank++) {
		const struct report *r = &all->reports[rank];

		s.cpu_ns += r->cpu_ns;
		if (r->elapsed_ns > s.slowest_ns)
			s.slowest_ns = r->elapsed_ns;
		if (r->ceiling_ns > ceiling_ns)
			ceiling_ns = r->ceiling_ns;
		for (uint32_t i = 0; i < r->ngpus; i++)
			s.bytes += r->gpus[i].row.bytes_out;
	}
	s.rate = node_result_rate(s.bytes, s.slowest_ns) * GIGA;
	/* One round of the ceiling moves as much as a window of every link. */
	s.ceiling =
		node_result_rate(s.bytes / node->options->iters * node->slots, ceiling_ns) * GIGA;
	return s;
}

static void print_rows(const struct node *node, const struct report *reports)
{
	bool relayed = false;

	printf("# rank host              GPU  address        NIC       path      links chan   "
	       "out GB/s   in GB/s     #wrong\n");
	for (uint32_t rank = 0; rank < node->size; rank++) {
		const struct node_hello *hello = &node->hellos[rank];
		const struct report *r = &reports[rank];

		for (uint32_t i = 0; i < r->ngpus; i++) {
			const struct node_row *row = &r->gpus[i].row;

			printf("%6u %-17.17s %3u  %-14s %-9s %-9s %5u %4u %10.3f %9.3f %10llu\n",
			       rank, hello->host, hello->gpus[i].number,
			       *hello->gpus[i].pci ? hello->gpus[i].pci : "host memory",
			       r->gpus[i].nic, r->gpus[i].transport, row->links, row->channels,
			       node_result_rate(row->bytes_out, row->ns_out),
			       node_result_rate(row->bytes_in, row->ns_in),
			       (unsigned long long)row->wrong);
			relayed |= !strcmp(r->gpus[i].transport, RELAY);
		}
	}
	if (relayed)
		printf("# relay: a NIC is another GPU's, receives land there and are copied to the "
		       "GPU of the row\n");
}

/* Sums over the GPUs that share a NIC. */
static void node_result_print_nics(const struct node *node, const struct report *reports)
{
	char text[512];

	for (uint32_t rank = 0; rank < node->size; rank++) {
		const struct report *r = &reports[rank];

		for (uint32_t i = 0; i < r->ngpus; i++) {
			double out = 0, in = 0;
			uint32_t gpus = 0, first = i;

			for (uint32_t k = 0; k < r->ngpus; k++) {
				const struct node_row *row = &r->gpus[k].row;

				if (strcmp(r->gpus[k].nic, r->gpus[i].nic) != 0)
					continue;
				first = k < first ? k : first;
				out += node_result_rate(row->bytes_out, row->ns_out);
				in += node_result_rate(row->bytes_in, row->ns_in);
				gpus++;
			}
			if (first != i || !strcmp(r->gpus[i].nic, "-"))
				continue;
			printf("NIC %s of rank %u: %u GPUs, out %.3f GB/s, in %.3f GB/s\n",
			       r->gpus[i].nic, rank, gpus, out, in);
		}
		if (node->options->transport != NODE_GPUDIRECT)
			continue;
		cli_devmem_text(&r->devmem, text, sizeof(text));
		printf("rx_devmem_pkts of rank %u: %s\n", rank, text);
	}
}

/* One line for all ranks that unpack in the same way. */
static void print_unpack(const struct node *node, const struct report *reports)
{
	const char *last = "";

	for (uint32_t rank = 0; rank < node->size; rank++)
		for (uint32_t i = 0; i < reports[rank].ngpus; i++) {
			const char *mode = reports[rank].gpus[i].unpack;

			if (*mode && strcmp(mode, last) != 0)
				printf("# unpacked by: %s (from rank %u, GPU %u on)\n", mode, rank,
				       node->hellos[rank].gpus[i].number);
			last = *mode ? mode : last;
		}
}

static void print_table(const struct node *node, const struct results *all, const struct sums *s)
{
	const struct report *reports = all->reports;
	char text[BYTES_TEXT_MAX];

	print_rows(node, reports);
	print_unpack(node, reports);
	node_result_print_nics(node, reports);
	for (uint32_t rank = 0; rank < node->size; rank++)
		node_threads_print(rank, all->threads[rank].data, threads_of(all, rank));
	printf("# %llu transfers of %s a link and direction, both directions at once, every byte "
	       "%s\n",
	       (unsigned long long)node->options->iters,
	       bytes_format(node->options->size, text, sizeof(text)),
	       node_compares(node) ? "compared" : NODE_NOT_COMPARED);
	printf("# a row's rates are by that GPU's own time; the sum is all bytes out by the "
	       "slowest rank's\n");
	if (s->ceiling > 0)
		printf("ceiling %.3f GB/s of as many plain sockets: the sum is %.1f %% of it\n",
		       s->ceiling / GIGA, 100 * s->rate / s->ceiling);
	printf("sum %.3f GB/s   CPU %.3f s/GB   READY after %.3f s   %llu wrong bytes\n",
	       node_result_rate(s->bytes, s->slowest_ns),
	       s->bytes ? (double)s->cpu_ns / (double)s->bytes : 0,
	       (double)reports[0].ready_ns / GIGA, (unsigned long long)all->wrong);
}

/* Each rank prints its own lines, by its own clock. */
static void print_perf_lines(const struct node *node)
{
	for (uint32_t i = 0; i < node->ngpus; i++) {
		const struct node_gpu *gpu = &node->gpus[i];
		uint64_t ns = gpu->row.ns_out > gpu->row.ns_in ? gpu->row.ns_out : gpu->row.ns_in;
		double ms = (double)ns / (double)node->options->iters / 1e6;
		double bw = node_result_rate(gpu->row.bytes_out, ns);

		printf("[PERF] GPU: %u\n", gpu->number);
		for (uint32_t k = 0; k < gpu->told; k++)
			printf("[PERF] Iter %u time=%.3fms\n", k, (double)gpu->told_ns[k] / 1e6);
		printf("Total time: %.3f ms\n"
		       "[PERF] Avg (%llu iter): %.3f ms, BW: %.2f GB/s\n"
		       "[PERF] Avg: %.3f ms, BW: %.2f GB/s\n"
		       "[PERF] Bandwidth: %.2f GB/s (per GPU)\n",
		       (double)ns / 1e6, (unsigned long long)node->options->iters, ms, bw, ms, bw,
		       bw);
	}
}

static void node_result_put_gpu(struct cli_json *list, const struct node_hello *hello,
				const struct report *r, uint32_t i)
{
	struct cli_json *o = list ? cli_json_object(list, NULL) : NULL;
	const struct node_row *row = &r->gpus[i].row;

	if (!o)
		return;
	cli_json_integer(o, "gpu", hello->gpus[i].number);
	cli_json_text(o, "address", hello->gpus[i].pci);
	cli_json_text(o, "nic", r->gpus[i].nic);
	node_numa_json(o, "numa", r->gpus[i].numa);
	node_numa_json(o, "nic_numa", r->gpus[i].nic_numa);
	cli_json_text(o, "path", r->gpus[i].transport);
	cli_json_integer(o, "links", row->links);
	cli_json_integer(o, "channels", row->channels);
	cli_json_integer(o, "bytes_out", row->bytes_out);
	cli_json_integer(o, "bytes_in", row->bytes_in);
	cli_json_real(o, "rate_out", node_result_rate(row->bytes_out, row->ns_out) * GIGA);
	cli_json_real(o, "rate_in", node_result_rate(row->bytes_in, row->ns_in) * GIGA);
	cli_json_integer(o, "wrong", row->wrong);
	cli_json_integer(o, "checked", row->checked);
}

/* Prints the growth of the packet counter of each NIC that has one. */
static void put_devmem(struct cli_json *rank, const struct cli_devmem *devmem)
{
	struct cli_json *o = rank ? cli_json_object(rank, "rx_devmem_pkts") : NULL;

	for (unsigned i = 0; o && i < devmem->count; i++)
		if (devmem->nics[i].known)
			cli_json_integer(o, devmem->nics[i].name, devmem->nics[i].rise);
}

static int node_result_write_json(const struct node *node, const struct results *all,
				  const struct sums *s)
{
	const struct report *reports = all->reports;
	FILE *out = cli_json_open(node->options->json);
	struct cli_json *json = out ? cli_json_new() : NULL, *units, *ranks;
	char op[16];
	int rc;

	if (!json)
		return CLI_FAILED;
	cli_json_integer(json, "schema", 1);
	cli_json_text(json, "tool", "node");
	cli_json_text(json, "version", tcpx_version());
	units = cli_json_object(json, "units");
	cli_json_text(units, "time", "s");
	cli_json_text(units, "size", "B");
	cli_json_text(units, "rate", "B/s");
	cli_json_text(json, "op", cli_choice_text(NODE_OPS, node->options->op, op, sizeof(op)));
	cli_json_integer(json, "size", node->options->size);
	cli_json_integer(json, "iters", node->options->iters);
	cli_json_text(json, "peers", node->options->peers);
	ranks = cli_json_array(json, "ranks");
	for (uint32_t rank = 0; ranks && rank < node->size; rank++) {
		struct cli_json *o = cli_json_object(ranks, NULL), *gpus;

		cli_json_integer(o, "rank", rank);
		cli_json_text(o, "host", node->hellos[rank].host);
		node_threads_json(o, all->threads[rank].data, threads_of(all, rank));
		cli_json_real(o, "ready", (double)reports[rank].ready_ns / GIGA);
		cli_json_real(o, "elapsed", (double)reports[rank].elapsed_ns / GIGA);
		cli_json_real(o, "cpu", (double)reports[rank].cpu_ns / GIGA);
		put_devmem(o, &reports[rank].devmem);
		gpus = cli_json_array(o, "gpus");
		for (uint32_t i = 0; i < reports[rank].ngpus; i++)
			node_result_put_gpu(gpus, &node->hellos[rank], &reports[rank], i);
	}
	cli_json_real(json, "rate", s->rate);
	if (s->ceiling > 0)
		cli_json_real(json, "ceiling", s->ceiling);
	cli_json_integer(json, "wrong", all->wrong);
	cli_json_text(json, "verdict", all->wrong ? "wrong data" : "ok");
	rc = cli_json_write(json, out, node->options->json) ? CLI_FAILED : CLI_OK;
	cli_json_free(json);
	return rc;
}

static size_t report_bytes(const struct report *r)
{
	return offsetof(struct report, gpus) + r->ngpus * sizeof(r->gpus[0]);
}

static bool node_result_texts_end(const struct report *r, const struct node_blob *threads)
{
	const struct node_thread *thread = threads->data;
	bool end = r->devmem.count <= CLI_DEVMEM_NICS;

	for (uint32_t i = 0; end && i < r->devmem.count; i++)
		end = node_blob_text(r->devmem.nics[i].name, sizeof(r->devmem.nics[i].name));
	for (uint32_t i = 0; end && i < r->ngpus; i++)
		end = node_blob_text(r->gpus[i].nic, sizeof(r->gpus[i].nic)) &&
		      node_blob_text(r->gpus[i].transport, sizeof(r->gpus[i].transport)) &&
		      node_blob_text(r->gpus[i].unpack, sizeof(r->gpus[i].unpack));
	for (size_t i = 0; end && i < threads->bytes / sizeof(*thread); i++)
		end = node_blob_text(thread[i].name, sizeof(thread[i].name)) &&
		      node_blob_text(thread[i].cpus, sizeof(thread[i].cpus));
	return end;
}

static tcpx_status take_report(const struct node_blob *blob, uint32_t rank, struct report *out,
			       struct node_blob *out_threads)
{
	size_t head = offsetof(struct report, gpus), bytes = 0;

	if (blob->bytes >= head) {
		memcpy(out, blob->data, head);
		bytes = out->ngpus <= NODE_GPUS_MAX ? report_bytes(out) : 0;
	}
	if (!bytes || blob->bytes < bytes)
		return error_set(TCPX_ERR_PROTOCOL, 0, "rank %u sent %zu bytes of results", rank,
				 blob->bytes);
	memcpy(out, blob->data, bytes);
	*out_threads = (struct node_blob){(const uint8_t *)blob->data + bytes, blob->bytes - bytes};
	if (!node_result_texts_end(out, out_threads))
		return error_set(TCPX_ERR_PROTOCOL, 0, "rank %u sent a malformed text", rank);
	return TCPX_OK;
}

/* The only thing that other ranks must know: whether bytes were wrong anywhere. */
static tcpx_status share_wrong(struct node *node, struct node_blob *blobs, uint64_t *out_wrong)
{
	uint64_t own = 0, one, sum = 0;
	tcpx_status status;

	for (uint32_t i = 0; i < node->ngpus; i++)
		own += node->gpus[i].row.wrong;
	status = node_control_gather(node->control, "verdict", &own, sizeof(own), blobs);
	for (uint32_t rank = 0; status == TCPX_OK && rank < node->size; rank++) {
		if (blobs[rank].bytes == sizeof(one)) {
			memcpy(&one, blobs[rank].data, sizeof(one));
			sum += one;
		}
	}
	*out_wrong = sum;
	return status;
}

/* Reports and threads go to rank 0 only; sent to all ranks they would grow with the square of
 * the ranks. */
static tcpx_status node_result_collect(struct node *node, struct results *all)
{
	struct node_blob *blobs = calloc(node->size, sizeof(*blobs));
	struct report *own =
		calloc(1, sizeof(*own) + NODE_THREADS_MAX * sizeof(struct node_thread));
	tcpx_status status = TCPX_ERR_NO_MEMORY;
	size_t bytes;

	all->reports = calloc(node->size, sizeof(*all->reports));
	all->threads = calloc(node->size, sizeof(*all->threads));
	if (own && blobs && all->reports && all->threads)
		status = share_wrong(node, blobs, &all->wrong);
	if (status == TCPX_OK) {
		fill_report(node, own);
		bytes = report_bytes(own);
		bytes += sizeof(struct node_thread) *
			 node_threads_list((struct node_thread *)((uint8_t *)own + bytes),
					   NODE_THREADS_MAX);
		/* Results point into data that stays valid until the next exchange. */
		status = node_control_collect(node->control, "results", own, bytes, blobs);
	}
	for (uint32_t rank = 0; !node->rank && status == TCPX_OK && rank < node->size; rank++)
		status = take_report(&blobs[rank], rank, &all->reports[rank], &all->threads[rank]);
	free(own);
	free(blobs);
	return status;
}

static int node_result_show(struct node *node, const struct results *all)
{
	int rc = CLI_OK;

	if (!node->rank) {
		struct sums sums = add_up(node, all);

		print_table(node, all, &sums);
		if (node->options->json)
			rc = node_result_write_json(node, all, &sums);
	}
	if (node->options->perf_lines)
		print_perf_lines(node);
	if (!all->wrong)
		return rc;
	cli_error("%llu bytes are wrong", (unsigned long long)all->wrong);
	return CLI_WRONG_DATA;
}

int node_result(struct node *node)
{
	struct results all = {.reports = NULL};
	tcpx_status status = node_result_collect(node, &all);
	int rc = status == TCPX_OK ? node_result_show(node, &all)
				   : cli_fail(status, "the results cannot be collected");

	free(all.reports);
	free(all.threads);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of both ends, and the rates of their copy engines. */
#include "perf_engines.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

static tcpx_status find_local(const struct perf_place *place, struct perf_end_memory *out)
{
	struct cli_gpu gpu;
	tcpx_status status;

	*out = (struct perf_end_memory){.place = *place, .numa = -1};
	if (place->kind != TCPX_MEM_CUDA)
		return TCPX_OK;
	status = cli_gpu_get(place->device, &gpu);
	if (status != TCPX_OK)
		return status;
	snprintf(out->pci, sizeof(out->pci), "%s", gpu.pci);
	snprintf(out->name, sizeof(out->name), "%s", gpu.name);
	memcpy(out->uuid, gpu.uuid, sizeof(out->uuid));
	out->numa = gpu.numa;
	return TCPX_OK;
}

/* Parses "pci\nname\n" after the UUID. */
static tcpx_status take_facts(const struct perf_message *m, struct perf_end_memory *out)
{
	const char *text = (const char *)m->blob + CLI_GPU_UUID_BYTES;

	if (m->blob_len < CLI_GPU_UUID_BYTES)
		return error_set(TCPX_ERR_PROTOCOL, 0, "the other end does not name its GPU");
	memcpy(out->uuid, m->blob, CLI_GPU_UUID_BYTES);
	sscanf(text, "%15[^\n]\n%63[^\n]", out->pci, out->name);
	return TCPX_OK;
}

static tcpx_status find_remote(struct perf_client *client, const struct perf_place *place,
			       struct perf_end_memory *out)
{
	struct perf_where where = {(uint64_t)place->kind, place->device};
	struct perf_found found;
	struct perf_message m;
	tcpx_status status;

	*out = (struct perf_end_memory){.place = *place, .numa = -1};
	perf_message_init(&m, PERF_PLACE, 0);
	perf_message_put(&m, &where, sizeof(where));
	status = perf_send(client, &m);
	if (status == TCPX_OK)
		status = perf_answer(client, &m);
	if (status != TCPX_OK || place->kind != TCPX_MEM_CUDA)
		return status;
	if (perf_message_get(&m, &found, sizeof(found)) || found.device > CLI_NUMBER_MAX ||
	    found.numa > INT32_MAX)
		return error_set(TCPX_ERR_PROTOCOL, 0, "the other end's memory is malformed");
	out->place.device = (uint32_t)found.device;
	out->numa = (int)found.numa - 1;
	return take_facts(&m, out);
}

tcpx_status perf_engines_find(struct perf_client *client, const struct perf_options *o,
			      struct perf_path *path)
{
	struct perf_place local = perf_place_of(o->mem, 0);
	struct perf_place remote = perf_place_of(o->remote_mem, PERF_DEVICE_FIRST);
	tcpx_status status = find_local(&local, &path->local);

	return status == TCPX_OK ? find_remote(client, &remote, &path->remote) : status;
}

static int is_gpu(const struct perf_end_memory *memory)
{
	return memory->place.kind == TCPX_MEM_CUDA;
}

/* Direction 0 is from the client's GPU, direction 1 to it. */
static tcpx_status measure_local(const struct perf_end_memory *memory, unsigned directions,
				 struct ceiling_rates *rates)
{
	uint64_t rate;
	tcpx_status status = TCPX_OK;

	if (directions & 1) {
		status = ceiling_gpu_copy(memory->place.device, CEILING_D2H, &rate);
		if (status == TCPX_OK)
			rates->d2h[0] = (double)rate;
	}
	if (status == TCPX_OK && directions & 2) {
		status = ceiling_gpu_copy(memory->place.device, CEILING_H2D, &rate);
		if (status == TCPX_OK)
			rates->h2d[1] = (double)rate;
	}
	return status;
}

static tcpx_status measure_remote(struct perf_client *client, const struct perf_end_memory *memory,
				  unsigned directions, struct ceiling_rates *rates)
{
	struct perf_ceil_gpu what = {memory->place.device, directions >> 1 & 1, directions & 1};
	struct perf_ceil_rates found;
	tcpx_status status =
		perf_ask(client, PERF_CEIL_GPU, &what, sizeof(what), &found, sizeof(found));

	if (status == TCPX_OK) {
		rates->h2d[0] = (double)found.h2d;
		rates->d2h[1] = (double)found.d2h;
	}
	return status;
}

/* Whether this process also sees the GPU of the other end, and it is another one than its own. */
static tcpx_status perf_engines_measure_peer(const struct perf_path *path, unsigned directions,
					     struct ceiling_rates *rates)
{
	uint32_t mine = path->local.place.device, other;
	uint64_t rate = 0;
	tcpx_status status = TCPX_OK;

	if (cli_gpu_find(path->remote.uuid, &other) || other == mine)
		return TCPX_OK;
	if (directions & 1)
		status = ceiling_gpu_peer(mine, other, &rate);
	rates->peer += (double)rate;
	rate = 0;
	if (status == TCPX_OK && directions & 2)
		status = ceiling_gpu_peer(other, mine, &rate);
	rates->peer += (double)rate;
	rates->direct = !strcmp(path->transport, "local");
	return status;
}

tcpx_status perf_engines_measure(struct perf_client *client, unsigned directions,
				 const struct perf_path *path, struct ceiling_rates *out_rates)
{
	struct ceiling_rates rates = {0};
	tcpx_status status = TCPX_OK;

	if (is_gpu(&path->local))
		status = measure_local(&path->local, directions, &rates);
	if (status == TCPX_OK && is_gpu(&path->remote))
		status = measure_remote(client, &path->remote, directions, &rates);
	if (status == TCPX_OK && is_gpu(&path->local) && is_gpu(&path->remote))
		status = perf_engines_measure_peer(path, directions, &rates);
	if (status == TCPX_OK)
		*out_rates = rates;
	return status;
}

void perf_engines_apply(const struct ceiling_rates *rates, unsigned directions,
			struct ceiling_result *result)
{
	struct ceiling_rates all = *rates;

	all.tcp = result->tcp;
	result->d2h = all.d2h[0] + all.d2h[1];
	result->h2d = all.h2d[0] + all.h2d[1];
	result->peer = all.peer;
	result->bytes_per_second = ceiling_smallest(&all, directions);
}

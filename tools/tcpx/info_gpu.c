/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs in tcpx info: properties by the CUDA driver, and which GPU reaches which. */
#include "info_gpu.h"

#include <stdio.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cli_gpu.h"

static void version_text(int version, char *buf, size_t cap)
{
	snprintf(buf, cap, "%d.%d", version / 1000, version % 1000 / 10);
}

static void print_peers(uint32_t ordinal, uint32_t count)
{
	const char *comma = "";

	printf("  peer access ");
	for (uint32_t other = 0; other < count; other++) {
		if (other == ordinal || !cli_gpu_reaches(ordinal, other))
			continue;
		printf("%s%u", comma, other);
		comma = ",";
	}
	puts(*comma ? "" : "none");
}

static void print_gpu(uint32_t ordinal, uint32_t count)
{
	char bytes[BYTES_TEXT_MAX], node[16] = "?";
	struct cli_gpu gpu;

	if (cli_gpu_get(ordinal, &gpu) != TCPX_OK) {
		printf("  cuda:%-3u %s\n", ordinal, error_last()->what);
		return;
	}
	if (gpu.numa >= 0)
		snprintf(node, sizeof(node), "%d", gpu.numa);
	printf("  cuda:%-3u %s  %s  node %s  %s  sm_%u  %u SMs  %u copy engines", ordinal, gpu.pci,
	       gpu.name, node, bytes_format(gpu.bytes, bytes, sizeof(bytes)), gpu.capability,
	       gpu.sms, gpu.copy_engines);
	print_peers(ordinal, count);
}

void info_gpu_print(void)
{
	char version[16];
	uint32_t count;
	int number;

	if (cli_gpu_count(&count, &number) != TCPX_OK) {
		printf("gpus: none: %s\n", error_last()->what);
		return;
	}
	version_text(number, version, sizeof(version));
	printf("gpus: CUDA driver %s\n", version);
	for (uint32_t i = 0; i < count; i++)
		print_gpu(i, count);
}

static void info_gpu_put_gpu(struct cli_json *list, uint32_t ordinal, uint32_t count)
{
	char uuid[2 * CLI_GPU_UUID_BYTES + 1];
	struct cli_json *o, *peers;
	struct cli_gpu gpu;

	if (cli_gpu_get(ordinal, &gpu) != TCPX_OK)
		return;
	o = cli_json_object(list, NULL);
	if (!o)
		return;
	for (unsigned i = 0; i < CLI_GPU_UUID_BYTES; i++)
		snprintf(uuid + 2 * i, 3, "%02x", gpu.uuid[i]);
	cli_json_integer(o, "ordinal", ordinal);
	cli_json_text(o, "name", gpu.name);
	cli_json_text(o, "pci", gpu.pci);
	cli_json_text(o, "uuid", uuid);
	if (gpu.numa < 0)
		cli_json_null(o, "numa");
	else
		cli_json_integer(o, "numa", (uint64_t)gpu.numa);
	cli_json_integer(o, "bytes", gpu.bytes);
	cli_json_integer(o, "capability", gpu.capability);
	cli_json_integer(o, "sms", gpu.sms);
	cli_json_integer(o, "copy_engines", gpu.copy_engines);
	peers = cli_json_array(o, "peers");
	for (uint32_t other = 0; peers && other < count; other++)
		if (other != ordinal && cli_gpu_reaches(ordinal, other))
			cli_json_integer(peers, NULL, other);
}

void info_gpu_put(struct cli_json *json)
{
	struct cli_json *cuda = cli_json_object(json, "cuda");
	struct cli_json *list = cuda ? cli_json_array(cuda, "gpus") : NULL;
	char version[16];
	uint32_t count;
	int number;

	if (!list)
		return;
	if (cli_gpu_count(&count, &number) != TCPX_OK) {
		cli_json_null(cuda, "driver");
		cli_json_text(cuda, "reason", error_last()->what);
		return;
	}
	version_text(number, version, sizeof(version));
	cli_json_text(cuda, "driver", version);
	for (uint32_t i = 0; i < count; i++)
		info_gpu_put_gpu(list, i, count);
}

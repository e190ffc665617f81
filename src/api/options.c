/* SPDX-License-Identifier: Apache-2.0 */
/* Public calls of include/tcpx/query.h that need no session: version, features, options. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tcpx/query.h>

#include "api/checks.h"
#include "base/bytes.h"
#include "base/config.h"
#include "base/error.h"
#include "sys/crypto.h"

#define TEXT_OF(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

#ifdef TCPX_WITH_NVCC
#define CUDA_REASON "GPU memory by copy engines and kernels; the driver is loaded when used"
#else
#define CUDA_REASON "GPU memory by copy engines and kernels that the driver compiles from PTX"
#endif

static const struct {
	const char *name;
	uint32_t built;
	const char *reason;
} features[] = {
	{"tcp", 1, "several channels per peer over epoll and non-blocking sockets"},
	{"local", 1, "same host: a ring in shared memory; one copy inside a process, or by option"},
	{"crypto", 0, ""}, /* filled in by tcpx_feature_get() */
	{"cuda", 1, CUDA_REASON},
	{"ncclnet", 1, "plugin channels over ncclNet plugins, v6 to v12, for host and GPU memory"},
	{"tls", 0, "not in this version: connections are authenticated, not encrypted"},
	{"io_uring", 0, "not used: measurements show no gain over epoll"},
};

const char *tcpx_version(void)
{
	return VERSION_TEXT(TCPX_VERSION_MAJOR, TCPX_VERSION_MINOR, TCPX_VERSION_PATCH);
}

tcpx_status tcpx_feature_get(uint32_t index, tcpx_feature *out_feature)
{
	tcpx_feature feature;

	API_OUT(tcpx_feature, out_feature, reason);
	if (index >= sizeof(features) / sizeof(features[0]))
		return TCPX_ERR_NOT_FOUND;
	feature = (tcpx_feature){.name = features[index].name,
				 .built = features[index].built,
				 .reason = features[index].reason};
	if (!strcmp(feature.name, "crypto")) {
		feature.built = sys_crypto_available();
		feature.reason = sys_crypto_reason();
	}
	api_out_write(out_feature, &feature, sizeof(feature));
	return TCPX_OK;
}

tcpx_status tcpx_option_get(uint32_t index, tcpx_option *out_option)
{
	static const char *const sources[] = {"default", "environment", "alias", "set"};
	const struct config_row *row = config_row(index);
	const struct config_value *value;
	tcpx_option option;

	API_OUT(tcpx_option, out_option, source);
	if (!row)
		return TCPX_ERR_NOT_FOUND;
	value = config_value((enum config_id)index);
	option = (tcpx_option){.name = row->name,
			       .alias = row->aliases,
			       .type = config_type_name(row->type),
			       .default_text = row->default_text,
			       .range = config_range(index),
			       .help = row->help,
			       .source = sources[value->source]};
	snprintf(option.value, sizeof(option.value), "%s", value->text);
	api_out_write(out_option, &option, sizeof(option));
	return TCPX_OK;
}

tcpx_status tcpx_option_set(const char *name, const char *value)
{
	if (!name || !value)
		return error_set(TCPX_ERR_INVALID, 0, "tcpx_option_set: %s is NULL",
				 name ? "value" : "name");
	return config_set(name, value);
}

tcpx_status tcpx_option_parse(const char *name, const char *value, uint64_t *out_value)
{
	if (!name || !value || !out_value)
		return error_set(TCPX_ERR_INVALID, 0, "tcpx_option_parse: %s is NULL",
				 !name	 ? "name"
				 : value ? "out_value"
					 : "value");
	return config_check(name, value, out_value);
}

/* 1 once unknown variables are reported: by a program that asked for them, or by a warning. */
static _Atomic int unknown_asked;

void api_options_warn(void)
{
	const char *nearest;
	char name[96];

	if (atomic_exchange(&unknown_asked, 1))
		return;
	for (uint32_t i = 0; tcpx_option_unknown(i, name, sizeof(name), &nearest) == TCPX_OK; i++)
		if (*nearest) /* others may belong to another program, or to Kubernetes */
			LOG_WARN("unknown variable %s is ignored; did you mean %s?", name, nearest);
}

tcpx_status tcpx_option_unknown(uint32_t index, char *name, size_t cap, const char **out_nearest)
{
	if (!name || !cap || !out_nearest)
		return error_set(TCPX_ERR_INVALID, 0, "tcpx_option_unknown: %s",
				 !name	? "name is NULL"
				 : !cap ? "cap is 0"
					: "out_nearest is NULL");
	atomic_store(&unknown_asked, 1);
	for (char **entry = environ; entry && *entry; entry++) {
		size_t len = strcspn(*entry, "=");

		if (strncmp(*entry, "TCPX_", 5) && strncmp(*entry, "UCCL_TCPX_", 10))
			continue;
		if (config_known(*entry, len) || index--)
			continue;
		snprintf(name, cap, "%.*s", (int)len, *entry);
		*out_nearest = config_nearest(*entry, len);
		return TCPX_OK;
	}
	return TCPX_ERR_NOT_FOUND;
}

tcpx_status tcpx_parse_bytes(const char *text, uint64_t *out_bytes)
{
	if (!text || !out_bytes)
		return error_set(TCPX_ERR_INVALID, 0, "tcpx_parse_bytes: %s is NULL",
				 text ? "out_bytes" : "text");
	if (bytes_parse(text, out_bytes))
		return error_set(TCPX_ERR_INVALID, 0,
				 "'%.64s' is not a byte count; write 65536, 64K, 64KiB or 1.5M",
				 text);
	return TCPX_OK;
}

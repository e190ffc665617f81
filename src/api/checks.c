/* SPDX-License-Identifier: Apache-2.0 */
/* Sized structs across versions. */
#include "api/checks.h"

#include <string.h>

tcpx_status api_null(const char *name)
{
	return error_set(TCPX_ERR_INVALID, 0, "argument %s is NULL", name);
}

tcpx_status api_opts(const char *name, const void *opts, size_t min, void *out, size_t size)
{
	const unsigned char *bytes = opts;
	size_t given;

	memset(out, 0, size);
	if (!opts)
		return TCPX_OK;
	memcpy(&given, opts, sizeof(given));
	if (given < min || given > 65536) {
		error_set(TCPX_ERR_INVALID, 0, "%s.sz is %zu", name, given);
		return error_next("fill the struct with TCPX_OPTS()");
	}
	for (size_t i = size; i < given; i++)
		if (bytes[i]) {
			error_set(TCPX_ERR_INVALID, 0,
				  "%s has a field set that this library does not know (byte %zu)",
				  name, i);
			return error_next("use a newer libtcpx, or leave the field 0");
		}
	memcpy(out, opts, given < size ? given : size);
	return TCPX_OK;
}

tcpx_status api_out(const char *name, void *out, const void *from, size_t size)
{
	size_t given;

	memcpy(&given, out, sizeof(given));
	if (given < sizeof(size_t) || given > 65536) {
		error_set(TCPX_ERR_INVALID, 0, "%s.sz is %zu", name, given);
		return error_next("set sz to the size of the struct");
	}
	memset(out, 0, given);
	memcpy(out, from, given < size ? given : size);
	memcpy(out, &given, sizeof(given));
	return TCPX_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and copies structs whose size may differ between the caller and this library. */
#include "api/checks.h"

#include <string.h>

#define API_SIZE_MAX 65536 /* no struct is that large; a larger sz was not initialised */

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
	if (given < min || given > API_SIZE_MAX) {
		error_set(TCPX_ERR_INVALID, 0, "%s.sz is %zu, which is not the size of that struct",
			  name, given);
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

tcpx_status api_out_check(const char *name, const void *out, size_t first)
{
	size_t given;

	if (!out)
		return error_set(TCPX_ERR_INVALID, 0, "the %s to fill is NULL", name);
	memcpy(&given, out, sizeof(given));
	if (given >= first && given <= API_SIZE_MAX)
		return TCPX_OK;
	error_set(TCPX_ERR_INVALID, 0, "%s.sz is %zu, outside %zu..%d", name, given, first,
		  API_SIZE_MAX);
	return error_next("set sz to sizeof(%s) before the call; in an array, in the first "
			  "element",
			  name);
}

void api_out_write(void *out, const void *from, size_t size)
{
	size_t given;

	memcpy(&given, out, sizeof(given));
	api_out_element(out, 0, given, from, size);
}

void api_out_element(void *array, size_t index, size_t sz, const void *from, size_t size)
{
	unsigned char *out = (unsigned char *)array + index * sz;

	memcpy(out, from, sz < size ? sz : size);
	if (sz > size)
		memset(out + size, 0, sz - size);
	memcpy(out, &sz, sizeof(sz));
}

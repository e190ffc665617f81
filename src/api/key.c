/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls that make key and identity files. */
#include <tcpx/query.h>

#include "base/error.h"
#include "ctl/conn.h"

TCPX_API tcpx_status tcpx_key_create(const char *path, int append)
{
	if (!path || !*path)
		return error_set(TCPX_ERR_INVALID, 0, "no path for the key file");
	return ctl_keys_create(path, append);
}

TCPX_API tcpx_status tcpx_identity_create(const char *path)
{
	if (!path || !*path)
		return error_set(TCPX_ERR_INVALID, 0, "no path for the identity file");
	return ctl_identity_create(path);
}

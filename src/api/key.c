/* SPDX-License-Identifier: Apache-2.0 */
/* The public call that makes key files. */
#include <tcpx/query.h>

#include "base/error.h"
#include "ctl/conn.h"

TCPX_API tcpx_status tcpx_key_create(const char *path, int append)
{
	if (!path || !*path)
		return error_set(TCPX_ERR_INVALID, 0, "no path for the key file");
	return ctl_keys_create(path, append);
}

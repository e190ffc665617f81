/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls for key and identity files. */
#include <string.h>

#include <tcpx/query.h>

#include "api/checks.h"
#include "ctl/conn.h"

TCPX_API tcpx_status tcpx_key_create(const char *path, bool append)
{
	if (!path || !*path)
		return error_set(TCPX_ERR_INVALID, 0, "the path of the key file is empty");
	return ctl_keys_create(path, append);
}

TCPX_API tcpx_status tcpx_identity_create(const char *path)
{
	if (!path || !*path)
		return error_set(TCPX_ERR_INVALID, 0, "the path of the identity file is empty");
	return ctl_identity_create(path);
}

TCPX_API tcpx_status tcpx_identity_key(const char *path, char out_key[65])
{
	struct ctl_identity identity;
	tcpx_status status;

	if (!path || !*path)
		return error_set(TCPX_ERR_INVALID, 0, "the path of the identity file is empty");
	API_NOT_NULL(out_key);
	status = ctl_identity_load(path, &identity);
	if (status == TCPX_OK)
		ctl_key_text(identity.public_key, out_key);
	explicit_bzero(&identity, sizeof(identity));
	return status;
}

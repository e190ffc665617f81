/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the key pairs of sessions, and their uuids. */
#include <string.h>

#include "ctl/conn.h"
#include "sys/crypto.h"

tcpx_status ctl_identity_make(struct ctl_identity *out_identity)
{
	struct ctl_identity identity = {.there = true};
	tcpx_status status;

	*out_identity = (struct ctl_identity){0};
	if (!sys_crypto_available())
		return TCPX_OK;
	status = sys_random(identity.secret, sizeof(identity.secret));
	if (status == TCPX_OK)
		status = sys_sign_public(identity.secret, identity.public_key);
	if (status == TCPX_OK)
		*out_identity = identity;
	explicit_bzero(&identity, sizeof(identity));
	return status;
}

tcpx_status ctl_identity_uuid(const uint8_t public_key[CTL_KEY_BYTES],
			      const uint8_t incarnation[WIRE_UUID_BYTES],
			      uint8_t out_uuid[WIRE_UUID_BYTES])
{
	const struct sys_span spans[] = {
		{"tcpx uuid", 9}, {public_key, CTL_KEY_BYTES}, {incarnation, WIRE_UUID_BYTES}};
	uint8_t hash[SYS_HASH_BYTES];
	tcpx_status status = sys_sha256(spans, 3, hash);

	if (status == TCPX_OK)
		memcpy(out_uuid, hash, WIRE_UUID_BYTES);
	return status;
}

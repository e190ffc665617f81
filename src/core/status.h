/* SPDX-License-Identifier: Apache-2.0 */
/* How a status is encoded in a frame: as its code, negated. */
#ifndef CORE_STATUS_H
#define CORE_STATUS_H

#include <stdint.h>

#include <tcpx/types.h>

static inline uint64_t core_status_pack(tcpx_status status)
{
	return (uint64_t)(uint32_t)(-(int)status);
}

/* Returns the status that the peer sent as `value`. Values above 99, which no status has, become
 * ERR_REMOTE. Values up to 99 are not checked. */
static inline tcpx_status core_status_unpack(uint64_t value)
{
	if (value == 0)
		return TCPX_OK;
	return value <= 99 ? (tcpx_status) - (int)value : TCPX_ERR_REMOTE;
}

#endif

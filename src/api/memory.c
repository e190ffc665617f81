/* SPDX-License-Identifier: Apache-2.0 */
/* Public calls of include/tcpx/memory.h. */
#include "api/checks.h"
#include "mem/kind.h"
#include "sys/cuda.h"

tcpx_status tcpx_memory_devices(enum tcpx_mem_kind kind, uint32_t *out_count)
{
	const struct sys_cuda *cuda;

	API_NOT_NULL(out_count);
	switch (kind) {
	case TCPX_MEM_HOST:
		*out_count = 1;
		return TCPX_OK;
	case TCPX_MEM_CUDA:
		cuda = sys_cuda_driver();
		if (!cuda)
			return tcpx_last_error()->status;
		*out_count = (uint32_t)cuda->devices;
		return TCPX_OK;
	default:
		if (!mem_kind_get(kind))
			return error_set(TCPX_ERR_INVALID, 0, "there is no memory kind %d",
					 (int)kind);
		*out_count = 1;
		return TCPX_OK;
	}
}

tcpx_status tcpx_region_register(tcpx_session *session, void *addr, uint64_t length,
				 const tcpx_region_opts *opts, tcpx_region *out_region)
{
	tcpx_region_opts copy;
	tcpx_status status;

	API_ENTER(session);
	API_NOT_NULL(addr);
	API_NOT_NULL(out_region);
	if (!length)
		return error_set(TCPX_ERR_INVALID, 0, "length is 0, a region has at least 1 byte");
	if ((uint64_t)(uintptr_t)addr + length < length)
		return error_set(TCPX_ERR_INVALID, 0, "address %p with length %llu wraps around",
				 addr, (unsigned long long)length);
	status = api_opts("tcpx_region_opts", opts, sizeof(size_t), &copy, sizeof(copy));
	if (status != TCPX_OK)
		return status;
	copy.sz = sizeof(copy);
	return engine_region_register(api_session(session), addr, length, &copy, out_region);
}

tcpx_status tcpx_region_deregister(tcpx_session *session, tcpx_region region, int64_t timeout_ns)
{
	API_ENTER(session);
	return engine_region_deregister(api_session(session), region.id, timeout_ns);
}

tcpx_status tcpx_region_export(tcpx_session *session, tcpx_region region, void *token)
{
	API_ENTER(session);
	API_NOT_NULL(token);
	return engine_region_export(api_session(session), region.id, token);
}

tcpx_status tcpx_region_token_for(tcpx_session *session, tcpx_region region, tcpx_peer peer,
				  void *token)
{
	API_ENTER(session);
	API_NOT_NULL(token);
	return engine_region_token_for(api_session(session), region.id, peer.id, token);
}

tcpx_status tcpx_region_import(tcpx_session *session, tcpx_peer peer, const void *token,
			       size_t token_len, tcpx_region *out_region)
{
	API_ENTER(session);
	API_NOT_NULL(token);
	API_NOT_NULL(out_region);
	return engine_region_import(api_session(session), peer.id, token, token_len, out_region);
}

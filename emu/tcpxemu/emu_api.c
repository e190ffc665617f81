/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the tables, each brought to the one form that the emulator has inside. */
#include "emu_abi.h"

#include <stdlib.h>
#include <string.h>

char emu_api_name[64] = EMU_NAME;

/* The name is read before init: TCPXEMU_NAME counts when the library is loaded. */
__attribute__((constructor)) static void name_read(void)
{
	const char *name = getenv("TCPXEMU_NAME");

	if (name && *name && strlen(name) < sizeof(emu_api_name))
		memcpy(emu_api_name, name, strlen(name) + 1);
}

int emu_api_props(int dev, struct emu_props_v12 *out)
{
	const struct emu_nic *nic;

	if (!emu_config.devs)
		return emu_violation(TCPXEMU_NO_INIT, "getProperties");
	if (dev < 0 || dev >= emu_config.devs)
		return emu_violation(TCPXEMU_BAD_DEV, "properties of device %d of %d", dev,
				     emu_config.devs);
	nic = emu_nic(dev);
	*out = (struct emu_props_v12){
		.name = (char *)(uintptr_t)nic->name,
		.pci_path = nic->pci[0] ? (char *)(uintptr_t)nic->path : NULL,
		.guid = (uint64_t)dev,
		.ptr_support = emu_flavour.device ? EMU_HOST | EMU_CUDA : EMU_HOST,
		.speed = 200000,
		.max_comms = 65536,
		.max_recvs = 1,
		.device_type = EMU_UNPACK,
		.device_version = EMU_UNPACK_VERSION,
		.virtual_count = 1,
		.virtual_devs = {dev},
		.max_p2p_bytes = (size_t)1 << 30,
		.max_coll_bytes = (size_t)1 << 29,
		.max_multi_request = 1,
		.rail = -1,
		.plane = -1,
	};
	return EMU_OK;
}

int emu_api_props_v9(int dev, struct emu_props_v9 *out)
{
	struct emu_props_v12 all = {0};
	int rc = emu_api_props(dev, &all);

	if (rc)
		return rc;
	memcpy(out, &all, offsetof(struct emu_props_v9, virtual_count));
	out->virtual_count = 1;
	memset(out->virtual_devs, 0, sizeof(out->virtual_devs));
	out->virtual_devs[0] = dev;
	out->max_p2p_bytes = all.max_p2p_bytes;
	out->max_coll_bytes = all.max_coll_bytes;
	return EMU_OK;
}

int emu_api_connect(int dev, void *handle, void **out, struct emu_device_handle **devhandle)
{
	(void)devhandle;
	return emu_connect(dev, handle, out);
}

int emu_api_regmr_int(void *comm, void *data, int size, int type, void **mr)
{
	return emu_comm_regmr(comm, data, size < 0 ? SIZE_MAX : (size_t)size, type, mr);
}

int emu_api_isend(void *comm, void *data, size_t size, int tag, void *mr, void **request)
{
	(void)tag;
	return emu_isend(comm, data, size, mr, request);
}

int emu_api_isend_int(void *comm, void *data, int size, int tag, void *mr, void **request)
{
	return emu_api_isend(comm, data, (size_t)size, tag, mr, request);
}

int emu_api_irecv(void *comm, int n, void **data, size_t *sizes, int *tags, void **mrs,
		  void **request)
{
	(void)tags;
	return emu_irecv(comm, n, data, sizes, mrs, request);
}

int emu_api_irecv_int(void *comm, int n, void **data, int *sizes, int *tags, void **mrs,
		      void **request)
{
	size_t size = n == 1 ? (size_t)sizes[0] : 0;

	return emu_api_irecv(comm, n, data, &size, tags, mrs, request);
}

int emu_api_isend_profile(void *comm, void *data, size_t size, int tag, void *mr, void *profile,
			  void **request)
{
	(void)profile;
	return emu_api_isend(comm, data, size, tag, mr, request);
}

int emu_api_irecv_profile(void *comm, int n, void **data, size_t *sizes, int *tags, void **mrs,
			  void **profiles, void **request)
{
	(void)profiles;
	return emu_api_irecv(comm, n, data, sizes, tags, mrs, request);
}

int emu_api_iflush(void *comm, int n, void **data, int *sizes, void **mrs, void **request)
{
	(void)comm;
	(void)n;
	(void)data;
	(void)sizes;
	(void)mrs;
	(void)request;
	return emu_iflush();
}

int emu_api_init_comm(void **ctx, uint64_t id, void *config, emu_logger logger, void *profiler)
{
	static char one;

	(void)id;
	(void)config;
	(void)profiler;
	*ctx = &one;
	return emu_init(logger);
}

int emu_api_listen_ctx(void *ctx, int dev, void *handle, void **out)
{
	(void)ctx;
	return emu_listen(dev, handle, out);
}

int emu_api_connect_ctx(void *ctx, int dev, void *handle, void **out,
			struct emu_device_handle **devhandle)
{
	(void)ctx;
	(void)devhandle;
	return emu_connect(dev, handle, out);
}

int emu_api_finalize(void *ctx)
{
	(void)ctx;
	return EMU_OK;
}

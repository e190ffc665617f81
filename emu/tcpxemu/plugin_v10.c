/* SPDX-License-Identifier: Apache-2.0 */
/* The table of v10: a profiler's handles, and a configuration at connect. */
#include "emu_abi.h"

const struct emu_flavour emu_flavour = {.version = 10, .device = true};

static int init_profile(emu_logger logger, void *profiler)
{
	(void)profiler;
	return emu_init(logger);
}

static int connect_config(int dev, void *config, void *handle, void **out,
			  struct emu_device_handle **devhandle)
{
	(void)config;
	return emu_api_connect(dev, handle, out, devhandle);
}

TCPXEMU_API volatile struct emu_table_v10 ncclNetPlugin_v10 = {
	EMU_SAME,
	.init = init_profile,
	.get_properties = emu_api_props_v9,
	.listen = emu_listen,
	.connect = connect_config,
	.reg_mr = emu_comm_regmr,
	.isend = emu_api_isend_profile,
	.irecv = emu_api_irecv_profile,
};

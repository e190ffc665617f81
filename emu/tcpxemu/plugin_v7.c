/* SPDX-License-Identifier: Apache-2.0 */
/* The table of v7, the one that the original has. */
#include "emu_abi.h"

const struct emu_flavour emu_flavour = {.version = 7, .device = true};

static int properties(int dev, struct emu_props_v7 *out)
{
	struct emu_props_v12 all = {0};
	int rc = emu_api_props(dev, &all);

	if (!rc)
		*out = (struct emu_props_v7){all.name,	      all.pci_path,	 all.guid,
					     all.ptr_support, all.speed,	 all.port,
					     all.latency,     all.max_comms,	 all.max_recvs,
					     all.device_type, all.device_version};
	return rc;
}

TCPXEMU_API volatile struct emu_table_v7 ncclNetPlugin_v7 = {
	EMU_SAME,
	.init = emu_init,
	.get_properties = properties,
	.listen = emu_listen,
	.connect = emu_api_connect,
	.reg_mr = emu_api_regmr_int,
	.isend = emu_api_isend_int,
	.irecv = emu_api_irecv_int,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The table of v11: init is per communicator and gives a context. */
#include "emu_abi.h"

const struct emu_flavour emu_flavour = {.version = 11, .device = true, .many_inits = true};

static int properties(int dev, struct emu_props_v11 *out)
{
	out->max_multi_request = 1;
	return emu_api_props_v9(dev, &out->v9);
}

TCPXEMU_API volatile struct emu_table_v11 ncclNetPlugin_v11 = {
	EMU_SAME,
	.init = emu_api_init_comm,
	.get_properties = properties,
	.listen = emu_api_listen_ctx,
	.connect = emu_api_connect_ctx,
	.reg_mr = emu_comm_regmr,
	.isend = emu_api_isend_profile,
	.irecv = emu_api_irecv_profile,
	.finalize = emu_api_finalize,
};

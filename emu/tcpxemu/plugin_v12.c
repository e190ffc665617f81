/* SPDX-License-Identifier: Apache-2.0 */
/* The table of v12: a device may be made of eight, and has a rail and a plane. */
#include "emu_abi.h"

const struct emu_flavour emu_flavour = {.version = 12, .device = true, .many_inits = true};

TCPXEMU_API volatile struct emu_table_v12 ncclNetPlugin_v12 = {
	EMU_SAME,
	.init = emu_api_init_comm,
	.get_properties = emu_api_props,
	.listen = emu_api_listen_ctx,
	.connect = emu_api_connect_ctx,
	.reg_mr = emu_comm_regmr,
	.isend = emu_api_isend_profile,
	.irecv = emu_api_irecv_profile,
	.finalize = emu_api_finalize,
};

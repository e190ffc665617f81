/* SPDX-License-Identifier: Apache-2.0 */
/* The table of v9: sizes of messages are size_t too, and a device says what it is made of. */
#include "emu_abi.h"

const struct emu_flavour emu_flavour = {.version = 9, .device = true};

TCPXEMU_API volatile struct emu_table_v9 ncclNetPlugin_v9 = {
	EMU_SAME,
	.init = emu_init,
	.get_properties = emu_api_props_v9,
	.listen = emu_listen,
	.connect = emu_api_connect,
	.reg_mr = emu_comm_regmr,
	.isend = emu_api_isend,
	.irecv = emu_api_irecv,
};

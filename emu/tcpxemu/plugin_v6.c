/* SPDX-License-Identifier: Apache-2.0 */
/* The table of v6: host memory only, no device queue, nothing to consume. */
#include "emu_abi.h"

#include <string.h>

const struct emu_flavour emu_flavour = {.version = 6};

static int properties(int dev, struct emu_props_v6 *out)
{
	struct emu_props_v12 all = {0};
	int rc = emu_api_props(dev, &all);

	if (!rc)
		*out = (struct emu_props_v6){all.name,	      all.pci_path,  all.guid,
					     all.ptr_support, all.speed,     all.port,
					     all.latency,     all.max_comms, all.max_recvs};
	return rc;
}

static int accept_plain(void *listen, void **out)
{
	return emu_accept(listen, out, NULL);
}

TCPXEMU_API volatile struct emu_table_v6 ncclNetPlugin_v6 = {
	.name = emu_api_name,
	.init = emu_init,
	.devices = emu_devices,
	.get_properties = properties,
	.listen = emu_listen,
	.connect = emu_connect,
	.accept = accept_plain,
	.reg_mr = emu_api_regmr_int,
	.dereg_mr = emu_comm_deregmr,
	.isend = emu_api_isend_int,
	.irecv = emu_api_irecv_int,
	.iflush = emu_api_iflush,
	.test = emu_test,
	.close_send = emu_comm_close,
	.close_recv = emu_comm_close,
	.close_listen = emu_close_listen,
};

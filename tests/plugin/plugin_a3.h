/* SPDX-License-Identifier: Apache-2.0 */
/* An A3 host for the library, the driver's stand-in and the emulator: each NIC has two GPUs. */
#ifndef PLUGIN_A3_H
#define PLUGIN_A3_H

#include "plugin_rig.h"
#include "sysfs_tree.h"

#define A3_NICS 4
#define A3_GPUS 8

/* In the environment of this process and its children; removed by sysfs_remove. */
CHECK_UNUSED static void a3_begin(struct sysfs_tree *a3)
{
	CHECK(!sysfs_unpack(a3, "a3-high"));
	side_env("TCPX_SYSFS", a3->root);
	side_env("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX", a3->root); /* no RxDM is there */
	side_env("FAKECUDA_DEVICES", "8");
	side_env("FAKECUDA_PCI", "04,05,0a,0b,84,85,8a,8b");
	side_env("TCPXEMU_MEM", "cuda-host-bounce");
	side_env("TCPXEMU_STEER", "strict");
	side_env("TCPX_PAIRING", "on");
}

/* The NIC that owns a GPU. */
CHECK_UNUSED static const char *a3_nic(uint32_t gpu)
{
	static const char *const nics[A3_NICS] = {"eth1", "eth2", "eth3", "eth4"};

	return nics[gpu / (A3_GPUS / A3_NICS)];
}

#endif

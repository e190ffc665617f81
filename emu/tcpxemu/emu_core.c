/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables of all versions share: init and the small calls. */
#include "emu.h"

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialised;

static int init_once(emu_logger logger)
{
	emu_log_to(logger);
	if (emu_config_read())
		return EMU_INTERNAL;
	if (!emu_config.enabled)
		return EMU_INTERNAL;
	if (emu_config.strategy != 3) {
		EMU_WARN("TCPXEMU: flow steering strategy %d is not supported",
			 emu_config.strategy);
		return EMU_INTERNAL;
	}
	if (emu_config.mode != EMU_MEM_CPU && emu_cuda_load()) {
		EMU_WARN("TCPXEMU: no CUDA driver for this memory mode");
		return EMU_INTERNAL;
	}
	emu_stats_start();
	EMU_INFO("TCPXEMU: %d devices, chunk %u, %d sockets, %d threads", emu_config.devs,
		 emu_config.chunk, emu_config.socks, emu_config.threads);
	return EMU_OK;
}

int emu_init(emu_logger logger)
{
	int rc;

	atomic_fetch_add(&emu_count.inits, 1);
	if (!logger)
		return emu_violation(TCPXEMU_LOGGER, "init");
	pthread_mutex_lock(&init_lock);
	if (!initialised) {
		rc = init_once(logger);
		initialised = rc == EMU_OK;
	} else {
		rc = emu_flavour.many_inits
			     ? EMU_OK
			     : emu_violation(TCPXEMU_INIT_TWICE, "gpu lib init twice");
	}
	pthread_mutex_unlock(&init_lock);
	return rc;
}

int emu_devices(int *out)
{
	if (!emu_config.devs)
		return emu_violation(TCPXEMU_NO_INIT, "devices");
	*out = emu_config.devs;
	return EMU_OK;
}

int emu_get_device_mr(void *comm, void *mr, void **out)
{
	(void)comm;
	(void)mr;
	(void)out;
	return EMU_OK;
}

int emu_iflush(void)
{
	return emu_violation(TCPXEMU_IFLUSH, "it follows a pointer that nobody set");
}

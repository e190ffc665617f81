/* SPDX-License-Identifier: Apache-2.0 */
/* What an emulated plugin has counted in this process by the end of a case. */
#include "conform.h"
#include "emulator.h"

void plugin_check(void)
{
	struct tcpxemu_stats stats;
	struct emulator emulator;

	if (!conform_plugin() || !emulator_find(getenv("TCPX_PLUGIN"), &emulator))
		return;
	stats = emulator_closed(&emulator);
	CHECK_EQ(stats.pages_in_use, 0);
	CHECK_EQ(stats.violations, 0);
	for (int i = 0; i <= TCPXEMU_GPUS_MAX; i++)
		CHECK(stats.pool_imports[i] <= 1);
	CHECK(stats.in_flight_peak <= 16);
}

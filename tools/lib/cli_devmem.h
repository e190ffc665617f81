/* SPDX-License-Identifier: Apache-2.0 */
/* Number of packets that arrived in GPU memory during a run: rx_devmem_pkts of the plugin's
 * NICs. */
#ifndef TOOLS_CLI_DEVMEM_H
#define TOOLS_CLI_DEVMEM_H

#include "cli_plugin.h"

#define CLI_DEVMEM_NICS 16

struct cli_devmem {
	unsigned count;
	struct {
		char name[64];
		uint64_t before, rise;
		int known; /* the counter is available; after the end: its rise is */
	} nics[CLI_DEVMEM_NICS];
};

/* Reads the counters of the devices of a loaded plugin. */
void cli_devmem_start(struct cli_devmem *devmem, const struct cli_plugin *plugin);

enum cli_devmem_verdict { CLI_DEVMEM_UNKNOWN, CLI_DEVMEM_NONE, CLI_DEVMEM_SOME };

/* Computes the rise of each NIC and writes it as text. */
enum cli_devmem_verdict cli_devmem_end(struct cli_devmem *devmem, char *text, size_t cap);
/* After the end: "eth1 +12 eth2 +0", or "not available". */
void cli_devmem_text(const struct cli_devmem *devmem, char *text, size_t cap);

#endif

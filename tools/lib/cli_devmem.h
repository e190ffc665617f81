/* SPDX-License-Identifier: Apache-2.0 */
/* How many packets came into GPU memory while something ran: rx_devmem_pkts of a plugin's NICs. */
#ifndef TOOLS_CLI_DEVMEM_H
#define TOOLS_CLI_DEVMEM_H

#include "cli_plugin.h"

#define CLI_DEVMEM_NICS 16

struct cli_devmem {
	unsigned count;
	struct {
		char name[64];
		uint64_t before, rise;
		int known; /* of the counter; behind the end of the rise */
	} nics[CLI_DEVMEM_NICS];
};

/* Of the devices of a plugin that is loaded. */
void cli_devmem_start(struct cli_devmem *devmem, const struct cli_plugin *plugin);

enum cli_devmem_verdict { CLI_DEVMEM_UNKNOWN, CLI_DEVMEM_NONE, CLI_DEVMEM_SOME };

/* The rise of each NIC; with its text. */
enum cli_devmem_verdict cli_devmem_end(struct cli_devmem *devmem, char *text, size_t cap);
/* Behind the end: "eth1 +12  eth2 +0", or "not available". */
void cli_devmem_text(const struct cli_devmem *devmem, char *text, size_t cap);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --transport plugin and gpudirect of perf and serve: sets the environment before the library and
 * the plugin read it, and defines the options for that.
 */
#ifndef TOOLS_CLI_PLUGIN_H
#define TOOLS_CLI_PLUGIN_H

#include "cli_options.h"

#define CLI_UNPACKS "kernel|d2d|host|none|host-recv"

struct cli_plugin {
	const char *file, *nic;
	uint64_t channels, unpack, gpu;
	int verbose;
};

/* Rows of an option table whose struct has a cli_plugin at a field. */
#define CLI_PLUGIN_OPTIONS(at)                                                                     \
	{"plugin",                                                                                 \
	 "FILE",                                                                                   \
	 CLI_RULE_TEXT,                                                                            \
	 at(plugin.file),                                                                          \
	 "default",                                                                                \
	 CLI_ENV(PLUGIN),                                                                          \
	 "ncclNet plugin; default: GPUDirect-TCPX",                                                \
	 .group = "Plugins"},                                                                      \
		{"nic",                                                                            \
		 "NAME[,...]",                                                                     \
		 CLI_RULE_TEXT,                                                                    \
		 at(plugin.nic),                                                                   \
		 NULL,                                                                             \
		 0,                                                                                \
		 "the plugin's devices, or all (default: TCPX_NIC)"},                              \
		{"plugin-channels",    "N", {CLI_COUNT, 1, 63}, at(plugin.channels), NULL, 0,      \
		 "plugin channels [4]"},                                                           \
		{"gpu",                                                                            \
		 "N",                                                                              \
		 {CLI_COUNT, 0, 1023},                                                             \
		 at(plugin.gpu),                                                                   \
		 NULL,                                                                             \
		 0,                                                                                \
		 "gpudirect: GPU of this process [perf: that of --mem]"},                          \
		{"unpack",                                                                         \
		 "HOW",                                                                            \
		 {CLI_CHOICE, 0, 0, CLI_UNPACKS},                                                  \
		 at(plugin.unpack),                                                                \
		 NULL,                                                                             \
		 0,                                                                                \
		 "gpudirect: kernel, d2d, host, none, host-recv"},                                 \
	{                                                                                          \
		"verbose", NULL, CLI_RULE_FLAG, at(plugin.verbose), NULL, 0,                       \
			"gpudirect: show the environment of the plugin"                            \
	}

/* Refuses options that the transports of the command do not use: an exit code after a line; else
 * CLI_GO. messages: plugin or gpudirect is one of the transports. */
int cli_plugin_usage(const struct cli_command *command, int messages, int gpudirect);

/*
 * Sets the environment of this process, before anything reads it. gpudirect: the rules of TCPX;
 * gpu: that of --mem, if --gpu is not given; -1: none; message_bytes: most bytes of a message, 0:
 * the default. Returns CLI_GO, or an exit code if the environment does not suit the plugin, after
 * printing each problem with its remedy.
 */
int cli_plugin_prepare(const struct cli_command *command, const struct cli_plugin *plugin,
		       int gpudirect, int gpu, uint64_t message_bytes);

/* How arriving messages are unpacked, by option or environment: a word of CLI_UNPACKS. After
 * cli_plugin_prepare(). */
const char *cli_plugin_unpack(void);
#define CLI_HOST_RECV "host-recv" /* no packet is steered into GPU memory */
#define CLI_UNPACK_NONE "none"	  /* received bytes are dropped */

#endif

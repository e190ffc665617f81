/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --transport plugin and gpudirect, of perf and of serve: what the process's environment must say
 * before the library and the plugin read it, and the options that follow.
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
	 "ncclNet plugin; default: where TCPX's is"},                                              \
		{"nic",                                                                            \
		 "NAME[,...]",                                                                     \
		 CLI_RULE_TEXT,                                                                    \
		 at(plugin.nic),                                                                   \
		 NULL,                                                                             \
		 0,                                                                                \
		 "the plugin's devices, or all (default: TCPX_NIC)"},                              \
		{"plugin-channels",	    "N", {CLI_COUNT, 1, 63}, at(plugin.channels), NULL, 0, \
		 "channels of messages [4]"},                                                      \
		{"gpu",                                                                            \
		 "N",                                                                              \
		 {CLI_COUNT, 0, 1023},                                                             \
		 at(plugin.gpu),                                                                   \
		 NULL,                                                                             \
		 0,                                                                                \
		 "gpudirect: GPU of this process [perf: --mem's]"},                                \
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

/* Options that the command's transports have no use for: an exit code, said; else CLI_GO.
 * messages: plugin or gpudirect is one of them. */
int cli_plugin_usage(const struct cli_command *command, int messages, int gpudirect);

/*
 * Sets the environment of this process, before anything reads it. gpudirect: the rules of TCPX;
 * gpu: that of --mem, where --gpu is not given; -1: none; message_bytes: most of a message,
 * 0: the default. Answers CLI_GO, or an exit code when the environment is not one for the
 * plugin, each problem having been said with the line that helps.
 */
int cli_plugin_prepare(const struct cli_command *command, const struct cli_plugin *plugin,
		       int gpudirect, int gpu, uint64_t message_bytes);

/* What becomes of messages that arrive, by option or environment: a word as of CLI_UNPACKS. Behind
 * cli_plugin_prepare(). */
const char *cli_plugin_unpack(void);
#define CLI_HOST_RECV "host-recv" /* no packet is steered into GPU memory */
#define CLI_UNPACK_NONE "none"	  /* what arrives is not looked at */

#endif

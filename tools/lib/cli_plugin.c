/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of the tool's process for plugins. */
#include "cli_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tcpx/log.h>
#include <tcpx/plugin.h>

#include "base/config.h"
#include "cli_environ.h"
#include "cli_output.h"

/* Sets an option, unless the user set its variable or an alias; by_option overrides that. */
static void set_option_env(enum config_id id, const char *value, int by_option)
{
	const struct config_row *row = config_row(id);
	struct config_value found = {.source = CONFIG_DEFAULT};

	config_resolve(row, (const char *(*)(const char *))getenv, &found);
	if (by_option || found.source == CONFIG_DEFAULT)
		setenv(row->name, value, 1);
}

static void set_number(enum config_id id, uint64_t value, int by_option)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	set_option_env(id, text, by_option);
}

/* Exports the recipe, except variables that the user has set. */
static int cli_plugin_set_recipe(uint64_t message_bytes, int verbose)
{
	tcpx_plugin_setting settings[TCPX_PLUGIN_SETTINGS_MAX] = {{.sz = sizeof(settings[0])}};
	uint32_t count;
	tcpx_status status =
		tcpx_plugin_settings(message_bytes, settings, TCPX_PLUGIN_SETTINGS_MAX, &count);

	if (status != TCPX_OK)
		return cli_fail(status, "environment of a plugin");
	for (uint32_t i = 0; i < count; i++) {
		const tcpx_plugin_setting *setting = &settings[i];

		if (verbose)
			fprintf(stderr, "# %s=%s  (%s)\n", setting->name, setting->value,
				setting->why);
		if (!setting->users)
			setenv(setting->name, setting->value, 1);
	}
	return CLI_GO;
}

static int report_problems(const char *nics, uint64_t message_bytes, int verbose)
{
	tcpx_plugin_problem problems[TCPX_PLUGIN_PROBLEMS_MAX] = {{.sz = sizeof(problems[0])}};
	uint32_t count;
	tcpx_status status = tcpx_plugin_problems(nics, message_bytes, problems,
						  TCPX_PLUGIN_PROBLEMS_MAX, &count);
	int rc = CLI_GO;

	if (status != TCPX_OK)
		return cli_fail(status, "environment of a plugin");
	for (uint32_t i = 0; i < count; i++) {
		if (problems[i].fatal)
			rc = CLI_FAILED;
		if (problems[i].fatal || verbose)
			cli_error("%s; %s", problems[i].what, problems[i].fix);
	}
	return rc;
}

static void set_unpack(const struct cli_command *command, const struct cli_plugin *plugin)
{
	char text[16];

	if (cli_given(command, "unpack"))
		set_option_env(CONFIG_UNPACK_IMPL,
			       cli_choice_text(CLI_UNPACKS, plugin->unpack, text, sizeof(text)), 1);
}

int cli_plugin_usage(const struct cli_command *command, int messages, int gpudirect)
{
	static const struct {
		const char *name;
		int gpudirect;
	} rows[] = {{"plugin", 0}, {"nic", 0}, {"plugin-channels", 0}, {"gpu", 1}, {"unpack", 1}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!cli_given(command, rows[i].name) || gpudirect ||
		    (messages && !rows[i].gpudirect))
			continue;
		return cli_usage("--%s is for --transport %s", rows[i].name,
				 rows[i].gpudirect ? "gpudirect" : "plugin or gpudirect");
	}
	return CLI_GO;
}

int cli_plugin_prepare(const struct cli_command *command, const struct cli_plugin *plugin,
		       int gpudirect, int gpu, uint64_t message_bytes)
{
	const char *nics = plugin->nic ? plugin->nic : getenv(config_row(CONFIG_NIC)->name);
	int rc;

	if (message_bytes && message_bytes < config_row(CONFIG_MESSAGE_BYTES)->min)
		return cli_usage("--chunk: messages have %llu bytes or more",
				 (unsigned long long)config_row(CONFIG_MESSAGE_BYTES)->min);
	if (message_bytes)
		set_number(CONFIG_MESSAGE_BYTES, message_bytes, 1);
	if (!gpudirect) {
		set_option_env(CONFIG_PLUGIN_HOST, "1", 0);
		cli_environ_record();
		return CLI_GO;
	}
	set_unpack(command, plugin);
	if (cli_given(command, "gpu"))
		set_number(CONFIG_LOCAL_DEVICE, plugin->gpu, 1);
	else if (gpu >= 0)
		set_number(CONFIG_LOCAL_DEVICE, (uint64_t)gpu, 1);
	rc = cli_plugin_set_recipe(message_bytes, plugin->verbose);
	cli_environ_record();
	return rc == CLI_GO ? report_problems(nics, message_bytes, plugin->verbose) : rc;
}

const char *cli_plugin_unpack(void)
{
	if (config_value(CONFIG_UNPACK_IMPL)->source == CONFIG_DEFAULT &&
	    config_bool(CONFIG_HOST_RECV_DEBUG))
		return CLI_HOST_RECV;
	return config_text(CONFIG_UNPACK_IMPL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx info: what this build and this machine have, and every option. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tcpx/query.h>

#include "cli_json.h"
#include "cli_output.h"
#include "commands.h"
#include "info_gpu.h"
#include "info_plugin.h"
#include "launch.h"
#include "sys/addr.h"
#include "sys/cpu.h"
#include "sys/iface.h"

struct info_options {
	int env;
	const char *json, *plugin;
};

static const struct cli_option options[] = {
	{"env", NULL, CLI_RULE_FLAG, offsetof(struct info_options, env), NULL, 0,
	 "every option: value, default, range, alias, help"},
	{"plugin", "FILE", CLI_RULE_TEXT, offsetof(struct info_options, plugin), NULL, 0,
	 "show an ncclNet plugin; default: TCPX's"},
	{"json", "FILE", CLI_RULE_TEXT, offsetof(struct info_options, json), NULL, 0,
	 "write everything as JSON", .letter = 'J', .implied = "-"},
};

/* What this program adds to the library's features. */
static tcpx_feature json_feature(void)
{
	tcpx_feature f = {.sz = sizeof(f),
			  .name = "json",
			  .built = cli_json_available(),
			  .reason = cli_json_available() ? "--json by jansson"
							 : "built without jansson"};

	return f;
}

static tcpx_feature pmix_feature(void)
{
	tcpx_feature f = {.sz = sizeof(f),
			  .name = "pmix",
			  .built = launch_pmix_built(),
			  .reason = launch_pmix_built()
					    ? "ranks of a launcher share their secret by it"
					    : "built without PMIx, or no libpmix here"};

	return f;
}

/* The library's features, then ours. 0 past the end. */
static int feature(uint32_t index, tcpx_feature *out)
{
	uint32_t count = 0;

	if (tcpx_feature_get(index, out) == TCPX_OK)
		return 1;
	while (tcpx_feature_get(count, out) == TCPX_OK)
		count++;
	if (index > count + 1)
		return 0;
	*out = index == count ? json_feature() : pmix_feature();
	return 1;
}

static int is_transport(const char *name)
{
	return !strcmp(name, "tcp") || !strcmp(name, "local") || !strcmp(name, "ncclnet") ||
	       !strcmp(name, "devmem");
}

/* Names of --transport: an ncclNet plugin carries host memory (plugin), or with TCPX that of
 * GPUs (gpudirect). */
static const char *const plugin_words[] = {"plugin", "gpudirect"};

/* Reads the first word of a file below /proc or /sys; "" if there is none. */
static const char *read_word(const char *path, char *buf, size_t cap)
{
	FILE *f = fopen(path, "re");

	*buf = 0;
	if (f) {
		if (!fgets(buf, (int)cap, f))
			*buf = 0;
		fclose(f);
	}
	buf[strcspn(buf, " \n")] = 0;
	return buf;
}

static const char *iface_fact(const char *iface, const char *fact, char *buf, size_t cap)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/class/net/%.16s/%.32s", iface, fact);
	return read_word(path, buf, cap);
}

static void print_features(void)
{
	tcpx_feature f = {.sz = sizeof(f)};

	printf("features:\n");
	for (uint32_t i = 0; feature(i, &f); i++)
		printf("  %-9s %-4s %s\n", f.name, f.built ? "yes" : "no", f.reason);
	printf("transports:");
	for (uint32_t i = 0; feature(i, &f); i++)
		if (f.built && !strcmp(f.name, "ncclnet"))
			printf(" %s %s", plugin_words[0], plugin_words[1]);
		else if (f.built && is_transport(f.name))
			printf(" %s", f.name);
	putchar('\n');
}

static void print_interfaces(const struct sys_iface *ifaces, unsigned count)
{
	char text[SYS_ADDR_TEXT], mtu[16], speed[16];

	printf("interfaces:\n");
	for (unsigned i = 0; i < count; i++) {
		iface_fact(ifaces[i].name, "mtu", mtu, sizeof(mtu));
		iface_fact(ifaces[i].name, "speed", speed, sizeof(speed));
		sys_addr_host_text(&ifaces[i].addr, text);
		printf("  %-12s %s/%u  mtu %s", ifaces[i].name, text, ifaces[i].prefix,
		       *mtu ? mtu : "?");
		if (*speed && *speed != '-')
			printf("  %s Mbit/s", speed);
		printf("%s\n", ifaces[i].loopback ? "  loopback" : "");
	}
}

static void print_unknown(void)
{
	char text[256];

	for (unsigned i = 0; cli_unknown(i, text, sizeof(text)); i++)
		puts(text);
}

static void print_options(void)
{
	tcpx_option o = {.sz = sizeof(o)};

	for (uint32_t i = 0; tcpx_option_get(i, &o) == TCPX_OK; i++) {
		printf("%s=%s  (%s)\n    %s; default %s; %s\n", o.name, o.value, o.source, o.type,
		       *o.default_text ? o.default_text : "empty", o.range);
		if (*o.alias)
			printf("    alias %s\n", o.alias);
		printf("    %s\n", o.help);
	}
}

static void info_put_interfaces(struct cli_json *json, const struct sys_iface *ifaces,
				unsigned count)
{
	struct cli_json *list = cli_json_array(json, "interfaces");
	char text[SYS_ADDR_TEXT], mtu[16];

	for (unsigned i = 0; list && i < count; i++) {
		struct cli_json *o = cli_json_object(list, NULL);

		if (!o)
			return;
		cli_json_text(o, "name", ifaces[i].name);
		cli_json_text(o, "address", sys_addr_host_text(&ifaces[i].addr, text));
		cli_json_integer(o, "prefix", ifaces[i].prefix);
		cli_json_bool(o, "loopback", ifaces[i].loopback);
		cli_json_text(o, "mtu", iface_fact(ifaces[i].name, "mtu", mtu, sizeof(mtu)));
	}
}

/* The public key of TCPX_IDENTITY_FILE; "": each session creates its own. Reports an unusable
 * file. */
static void identity_key(char out_key[65])
{
	tcpx_option o = {.sz = sizeof(o)};

	*out_key = '\0';
	for (uint32_t i = 0; tcpx_option_get(i, &o) == TCPX_OK; i++)
		if (!strcmp(o.name, "TCPX_IDENTITY_FILE") && *o.value &&
		    tcpx_identity_key(o.value, out_key) != TCPX_OK)
			cli_error("%s; %s", tcpx_last_error()->what, tcpx_last_error()->next);
}

static void put_features(struct cli_json *json)
{
	struct cli_json *list = cli_json_array(json, "features");
	struct cli_json *transports = cli_json_array(json, "transports");
	tcpx_feature f = {.sz = sizeof(f)};

	for (uint32_t i = 0; list && transports && feature(i, &f); i++) {
		struct cli_json *o = cli_json_object(list, NULL);

		if (!o)
			return;
		cli_json_text(o, "name", f.name);
		cli_json_bool(o, "built", f.built);
		cli_json_text(o, "reason", f.reason);
		if (f.built && !strcmp(f.name, "ncclnet"))
			for (unsigned k = 0; k < 2; k++)
				cli_json_text(transports, NULL, plugin_words[k]);
		else if (f.built && is_transport(f.name))
			cli_json_text(transports, NULL, f.name);
	}
}

static void info_put_options(struct cli_json *json)
{
	struct cli_json *list = cli_json_array(json, "options");
	struct cli_json *unknown = cli_json_array(json, "unknown");
	const char *nearest;
	char name[96];
	tcpx_option v = {.sz = sizeof(v)};

	for (uint32_t i = 0; list && tcpx_option_get(i, &v) == TCPX_OK; i++) {
		struct cli_json *o = cli_json_object(list, NULL);

		if (!o)
			return;
		cli_json_text(o, "name", v.name);
		cli_json_text(o, "alias", v.alias);
		cli_json_text(o, "type", v.type);
		cli_json_text(o, "default", v.default_text);
		cli_json_text(o, "range", v.range);
		cli_json_text(o, "value", v.value);
		cli_json_text(o, "source", v.source);
		cli_json_text(o, "help", v.help);
	}
	for (uint32_t i = 0;
	     unknown && tcpx_option_unknown(i, name, sizeof(name), &nearest) == TCPX_OK; i++) {
		struct cli_json *o = cli_json_object(unknown, NULL);

		if (!o)
			return;
		cli_json_text(o, "name", name);
		cli_json_text(o, "nearest", nearest);
	}
}

static int info_write_json(const char *path, const struct sys_iface *ifaces, unsigned count)
{
	struct cli_json *json;
	char word[32], key[65];
	FILE *out;
	int rc = cli_json_check();

	if (rc)
		return rc;
	out = cli_json_open(path);
	json = out ? cli_json_new() : NULL;
	if (!json)
		return CLI_FAILED;
	cli_json_integer(json, "schema", 1);
	cli_json_text(json, "tool", "info");
	cli_json_text(json, "version", tcpx_version());
	cli_json_integer(json, "cores", sys_cpu_usable());
	cli_json_text(json, "congestion",
		      read_word("/proc/sys/net/ipv4/tcp_congestion_control", word, sizeof(word)));
	put_features(json);
	info_put_interfaces(json, ifaces, count);
	info_gpu_put(json);
	identity_key(key);
	cli_json_text(json, "identity", key);
	info_put_options(json);
	rc = cli_json_write(json, out, path) ? CLI_FAILED : CLI_OK;
	cli_json_free(json);
	return rc;
}

static void print_all(const struct sys_iface *ifaces, unsigned count)
{
	char word[32], key[65];

	printf("tcpx %s\n", tcpx_version());
	print_features();
	printf("cores: %u usable\ncongestion control: %s\n", sys_cpu_usable(),
	       read_word("/proc/sys/net/ipv4/tcp_congestion_control", word, sizeof(word)));
	print_interfaces(ifaces, count);
	info_gpu_print();
	identity_key(key);
	printf("identity: %s\n", *key ? key : "a fresh one for each session");
	print_unknown();
	printf("options: tcpx info --env\n");
}

static int info_command(const struct cli_command *command, int argc, char **argv)
{
	struct sys_iface *ifaces = NULL;
	struct info_options o = {0};
	unsigned count = 0;
	int first, rc = cli_parse(command, argc, argv, &o, &first);

	if (rc != CLI_GO)
		return rc;
	if (o.plugin && o.env)
		return cli_usage("--plugin and --env exclude each other");
	if (o.plugin)
		return info_plugin(o.plugin, o.json);
	rc = CLI_OK;
	if (sys_iface_list(&ifaces, &count) != TCPX_OK)
		count = 0;
	if (o.json) {
		rc = info_write_json(o.json, ifaces, count);
	} else if (o.env) {
		print_options();
		print_unknown();
	} else {
		print_all(ifaces, count);
	}
	free(ifaces);
	return rc;
}

const struct cli_command command_info = {
	.name = "info",
	.args = "[options]",
	.summary = "Shows what this build and this machine have, and every option",
	COMMAND_OPTIONS(options),
	.run = info_command,
};

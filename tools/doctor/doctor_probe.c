/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the probes, and the environment. */
#include "doctor_probe.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tcpx/log.h>
#include <tcpx/plugin.h>
#include <tcpx/query.h>

#include "base/clock.h"
#include "base/config.h"
#include "cli_secret.h"
#include "doctor_rules.h"
#include "sys/iface.h"

#define RXDM_NS (1 * CLOCK_S_NS)
#define PROBLEMS_NS (2 * CLOCK_S_NS)
#define BIND_MAX 16 /* addresses, as a session takes */
#define STEER_DEFAULT_US 5000000

extern char **environ;

int doctor_wants(const struct doctor_probe_opts *opts, const char *list)
{
	const struct doctor_rule *rule;

	for (unsigned i = 0; (rule = doctor_rule(i)); i++)
		if (opts->chosen >> i & 1 && doctor_is_listed(list, rule->id))
			return 1;
	return 0;
}

static int doctor_probe_is_ours(const char *name)
{
	static const char *const starts[] = {"TCPX_", "UCCL_TCPX_", "NCCL_",
					     "CUDA_VISIBLE_DEVICES="};

	for (unsigned i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (!strncmp(name, starts[i], strlen(starts[i])))
			return 1;
	return 0;
}

static void put_variables(struct doctor_facts *facts, int served)
{
	unsigned count = 0;

	for (char **at = environ; *at; at++) {
		const char *value = strchr(*at, '=');

		if (!value || !doctor_probe_is_ours(*at) || (served && strstr(*at, "_KEY_FILE=")))
			continue;
		if (cli_is_secret(*at, (size_t)(value - *at)) || cli_has_key(value))
			doctor_put_text(facts, "(hidden)", "env.%.*s", (int)(value - *at), *at);
		else
			doctor_put_text(facts, value + 1, "env.%.*s", (int)(value - *at), *at);
		count++;
	}
	doctor_put_count(facts, count, "env.count");
}

/* Adds the variables that tcpx itself would set for a plugin, so that they are not reported as
 * missing. Only this process has them. */
static void doctor_probe_set_recipe(int64_t deadline_ns)
{
	tcpx_plugin_setting settings[TCPX_PLUGIN_SETTINGS_MAX] = {{.sz = sizeof(settings[0])}};
	uint32_t count;

	if (clock_now_ns() >= deadline_ns ||
	    tcpx_plugin_settings(0, settings, TCPX_PLUGIN_SETTINGS_MAX, &count) != TCPX_OK)
		return;
	for (uint32_t i = 0; i < count; i++)
		if (!settings[i].users)
			setenv(settings[i].name, settings[i].value, 1);
}

static void put_problems(struct doctor_facts *facts, const char *nic, int64_t deadline_ns)
{
	tcpx_plugin_problem problems[TCPX_PLUGIN_PROBLEMS_MAX] = {{.sz = sizeof(problems[0])}};
	uint32_t count;

	if (clock_now_ns() >= deadline_ns ||
	    tcpx_plugin_problems(nic, 0, problems, TCPX_PLUGIN_PROBLEMS_MAX, &count) != TCPX_OK)
		return;
	for (uint32_t i = 0; i < count; i++) {
		doctor_put_text(facts, problems[i].what, "problem.%u.what", i);
		doctor_put_text(facts, problems[i].fix, "problem.%u.fix", i);
		doctor_put_flag(facts, problems[i].fatal, "problem.%u.fatal", i);
	}
	doctor_put_count(facts, count, "problem.count");
}

/* RxDM accepts connections but does not answer. */
static int is_silent(const struct doctor_facts *facts)
{
	const char *state;

	for (unsigned i = 0; (state = doctor_text(facts, "rxdm.socket.%u.state", i)); i++)
		if (!strcmp(state, "silent"))
			return 1;
	return 0;
}

/* TCPX_BIND, and why the library would refuse it. */
static void put_bind(struct doctor_facts *facts)
{
	const char *bind = config_text(CONFIG_BIND);
	struct sockaddr_storage addrs[BIND_MAX];
	unsigned count;

	doctor_put_text(facts, bind, "bind");
	if (!*bind || sys_iface_expand(bind, addrs, BIND_MAX, &count) == TCPX_OK)
		return;
	doctor_put_text(facts, tcpx_last_error()->what, "bind.error");
	doctor_put_text(facts, tcpx_last_error()->next, "bind.next");
}

void doctor_probe_environment(struct doctor_facts *facts, const struct doctor_probe_opts *opts)
{
	int64_t deadline_ns = doctor_until(opts, PROBLEMS_NS);
	const char *wait, *nic = opts->nic;

	put_variables(facts, 0);
	doctor_put_count(facts, config_u64(CONFIG_CHUNK_BYTES), "chunk_bytes");
	put_bind(facts);
	if (!doctor_uses_tcpx(facts))
		return;
	wait = getenv("NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS");
	doctor_put_count(facts, wait ? strtoull(wait, NULL, 10) : STEER_DEFAULT_US,
			 "steer.wait_us");
	if (is_silent(facts))
		return; /* every question to RxDM would wait for its timeout */
	doctor_probe_set_recipe(deadline_ns);
	put_problems(facts, nic && strcmp(nic, "all") ? nic : NULL, deadline_ns);
}

static void put_wanted(struct doctor_facts *facts, const struct doctor_probe_opts *opts)
{
	const char *nic = opts->nic ? opts->nic : config_text(CONFIG_NIC);

	if (*nic)
		doctor_put_text(facts, nic, "want.nic");
	if (opts->gpu >= 0)
		doctor_put_count(facts, (uint64_t)opts->gpu, "want.gpu");
	else if (config_value(CONFIG_LOCAL_DEVICE)->source != CONFIG_DEFAULT)
		doctor_put_count(facts, config_u64(CONFIG_LOCAL_DEVICE), "want.gpu");
	if (opts->plugin)
		doctor_put_text(facts, opts->plugin, "want.plugin");
}

int64_t doctor_until(const struct doctor_probe_opts *opts, int64_t ns)
{
	int64_t until = clock_after(ns);

	return until < opts->deadline_ns ? until : opts->deadline_ns;
}

void doctor_probe(struct doctor_facts *facts, struct doctor_probe_opts *opts)
{
	int64_t end_ns = clock_after(opts->peer ? DOCTOR_PAIR_NS : DOCTOR_LOCAL_NS);

	opts->deadline_ns = end_ns - DOCTOR_LAST_NS;
	/* missing things are facts here, so warnings are off */
	tcpx_log_set(NULL, NULL, TCPX_LOG_ERROR);
	doctor_probe_host(facts);
	put_wanted(facts, opts);
	doctor_probe_machine(facts, doctor_until(opts, RXDM_NS));
	doctor_probe_nics(facts);
	doctor_probe_rxdm(facts);
	doctor_probe_plugin(facts, opts, doctor_wants(opts, "D01,D02,D03,D14"),
			    doctor_wants(opts, opts->peer ? "D03,D08,D19" : "D08,D19"));
	if (doctor_wants(opts, "D13"))
		doctor_probe_port(facts);
	doctor_probe_key(facts, opts->key_file);
	if (opts->peer)
		doctor_probe_peer(facts, opts);
	opts->deadline_ns = end_ns;
	/* the last probe, because it changes the environment of this process */
	doctor_probe_environment(facts, opts);
}

/* Of the key file only the ids, which both ends send in every hello anyway. */
void doctor_probe_served(struct doctor_facts *facts)
{
	struct doctor_facts key = {0};
	const char *ids;

	doctor_probe_host(facts);
	doctor_probe_machine(facts, clock_after(RXDM_NS));
	doctor_probe_nics(facts);
	put_variables(facts, 1);
	doctor_put_count(facts, config_u64(CONFIG_CHUNK_BYTES), "chunk_bytes");
	doctor_probe_key(&key, NULL);
	ids = doctor_text(&key, "key.ids");
	if (ids)
		doctor_put_text(facts, ids, "key.ids");
	doctor_facts_free(&key);
}

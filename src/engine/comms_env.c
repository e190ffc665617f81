/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of this machine, for the environment that a TCPX plugin reads. */
#include "engine/comms_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "sys/iface.h"
#include "topo/rxdm_client.h"

#define IFACES_MAX 256
#define RXDM_NS (2 * CLOCK_S_NS)
#define CHUNK_NAME "NCCL_DYNAMIC_CHUNK_SIZE"

struct surroundings {
	struct gpudirect_place place;
	struct gpudirect_nic nics[GPUDIRECT_NICS_MAX];
	const char *ifaces[IFACES_MAX];
	struct sys_iface *list;
	struct topo *topo;
	struct topo_pairs pairs;
	char rxdm_error[160];
};

static const char *from_environment(void *arg, const char *name)
{
	(void)arg;
	return getenv(name);
}

/* The same where no NIC is an interface: what names interfaces means something else there. */
static const char *without_interfaces(void *arg, const char *name)
{
	for (unsigned i = 0; gpudirect_var(i); i++) {
		const struct gpudirect_var *var = gpudirect_var(i);

		if (!strcmp(var->name, name) &&
		    (var->form == GPUDIRECT_NICS || var->form == GPUDIRECT_BINDINGS ||
		     !strcmp(name, "NCCL_GPUDIRECTTCPX_CTRL_DEV")))
			return NULL;
	}
	return from_environment(arg, name);
}

static bool is_iface(const struct surroundings *s, const char *name)
{
	for (unsigned i = 0; i < s->place.nifaces; i++)
		if (!strcmp(s->ifaces[i], name))
			return true;
	return false;
}

static tcpx_status find_ifaces(struct surroundings *s)
{
	unsigned count = 0;
	tcpx_status status = sys_iface_list(&s->list, &count);

	s->place.ifaces = s->ifaces;
	for (unsigned i = 0; status == TCPX_OK && i < count && s->place.nifaces < IFACES_MAX; i++)
		if (!is_iface(s, s->list[i].name)) /* one for each address */
			s->ifaces[s->place.nifaces++] = s->list[i].name;
	return status;
}

/* name is a NIC that is used. */
static void add_nic(struct surroundings *s, const char *name)
{
	const struct topo_nic *nic = topo_nic_named(s->topo, name);

	if (!nic || !is_iface(s, nic->name) || s->place.nnics == GPUDIRECT_NICS_MAX)
		return;
	for (unsigned i = 0; i < s->place.nnics; i++)
		if (!strcmp(s->nics[i].name, nic->name))
			return;
	s->nics[s->place.nnics++] = (struct gpudirect_nic){
		.name = nic->name,
		.cpus = topo_node_cpus(s->topo, nic->place.numa),
		.numa = nic->place.numa,
		.mtu = nic->mtu,
	};
}

static void add_owners(struct surroundings *s)
{
	for (unsigned i = 0; i < s->pairs.count; i++)
		if (s->pairs.owners[i].nic != PCI_NONE)
			add_nic(s, s->pairs.owners[i].nic_name);
}

static void add_named(struct surroundings *s, const char *names)
{
	char name[64];

	while (*names) {
		size_t len = strcspn(names, ",");

		snprintf(name, sizeof(name), "%.*s", (int)len, names);
		add_nic(s, name);
		names += len + (names[len] == ',');
	}
}

static void surroundings_free(struct surroundings *s)
{
	if (!s)
		return;
	topo_free(s->topo);
	free(s->list);
	free(s);
}

static tcpx_status surroundings_get(size_t message_bytes, struct surroundings **out)
{
	struct topo_rxdm_asker asker = {.prefix = gpudirect_env_prefix(from_environment, NULL),
					.deadline_ns = clock_now_ns() + RXDM_NS};
	struct surroundings *s = calloc(1, sizeof(*s));
	tcpx_status status;

	if (!s)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "environment of a plugin");
	s->place.nics = s->nics;
	s->place.message_bytes = message_bytes;
	status = topo_scan(config_text(CONFIG_SYSFS), &s->topo);
	if (status == TCPX_OK)
		status = find_ifaces(s);
	if (status != TCPX_OK) {
		surroundings_free(s);
		return status;
	}
	s->place.nnodes = s->topo->nnodes;
	topo_pairs_build(s->topo, topo_rxdm_ask, &asker, &s->pairs);
	if (asker.status != TCPX_OK)
		snprintf(s->rxdm_error, sizeof(s->rxdm_error), "%s",
			 tcpx_status_text(asker.status));
	*out = s;
	return TCPX_OK;
}

static unsigned check(struct surroundings *s, struct gpudirect_problem *out, unsigned max)
{
	unsigned count;

	if (!s->place.nnics) {
		s->place.nifaces = 0;
		return gpudirect_env_check(&s->place, without_interfaces, NULL, out, max);
	}
	if (*s->rxdm_error)
		s->place.rxdm_error = s->rxdm_error;
	count = gpudirect_env_check(&s->place, from_environment, NULL, out, max);
	return count < max ? count : max;
}

tcpx_status comms_env_settings(size_t message_bytes, struct gpudirect_setting *out_settings,
			       unsigned max, unsigned *out_count)
{
	struct surroundings *s;
	tcpx_status status = surroundings_get(message_bytes, &s);

	if (status != TCPX_OK)
		return status;
	add_owners(s);
	*out_count = gpudirect_env_recipe(&s->place, from_environment, NULL, out_settings, max);
	surroundings_free(s);
	return TCPX_OK;
}

tcpx_status comms_env_problems(const char *nics, size_t message_bytes,
			       struct gpudirect_problem *out_problems, unsigned max,
			       unsigned *out_count)
{
	struct surroundings *s;
	tcpx_status status = surroundings_get(message_bytes, &s);

	if (status != TCPX_OK)
		return status;
	if (!*nics || !strcmp(nics, COMMS_NICS_ALL))
		add_owners(s);
	else
		add_named(s, nics);
	*out_count = check(s, out_problems, max);
	surroundings_free(s);
	return TCPX_OK;
}

static tcpx_status refuse(const struct gpudirect_problem *problems, unsigned count)
{
	tcpx_status status;

	for (unsigned i = 0; i < count; i++) {
		const struct gpudirect_problem *p = &problems[i];

		if (p->fatal)
			LOG_WARN("TCPX plugin: %s; %s", p->what, p->fix);
		else
			LOG_INFO("TCPX plugin: %s; %s", p->what, p->fix);
	}
	if (!count || !problems[0].fatal)
		return TCPX_OK;
	status = error_set(TCPX_ERR_UNSUPPORTED, 0,
			   "the environment is not one for a TCPX plugin: %s", problems[0].what);
	error_next("%s", problems[0].fix);
	return status;
}

tcpx_status comms_env_check(const struct engine_plugin *plugin)
{
	struct gpudirect_problem *problems;
	struct surroundings *s;
	tcpx_status status = surroundings_get(plugin->message_bytes, &s);

	if (status != TCPX_OK)
		return status;
	for (unsigned i = 0; i < plugin->nnics; i++)
		add_nic(s, net_plugin_device(plugin->plugin, plugin->nics[i].dev)->name);
	problems = calloc(GPUDIRECT_PROBLEMS_MAX, sizeof(*problems));
	status = problems ? refuse(problems, check(s, problems, GPUDIRECT_PROBLEMS_MAX))
			  : error_set(TCPX_ERR_NO_MEMORY, 0, "environment of a plugin");
	free(problems);
	surroundings_free(s);
	return status;
}

uint32_t comms_env_chunk(void)
{
	return (uint32_t)gpudirect_env_number(from_environment, NULL, CHUNK_NAME);
}

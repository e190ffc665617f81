/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether the environment variables that a TCPX plugin reads fit this machine. */
#include "engine/channel/comms_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"

#define CHUNK_NAME "NCCL_DYNAMIC_CHUNK_SIZE"
#define TCPX_MARK "TCPX" /* a plugin whose name contains this is a TCPX plugin */

/* Describes this machine in the form that gpudirect_env_check() takes. */
struct question {
	struct gpudirect_place place;
	struct gpudirect_nic nics[GPUDIRECT_NICS_MAX];
	const struct comms_place *at;
};

/* Used in place of getenv() if no NIC in use is an interface of this machine. Variables that name
 * interfaces mean something else in that case, so returns NULL for them, as if they were not
 * set. */
static const char *without_interfaces(void *arg, const char *name)
{
	for (unsigned i = 0; gpudirect_var(i); i++) {
		const struct gpudirect_var *var = gpudirect_var(i);

		if (!strcmp(var->name, name) &&
		    (var->form == GPUDIRECT_NICS || var->form == GPUDIRECT_BINDINGS ||
		     !strcmp(name, "NCCL_GPUDIRECTTCPX_CTRL_DEV")))
			return NULL;
	}
	return comms_place_getenv(arg, name);
}

/* Returns the size of messages in bytes: `wish`, or TCPX_MESSAGE_BYTES if `wish` is 0. A message
 * must fit into one chunk of the plugin, so a smaller chunk size of the plugin is returned instead,
 * unless it is below the minimum of TCPX_MESSAGE_BYTES. */
static size_t env_message_bytes(size_t wish)
{
	uint32_t chunk = comms_env_chunk();

	if (!wish)
		wish = config_u64(CONFIG_MESSAGE_BYTES);
	return chunk >= config_row(CONFIG_MESSAGE_BYTES)->min && chunk < wish ? chunk : wish;
}

static void question_init(struct question *q, const struct comms_place *place, size_t message_bytes)
{
	*q = (struct question){.at = place};
	q->place.nics = q->nics;
	q->place.message_bytes = env_message_bytes(message_bytes);
	q->place.ifaces = place->ifaces;
	q->place.nifaces = place->nifaces;
	q->place.nnodes = place->topo->nnodes;
}

/* Returns the NIC's NUMA node as the plugin reads it from sysfs, or GPUDIRECT_NUMA_NONE if sysfs
 * names no node. A NIC that is not a device of a bus, such as a veth, has no file numa_node: then
 * returns GPUDIRECT_NUMA_UNTOLD. */
static int env_numa_of(const struct topo_nic *nic)
{
	char path[256];
	int len = snprintf(path, sizeof(path), "%s/class/net/%s/device/numa_node",
			   config_text(CONFIG_SYSFS), nic->name);

	if (nic->place.numa != TOPO_NUMA_UNKNOWN)
		return nic->place.numa;
	if (len < 0 || (size_t)len >= sizeof(path) || access(path, F_OK))
		return GPUDIRECT_NUMA_UNTOLD;
	return GPUDIRECT_NUMA_NONE;
}

/* Adds the NIC with this name to the NICs to check, if it is an interface of this machine. */
static void env_add_nic(struct question *q, const char *name)
{
	const struct topo *topo = q->at->topo;
	const struct topo_nic *nic = topo_nic_named(topo, name);

	if (!nic || !comms_place_has_iface(q->at, nic->name) ||
	    q->place.nnics == GPUDIRECT_NICS_MAX)
		return;
	for (unsigned i = 0; i < q->place.nnics; i++)
		if (!strcmp(q->nics[i].name, nic->name))
			return;
	q->nics[q->place.nnics++] = (struct gpudirect_nic){
		.name = nic->name,
		.cpus = topo_node_cpus(topo, nic->place.numa),
		.numa = env_numa_of(nic),
		.mtu = nic->mtu,
	};
}

/* Adds the NICs that belong to this machine's GPUs. */
static void env_add_owners(struct question *q)
{
	const struct topo_pairs *pairs = &q->at->pairs;

	for (unsigned i = 0; i < pairs->count; i++)
		if (pairs->owners[i].nic != PCI_NONE)
			env_add_nic(q, pairs->owners[i].nic_name);
}

static void env_add_named(struct question *q, const char *names)
{
	char name[64];

	if (!*names || !strcmp(names, COMMS_NICS_ALL)) {
		/* With pairing, the NICs of the GPUs are used. Without it, none are added: they
		 * depend on the plugin's devices, which are not known yet. */
		if (config_bool(CONFIG_PAIRING))
			env_add_owners(q);
		return;
	}
	while (*names) {
		size_t len = strcspn(names, ",");

		snprintf(name, sizeof(name), "%.*s", (int)len, names);
		env_add_nic(q, name);
		names += len + (names[len] == ',');
	}
}

/* Writes up to `max` problems of the environment to `out` and returns their number. */
static unsigned env_check(struct question *q, struct gpudirect_problem *out, unsigned max)
{
	gpudirect_get_fn getenv_of = comms_place_getenv;
	unsigned count;

	if (!q->place.nnics) {
		q->place.nifaces = 0;
		getenv_of = without_interfaces;
	} else if (*q->at->rxdm_error) {
		q->place.rxdm_error = q->at->rxdm_error;
	}
	count = gpudirect_env_check(&q->place, getenv_of, NULL, out, max);
	return count < max ? count : max;
}

tcpx_status comms_env_settings(size_t message_bytes, struct gpudirect_setting *out_settings,
			       unsigned max, unsigned *out_count)
{
	struct comms_place *place;
	struct question q;
	tcpx_status status = comms_place_get(&place);

	if (status != TCPX_OK)
		return status;
	question_init(&q, place, message_bytes);
	env_add_named(&q, COMMS_NICS_ALL);
	*out_count = gpudirect_env_recipe(&q.place, comms_place_getenv, NULL, out_settings, max);
	comms_place_free(place);
	return TCPX_OK;
}

tcpx_status comms_env_problems(const char *nics, size_t message_bytes,
			       struct gpudirect_problem *out_problems, unsigned max,
			       unsigned *out_count)
{
	struct comms_place *place;
	struct question q;
	tcpx_status status = comms_place_get(&place);

	if (status != TCPX_OK)
		return status;
	question_init(&q, place, message_bytes);
	env_add_named(&q, nics);
	*out_count = env_check(&q, out_problems, max);
	comms_place_free(place);
	return TCPX_OK;
}

/* Logs the problems, which are sorted with the fatal ones first. Returns ERR_UNSUPPORTED if there
 * is a fatal one. */
static tcpx_status env_report(const struct gpudirect_problem *problems, unsigned count)
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

static tcpx_status env_judge(struct question *q)
{
	struct gpudirect_problem *problems = calloc(GPUDIRECT_PROBLEMS_MAX, sizeof(*problems));
	tcpx_status status = TCPX_OK;

	if (!problems)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "environment of a plugin");
	status = env_report(problems, env_check(q, problems, GPUDIRECT_PROBLEMS_MAX));
	free(problems);
	return status;
}

bool comms_env_reads(const char *plugin_name)
{
	return strstr(plugin_name, TCPX_MARK) != NULL;
}

tcpx_status comms_env_before(const struct comms_place *place, const char *nics,
			     uint32_t message_bytes)
{
	struct question q;

	question_init(&q, place, message_bytes);
	env_add_named(&q, nics);
	return env_judge(&q);
}

tcpx_status comms_env_check(const struct comms_place *place, const struct engine_plugin *plugin)
{
	struct question q;

	question_init(&q, place, plugin->message_bytes);
	for (unsigned i = 0; i < plugin->nnics; i++)
		env_add_nic(&q, net_plugin_device(plugin->plugin, plugin->nics[i].dev)->name);
	return env_judge(&q);
}

uint32_t comms_env_chunk(void)
{
	return (uint32_t)gpudirect_env_number(comms_place_getenv, NULL, CHUNK_NAME);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Derives good values of the plugin's variables from the machine's NICs and their NUMA nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/env.h"

#define G "NCCL_GPUDIRECTTCPX_"
#define CONTROL "eth0" /* control NIC of an A3 host */
#define RXDM_PREFIX "/run/tcpx"

char *gpudirect_env_line(const char *name, const char *value, char *buf, size_t cap)
{
	/* a leading '=' needs quotes, because zsh expands it */
	int plain = *value != '=' && !value[strcspn(value, " \t\n;&|<>()$`\\\"'*?[#~!{}")];
	size_t len;

	snprintf(buf, cap, plain ? "export %s=%s" : "export %s='", name, value);
	for (; !plain && *value; value++) {
		len = strlen(buf);
		snprintf(buf + len, cap - len, *value == '\'' ? "'\\''" : "%c", *value);
	}
	len = strlen(buf);
	if (!plain)
		snprintf(buf + len, cap - len, "'");
	return buf;
}

size_t gpudirect_env_fragments(size_t message_bytes, unsigned mtu)
{
	const size_t page = 4096, heads = 52; /* bytes of IP and TCP headers with timestamps */
	size_t payload, packets, rest;

	if (mtu <= heads)
		return 0;
	payload = mtu - heads;
	packets = message_bytes / payload;
	rest = message_bytes % payload;
	return packets * ((payload + page - 1) / page) + (rest + page - 1) / page;
}

/* Appends `more` to `text`, after `between` if `text` is not empty. If `cap` is too small, returns
 * -1 and leaves `text` unchanged. */
static int text_append(char *text, size_t cap, const char *more, const char *between)
{
	size_t len = strlen(text);
	int put = snprintf(text + len, cap - len, "%s%s", len ? between : "", more);

	if (put >= 0 && (size_t)put < cap - len)
		return 0;
	text[len] = '\0';
	return -1;
}

/*
 * A node's list has a range of cores and a range of their hyper-threads. In each range, the first
 * 2/13 of the CPUs are left to the system, the next 7/26 send, the next 7/26 receive, and the
 * others are not used. Of 0-51, as on A3 hosts, 8-21 send and 22-35 receive. If a range is too
 * small to be divided, all of its CPUs both send and receive.
 */
int gpudirect_env_cpus(const char *node_cpus, int sending, char *out, size_t cap)
{
	char text[64];

	out[0] = '\0';
	while (node_cpus && *node_cpus) {
		unsigned long low, high, count, each;
		char *end;

		low = high = strtoul(node_cpus, &end, 10);
		if (end == node_cpus)
			return -1;
		if (*end == '-') {
			node_cpus = end + 1;
			high = strtoul(node_cpus, &end, 10);
		}
		if (end == node_cpus || (*end && *end != ',') || high < low || high > 1u << 20)
			return -1;
		node_cpus = end + (*end == ',');
		count = high - low + 1;
		each = count * 7 / 26;
		if (each) {
			low += count * 2 / 13 + (sending ? 0 : each);
			high = low + each - 1;
		}
		snprintf(text, sizeof(text), "%lu-%lu", low, high);
		if (text_append(out, cap, text, ","))
			return -1;
	}
	return *out ? 0 : -1;
}

void gpudirect_env_bindings(const struct gpudirect_place *place, int sending, char *out, size_t cap)
{
	char cpus[GPUDIRECT_VALUE_MAX / 2], one[GPUDIRECT_VALUE_MAX];

	out[0] = '\0';
	for (unsigned i = 0; i < place->nnics; i++) {
		const struct gpudirect_nic *nic = &place->nics[i];

		if (gpudirect_env_cpus(nic->cpus, sending, cpus, sizeof(cpus)))
			continue;
		snprintf(one, sizeof(one), "%s:%s", nic->name, cpus);
		if (text_append(out, cap, one, ";"))
			return;
	}
}

void gpudirect_env_nics(const struct gpudirect_place *place, char *out, size_t cap)
{
	snprintf(out, cap, "%s", place->nnics ? "=" : "");
	for (unsigned i = 0; i < place->nnics; i++)
		if (text_append(out, cap, place->nics[i].name, i ? "," : ""))
			return;
}

static int place_has_iface(const struct gpudirect_place *place, const char *name)
{
	for (unsigned i = 0; i < place->nifaces; i++)
		if (!strcmp(place->ifaces[i], name))
			return 1;
	return 0;
}

struct recipe {
	const struct gpudirect_place *place;
	gpudirect_get_fn get;
	void *arg;
	struct gpudirect_setting *out;
	unsigned max, count;
};

/* Adds a variable with the value that the user has set, or else with `value`. An empty `value`
 * means that no good value is known; the variable is then added only if the user has set it. Adds
 * nothing if the recipe is full. */
static void recipe_add(struct recipe *r, const char *name, const char *value, const char *why)
{
	const char *users = r->get(r->arg, name);
	struct gpudirect_setting *setting = &r->out[r->count];

	if (r->count == r->max || (!users && !*value))
		return;
	setting->name = name;
	setting->users = users != NULL;
	setting->why = users ? "set by you" : why;
	snprintf(setting->value, sizeof(setting->value), "%s", users ? users : value);
	r->count++;
}

static void recipe_add_chunk(struct recipe *r)
{
	size_t bytes = r->place->message_bytes ? r->place->message_bytes : GPUDIRECT_CHUNK;
	char text[32];

	snprintf(text, sizeof(text), "%zu", bytes);
	recipe_add(r, "NCCL_DYNAMIC_CHUNK_SIZE", text,
		   "one chunk per message: without it transfers hang, with more chunks pages leak");
}

unsigned gpudirect_env_recipe(const struct gpudirect_place *place, gpudirect_get_fn get, void *arg,
			      struct gpudirect_setting *out_settings, unsigned max)
{
	struct recipe r = {place, get, arg, out_settings, max, 0};
	char text[GPUDIRECT_VALUE_MAX];
	const struct gpudirect_var *var;

	recipe_add_chunk(&r);
	recipe_add(&r, "NCCL_NSOCKS_PERTHREAD", "2", "two sockets per channel");
	recipe_add(&r, "NCCL_SOCKET_NTHREADS", "1", "one thread per channel");
	gpudirect_env_nics(place, text, sizeof(text));
	recipe_add(&r, G "SOCKET_IFNAME", text,
		   "exactly these NICs: a bare name matches longer ones too");
	recipe_add(&r, G "CTRL_DEV", place_has_iface(place, CONTROL) ? CONTROL : "",
		   "control sockets on a NIC of their own");
	recipe_add(&r, G "UNIX_CLIENT_PREFIX", RXDM_PREFIX, "where RxDM has its sockets");
	gpudirect_env_bindings(place, 1, text, sizeof(text));
	recipe_add(&r, G "TX_BINDINGS", text, "sending threads near their NIC");
	gpudirect_env_bindings(place, 0, text, sizeof(text));
	recipe_add(&r, G "RX_BINDINGS", text, "receiving threads near their NIC");
	recipe_add(&r, G "PROGRAM_FLOW_STEERING_WAIT_MICROS", "50000",
		   "the default is five seconds");
	recipe_add(&r, "NCCL_MIN_ZCOPY_SIZE", "4096", "copying smaller sends is cheaper");
	recipe_add(&r, "NCCL_TCPX_RXMEM_IMPORT_USE_GPU_PCI_CLIENT", "1",
		   "the page pool is passed through RxDM's sockets");
	/* adds the other variables that the user has set */
	for (unsigned i = 0; (var = gpudirect_var(i)); i++) {
		unsigned k = 0;

		while (k < r.count && strcmp(r.out[k].name, var->name))
			k++;
		if (k == r.count)
			recipe_add(&r, var->name, "", "");
	}
	return r.count;
}

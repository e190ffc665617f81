/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the environment for values that break a TCPX plugin, and writes the line that fixes each
 * problem. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "plugin/env.h"

#define G "NCCL_GPUDIRECTTCPX_"
#define IFNAME G "SOCKET_IFNAME"
#define NAME_MAX_PLUGIN 15 /* longest interface name that fits the plugin's buffer */

struct check {
	const struct gpudirect_place *place;
	gpudirect_get_fn get;
	void *arg;
	/* The last element takes each problem beyond GPUDIRECT_PROBLEMS_MAX, and is never read. */
	struct gpudirect_problem found[GPUDIRECT_PROBLEMS_MAX + 1];
	unsigned count;
};

/* Adds a problem and returns it. The caller has to set its `fix`. */
__attribute__((format(printf, 3, 4))) static struct gpudirect_problem *
check_problem(struct check *c, int fatal, const char *what, ...)
{
	struct gpudirect_problem *p = &c->found[c->count];
	va_list args;

	if (c->count < GPUDIRECT_PROBLEMS_MAX)
		c->count++;
	p->fatal = fatal;
	p->fix[0] = '\0';
	va_start(args, what);
	text_vformat(p->what, sizeof(p->what), what, args);
	va_end(args);
	return p;
}

static void fix_by(struct gpudirect_problem *p, const char *name, const char *value)
{
	gpudirect_env_line(name, value, p->fix, sizeof(p->fix));
}

static const char *check_get(const struct check *c, const char *name)
{
	return c->get(c->arg, name);
}

static size_t check_message_bytes(const struct check *c)
{
	return c->place->message_bytes ? c->place->message_bytes : GPUDIRECT_CHUNK;
}

/* Finds numbers that are malformed or outside their variable's range, values other than the only
 * one that works (`must`), and variables that the plugin does not read. */
static void check_table(struct check *c)
{
	const struct gpudirect_var *var;

	for (unsigned i = 0; (var = gpudirect_var(i)); i++) {
		const char *text = check_get(c, var->name);
		unsigned long long value;
		char *end;

		if (!text)
			continue;
		value = strtoull(text, &end, 0);
		if (var->form == GPUDIRECT_UNREAD) {
			snprintf(check_problem(c, 0, "%s is not read by the plugin: it does %s",
					       var->name, var->meaning)
					 ->fix,
				 sizeof(c->found->fix), "unset %s", var->name);
		} else if (var->must && strcmp(text, var->must) &&
			   (var->form != GPUDIRECT_NUMBER || end == text || *end ||
			    value != strtoull(var->must, NULL, 0))) {
			fix_by(check_problem(c, 1, "%s=%.40s: %s", var->name, text, var->meaning),
			       var->name, var->must);
		} else if (var->form == GPUDIRECT_NUMBER &&
			   (end == text || *end || *text == '-' || value < var->min ||
			    value > var->max)) {
			/* check_chunk reports NCCL_DYNAMIC_CHUNK_SIZE, in more detail */
			if (strcmp(var->name, "NCCL_DYNAMIC_CHUNK_SIZE"))
				fix_by(check_problem(
					       c, 0,
					       "%s=%.40s is outside of %llu to %llu; the plugin "
					       "uses %s instead",
					       var->name, text, (unsigned long long)var->min,
					       (unsigned long long)var->max, var->without),
				       var->name, var->without);
		}
	}
}

/* Returns the bytes of the largest message, in whole pages and up to `from` bytes, that arrives in
 * no more than GPUDIRECT_FRAGMENTS_MAX fragments. Returns one page if there is none. */
static size_t fitting_message(unsigned mtu, size_t from)
{
	const size_t page = 4096;

	for (size_t bytes = from / page * page; bytes > page; bytes -= page)
		if (gpudirect_env_fragments(bytes, mtu) <= GPUDIRECT_FRAGMENTS_MAX)
			return bytes;
	return page;
}

/* Checks that a chunk of the plugin is large enough for a message, and that a message does not
 * arrive in too many fragments on any NIC. */
static void check_chunk(struct check *c)
{
	const char *name = "NCCL_DYNAMIC_CHUNK_SIZE", *text = check_get(c, name);
	uint64_t chunk = gpudirect_env_number(c->get, c->arg, name);
	size_t bytes = check_message_bytes(c);
	char value[32];

	snprintf(value, sizeof(value), "%zu", bytes);
	if (!chunk)
		fix_by(check_problem(c, 1, "%s is %s: every transfer would hang", name,
				     text ? "not a size" : "not set"),
		       name, value);
	else if (chunk < bytes)
		fix_by(check_problem(
			       c, 1,
			       "%s=%llu is less than a message of %zu bytes: each would leak pages "
			       "until everything hangs",
			       name, (unsigned long long)chunk, bytes),
		       name, value);
	for (unsigned i = 0; i < c->place->nnics; i++) {
		const struct gpudirect_nic *nic = &c->place->nics[i];
		size_t count = gpudirect_env_fragments(bytes, nic->mtu);
		struct gpudirect_problem *p;

		if (count <= GPUDIRECT_FRAGMENTS_MAX)
			continue;
		p = check_problem(
			c, 1,
			"a message of %zu bytes arrives on %s (MTU %u) in %zu fragments; at most "
			"%d are safe",
			bytes, nic->name, nic->mtu, count, GPUDIRECT_FRAGMENTS_MAX);
		snprintf(value, sizeof(value), "%zu", fitting_message(nic->mtu, bytes));
		fix_by(p, "TCPX_MESSAGE_BYTES", value);
	}
}

static void check_sockets(struct check *c)
{
	uint64_t sockets = gpudirect_env_number(c->get, c->arg, "NCCL_NSOCKS_PERTHREAD");
	uint64_t threads = gpudirect_env_number(c->get, c->arg, "NCCL_SOCKET_NTHREADS");
	char value[32];

	if (sockets * threads <= GPUDIRECT_SOCKETS_MAX)
		return;
	snprintf(value, sizeof(value), "%llu",
		 (unsigned long long)(GPUDIRECT_SOCKETS_MAX / threads));
	if (threads > GPUDIRECT_SOCKETS_MAX)
		fix_by(check_problem(
			       c, 1,
			       "%llu threads per channel, each with a socket: at most %d work",
			       (unsigned long long)threads, GPUDIRECT_SOCKETS_MAX),
		       "NCCL_SOCKET_NTHREADS", "1");
	else
		fix_by(check_problem(c, 1,
				     "%llu sockets in each of %llu threads: a channel has at most "
				     "%d sockets",
				     (unsigned long long)sockets, (unsigned long long)threads,
				     GPUDIRECT_SOCKETS_MAX),
		       "NCCL_NSOCKS_PERTHREAD", value);
}

static int check_is_iface(const struct check *c, const char *name, size_t len)
{
	for (unsigned i = 0; i < c->place->nifaces; i++)
		if (strlen(c->place->ifaces[i]) == len && !memcmp(c->place->ifaces[i], name, len))
			return 1;
	return 0;
}

static void check_control(struct check *c)
{
	const char *name = G "CTRL_DEV", *dev = check_get(c, name);
	struct gpudirect_problem *p;

	if (!dev || check_is_iface(c, dev, strlen(dev)))
		return;
	p = check_problem(c, 1,
			  "%s=%.40s: there is no such interface; the plugin would use any address",
			  name, dev);
	if (check_is_iface(c, "eth0", 4))
		fix_by(p, name, "eth0");
	else
		snprintf(p->fix, sizeof(p->fix), "unset %s", name);
}

int gpudirect_env_chooses(const char *list, const char *iface)
{
	int exact = *list == '=', except = *list == '^', found = 0;
	size_t len;

	list += exact || except;
	exact |= *list == '='; /* "^=eth0" means all but exactly eth0 */
	list += except && exact;
	for (; *list; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		if (len && !strncmp(list, iface, len) && (!exact || !iface[len]))
			found = 1;
	}
	return found != except;
}

static int check_is_used(const struct check *c, const char *iface)
{
	for (unsigned i = 0; i < c->place->nnics; i++)
		if (!strcmp(c->place->nics[i].name, iface))
			return 1;
	return 0;
}

/* Checks that SOCKET_IFNAME selects all NICs of the session and no other interface, and that the
 * plugin has room for that many interfaces and for their names. */
static void check_nics(struct check *c)
{
	const char *list = check_get(c, IFNAME);
	char value[GPUDIRECT_VALUE_MAX];
	unsigned chosen = 0;

	gpudirect_env_nics(c->place, value, sizeof(value));
	if (!list || !*list) {
		if (c->place->nnics)
			fix_by(check_problem(c, 1,
					     "%s is not set: the plugin would use every interface, "
					     "including that for control",
					     IFNAME),
			       IFNAME, value);
		return;
	}
	for (unsigned i = 0; i < c->place->nnics; i++)
		if (!gpudirect_env_chooses(list, c->place->nics[i].name))
			fix_by(check_problem(c, 1, "%s=%.80s does not select %s", IFNAME, list,
					     c->place->nics[i].name),
			       IFNAME, value);
	for (unsigned i = 0; i < c->place->nifaces; i++) {
		const char *iface = c->place->ifaces[i];

		if (!gpudirect_env_chooses(list, iface))
			continue;
		chosen++;
		if (strlen(iface) > NAME_MAX_PLUGIN)
			fix_by(check_problem(c, 1,
					     "%s selects %.40s, a name longer than %d characters",
					     IFNAME, iface, NAME_MAX_PLUGIN),
			       IFNAME, value);
		else if (c->place->nnics && !check_is_used(c, iface))
			fix_by(check_problem(
				       c, 0,
				       "%s=%.80s selects %s as well%s; NICs are numbered by name",
				       IFNAME, list, iface,
				       *list == '=' ? "" : ": names are prefixes without \"=\""),
			       IFNAME, value);
	}
	if (chosen > GPUDIRECT_NICS_MAX)
		fix_by(check_problem(c, 1, "%s selects %u interfaces; the plugin has room for %d",
				     IFNAME, chosen, GPUDIRECT_NICS_MAX),
		       IFNAME, value);
}

/* Whether the text is one range such as "8-21", with the lower number first. */
static int is_range(const char *text, size_t len)
{
	unsigned long low, high;
	char *end;

	if (*text < '0' || *text > '9')
		return 0;
	low = strtoul(text, &end, 10);
	if (*end != '-' || end[1] < '0' || end[1] > '9')
		return 0;
	high = strtoul(end + 1, &end, 10);
	return end == text + len && low <= high;
}

/* Checks the part of a list that binds one NIC, such as "eth1:8-21,112-125". Returns what is wrong
 * as the end of a sentence, or NULL. Does not check whether the CPUs exist. */
static const char *binding_fault(const struct check *c, const char *text, size_t len)
{
	const char *end = text + len, *ranges = memchr(text, ':', len);

	if (!ranges || ranges == text)
		return "has no \"NIC:\" in front";
	if (!check_is_iface(c, text, (size_t)(ranges - text)))
		return "names no interface of this machine";
	for (ranges++; ranges <= end; ranges++) {
		size_t one = 0;

		while (ranges + one < end && ranges[one] != ',')
			one++;
		if (!is_range(ranges, one))
			return "has CPUs other than ranges \"8-21\"";
		ranges += one;
	}
	return NULL;
}

static void check_bindings(struct check *c, const char *name, int sending)
{
	const char *text = check_get(c, name);
	char value[GPUDIRECT_VALUE_MAX];
	struct gpudirect_problem *p;
	size_t len;

	for (; text && *text; text += len + (text[len] == ';')) {
		const char *fault;

		len = strcspn(text, ";");
		fault = len ? binding_fault(c, text, len) : NULL;
		if (!fault)
			continue;
		p = check_problem(c, 1, "%s: \"%.*s\" %s; the plugin would crash or pin nothing",
				  name, (int)(len < 60 ? len : 60), text, fault);
		gpudirect_env_bindings(c->place, sending, value, sizeof(value));
		if (*value)
			fix_by(p, name, value);
		else
			snprintf(p->fix, sizeof(p->fix), "unset %s", name);
	}
}

/* Reports the variable `name` (TX_BINDINGS or RX_BINDINGS) if it is not set. Called for a NIC whose
 * NUMA node has a CPU list without "-": without bindings the plugin parses that list, and divides
 * by 0. */
static void check_lone_cpus(struct check *c, const struct gpudirect_nic *nic, const char *name,
			    int sending)
{
	char value[GPUDIRECT_VALUE_MAX];

	if (check_get(c, name))
		return;
	gpudirect_env_bindings(c->place, sending, value, sizeof(value));
	fix_by(check_problem(
		       c, 1,
		       "the CPUs of %s's NUMA node are \"%.40s\", without a range, and %s is not "
		       "set; the plugin would divide by 0",
		       nic->name, nic->cpus, name),
	       name, value);
}

/* Reports a NIC of whose NUMA node no CPUs are known, such as a node of memory alone, if a variable
 * of bindings is not set. There are no CPUs to bind the NIC to, so the advice is another node. */
static void check_no_cpus(struct check *c, const struct gpudirect_nic *nic)
{
	const char *missing = !check_get(c, G "TX_BINDINGS")   ? G "TX_BINDINGS"
			      : !check_get(c, G "RX_BINDINGS") ? G "RX_BINDINGS"
							       : NULL;
	struct gpudirect_problem *p;

	if (!missing)
		return;
	p = check_problem(c, 1,
			  "NUMA node %d of %s has no known CPUs, and %s is not set; the plugin "
			  "would divide by 0",
			  nic->numa, nic->name, missing);
	snprintf(p->fix, sizeof(p->fix), "echo %d > /sys/class/net/%s/device/numa_node",
		 nic->numa ? 0 : 1, nic->name);
}

/* Reports NICs whose NUMA node makes the plugin crash. For a NIC without a NUMA node, sysfs says
 * -1, which the plugin reads as node 1; it crashes if the machine has no node 1. A NIC without the
 * file numa_node is no problem: the plugin uses every CPU. */
static void check_nodes(struct check *c)
{
	for (unsigned i = 0; i < c->place->nnics; i++) {
		const struct gpudirect_nic *nic = &c->place->nics[i];

		if (nic->numa == GPUDIRECT_NUMA_NONE && c->place->nnodes < 2) {
			snprintf(check_problem(
					 c, 1,
					 "the NUMA node of %s is -1, which the plugin reads as "
					 "node 1; there is no node 1, and it would crash",
					 nic->name)
					 ->fix,
				 sizeof(c->found->fix),
				 "echo 0 > /sys/class/net/%s/device/numa_node", nic->name);
		} else if (nic->numa != GPUDIRECT_NUMA_UNTOLD && nic->cpus && !*nic->cpus) {
			check_no_cpus(c, nic);
		} else if (nic->numa != GPUDIRECT_NUMA_UNTOLD && nic->cpus &&
			   !strchr(nic->cpus, '-')) {
			check_lone_cpus(c, nic, G "TX_BINDINGS", 1);
			check_lone_cpus(c, nic, G "RX_BINDINGS", 0);
		}
	}
}

const char *gpudirect_env_prefix(gpudirect_get_fn get_fn, void *arg)
{
	const char *prefix = get_fn(arg, G "UNIX_CLIENT_PREFIX");

	return prefix && *prefix ? prefix : "/tmp";
}

static void check_rxdm(struct check *c)
{
	const char *name = G "UNIX_CLIENT_PREFIX", *prefix = check_get(c, name);

	if (!c->place->rxdm_error)
		return;
	if (!prefix || !*prefix)
		fix_by(check_problem(c, 1,
				     "%s is not set, and RxDM does not answer at /tmp: %.100s",
				     name, c->place->rxdm_error),
		       name, "/run/tcpx");
	else
		fix_by(check_problem(c, 1, "RxDM does not answer at %.80s: %.100s", prefix,
				     c->place->rxdm_error),
		       name, strcmp(prefix, "/run/tcpx") ? "/run/tcpx" : prefix);
}

static void check_telemetry(struct check *c)
{
	const char *export = check_get(c, G "TELEMETRY_EXPORT_STATS_TO_FILE");
	const char *name = G "TELEMETRY_EXPORTER_PATH";

	if (export && strtol(export, NULL, 0) == 1 && !check_get(c, name))
		fix_by(check_problem(
			       c, 1,
			       "statistics are on without a file name: the plugin would crash"),
		       name, "/tmp/tcpx-telemetry");
}

unsigned gpudirect_env_check(const struct gpudirect_place *place, gpudirect_get_fn get_fn,
			     void *arg, struct gpudirect_problem *out_problems, unsigned max)
{
	struct check c = {.place = place, .get = get_fn, .arg = arg};
	unsigned put = 0;

	check_chunk(&c);
	check_sockets(&c);
	check_nics(&c);
	check_control(&c);
	check_bindings(&c, G "TX_BINDINGS", 1);
	check_bindings(&c, G "RX_BINDINGS", 0);
	check_nodes(&c);
	check_rxdm(&c);
	check_telemetry(&c);
	check_table(&c);
	for (int fatal = 1; fatal >= 0; fatal--)
		for (unsigned i = 0; i < c.count && put < max; i++)
			if (c.found[i].fatal == fatal)
				out_problems[put++] = c.found[i];
	return c.count;
}

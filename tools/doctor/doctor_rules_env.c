/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about the environment: D16 names and values, D09 bindings. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "cli_options.h"
#include "doctor_rules.h"

#define G "NCCL_GPUDIRECTTCPX_"

/* Variables that a TCPX plugin and NCCL's own network read. */
static const char *const known[] = {
	G "SOCKET_IFNAME",
	G "SOCKET_FAMILY",
	G "CTRL_DEV",
	G "UNIX_CLIENT_PREFIX",
	G "FLOW_STEERING_STRATEGY",
	G "PROGRAM_FLOW_STEERING_WAIT_MICROS",
	G "CONNECTION_RETRY",
	G "RECV_SYNC",
	G "FORCE_ACK",
	G "TX_COMPLETION_NANOSLEEP",
	G "SPINWAIT_CONNECT",
	G "SCHED_ALG",
	G "TX_BINDINGS",
	G "RX_BINDINGS",
	G "TX_IRQ_BINDINGS",
	G "RX_IRQ_BINDINGS",
	G "WORKER_PIN_THREADS",
	G "WORKER_PIN_THREADS_SPRAY_COUNT",
	G "WORKER_PIN_THREADS_SPRAY_STRIDE",
	G "CUDA_USE_PRIMARY_CTX",
	G "REG_DMABUF_USE_INTERNAL_API",
	G "REPORT_LIFECYCLE",
	G "TIMEOUT_THRESHOLD_NS",
	G "TIMEOUT_FREQUENCY_NS",
	G "TIMEOUT_REPORT_THRESHOLD_NS",
	G "SLOWNESS_SWITCH",
	G "SLOWNESS_REPORT",
	G "NIC_N_RXQS",
	G "SOCKET_ENABLE",
	G "LOG_STATS_TO_STDOUT",
	G "PORT_BEGIN",
	G "PORT_END",
	G "PORT_MAPPING",
	G "CTRL_SOCKCOND",
	G "PROGRAM_CONNECT_TIMEOUT_MS",
	G "RX_COMPLETION_NANOSLEEP",
	G "DEBUG_LEVEL",
	G "MIN_ZCOPY_SIZE",
	"NCCL_DYNAMIC_CHUNK_SIZE",
	"NCCL_NSOCKS_PERTHREAD",
	"NCCL_SOCKET_NTHREADS",
	"NCCL_INLINE_THRESHOLD",
	"NCCL_MIN_ZCOPY_SIZE",
	"NCCL_USE_DMA_BUF",
	"NCCL_THREAD_SPIN_ENABLE",
	"NCCL_SOCKET_IFNAME",
	"NCCL_SOCKET_FAMILY",
	"NCCL_NET_PLUGIN",
	"NCCL_NET",
	"NCCL_ALGO",
	"NCCL_PROTO",
	"NCCL_BUFFSIZE",
	"NCCL_P2P_NET_CHUNKSIZE",
	"NCCL_P2P_PXN_LEVEL",
	"NCCL_CROSS_NIC",
	"NCCL_DEBUG",
	"NCCL_DEBUG_SUBSYS",
	"NCCL_NCHANNELS",
	"NCCL_MAX_NCHANNELS",
	"NCCL_MIN_NCHANNELS",
	"NCCL_NET_GDR_LEVEL",
	"NCCL_IB_DISABLE",
	"NCCL_P2P_DISABLE",
	"NCCL_SHM_DISABLE",
	"NCCL_COMM_ID",
};
#define KNOWN (sizeof(known) / sizeof(known[0]))

/* Variables that must be equal at both ends; fatal: otherwise data is lost or wrong. */
static const struct {
	const char *name;
	int fatal;
} agreed[] = {
	{"NCCL_DYNAMIC_CHUNK_SIZE", 1}, {G "RECV_SYNC", 1},	     {"NCCL_INLINE_THRESHOLD", 1},
	{"NCCL_NSOCKS_PERTHREAD", 0},	{"NCCL_SOCKET_NTHREADS", 0}, {"TCPX_CHUNK_BYTES", 0},
	{"TCPX_MESSAGE_BYTES", 0},
};

static const char *known_word(const void *arg, unsigned index)
{
	(void)arg;
	return known[index];
}

static int is_known(const char *name)
{
	for (unsigned i = 0; i < KNOWN; i++)
		if (!strcmp(known[i], name))
			return 1;
	return !strncmp(name, G "TELEMETRY_", strlen(G "TELEMETRY_"));
}

/* All names of ours and of the plugin are known. Other NCCL names are reported only if they are
 * close to a known one. */
static void judge_name(struct doctor_judge *j, const char *name, const char *value)
{
	const char *nearest = "";

	if (!strncmp(name, "TCPX_", 5) || !strncmp(name, "UCCL_TCPX_", 10)) {
		if (config_known(name, strlen(name)))
			return;
		nearest = config_nearest(name, strlen(name));
	} else if (!strncmp(name, "NCCL_", 5)) {
		if (is_known(name))
			return;
		nearest = cli_nearest(name, known_word, NULL, KNOWN);
		if (!nearest && strncmp(name, G, strlen(G)))
			return;
		nearest = nearest ? nearest : "";
	} else {
		return;
	}
	doctor_warn(j, "%s=%.80s has no effect", name, value);
	if (*nearest) {
		doctor_cause(j, "misspelt: the name is %s", nearest);
		doctor_fix(j, "unset %s; export %s=%s", doctor_quote(name), nearest,
			   doctor_quote(value));
	} else {
		doctor_cause(j, "no known variable has this name or a similar one");
		doctor_fix(j, "unset %s", doctor_quote(name));
	}
}

static void judge_names(struct doctor_judge *j)
{
	for (unsigned i = 0; i < j->facts->count; i++)
		if (!strncmp(j->facts->rows[i].key, "env.", 4) &&
		    strcmp(j->facts->rows[i].key, "env.count"))
			judge_name(j, j->facts->rows[i].key + 4, j->facts->rows[i].value);
}

/* "512K" and "524288" are the same to an option. */
static int is_same(const struct config_row *row, const char *value, const char *other)
{
	uint64_t one, two;

	if (!strcmp(value, other))
		return 1;
	return !config_parse(row, 0, value, &one) && !config_parse(row, 1, other, &two) &&
	       one == two && row->type != CONFIG_TEXT && row->type != CONFIG_PATH;
}

/* Reports an option and its aliases that are set to different values. Aliases that are NCCL
 * variables may differ, since NCCL reads them too. */
static void judge_aliases(struct doctor_judge *j)
{
	const struct config_row *row;

	for (unsigned i = 0; (row = config_row(i)); i++) {
		const char *value = doctor_text(j->facts, "env.%s", row->name),
			   *list = row->aliases;
		size_t len;

		for (; value && *list; list += len + (list[len] == ' ')) {
			char name[80] = ""; /* more than any option has */
			const char *other;

			len = strcspn(list, " ");
			strncat(name, list, len < sizeof(name) ? len : sizeof(name) - 1);
			other = doctor_text(j->facts, "env.%s", name);
			if (!other || !strncmp(list, "NCCL_", 5) || is_same(row, value, other))
				continue;
			doctor_warn(j, "%s=%.60s and %s=%.60s", row->name, value, name, other);
			doctor_cause(j, "they are two names of one option; the first counts");
			doctor_fix(j, "unset %s", name);
		}
	}
}

/* Checks that the interfaces named by a variable exist. */
static void judge_interfaces(struct doctor_judge *j, const char *name)
{
	const char *list = doctor_text(j->facts, "env.%s", name), *iface;
	char words[300] = "", first[64] = "";
	size_t len;

	if (!list || !*list || *list == '^' || !strcmp(list, "all") ||
	    !doctor_text(j->facts, "iface.0"))
		return;
	for (unsigned i = 0; (iface = doctor_text(j->facts, "iface.%u", i)); i++) {
		doctor_add(words, sizeof(words), "%s%s", i ? ", " : "", iface);
		if (!*first && strcmp(iface, "lo"))
			snprintf(first, sizeof(first), "%s", iface);
	}
	for (list += *list == '='; *list; list += len + (list[len] == ',')) {
		int found = 0;

		len = strcspn(list, ",");
		for (unsigned i = 0; (iface = doctor_text(j->facts, "iface.%u", i)); i++)
			found |= !strncmp(iface, list, len);
		if (found || !len)
			continue;
		doctor_fail(j, "%s names %.*s; there are %s", name, (int)len, list, words);
		doctor_cause(j, "there is no such interface on this machine");
		doctor_fix(j, "export %s=%s", name, *first ? doctor_quote(first) : "lo");
		return;
	}
}

/* Writes a line that sets a variable and nothing else, since facts may come from anywhere. */
static int is_setting(const char *fix)
{
	static const char name[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	const char *value;

	if (!strncmp(fix, "unset ", 6))
		return !fix[6 + strspn(fix + 6, name)];
	if (strncmp(fix, "export ", 7))
		return 0;
	value = fix + 7 + strspn(fix + 7, name);
	if (*value++ != '=')
		return 0;
	if (*value == '\'') /* the whole value is quoted */
		return strcspn(value + 1, "'") == strlen(value + 1) - 1;
	return !*value || !strcmp(doctor_quote(value), value);
}

/* Reports a problem of the environment of the plugin: "what: consequence". */
static void judge_problems(struct doctor_judge *j)
{
	const char *what;

	for (unsigned i = 0; (what = doctor_text(j->facts, "problem.%u.what", i)); i++) {
		const char *fix = doctor_text(j->facts, "problem.%u.fix", i);
		const char *colon = strstr(what, ": ");
		int len = colon ? (int)(colon - what) : (int)strlen(what);

		if (doctor_flag(j->facts, "problem.%u.fatal", i) == 1)
			doctor_fail(j, "%.*s", len, what);
		else
			doctor_warn(j, "%.*s", len, what);
		doctor_cause(j, "%s", colon ? colon + 2 : "the plugin reads it once, as it is");
		doctor_fix(j, "%s%s", fix && !is_setting(fix) ? "# " : "",
			   fix ? fix : "tcpx info --plugin default");
	}
}

/* Compares the chunk sizes of NCCL and of the plugin. */
static void judge_chunks(struct doctor_judge *j)
{
	const char *cut = doctor_text(j->facts, "env.NCCL_P2P_NET_CHUNKSIZE");
	const char *taken = doctor_text(j->facts, "env.NCCL_DYNAMIC_CHUNK_SIZE");

	if (!cut || !taken || strtoull(cut, NULL, 10) <= strtoull(taken, NULL, 10))
		return;
	doctor_warn(j, "NCCL_P2P_NET_CHUNKSIZE=%.20s is more than NCCL_DYNAMIC_CHUNK_SIZE=%.20s",
		    cut, taken);
	doctor_cause(j, "a message of several chunks leaks pages of the plugin");
	doctor_fix(j, "export NCCL_DYNAMIC_CHUNK_SIZE=%s", doctor_quote(cut));
}

static void judge_ends(struct doctor_judge *j)
{
	uint64_t ours_count, theirs_count;

	for (unsigned i = 0; i < sizeof(agreed) / sizeof(agreed[0]); i++) {
		const char *ours = doctor_text(j->facts, "env.%s", agreed[i].name);
		const char *theirs = doctor_text(j->facts, "peer.env.%s", agreed[i].name);

		if ((!ours && !theirs) || (ours && theirs && !strcmp(ours, theirs)))
			continue;
		ours = ours ? ours : "(not set)";
		theirs = theirs ? theirs : "(not set)";
		if (agreed[i].fatal)
			doctor_fail(j, "%s is %.80s here, %.80s at the other end", agreed[i].name,
				    ours, theirs);
		else
			doctor_warn(j, "%s is %.80s here, %.80s at the other end", agreed[i].name,
				    ours, theirs);
		doctor_cause(j, agreed[i].fatal
					? "each end sizes its buffers by its own value"
					: "one end decides for both, or the smaller counts");
		if (*ours == '(')
			doctor_fix(j, "export %s=%s", agreed[i].name, doctor_quote(theirs));
		else
			doctor_fix(j, "export %s=%s   # there", agreed[i].name, doctor_quote(ours));
	}
	if (doctor_count(j->facts, &ours_count, "chunk_bytes") ||
	    doctor_count(j->facts, &theirs_count, "peer.chunk_bytes") || ours_count == theirs_count)
		return;
	doctor_warn(j, "chunks of %llu B here, of %llu B at the other end",
		    (unsigned long long)ours_count, (unsigned long long)theirs_count);
	doctor_cause(j, "each end cuts what it sends by its own");
	doctor_fix(j, "export TCPX_CHUNK_BYTES=%llu   # there", (unsigned long long)ours_count);
}

void doctor_d16_environment(struct doctor_judge *j)
{
	const char *pair = doctor_text(j->facts, "pair.state");
	uint64_t count, checked;
	int is_checked = !doctor_count(j->facts, &checked, "problem.count"), known_all;

	if (doctor_count(j->facts, &count, "env.count")) {
		doctor_skip(j, "not known: the environment");
		return;
	}
	judge_problems(j);
	judge_names(j);
	known_all = doctor_judge_values(j);
	judge_aliases(j);
	judge_interfaces(j, "NCCL_SOCKET_IFNAME");
	judge_interfaces(j, "TCPX_NIC");
	judge_interfaces(j, "TCPX_BIND_DEVICE");
	judge_chunks(j);
	if (pair && !strcmp(pair, "up"))
		judge_ends(j);
	if (!known_all) {
		doctor_skip(j, "not known: whether TCPX_CONGESTION may be chosen (CAP_NET_ADMIN)");
		return;
	}
	doctor_pass(j, "variables of tcpx, NCCL and the plugin that are set: %llu%s%s",
		    (unsigned long long)count,
		    is_checked ? "; the plugin's recipe fits"
			       : "; no plugin, so no recipe to check",
		    pair && !strcmp(pair, "up") ? ", equal on both ends" : "");
}

/* Parses "0-51,104-155" into a set. Returns 0, or -1 if malformed. */
static int parse_cpus(const char *text, size_t len, cpu_set_t *set)
{
	const char *end = text + len;

	while (text < end) {
		char *next;
		unsigned long low = strtoul(text, &next, 10), high = low;

		if (next == text || *text < '0' || *text > '9')
			return -1;
		if (*next == '-') {
			text = next + 1;
			high = strtoul(text, &next, 10);
			if (next == text)
				return -1;
		}
		if (low > high || high >= CPU_SETSIZE)
			return -1;
		for (; low <= high; low++)
			CPU_SET(low, set);
		text = next + (next < end && *next == ',');
		if (next < end && *next != ',')
			return -1;
	}
	return 0;
}

struct bindings {
	const char *name;
	cpu_set_t all;
};

/* Compares the CPUs of one NIC with those of its NUMA node and of the process. */
static void judge_binding(struct doctor_judge *j, const struct bindings *b, const char *nic,
			  const cpu_set_t *cpus, const cpu_set_t *allowed)
{
	int at = doctor_nic_index(j->facts, nic);
	const char *near = at < 0 ? NULL : doctor_text(j->facts, "nic.%u.cpus", (unsigned)at);
	cpu_set_t node, in;

	if (at < 0) {
		doctor_fail(j, "%s names %s, and there is no such NIC", b->name, nic);
		doctor_cause(j, "its threads are not pinned");
		doctor_fix(j, "unset %s", b->name);
		return;
	}
	CPU_AND(&in, cpus, allowed);
	if (!CPU_EQUAL(&in, cpus)) {
		doctor_fail(j, "%s: %d of %d CPUs of %s are outside of the process's own", b->name,
			    CPU_COUNT(cpus) - CPU_COUNT(&in), CPU_COUNT(cpus), nic);
		doctor_cause(j, "the kernel refuses them; threads stay where they are");
		doctor_fix(j, "unset %s   # or give the process those CPUs", b->name);
	}
	CPU_ZERO(&node);
	if (!near || parse_cpus(near, strlen(near), &node))
		return;
	CPU_AND(&in, cpus, &node);
	if (CPU_EQUAL(&in, cpus))
		return;
	doctor_warn(j, "%s: %d of %d CPUs of %s are not on its NUMA node (%.60s)", b->name,
		    CPU_COUNT(cpus) - CPU_COUNT(&in), CPU_COUNT(cpus), nic, near);
	doctor_cause(j, "each packet crosses between CPU sockets");
	doctor_fix(j, "unset %s   # the plugin then takes the node's", b->name);
}

/* "eth1:8-21,112-125;eth2:..." */
static void judge_bindings(struct doctor_judge *j, struct bindings *b, const char *text,
			   const cpu_set_t *allowed)
{
	size_t len;

	for (; *text; text += len + (text[len] == ';')) {
		const char *colon;
		char nic[64];
		cpu_set_t cpus;

		len = strcspn(text, ";");
		colon = memchr(text, ':', len);
		CPU_ZERO(&cpus);
		if (!len)
			continue;
		if (!colon || colon == text || (size_t)(colon - text) >= sizeof(nic) ||
		    parse_cpus(colon + 1, len - (size_t)(colon + 1 - text), &cpus) ||
		    !CPU_COUNT(&cpus)) {
			doctor_fail(j, "%s: \"%.*s\" is no \"NIC:first-last,...\"", b->name,
				    (int)(len < 60 ? len : 60), text);
			doctor_cause(j, "the plugin would crash or pin nothing");
			doctor_fix(j, "unset %s", b->name);
			continue;
		}
		snprintf(nic, sizeof(nic), "%.*s", (int)(colon - text), text);
		judge_binding(j, b, nic, &cpus, allowed);
		CPU_OR(&b->all, &b->all, &cpus);
	}
}

void doctor_d09_bindings(struct doctor_judge *j)
{
	struct bindings tx = {.name = G "TX_BINDINGS"}, rx = {.name = G "RX_BINDINGS"};
	const char *send = doctor_text(j->facts, "env." G "TX_BINDINGS");
	const char *receive = doctor_text(j->facts, "env." G "RX_BINDINGS");
	const char *own = doctor_text(j->facts, "cpu.allowed");
	cpu_set_t allowed, both;
	uint64_t count;

	CPU_ZERO(&allowed);
	if (doctor_count(j->facts, &count, "env.count") || !own ||
	    parse_cpus(own, strlen(own), &allowed)) {
		doctor_skip(j, "not known: the environment, or the CPUs of this process");
		return;
	}
	if (!send && !receive && !doctor_uses_tcpx(j->facts)) {
		doctor_skip(j, "no bindings, and no TCPX plugin that would want them");
		return;
	}
	judge_bindings(j, &tx, send ? send : "", &allowed);
	judge_bindings(j, &rx, receive ? receive : "", &allowed);
	CPU_AND(&both, &tx.all, &rx.all);
	if (CPU_COUNT(&both)) {
		doctor_warn(j, "%d CPUs are in both the sending and the receiving bindings",
			    CPU_COUNT(&both));
		doctor_cause(j, "spinning threads compete for these CPUs");
		doctor_fix(j, "unset " G "TX_BINDINGS " G "RX_BINDINGS");
	}
	doctor_pass(j, "%d CPUs send, %d receive%s, of %d of this process", CPU_COUNT(&tx.all),
		    CPU_COUNT(&rx.all),
		    send || receive ? "" : " (not set: those of the NICs' nodes)",
		    CPU_COUNT(&allowed));
}

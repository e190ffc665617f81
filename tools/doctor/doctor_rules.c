/* SPDX-License-Identifier: Apache-2.0 */
/* The table of rules, and helpers of the rules. */
#include "doctor_rules.h"

#include <stdarg.h>
#include <string.h>

static const struct doctor_rule rules[] = {
	{"D01", "owner", "the GPU receives through the NIC that is its own", doctor_d01_owner},
	{"D02", "device", "the current device is the GPU that is meant", doctor_d02_device},
	{"D03", "devmem", "packets land in GPU memory", doctor_d03_probe},
	{"D04", "steering", "the rule of a flow is on the flow's NIC", doctor_d04_steered},
	{"D05", "queues", "header split, n-tuple rules, RSS, resets", doctor_d05_queues},
	{"D06", "settle", "the wait for flow steering is long enough", doctor_d06_settle},
	{"D07", "rxdm", "RxDM's sockets answer", doctor_d07_rxdm},
	{"D08", "versions", "versions, and the folder of the plugin", doctor_d08_versions},
	{"D09", "bindings", "CPU bindings of the plugin's threads", doctor_d09_bindings},
	{"D10", "kernel", "sysctls and MTU", doctor_d10_kernel},
	{"D11", "limits", "limits of the process", doctor_d11_limits},
	{"D12", "routes", "routes and reverse path filters", doctor_d12_routes},
	{"D13", "port", "the port, and who listens", doctor_d13_ports},
	{"D14", "devices", "the same GPUs and NICs everywhere", doctor_d14_counts},
	{"D15", "links", "links: speed, carrier, errors, distance", doctor_d15_links},
	{"D16", "environment", "the environment", doctor_d16_environment},
	{"D17", "key", "the key, and where is listened", doctor_d17_key},
	{"D18", "tcp", "plain TCP to the other end", doctor_d18_tcp},
	{"D19", "libraries", "libraries load", doctor_d19_libraries},
	{"D20", "clocks", "the clocks of both ends", doctor_d20_clock},
	{"D21", "rails", "each rail leads to the other end", doctor_d21_rails},
	{"D22", "path-mtu", "path MTU: whole packets arrive, both ways", doctor_d22_path},
};
#define RULES (sizeof(rules) / sizeof(rules[0]))

const struct doctor_rule *doctor_rule(unsigned index)
{
	return index < RULES ? &rules[index] : NULL;
}

const struct doctor_rule *doctor_rule_named(const char *id, size_t len)
{
	for (unsigned i = 0; i < RULES; i++)
		if ((strlen(rules[i].id) == len && !strncasecmp(rules[i].id, id, len)) ||
		    (strlen(rules[i].name) == len && !strncasecmp(rules[i].name, id, len)))
			return &rules[i];
	return NULL;
}

const char *doctor_verdict_name(enum doctor_verdict verdict)
{
	static const char *const names[DOCTOR_VERDICTS] = {"PASS", "WARN", "FAIL", "SKIP"};

	return names[verdict];
}

void doctor_judge_all(const struct doctor_facts *facts, uint64_t chosen,
		      struct doctor_report *out_report)
{
	memset(out_report, 0, sizeof(*out_report));
	for (unsigned i = 0; i < RULES; i++) {
		struct doctor_judge j = {facts, out_report, rules[i].id, 0};

		if (chosen >> i & 1)
			rules[i].judge(&j);
	}
}

__attribute__((format(printf, 3, 0))) static void
result(struct doctor_judge *j, enum doctor_verdict verdict, const char *evidence, va_list ap)
{
	struct doctor_report *report = j->report;
	struct doctor_result *r = &report->results[report->count];

	report->verdicts[verdict]++;
	if (report->count == DOCTOR_RESULTS_MAX) {
		report->left_out++;
		return;
	}
	report->count++;
	*r = (struct doctor_result){.id = j->id, .verdict = verdict};
	vsnprintf(r->evidence, sizeof(r->evidence), evidence, ap);
}

void doctor_warn(struct doctor_judge *j, const char *evidence, ...)
{
	va_list ap;

	va_start(ap, evidence);
	result(j, DOCTOR_WARN, evidence, ap);
	va_end(ap);
	j->found++;
}

void doctor_fail(struct doctor_judge *j, const char *evidence, ...)
{
	va_list ap;

	va_start(ap, evidence);
	result(j, DOCTOR_FAIL, evidence, ap);
	va_end(ap);
	j->found++;
}

/* The result that cause and fix belong to. */
static struct doctor_result *last(struct doctor_judge *j)
{
	return &j->report->results[j->report->count - 1];
}

void doctor_cause(struct doctor_judge *j, const char *cause, ...)
{
	va_list ap;

	if (j->report->left_out)
		return;
	va_start(ap, cause);
	vsnprintf(last(j)->cause, sizeof(last(j)->cause), cause, ap);
	va_end(ap);
}

void doctor_fix(struct doctor_judge *j, const char *fix, ...)
{
	va_list ap;

	if (j->report->left_out)
		return;
	va_start(ap, fix);
	vsnprintf(last(j)->fix, sizeof(last(j)->fix), fix, ap);
	va_end(ap);
}

void doctor_pass(struct doctor_judge *j, const char *evidence, ...)
{
	va_list ap;

	if (j->found)
		return;
	va_start(ap, evidence);
	result(j, DOCTOR_PASS, evidence, ap);
	va_end(ap);
}

void doctor_skip(struct doctor_judge *j, const char *why, ...)
{
	va_list ap;

	if (j->found)
		return;
	va_start(ap, why);
	result(j, DOCTOR_SKIP, why, ap);
	va_end(ap);
}

const char *doctor_quote(const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_./:,=+@%-^";
	static char room[4][4 * 200 + 4];
	static unsigned turn;
	char *buf = room[turn++ % 4], *out = buf;
	size_t len = strnlen(word, 200);

	if (len && strspn(word, plain) >= len) {
		memcpy(buf, word, len);
		buf[len] = '\0';
		return buf;
	}
	*out++ = '\'';
	for (size_t i = 0; i < len; i++) {
		if (word[i] == '\'')
			out = stpcpy(out, "'\\'");
		*out++ = word[i];
	}
	*out++ = '\'';
	*out = '\0';
	return buf;
}

void doctor_add(char *text, size_t cap, const char *format, ...)
{
	size_t used = strlen(text);
	va_list ap;
	int len;

	va_start(ap, format);
	len = vsnprintf(text + used, cap - used, format, ap);
	va_end(ap);
	if (len > 0 && (size_t)len >= cap - used)
		memcpy(text + cap - 4, "...", 4);
}

int doctor_uses_tcpx(const struct doctor_facts *facts)
{
	const char *state;

	if (doctor_text(facts, "want.plugin") || doctor_text(facts, "plugin.file"))
		return 1;
	for (unsigned i = 0; (state = doctor_text(facts, "rxdm.socket.%u.state", i)); i++)
		if (strcmp(state, "missing"))
			return 1;
	return 0;
}

int doctor_nic_index(const struct doctor_facts *facts, const char *name)
{
	const char *text;

	for (unsigned i = 0; (text = doctor_text(facts, "nic.%u.name", i)); i++)
		if (!strcmp(text, name))
			return (int)i;
	return -1;
}

int doctor_owns_gpu(const struct doctor_facts *facts, const char *nic)
{
	for (unsigned i = 0; doctor_text(facts, "gpu.%u.pci", i); i++) {
		const char *owner = doctor_text(facts, "gpu.%u.owner", i);

		if (owner && !strcmp(owner, nic))
			return 1;
	}
	return 0;
}

int doctor_gpu_index(const struct doctor_facts *facts, uint64_t ordinal)
{
	uint64_t cuda;
	int counted = 0;

	for (unsigned i = 0; doctor_text(facts, "gpu.%u.pci", i); i++) {
		if (doctor_count(facts, &cuda, "gpu.%u.cuda", i))
			continue;
		counted = 1;
		if (cuda == ordinal)
			return (int)i;
	}
	if (counted || ordinal >= DOCTOR_INDEX_MAX ||
	    !doctor_text(facts, "gpu.%u.pci", (unsigned)ordinal))
		return -1;
	return (int)ordinal; /* without a driver the PCI order is used */
}

int doctor_is_listed(const char *list, const char *word)
{
	size_t len, want = strlen(word);

	for (; *list; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		if (len == want && !memcmp(list, word, len))
			return 1;
	}
	return 0;
}

int doctor_has_gpus(struct doctor_judge *j)
{
	uint64_t count;

	if (doctor_text(j->facts, "gpu.0.pci"))
		return 1;
	if (!doctor_count(j->facts, &count, "gpu.count") && !count)
		doctor_skip(j, "this machine has no GPU");
	else
		doctor_skip(j, "not known: the GPUs of this machine");
	return 0;
}

int doctor_has_pair(struct doctor_judge *j)
{
	const char *state = doctor_text(j->facts, "pair.state");
	const char *why = doctor_text(j->facts, "pair.why");

	if (!state)
		doctor_skip(j, "not known: the other end (--peer HOST)");
	else if (strcmp(state, "up"))
		doctor_skip(j, "not known: the other end%s%s", why ? ": " : "", why ? why : "");
	return state && !strcmp(state, "up");
}

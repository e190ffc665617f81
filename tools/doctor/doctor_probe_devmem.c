/* SPDX-License-Identifier: Apache-2.0 */
/* A short READ into GPU memory over a TCPX plugin, to see whether packets land there. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "doctor_probe.h"
#include "doctor_rules.h"

#define BYTES "8M"
#define BYTES_COUNT (8ull << 20)
#define TEXT_CAP 16384
#define NICS_MAX 32
#define LEAST_NS (1 * CLOCK_S_NS) /* a probe needs at least this time */

struct attempt {
	char mem[24], text[TEXT_CAP];
	const char *nic;
	unsigned gpu;
};

/* Runs perf in a child process, because a plugin may end its process. */
static int run_perf(const struct doctor_facts *facts, const struct doctor_probe_opts *opts,
		    struct attempt *a)
{
	const char *args[32] = {"perf",
				opts->peer,
				"--transport",
				"gpudirect",
				"--op",
				"read",
				"--size",
				BYTES,
				"--iters",
				"1",
				"--remote-mem",
				"cuda",
				"--mem",
				a->mem,
				"--plugin",
				doctor_text(facts, "plugin.file"),
				"--plugin-channels",
				"1",
				"--working-set",
				BYTES};
	unsigned n = 20;

	if (a->nic) {
		args[n++] = "--nic";
		args[n++] = a->nic;
	}
	if (opts->key_file) {
		args[n++] = "--key";
		args[n++] = opts->key_file;
	}
	if (opts->insecure)
		args[n++] = "--insecure";
	return doctor_ask_self(args, opts->deadline_ns, a->text, sizeof(a->text));
}

/* Parses "eth1 +12  eth2 +0" of perf: growth on the NIC, and on others. */
static void put_counts(struct doctor_facts *facts, unsigned at, const char *nic, const char *counts)
{
	unsigned long long grown, here = 0, elsewhere = 0;
	char name[64];
	int used, known = 0;

	for (; sscanf(counts, " %63s +%llu%n", name, &grown, &used) == 2; counts += used) {
		known = 1;
		if (!doctor_is_listed(nic, name) && strcmp(nic, "all"))
			elsewhere += grown;
		else
			here += grown;
	}
	if (!known) /* "not available" */
		return;
	doctor_put_count(facts, here, "probe.%u.devmem", at);
	doctor_put_count(facts, elsewhere, "probe.%u.elsewhere", at);
}

/* The last error line of perf: why there was no probe. */
static void put_why(struct doctor_facts *facts, const char *text)
{
	static const char name[] = "tcpx perf: ";
	const char *line = text, *last = text, *next;
	char why[300];

	for (; line; line = next) {
		next = strchr(line, '\n');
		next = next ? next + 1 : NULL;
		if (!strncmp(line, name, sizeof(name) - 1))
			last = line + sizeof(name) - 1;
	}
	text_format(why, sizeof(why), "%.*s", (int)strcspn(last, "\n"), last);
	doctor_put_text(facts, *why ? why : "perf failed", "probe.why");
}

static void probe_one(struct doctor_facts *facts, const struct doctor_probe_opts *opts,
		      struct attempt *a, unsigned *count)
{
	const char *pci = doctor_text(facts, "gpu.%u.pci", a->gpu);
	char counts[512];
	int failed = run_perf(facts, opts, a);
	/* the message of the plugin for data that arrived as plain TCP */
	int missed = strstr(a->text, "no cmsg") || strstr(a->text, "no-cmsg") ||
		     strstr(a->text, "no NIC counted a packet");

	if ((failed && !missed) || strstr(a->text, "no channel of messages was used")) {
		put_why(facts, a->text);
		return;
	}
	doctor_put_text(facts, pci, "probe.%u.gpu", *count);
	doctor_put_text(facts, a->nic, "probe.%u.nic", *count);
	doctor_put_text(facts, "gpudirect", "probe.%u.transport", *count);
	doctor_put_count(facts, BYTES_COUNT, "probe.%u.bytes", *count);
	doctor_put_count(facts, missed ? BYTES_COUNT : 0, "probe.%u.host_bytes", *count);
	if (missed)
		doctor_put_count(facts, 0, "probe.%u.devmem", *count);
	else if (!doctor_line_after(a->text, "# rx_devmem_pkts of this end: ", counts,
				    sizeof(counts)))
		put_counts(facts, *count, a->nic, counts);
	++*count;
}

/* Lists the NICs that own a GPU of this process, each once; no relay can use others. Returns
 * their number. */
static unsigned list_nics(const struct doctor_facts *facts, const char **nics)
{
	const char *owner;
	unsigned count = 0;
	uint64_t ordinal;

	for (unsigned i = 0; doctor_text(facts, "gpu.%u.pci", i) && count < NICS_MAX; i++) {
		unsigned k = 0;

		owner = doctor_text(facts, "gpu.%u.owner", i);
		if (doctor_count(facts, &ordinal, "gpu.%u.cuda", i))
			continue;
		while (owner && k < count && strcmp(nics[k], owner))
			k++;
		if (owner && k == count)
			nics[count++] = owner;
	}
	return count;
}

struct devmem_round {
	struct doctor_facts *facts;
	const struct doctor_probe_opts *opts;
	const char *nics[NICS_MAX];
	unsigned nnics;
	unsigned count, left; /* numbers of pairs probed and not probed */
};

/* Probes a GPU with its own NIC, or with each of the others. */
static void probe_gpu(struct devmem_round *r, unsigned gpu, uint64_t ordinal, int own)
{
	static struct attempt a;
	const char *owner = doctor_text(r->facts, "gpu.%u.owner", gpu);

	a.gpu = gpu;
	snprintf(a.mem, sizeof(a.mem), "cuda:%llu", (unsigned long long)ordinal);
	for (unsigned i = 0; i < r->nnics; i++) {
		unsigned before = r->count;

		/* a word of --nic may name several NICs */
		if (own != (owner && doctor_is_listed(r->nics[i], owner)))
			continue;
		a.nic = r->nics[i];
		if (r->opts->deadline_ns - clock_now_ns() >= LEAST_NS &&
		    r->count < DOCTOR_INDEX_MAX)
			probe_one(r->facts, r->opts, &a, &r->count);
		r->left += r->count == before;
	}
}

void doctor_probe_devmem(struct doctor_facts *facts, const struct doctor_probe_opts *opts)
{
	struct devmem_round round = {.facts = facts, .opts = opts};
	const char *nic = doctor_text(facts, "want.nic");
	uint64_t ordinal, want = 0;
	int only = !doctor_count(facts, &want, "want.gpu") || nic;

	if (!doctor_text(facts, "gpu.0.pci") || doctor_flag(facts, "plugin.loads") != 1) {
		doctor_put_text(facts,
				doctor_text(facts, "gpu.0.pci") ? "no plugin that loads (D19)"
								: "this machine has no GPU",
				"probe.why");
		return;
	}
	if (nic)
		round.nics[round.nnics++] = nic;
	else
		round.nnics = list_nics(facts, round.nics);
	/* own NICs first, because the time may not suffice for all pairs */
	for (int own = 1; own >= 0; own--)
		for (unsigned i = 0; doctor_text(facts, "gpu.%u.pci", i); i++)
			if (!doctor_count(facts, &ordinal, "gpu.%u.cuda", i) &&
			    (!only || ordinal == want))
				probe_gpu(&round, i, ordinal, own);
	doctor_put_count(facts, round.left, "probe.left");
	if (!round.count && !doctor_text(facts, "probe.why"))
		doctor_put_text(
			facts, round.left ? "the time was over" : "no GPU that CUDA sees has a NIC",
			"probe.why");
}

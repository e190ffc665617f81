/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about GPUs, their NICs and flow steering: D01 to D07. */
#include <string.h>

#include "doctor_rules.h"

#define HOW_RXDM "# start RxDM with its table: --gpu_nic_preset a3vm --gpu_shmem_type fd"

/* How the owner of a GPU was found. */
static const char *source_words(const struct doctor_facts *f, unsigned gpu)
{
	const char *source = doctor_text(f, "gpu.%u.source", gpu);

	if (source && !strcmp(source, "preset"))
		return "RxDM's preset";
	return source && !strcmp(source, "pcie") ? "PCIe" : "nothing";
}

/* Ordinals of the GPUs that a NIC owns: "2,3". */
static void gpus_of(const struct doctor_facts *f, const char *nic, char *out, size_t cap)
{
	uint64_t ordinal;

	*out = '\0';
	for (unsigned i = 0; doctor_text(f, "gpu.%u.pci", i); i++) {
		const char *owner = doctor_text(f, "gpu.%u.owner", i);

		if (!owner || strcmp(owner, nic))
			continue;
		if (doctor_count(f, &ordinal, "gpu.%u.cuda", i))
			ordinal = i;
		doctor_add(out, cap, "%s%llu", *out ? "," : "", (unsigned long long)ordinal);
	}
}

/* Judges a GPU and the NIC that it is to use. */
static void wanted_pair(struct doctor_judge *j, unsigned gpu, uint64_t ordinal, const char *nic)
{
	const char *pci = doctor_text(j->facts, "gpu.%u.pci", gpu);
	const char *owner = doctor_text(j->facts, "gpu.%u.owner", gpu), *address;
	int at = doctor_nic_index(j->facts, nic);
	char others[64];

	if (!owner || doctor_is_listed(nic, owner) || !strcmp(nic, "all"))
		return;
	address = at < 0 ? NULL : doctor_text(j->facts, "nic.%u.address", (unsigned)at);
	doctor_fail(j, "GPU%llu (%s) belongs to %s by %s; you listen on %s%s%s%s",
		    (unsigned long long)ordinal, pci, owner, source_words(j->facts, gpu), nic,
		    address ? " (" : "", address ? address : "", address ? ")" : "");
	doctor_cause(j,
		     "RxDM puts the rule on %s and answers \"Ok.\"; packets that arrive on %s miss "
		     "the GPU's queues: \"no cmsg\"",
		     owner, nic);
	gpus_of(j->facts, nic, others, sizeof(others));
	doctor_fix(j, "export TCPX_NIC=%s", doctor_quote(owner));
	if (*others)
		doctor_fix(j, "export TCPX_NIC=%s\n# or, to stay on %s, one of its GPUs: %s",
			   doctor_quote(owner), nic, others);
}

static void no_owner(struct doctor_judge *j, unsigned gpu)
{
	const char *pci = doctor_text(j->facts, "gpu.%u.pci", gpu);
	const char *rxdm = doctor_text(j->facts, "gpu.%u.rxdm", gpu);
	int denied = rxdm && !strcmp(rxdm, "denied");

	if (!doctor_uses_tcpx(j->facts))
		return;
	doctor_fail(j, "GPU %s has no NIC of its own%s", pci,
		    denied ? "; RxDM has no queues for it" : "");
	doctor_cause(j, denied ? "RxDM was started for other GPUs; it cannot receive by any NIC"
			       : "neither RxDM's preset nor PCIe says which; a flow to it is not "
				 "steered");
	doctor_fix(j, HOW_RXDM);
}

/* Judges the distance of the nearest NIC only. */
static void distant_owner(struct doctor_judge *j, unsigned gpu)
{
	const char *far = doctor_text(j->facts, "gpu.%u.distance", gpu);
	const char *source = doctor_text(j->facts, "gpu.%u.source", gpu);

	if (!far || !source || strcmp(source, "pcie") || doctor_is_listed("PIX,PXB", far) ||
	    !doctor_uses_tcpx(j->facts))
		return;
	doctor_warn(j, "GPU %s and its nearest NIC %s are %s apart",
		    doctor_text(j->facts, "gpu.%u.pci", gpu),
		    doctor_text(j->facts, "gpu.%u.owner", gpu), far);
	doctor_cause(j, "the NIC is derived from PCIe alone, and none is under the GPU's switch");
	doctor_fix(j, HOW_RXDM);
}

void doctor_d01_owner(struct doctor_judge *j)
{
	const char *nic = doctor_text(j->facts, "want.nic"), *owner, *silent = "";
	char list[400] = "";
	uint64_t ordinal = 0;
	unsigned count = 0, unknown = 0;
	int gpu;

	if (!doctor_has_gpus(j))
		return;
	doctor_count(j->facts, &ordinal, "want.gpu");
	gpu = doctor_gpu_index(j->facts, ordinal);
	if (gpu < 0) {
		doctor_fail(j, "GPU%llu is not among those that this process sees",
			    (unsigned long long)ordinal);
		doctor_cause(j, "the number is of this process (CUDA_VISIBLE_DEVICES), not of the "
				"machine");
		doctor_fix(j, "export TCPX_LOCAL_DEVICE=0");
		return;
	}
	if (nic)
		wanted_pair(j, (unsigned)gpu, ordinal, nic);
	for (unsigned i = 0; doctor_text(j->facts, "gpu.%u.pci", i); i++, count++) {
		const char *rxdm = doctor_text(j->facts, "gpu.%u.rxdm", i);

		owner = doctor_text(j->facts, "gpu.%u.owner", i);
		if (!owner && doctor_text(j->facts, "gpu.%u.source", i))
			no_owner(j, i);
		if (owner)
			distant_owner(j, i);
		unknown += !owner;
		if (rxdm && !strcmp(rxdm, "silent"))
			silent = " (RxDM was not asked)";
		if (owner)
			doctor_add(list, sizeof(list), "%s%s %s", *list ? ", " : "",
				   doctor_text(j->facts, "gpu.%u.pci", i), owner);
	}
	if (unknown)
		doctor_skip(j, "not known: the NIC of %u of %u GPUs", unknown, count);
	else
		doctor_pass(j, "%u GPUs, by %s%s: %s", count, source_words(j->facts, 0), silent,
			    list);
}

void doctor_d02_device(struct doctor_judge *j)
{
	const char *op;
	unsigned count = 0;

	for (unsigned i = 0; (op = doctor_text(j->facts, "call.%u.op", i)); i++) {
		const char *gpu = doctor_text(j->facts, "call.%u.gpu", i);
		const char *want = doctor_text(j->facts, "call.%u.want", i);

		if (!gpu || !want)
			continue;
		count++;
		if (!strcmp(gpu, want))
			continue;
		doctor_fail(j, "call %u, %s: the current device was %s, expected %s", i, op, gpu,
			    want);
		doctor_cause(j, "the plugin takes the calling thread's current CUDA device for the "
				"rule and for the pages; a new thread starts with GPU 0");
		doctor_fix(j, "# cudaSetDevice() on the calling thread before listen, connect, "
			      "accept and regMr");
	}
	if (count)
		doctor_pass(j, "%u calls, each with its own GPU current", count);
	else
		doctor_skip(j, "not known: calls of a plugin, and the current device of each");
}

/* Judges one probe of a GPU and a NIC. */
static unsigned judge_probe(struct doctor_judge *j, unsigned i, const char *nic)
{
	const char *gpu = doctor_text(j->facts, "probe.%u.gpu", i);
	uint64_t bytes, devmem, elsewhere = 0, host = 0;

	if (!gpu || doctor_count(j->facts, &bytes, "probe.%u.bytes", i) || !bytes ||
	    doctor_count(j->facts, &devmem, "probe.%u.devmem", i))
		return 0;
	doctor_count(j->facts, &elsewhere, "probe.%u.elsewhere", i);
	doctor_count(j->facts, &host, "probe.%u.host_bytes", i);
	if (devmem && !elsewhere && !host)
		return 1;
	doctor_fail(j,
		    "probe of %s and GPU %s: %llu B received, %llu devmem packets there, %llu on "
		    "other NICs, %llu B in host memory",
		    nic, gpu, (unsigned long long)bytes, (unsigned long long)devmem,
		    (unsigned long long)elsewhere, (unsigned long long)host);
	if (elsewhere)
		doctor_cause(j, "the flow arrived on another NIC: routes or rules send it there "
				"(D04, D12)");
	else if (devmem)
		doctor_cause(j, "a part came before the rule worked, or without header split "
				"(D05, D06)");
	else
		doctor_cause(j, "the flow was not steered: another NIC owns the GPU (D01), or RxDM "
				"put no rule (D07)");
	doctor_fix(j, "tcpx doctor --only D01,D04,D05,D06,D07 --nic %s", doctor_quote(nic));
	return 1;
}

void doctor_d03_probe(struct doctor_judge *j)
{
	const char *nic, *why = doctor_text(j->facts, "probe.why");
	char list[400] = "";
	unsigned count = 0, judged = 0;
	uint64_t devmem, left = 0;

	for (; (nic = doctor_text(j->facts, "probe.%u.nic", count)); count++) {
		judged += judge_probe(j, count, nic);
		if (!doctor_count(j->facts, &devmem, "probe.%u.devmem", count))
			doctor_add(list, sizeof(list), "%s%s +%llu", *list ? ", " : "", nic,
				   (unsigned long long)devmem);
	}
	doctor_count(j->facts, &left, "probe.left");
	if (!count)
		doctor_skip(j, "not probed: %s", why ? why : "it takes --peer, a GPU and a plugin");
	else if (judged < count)
		doctor_skip(j, "not known: rx_devmem_pkts or bytes of %u of %u probes",
			    count - judged, count);
	else if (left)
		doctor_skip(j, "%u probes, rx_devmem_pkts: %s; not probed: %llu other pairs: %s",
			    count, list, (unsigned long long)left, why ? why : "the time was over");
	else
		doctor_pass(j, "%u probes, rx_devmem_pkts: %s", count, list);
}

void doctor_d04_steered(struct doctor_judge *j)
{
	const char *nic, *rule;
	unsigned count = 0, without = 0;
	uint64_t rules;

	if (doctor_count(j->facts, &rules, "rule.count") || !doctor_text(j->facts, "flow.0.nic")) {
		doctor_skip(j, "not known: flows of the plugin, and the NICs' rules");
		return;
	}
	rules = rules < DOCTOR_INDEX_MAX ? rules : DOCTOR_INDEX_MAX;
	for (; (nic = doctor_text(j->facts, "flow.%u.nic", count)); count++) {
		const char *local = doctor_text(j->facts, "flow.%u.local", count);
		const char *remote = doctor_text(j->facts, "flow.%u.remote", count);
		const char *found = NULL;

		for (unsigned i = 0; local && remote && !found && i < rules; i++) {
			const char *to = doctor_text(j->facts, "rule.%u.local", i);
			const char *from = doctor_text(j->facts, "rule.%u.remote", i);

			rule = doctor_text(j->facts, "rule.%u.nic", i);
			if (rule && to && from && !strcmp(to, local) && !strcmp(from, remote))
				found = rule;
		}
		without += !found;
		if (!found || !strcmp(found, nic))
			continue;
		doctor_warn(j, "flow %s from %s arrives on %s, its rule is on %s", local, remote,
			    nic, found);
		doctor_cause(j, "RxDM puts the rule on the NIC that owns the GPU of the request; a "
				"hint only, lists of rules may be old");
		doctor_fix(j, "export TCPX_NIC=%s", doctor_quote(found));
	}
	if (without)
		doctor_skip(j, "no rule was found for %u of %u flows", without, count);
	else
		doctor_pass(j, "%u flows, each rule on the flow's NIC", count);
}

/* Judges the settings of one NIC that RxDM makes at its start. Returns how many are known. */
static unsigned judge_queues(struct doctor_judge *j, unsigned i, const char *nic)
{
	int split = doctor_flag(j->facts, "nic.%u.header_split", i);
	int ntuple = doctor_flag(j->facts, "nic.%u.ntuple", i);
	uint64_t queues, resets, before;
	int spread = doctor_count(j->facts, &queues, "nic.%u.rss_queues", i);
	int counted = doctor_count(j->facts, &resets, "nic.%u.resets", i) |
		      doctor_count(j->facts, &before, "nic.%u.resets_before", i);

	if (!split) {
		doctor_fail(j, "%s: header split is off", nic);
		doctor_cause(j, "headers and data share a page, so nothing can land in GPU memory");
		doctor_fix(j, "ethtool --set-priv-flags %s enable-header-split on",
			   doctor_quote(nic));
	}
	if (!ntuple) {
		doctor_fail(j, "%s: n-tuple rules are off", nic);
		doctor_cause(j, "no flow can be steered to a GPU's queue");
		doctor_fix(j, "ethtool -K %s ntuple on", doctor_quote(nic));
	}
	if (!spread && queues > 8) {
		doctor_fail(j, "%s: plain traffic spreads over %llu queues", nic,
			    (unsigned long long)queues);
		doctor_cause(j, "queues 8 and up are GPUs'; a plain flow that lands there is lost");
		doctor_fix(j, "ethtool --set-rxfh-indir %s equal 8", doctor_quote(nic));
	}
	if (!counted && resets != before) {
		doctor_fail(j, "%s: reset %llu times since RxDM started", nic,
			    (unsigned long long)(resets - before));
		doctor_cause(j, "a reset forgets rules and queue bindings; RxDM does not put them "
				"back");
		doctor_fix(j, "# restart RxDM, then the programs that use it");
	}
	return (split >= 0) + (ntuple >= 0) + !spread + !counted;
}

void doctor_d05_queues(struct doctor_judge *j)
{
	const char *nic;
	unsigned count = 0, known = 0;

	if (!doctor_has_gpus(j))
		return;
	for (unsigned i = 0; (nic = doctor_text(j->facts, "nic.%u.name", i)); i++) {
		if (!doctor_owns_gpu(j->facts, nic))
			continue;
		count++;
		known += judge_queues(j, i, nic);
	}
	if (!count)
		doctor_skip(j, "no NIC belongs to a GPU");
	else if (known < 4 * count)
		doctor_skip(j, "not known: %u of %u settings of %u NICs", 4 * count - known,
			    4 * count, count);
	else
		doctor_pass(j, "%u NICs: header split and n-tuple on, RSS on 8 queues, no reset",
			    count);
}

void doctor_d06_settle(struct doctor_judge *j)
{
	uint64_t wait, effective;

	if (doctor_count(j->facts, &wait, "steer.wait_us") ||
	    doctor_count(j->facts, &effective, "steer.effective_us")) {
		doctor_skip(j, "no measurement of flow-rule latency (p99)");
		return;
	}
	if (wait < effective) {
		doctor_fail(j, "the plugin waits %llu us, a rule works after %llu us",
			    (unsigned long long)wait, (unsigned long long)effective);
		doctor_cause(j, "the first data of a channel would come before its rule");
		doctor_fix(j, "export NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=%llu",
			   (unsigned long long)(effective + effective / 2));
	}
	doctor_pass(j, "the plugin waits %llu us, a rule works after %llu us",
		    (unsigned long long)wait, (unsigned long long)effective);
}

/* Reports an unusable socket of RxDM. */
static void bad_socket(struct doctor_judge *j, const char *prefix, const char *name,
		       const char *state, const char *mode)
{
	doctor_fail(j, "RxDM's socket %s/%s: %s%s%s", prefix, name, state, mode ? ", mode " : "",
		    mode ? mode : "");
	if (!strcmp(state, "denied")) {
		doctor_cause(j, "this user may not connect to it");
		doctor_fix(j, "chmod 666 %s/%s", doctor_quote(prefix), doctor_quote(name));
	} else if (!strcmp(state, "missing")) {
		doctor_cause(j, "RxDM runs for other GPUs, or is still starting");
		doctor_fix(j, HOW_RXDM);
	} else {
		doctor_cause(j, "nobody listens behind it: RxDM has ended, or hangs");
		doctor_fix(j, HOW_RXDM);
	}
}

void doctor_d07_rxdm(struct doctor_judge *j)
{
	const char *prefix = doctor_text(j->facts, "rxdm.prefix"), *name, *state;
	unsigned count = 0, missing = 0;

	if (!doctor_has_gpus(j))
		return;
	for (; (state = doctor_text(j->facts, "rxdm.socket.%u.state", count)); count++)
		missing += !strcmp(state, "missing");
	if (!prefix || !count) {
		doctor_skip(j, "not known: RxDM's sockets");
		return;
	}
	if (missing == count && !doctor_uses_tcpx(j->facts)) {
		doctor_skip(j, "neither RxDM (%s) nor a TCPX plugin is here", prefix);
		return;
	}
	if (missing == count) {
		doctor_fail(j, "none of RxDM's %u sockets is in %s", count, prefix);
		doctor_cause(j, "RxDM does not run, or under another folder%s",
			     strcmp(prefix, "/tmp") ? "" : "; the plugin's own default is /tmp");
		doctor_fix(j, "export NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX=/run/tcpx\n" HOW_RXDM);
		return;
	}
	for (unsigned i = 0; i < count; i++) {
		state = doctor_text(j->facts, "rxdm.socket.%u.state", i);
		name = doctor_text(j->facts, "rxdm.socket.%u.name", i);
		if (strcmp(state, "connects"))
			bad_socket(j, prefix, name ? name : "?", state,
				   doctor_text(j->facts, "rxdm.socket.%u.mode", i));
	}
	doctor_pass(j, "%u sockets in %s take connections", count, prefix);
}

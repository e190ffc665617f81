/* SPDX-License-Identifier: Apache-2.0 */
/* The known keys of facts and the kinds of their values. */
#include <ctype.h>
#include <string.h>

#include "doctor_facts.h"

static const struct doctor_key keys[] = {
	/* this end */
	{"tool", DOCTOR_TEXT, NULL},
	{"host", DOCTOR_TEXT, NULL},
	{"kernel", DOCTOR_TEXT, NULL},
	{"container", DOCTOR_FLAG, NULL},
	/* what the user asked for */
	{"want.gpu", DOCTOR_COUNT, NULL},
	{"want.nic", DOCTOR_TEXT, NULL},
	{"want.plugin", DOCTOR_TEXT, NULL},
	/* GPUs */
	{"gpu.count", DOCTOR_COUNT, NULL},
	{"gpu.cuda", DOCTOR_COUNT, NULL},
	{"gpu.nvml", DOCTOR_COUNT, NULL},
	{"gpu.#.pci", DOCTOR_PCI, NULL},
	{"gpu.#.numa", DOCTOR_SIGNED, NULL},
	{"gpu.#.cuda", DOCTOR_COUNT, NULL},
	{"gpu.#.owner", DOCTOR_TEXT, NULL},
	{"gpu.#.source", DOCTOR_WORD, "preset|pcie|none"},
	{"gpu.#.rxdm", DOCTOR_WORD, "known|denied|silent"},
	{"gpu.#.distance", DOCTOR_WORD, "PIX|PXB|PHB|NODE|SYS|FAR"},
	/* NICs */
	{"nic.count", DOCTOR_COUNT, NULL},
	{"nic.#.name", DOCTOR_TEXT, NULL},
	{"nic.#.pci", DOCTOR_PCI, NULL},
	{"nic.#.numa", DOCTOR_SIGNED, NULL},
	{"nic.#.cpus", DOCTOR_TEXT, NULL},
	{"nic.#.driver", DOCTOR_TEXT, NULL},
	{"nic.#.mtu", DOCTOR_COUNT, NULL},
	{"nic.#.speed_mbps", DOCTOR_COUNT, NULL},
	{"nic.#.state", DOCTOR_TEXT, NULL},
	{"nic.#.carrier", DOCTOR_FLAG, NULL},
	{"nic.#.address", DOCTOR_TEXT, NULL},
	{"nic.#.rp_filter", DOCTOR_COUNT, NULL},
	{"nic.#.rx_errors", DOCTOR_COUNT, NULL},
	{"nic.#.tx_errors", DOCTOR_COUNT, NULL},
	{"nic.#.crc_errors", DOCTOR_COUNT, NULL},
	{"nic.#.rx_dropped", DOCTOR_COUNT, NULL},
	{"nic.#.header_split", DOCTOR_FLAG, NULL},
	{"nic.#.ntuple", DOCTOR_FLAG, NULL},
	{"nic.#.rss_queues", DOCTOR_COUNT, NULL},
	{"nic.#.rx_buffer", DOCTOR_COUNT, NULL},
	{"nic.#.resets", DOCTOR_COUNT, NULL},
	{"nic.#.resets_before", DOCTOR_COUNT, NULL},
	{"iface.#", DOCTOR_TEXT, NULL},
	{"iommu.groups", DOCTOR_COUNT, NULL},
	/* calls of a plugin */
	{"call.#.op", DOCTOR_WORD, "listen|connect|accept|regmr"},
	{"call.#.gpu", DOCTOR_PCI, NULL},
	{"call.#.want", DOCTOR_PCI, NULL},
	{"probe.#.gpu", DOCTOR_PCI, NULL},
	{"probe.#.nic", DOCTOR_TEXT, NULL},
	{"probe.#.transport", DOCTOR_TEXT, NULL},
	{"probe.#.bytes", DOCTOR_COUNT, NULL},
	{"probe.#.devmem", DOCTOR_COUNT, NULL},
	{"probe.#.elsewhere", DOCTOR_COUNT, NULL},
	{"probe.#.host_bytes", DOCTOR_COUNT, NULL},
	{"probe.left", DOCTOR_COUNT, NULL},
	{"probe.why", DOCTOR_TEXT, NULL},
	{"flow.#.nic", DOCTOR_TEXT, NULL},
	{"flow.#.local", DOCTOR_TEXT, NULL},
	{"flow.#.remote", DOCTOR_TEXT, NULL},
	{"rule.count", DOCTOR_COUNT, NULL},
	{"rule.#.nic", DOCTOR_TEXT, NULL},
	{"rule.#.local", DOCTOR_TEXT, NULL},
	{"rule.#.remote", DOCTOR_TEXT, NULL},
	{"steer.wait_us", DOCTOR_COUNT, NULL},
	{"steer.effective_us", DOCTOR_COUNT, NULL},
	/* RxDM */
	{"rxdm.prefix", DOCTOR_TEXT, NULL},
	{"rxdm.version", DOCTOR_TEXT, NULL},
	{"rxdm.socket.#.name", DOCTOR_TEXT, NULL},
	{"rxdm.socket.#.state", DOCTOR_WORD, "connects|refused|denied|missing|silent"},
	{"rxdm.socket.#.mode", DOCTOR_TEXT, NULL},
	/* libraries */
	{"plugin.file", DOCTOR_TEXT, NULL},
	{"plugin.name", DOCTOR_TEXT, NULL},
	{"plugin.interface", DOCTOR_TEXT, NULL},
	{"plugin.noexec", DOCTOR_FLAG, NULL},
	{"plugin.loads", DOCTOR_FLAG, NULL},
	{"plugin.error", DOCTOR_TEXT, NULL},
	{"plugin.nccl", DOCTOR_TEXT, NULL},
	{"nccl.version", DOCTOR_TEXT, NULL},
	{"driver.version", DOCTOR_TEXT, NULL},
	{"library.#.name", DOCTOR_TEXT, NULL},
	{"library.#.loads", DOCTOR_FLAG, NULL},
	{"library.#.error", DOCTOR_TEXT, NULL},
	/* the kernel and its limits */
	{"cpu.allowed", DOCTOR_TEXT, NULL},
	{"sysctl.*", DOCTOR_TEXT, NULL},
	{"limit.memlock", DOCTOR_COUNT, NULL},
	{"limit.nofile", DOCTOR_COUNT, NULL},
	{"cgroup.memory", DOCTOR_COUNT, NULL},
	{"cap.ipc_lock", DOCTOR_FLAG, NULL},
	{"cap.net_admin", DOCTOR_FLAG, NULL},
	/* the network */
	{"mtu.route", DOCTOR_COUNT, NULL},
	{"mtu.path", DOCTOR_COUNT, NULL},
	{"route.#.from", DOCTOR_TEXT, NULL},
	{"route.#.to", DOCTOR_TEXT, NULL},
	{"route.#.nic", DOCTOR_TEXT, NULL},
	{"route.#.out", DOCTOR_TEXT, NULL},
	{"reach.#.from", DOCTOR_TEXT, NULL},
	{"reach.#.to", DOCTOR_TEXT, NULL},
	{"reach.#.answer", DOCTOR_WORD, "yes|refused|silent|unreachable"},
	{"reach.#.full", DOCTOR_FLAG, NULL},
	{"rail.#.nic", DOCTOR_TEXT, NULL},
	{"rail.#.from", DOCTOR_TEXT, NULL},
	{"rail.#.to", DOCTOR_TEXT, NULL},
	{"rail.#.out", DOCTOR_TEXT, NULL},
	{"rail.#.answer", DOCTOR_WORD, "yes|refused|silent|unreachable|both"},
	{"path.in", DOCTOR_FLAG, NULL},
	{"path.out", DOCTOR_FLAG, NULL},
	{"port.number", DOCTOR_COUNT, NULL},
	{"port.state", DOCTOR_WORD, "free|ours|taken"},
	{"port.by", DOCTOR_TEXT, NULL},
	{"tcp.single_bps", DOCTOR_COUNT, NULL},
	{"tcp.multi_bps", DOCTOR_COUNT, NULL},
	{"tcp.flows", DOCTOR_COUNT, NULL},
	{"tcp.expected_bps", DOCTOR_COUNT, NULL},
	{"tcp.limit", DOCTOR_TEXT, NULL},
	{"tcp.retransmits", DOCTOR_COUNT, NULL},
	{"clock.offset_ns", DOCTOR_SIGNED, NULL},
	{"clock.error_ns", DOCTOR_COUNT, NULL},
	/* the environment */
	{"env.count", DOCTOR_COUNT, NULL},
	{"env.*", DOCTOR_TEXT, NULL},
	{"problem.count", DOCTOR_COUNT, NULL},
	{"problem.#.what", DOCTOR_TEXT, NULL},
	{"problem.#.fix", DOCTOR_TEXT, NULL},
	{"problem.#.fatal", DOCTOR_FLAG, NULL},
	{"chunk_bytes", DOCTOR_COUNT, NULL},
	/* trust */
	{"key.state", DOCTOR_WORD, "none|ok|mode|owner|missing|denied|malformed"},
	{"key.file", DOCTOR_TEXT, NULL},
	{"key.mode", DOCTOR_TEXT, NULL},
	{"key.ids", DOCTOR_TEXT, NULL},
	{"bind", DOCTOR_TEXT, NULL},
	{"bind.error", DOCTOR_TEXT, NULL},
	{"bind.next", DOCTOR_TEXT, NULL},
	/* the other end */
	{"pair.address", DOCTOR_TEXT, NULL},
	{"pair.state", DOCTOR_WORD, "up|down|unknown"},
	{"pair.status", DOCTOR_TEXT, NULL},
	{"pair.why", DOCTOR_TEXT, NULL},
};

const struct doctor_key *doctor_key(unsigned index)
{
	return index < sizeof(keys) / sizeof(keys[0]) ? &keys[index] : NULL;
}

static int matches(const char *pattern, const char *key)
{
	for (; *pattern; pattern++) {
		unsigned number = 0, digits = 0;

		if (*pattern == '*')
			return *key != '\0';
		if (*pattern != '#') {
			if (*pattern != *key++)
				return 0;
			continue;
		}
		for (; isdigit((unsigned char)*key) && digits < 4; digits++)
			number = 10 * number + (unsigned)(*key++ - '0');
		if (!digits || number >= DOCTOR_INDEX_MAX)
			return 0;
	}
	return !*key;
}

const struct doctor_key *doctor_key_of(const char *key)
{
	if (!strncmp(key, "peer.", 5))
		key += 5;
	for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (matches(keys[i].pattern, key))
			return &keys[i];
	return NULL;
}

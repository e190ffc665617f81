/* SPDX-License-Identifier: Apache-2.0 */
/* doctor: every rule on facts that are well, wrong and missing, and what facts may be. */
#include <stdlib.h>

#include "base/clock.h"
#include "doctor_probe.h"
#include "doctor_rules.h"
#include "unit.h"

#define GPU "gpu.0.pci=0000:04:00.0\n"
#define PLUGIN "plugin.file=/lib/p.so\n"
#define VERSIONS "plugin.noexec=no\nnccl.version=2.18.5\nplugin.nccl=2.18.5\n"
#define SYSCTLS                                                                                    \
	"sysctl.net.core.optmem_max=131072\nsysctl.net.core.somaxconn=4096\n"                      \
	"sysctl.net.ipv4.tcp_rmem=4096 131072 6291456\n"                                           \
	"sysctl.net.ipv4.tcp_wmem=4096 16384 4194304\n"                                            \
	"sysctl.net.ipv4.tcp_mtu_probing=0\nsysctl.net.ipv4.tcp_slow_start_after_idle=0\n"
#define WAY "mtu.route=1460\npeer.mtu.route=1460\nmtu.path=1460\n"
#define WHOLE "reach.0.from=1\nroute.0.to=2\nreach.0.answer=yes\n"
#define NIC "nic.0.name=eth1\nnic.0.address=10.0.1.7\nnic.0.rp_filter=2\nnic.0.carrier=yes\n"
#define OWNED "gpu.0.owner=eth1\ngpu.0.source=preset\n"
#define QUEUES "nic.0.header_split=yes\nnic.0.ntuple=yes\nnic.0.rss_queues=8\nnic.0.resets=1\n"
#define FLOW                                                                                       \
	"flow.0.nic=eth2\nflow.0.local=10.0.2.7:1\nflow.0.remote=10.0.2.8:2\nrule.count=1\n"       \
	"rule.0.local=10.0.2.7:1\nrule.0.remote=10.0.2.8:2\n"
#define PROBE "probe.0.gpu=0000:04:00.0\nprobe.0.nic=eth2\nprobe.0.bytes=8388608\n"
#define SOCKET "rxdm.prefix=/run/tcpx\nrxdm.socket.0.name=rx_rule_manager\n"
#define LIMITS "limit.memlock=unlimited\nlimit.nofile=4096\ncap.ipc_lock=no\n"
#define BBR "env.TCPX_CONGESTION=bbr\nsysctl.net.ipv4.tcp_allowed_congestion_control="
#define ENV "env.count=1\niface.0=lo\niface.1=eth1\n"
#define CPUS "env.count=1\ncpu.allowed=0-15\n" NIC "nic.0.cpus=0-7\n"
#define BIND "env.NCCL_GPUDIRECTTCPX_TX_BINDINGS="
#define RAIL "rail.0.nic=eth0\nrail.0.from=10.0.0.1\nrail.0.to=10.0.0.2\nrail.0.out=eth0\n"
#define RATES "tcp.single_bps=9\ntcp.multi_bps=20000000000\ntcp.flows=8\n"

static const struct rule_case {
	const char *id, *facts;
	enum doctor_verdict verdict;
	const char *words; /* of the evidence */
} cases[] = {
	{"D01", GPU OWNED, DOCTOR_PASS, "1 GPUs, by RxDM's preset"},
	{"D01", GPU OWNED "want.gpu=0\nwant.nic=eth2\n", DOCTOR_FAIL, "belongs to eth1"},
	{"D01", GPU OWNED "want.gpu=0\nwant.nic=eth2,eth1\n", DOCTOR_PASS, "eth1"},
	{"D01", GPU OWNED "want.gpu=0\nwant.nic=all\n", DOCTOR_PASS, "eth1"},
	{"D01", GPU OWNED "gpu.0.cuda=3\nwant.gpu=0\n", DOCTOR_FAIL, "GPU0 is not among"},
	{"D01", GPU "gpu.0.source=none\ngpu.0.rxdm=denied\n" PLUGIN, DOCTOR_FAIL, "has no queues"},
	{"D01", GPU "gpu.0.source=pcie\ngpu.0.owner=eth1\ngpu.0.distance=SYS\n" PLUGIN, DOCTOR_WARN,
	 "SYS apart"},
	{"D01", GPU, DOCTOR_SKIP, "not known"},
	{"D01", "gpu.count=0\n", DOCTOR_SKIP, "no GPU"},
	{"D01", "", DOCTOR_SKIP, "not known"},
	{"D02", "call.0.op=listen\ncall.0.gpu=0000:04:00.0\ncall.0.want=0000:04:00.0\n",
	 DOCTOR_PASS, "1 calls"},
	{"D02", "call.0.op=accept\ncall.0.gpu=0000:04:00.0\ncall.0.want=0000:0a:00.0\n",
	 DOCTOR_FAIL, "current device was 0000:04:00.0"},
	{"D02", "call.0.op=accept\n", DOCTOR_SKIP, "not known"},
	{"D03", PROBE "probe.0.devmem=2061\n", DOCTOR_PASS, "+2061"},
	{"D03", PROBE "probe.0.devmem=0\nprobe.0.host_bytes=8388608\n", DOCTOR_FAIL,
	 "8388608 B in host memory"},
	{"D03", PROBE "probe.0.devmem=9\nprobe.0.elsewhere=5\n", DOCTOR_FAIL, "5 on other NICs"},
	{"D03", PROBE "probe.0.devmem=2061\nprobe.left=3\n", DOCTOR_SKIP, "not probed: 3 other"},
	{"D03", PROBE, DOCTOR_SKIP, "not known"},
	{"D03", "probe.why=no plugin\n", DOCTOR_SKIP, "no plugin"},
	{"D04", FLOW "rule.0.nic=eth2\n", DOCTOR_PASS, "1 flows"},
	{"D04", FLOW "rule.0.nic=eth1\n", DOCTOR_WARN, "its rule is on eth1"},
	{"D04", "rule.count=0\nflow.0.nic=eth2\n", DOCTOR_SKIP, "no rule"},
	{"D04", "", DOCTOR_SKIP, "not known"},
	{"D05", GPU OWNED NIC QUEUES "nic.0.resets_before=1\n", DOCTOR_PASS, "1 NICs"},
	{"D05", GPU OWNED NIC QUEUES "nic.0.resets_before=0\n", DOCTOR_FAIL, "reset 1 times"},
	{"D05", GPU OWNED NIC "nic.0.header_split=no\n", DOCTOR_FAIL, "header split is off"},
	{"D05", GPU OWNED NIC "nic.0.ntuple=no\n", DOCTOR_FAIL, "n-tuple"},
	{"D05", GPU OWNED NIC "nic.0.rss_queues=16\n", DOCTOR_FAIL, "16 queues"},
	{"D05", GPU OWNED NIC, DOCTOR_SKIP, "4 of 4 settings"},
	{"D06", "steer.wait_us=50000\nsteer.effective_us=50000\n", DOCTOR_PASS, "50000 us"},
	{"D06", "steer.wait_us=49999\nsteer.effective_us=50000\n", DOCTOR_FAIL, "49999 us"},
	{"D06", "steer.wait_us=50000\n", DOCTOR_SKIP, "no measurement of flow-rule latency"},
	{"D07", GPU SOCKET "rxdm.socket.0.state=connects\n", DOCTOR_PASS, "1 sockets"},
	{"D07", GPU SOCKET "rxdm.socket.0.state=denied\nrxdm.socket.0.mode=0600\n", DOCTOR_FAIL,
	 "denied, mode 0600"},
	{"D07", GPU SOCKET "rxdm.socket.0.state=refused\n", DOCTOR_FAIL, "refused"},
	{"D07", GPU SOCKET "rxdm.socket.0.state=missing\n" PLUGIN, DOCTOR_FAIL, "none of RxDM's"},
	{"D07", GPU SOCKET "rxdm.socket.0.state=missing\n", DOCTOR_SKIP, "neither RxDM"},
	{"D07", GPU, DOCTOR_SKIP, "not known"},
	{"D08", "tool=1\nkernel=6\n", DOCTOR_PASS, "kernel 6"},
	{"D08", "tool=1\nkernel=6\n" PLUGIN VERSIONS "rxdm.version=2\n", DOCTOR_PASS, "RxDM 2"},
	{"D08", "tool=1\nkernel=6\n" PLUGIN VERSIONS, DOCTOR_SKIP, "the version of RxDM"},
	{"D08", "tool=1\nkernel=6\n" PLUGIN "plugin.noexec=no\nrxdm.version=2\n", DOCTOR_SKIP,
	 "the NCCL that is loaded, the plugin's NCCL"},
	{"D08", "tool=1\nkernel=6\n" PLUGIN "plugin.noexec=yes\n", DOCTOR_FAIL, "noexec"},
	{"D08", "tool=1\nkernel=6\npeer.tool=2\n", DOCTOR_WARN, "1 here, 2 at the other end"},
	{"D08", "tool=1\nkernel=6\nnccl.version=2.18\nplugin.nccl=2.17\n", DOCTOR_WARN, "2.18"},
	{"D08", "tool=1\nkernel=6\n" PLUGIN, DOCTOR_SKIP, "not known"},
	{"D08", "", DOCTOR_SKIP, "not known"},
	{"D09", CPUS BIND "eth1:0-3\n", DOCTOR_PASS, "4 CPUs send"},
	{"D09", CPUS BIND "eth1:0-3;eth9:4-5\n", DOCTOR_FAIL, "eth9"},
	{"D09", CPUS BIND "0-3\n", DOCTOR_FAIL, "is no"},
	{"D09", CPUS BIND "eth1:3-0\n", DOCTOR_FAIL, "is no"},
	{"D09", CPUS BIND "eth1:7-99999\n", DOCTOR_FAIL, "is no"},
	{"D09", CPUS BIND "eth1:14-17\n", DOCTOR_FAIL, "2 of 4 CPUs"},
	{"D09", CPUS BIND "eth1:7-8\n", DOCTOR_WARN, "NUMA node"},
	{"D09", CPUS BIND "eth1:0-3\nenv.NCCL_GPUDIRECTTCPX_RX_BINDINGS=eth1:3-4\n", DOCTOR_WARN,
	 "1 CPUs are in both"},
	{"D09", "env.count=1\n", DOCTOR_SKIP, "not known"},
	{"D09", "env.count=1\ncpu.allowed=0-3\n", DOCTOR_SKIP, "no bindings"},
	{"D10", SYSCTLS, DOCTOR_PASS, "6 sysctls"},
	{"D10", SYSCTLS WAY WHOLE "reach.0.full=yes\n", DOCTOR_PASS, "MTU 1460 on both"},
	{"D10", SYSCTLS WAY WHOLE "reach.0.full=no\n", DOCTOR_FAIL, "of the whole MTU"},
	{"D10", SYSCTLS WAY WHOLE, DOCTOR_SKIP, "not known: the MTU of the way"},
	{"D10", SYSCTLS "mtu.route=1460\npeer.mtu.route=1460\n", DOCTOR_SKIP, "not known"},
	{"D10", SYSCTLS "mtu.route=1460\nmtu.path=1460\n", DOCTOR_SKIP, "not known"},
	{"D10", SYSCTLS "pair.address=b\n", DOCTOR_SKIP, "not known"},
	{"D10", SYSCTLS "mtu.route=8244\npeer.mtu.route=1460\n", DOCTOR_FAIL, "1460 at the other"},
	{"D10", SYSCTLS "mtu.route=8244\nmtu.path=1460\n", DOCTOR_FAIL, "packets of 1460"},
	{"D10", PLUGIN "sysctl.net.core.optmem_max=20480\n", DOCTOR_FAIL, "optmem_max is 20480"},
	{"D10", "sysctl.net.core.optmem_max=20480\n", DOCTOR_WARN, "optmem_max is 20480"},
	{"D10", "sysctl.net.ipv4.tcp_mtu_probing=1\n", DOCTOR_WARN, "tcp_mtu_probing is 1"},
	{"D10", "sysctl.net.core.optmem_max=131072\n", DOCTOR_SKIP, "5 of 6"},
	{"D11", LIMITS, DOCTOR_PASS, "unlimited"},
	{"D11", "limit.memlock=65536\nlimit.nofile=4096\ncap.ipc_lock=yes\n", DOCTOR_PASS,
	 "IPC_LOCK"},
	{"D11", "limit.memlock=65536\nlimit.nofile=4096\ncap.ipc_lock=no\n", DOCTOR_WARN, "64 KiB"},
	{"D11", PLUGIN "limit.memlock=65536\nlimit.nofile=4096\ncap.ipc_lock=no\n", DOCTOR_FAIL,
	 "64 KiB"},
	{"D11", "limit.memlock=unlimited\nlimit.nofile=256\ncap.ipc_lock=no\n", DOCTOR_FAIL, "256"},
	{"D11", LIMITS "cgroup.memory=1048576\n", DOCTOR_WARN, "1 MiB of memory"},
	{"D11", "limit.nofile=256\n", DOCTOR_SKIP, "not known"},
	{"D12", NIC, DOCTOR_PASS, "NICs with an address: 1"},
	{"D12",
	 "nic.0.name=eth1\nnic.0.address=10.0.1.7\nnic.0.rp_filter=1\n"
	 "nic.1.name=eth2\nnic.1.address=10.0.2.7\nnic.1.rp_filter=1\n",
	 DOCTOR_WARN, "eth1, eth2"},
	{"D12", "route.0.from=1\nroute.0.to=2\nroute.0.nic=eth1\nroute.0.out=eth0\n", DOCTOR_FAIL,
	 "leave by eth0"},
	{"D12", NIC "route.0.from=1\nroute.0.to=1\nroute.0.nic=eth1\nroute.0.out=lo\n", DOCTOR_PASS,
	 "routes that leave by their NIC: 0"},
	{"D12", NIC "reach.0.from=1\nreach.0.to=2\nreach.0.answer=silent\n", DOCTOR_FAIL, "silent"},
	{"D12", "nic.0.name=eth1\nnic.0.address=10.0.1.7\n", DOCTOR_SKIP, "rp_filter of 1"},
	{"D12", NIC "pair.address=b\n", DOCTOR_SKIP, "not known: routes to the other end"},
	{"D12", NIC "route.0.from=1\nroute.0.to=2\nroute.0.nic=eth1\n", DOCTOR_SKIP, "1 of 1"},
	{"D12", "", DOCTOR_SKIP, "not known"},
	{"D13", "port.number=20000\nport.state=free\n", DOCTOR_PASS,
	 "port 20000 of this host is free"},
	{"D13", "port.number=20000\nport.state=ours\nport.by=tcpx (pid 1)\n", DOCTOR_PASS, "pid 1"},
	{"D13", "port.number=20000\nport.state=taken\nport.by=nc (pid 1)\n", DOCTOR_WARN, "nc"},
	{"D13", "pair.state=down\npair.why=refused\npair.address=b\n", DOCTOR_FAIL, "b does not"},
	{"D13", "port.number=20000\n", DOCTOR_SKIP, "not known"},
	{"D14", "gpu.count=8\nnic.count=5\ngpu.cuda=8\n", DOCTOR_PASS, "GPUs on PCI: 8"},
	{"D14", "gpu.count=8\nnic.count=5\ngpu.cuda=7\n", DOCTOR_FAIL, "7 by CUDA"},
	{"D14", "gpu.count=0\nnic.count=1\ngpu.nvml=8\n", DOCTOR_FAIL, "8 by the driver"},
	{"D14", "gpu.count=8\nnic.count=0\ngpu.cuda=8\n", DOCTOR_FAIL, "no NIC"},
	{"D14", "gpu.count=8\nnic.count=5\ngpu.cuda=2\nenv.CUDA_VISIBLE_DEVICES=0,1\n", DOCTOR_WARN,
	 "CUDA_VISIBLE_DEVICES"},
	{"D14", "gpu.count=8\nnic.count=5\n", DOCTOR_SKIP, "not known"},
	{"D15", NIC, DOCTOR_PASS, "NICs: 1"},
	{"D15", GPU OWNED NIC "nic.0.speed_mbps=200000\n", DOCTOR_PASS, "NICs: 1"},
	{"D15", GPU OWNED "nic.0.name=eth1\nnic.0.carrier=no\n", DOCTOR_FAIL, "no carrier"},
	{"D15", NIC "nic.0.crc_errors=7\n", DOCTOR_WARN, "7 checksum errors"},
	{"D15", GPU OWNED NIC PLUGIN "iommu.groups=9\n", DOCTOR_WARN, "9 groups"},
	{"D15", GPU OWNED NIC, DOCTOR_SKIP, "1 of 1 NICs"},
	{"D15", "", DOCTOR_SKIP, "not known"},
	{"D16", ENV "env.TCPX_CHANNELS=4\n", DOCTOR_PASS, "that are set: 1"},
	{"D16", ENV "env.NCCL_LAUNCH_MODE=x\n", DOCTOR_PASS, "that are set: 1"},
	{"D16", ENV "env.TCPX_CHUNK_BYTES=512K\nenv.UCCL_TCPX_CHUNK_BYTES=524288\n", DOCTOR_PASS,
	 ""},
	{"D16", ENV "env.TCPX_CHANELS=4\n", DOCTOR_WARN, "TCPX_CHANELS=4 has no effect"},
	{"D16", ENV "env.NCCL_SOKET_IFNAME=eth1\n", DOCTOR_WARN, "NCCL_SOKET_IFNAME"},
	{"D16", ENV "env.NCCL_GPUDIRECTTCPX_QWERTZ=1\n", DOCTOR_WARN, "QWERTZ"},
	{"D16", ENV "env.TCPX_CHUNK_BYTES=512K\nenv.UCCL_TCPX_CHUNK_BYTES=1M\n", DOCTOR_WARN, "1M"},
	{"D16", ENV "env.TCPX_NIC=eth9\n", DOCTOR_FAIL, "eth9"},
	{"D16", ENV "problem.0.what=a: b\nproblem.0.fix=c\nproblem.0.fatal=yes\n", DOCTOR_FAIL,
	 "a"},
	{"D16", ENV "pair.state=up\npeer.env.NCCL_DYNAMIC_CHUNK_SIZE=1\n", DOCTOR_FAIL,
	 "(not set)"},
	{"D16", ENV "pair.state=unknown\npeer.env.NCCL_DYNAMIC_CHUNK_SIZE=1\n", DOCTOR_PASS, ""},
	{"D16", ENV BBR "cubic\ncap.net_admin=no\n", DOCTOR_WARN, "TCPX_CONGESTION=bbr without"},
	{"D16", ENV BBR "cubic bbr\ncap.net_admin=no\n", DOCTOR_PASS, "that are set: 1"},
	{"D16", ENV BBR "cubic\ncap.net_admin=yes\n", DOCTOR_PASS, "that are set: 1"},
	{"D16", ENV BBR "cubic\n", DOCTOR_SKIP, "CAP_NET_ADMIN"},
	{"D16", ENV BBR "cubic\nsysctl.net.ipv4.tcp_available_congestion_control=reno cubic\n",
	 DOCTOR_WARN, "the kernel has: reno cubic"},
	{"D16", ENV "env.TCPX_CHANNELS=99\n", DOCTOR_WARN,
	 "TCPX_CHANNELS=99 is not in 1..64 or auto (count)"},
	{"D16", ENV "env.UCCL_TCPX_CHUNK_BYTES=abc\n", DOCTOR_WARN,
	 "UCCL_TCPX_CHUNK_BYTES=abc is not in 4K..16M (bytes)"},
	{"D16", ENV "env.TCPX_KEY_FILE=(hidden)\n", DOCTOR_PASS, "that are set: 1"},
	{"D16", ENV "env.TCPX_CTRL_IP=here\n", DOCTOR_FAIL, "here is not an IP address"},
	{"D16", ENV "env.TCPX_CTRL_IP=10.0.0.1\n", DOCTOR_PASS, "that are set: 1"},
	{"D16", ENV "bind=eth9\nbind.error=eth9 is neither\nbind.next=use lo\n", DOCTOR_FAIL,
	 "TCPX_BIND=eth9: eth9 is neither"},
	{"D16", "", DOCTOR_SKIP, "not known"},
	{"D17", "key.state=ok\nkey.file=k\nkey.ids=aa bb\nbind=eth1\npeer.key.ids=bb\n",
	 DOCTOR_PASS, "ids aa bb"},
	{"D17", "key.state=none\nbind=\n", DOCTOR_PASS, "loopback"},
	{"D17", "key.state=mode\nkey.file=k\nkey.mode=0644\nbind=\n", DOCTOR_FAIL, "mode 0644"},
	{"D17", "key.state=missing\nkey.file=k\nbind=\n", DOCTOR_FAIL, "not there"},
	{"D17", "key.state=owner\nkey.file=k\nbind=\n", DOCTOR_FAIL, "another user"},
	{"D17", "key.state=malformed\nkey.file=k\nbind=\n", DOCTOR_FAIL, "no key in it"},
	{"D17", "key.state=none\nbind=eth1\n", DOCTOR_FAIL, "eth1 is listened on"},
	{"D17", "key.state=none\nbind=eth9\nbind.error=eth9 is neither\n", DOCTOR_FAIL,
	 "TCPX_BIND: eth9 is neither, so nothing is listened on"},
	{"D17", "key.state=ok\nkey.file=k\nbind=0.0.0.0\n", DOCTOR_WARN, "every interface"},
	{"D17", "key.state=ok\nkey.file=k\nkey.ids=aa\nbind=\npeer.key.ids=bb\n", DOCTOR_FAIL,
	 "bb"},
	{"D17", "key.state=ok\n", DOCTOR_SKIP, "not known"},
	{"D18", RATES "tcp.expected_bps=25000000000\n", DOCTOR_PASS, "20.00 GB/s"},
	{"D18", RATES "tcp.expected_bps=50000000000\n", DOCTOR_WARN, "of 50.00 GB/s"},
	{"D18", RATES, DOCTOR_PASS, "the speed of the link"},
	{"D18", "pair.state=unknown\npair.why=too old\n", DOCTOR_SKIP, "too old"},
	{"D19", PLUGIN "plugin.loads=yes\nplugin.interface=v7\n", DOCTOR_PASS, "v7"},
	{"D19", PLUGIN "plugin.loads=no\nplugin.error=libx\n", DOCTOR_FAIL, "libx"},
	{"D19", "library.0.name=n\nlibrary.0.loads=no\n", DOCTOR_FAIL, "no reason given"},
	{"D19", PLUGIN, DOCTOR_SKIP, "not known"},
	{"D20", "clock.offset_ns=-100000001\nclock.error_ns=2\n", DOCTOR_PASS, "0.100 s"},
	{"D20", "clock.offset_ns=-100000003\nclock.error_ns=2\n", DOCTOR_WARN, "behind"},
	{"D20", "clock.offset_ns=5\n", DOCTOR_SKIP, "not known"},
	{"D21", RAIL "rail.0.answer=yes\n", DOCTOR_PASS,
	 "rails that lead to the other end: 1 (eth0)"},
	{"D21", RAIL "rail.0.answer=silent\n", DOCTOR_FAIL, "eth0 (10.0.0.1) does not lead to"},
	{"D21", RAIL "rail.0.answer=both\n", DOCTOR_FAIL, "both ends have its address"},
	{"D21", "rail.0.answer=yes\n", DOCTOR_SKIP, "not known"},
	{"D21", "pair.state=up\n", DOCTOR_SKIP, "not known"},
	{"D22", "path.in=no\npath.out=yes\n", DOCTOR_FAIL, "from the other end to here"},
	{"D22", "path.in=yes\npath.out=no\n", DOCTOR_FAIL, "from here to the other end"},
	{"D22", "path.in=yes\npath.out=yes\n", DOCTOR_PASS, "both ways"},
	{"D22", "path.in=yes\n", DOCTOR_SKIP, "arrive at the other end"},
	{"D22", "pair.state=up\n", DOCTOR_SKIP, "not known"},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static struct doctor_report report;

static void read_facts(struct doctor_facts *facts, const char *body)
{
	char text[4096], why[300] = "";

	snprintf(text, sizeof(text), "format=1\n%send=1\n", body);
	if (doctor_facts_parse(facts, text, strlen(text), why, sizeof(why)))
		fail_msg("%s: %s", body, why);
}

static uint64_t bit_of(const char *id)
{
	const struct doctor_rule *rule = doctor_rule_named(id, strlen(id));

	assert_non_null(rule);
	return 1ull << (rule - doctor_rule(0));
}

static void judge_one(const struct rule_case *c)
{
	struct doctor_facts facts = {0};
	unsigned found = 0;

	read_facts(&facts, c->facts);
	doctor_judge_all(&facts, bit_of(c->id), &report);
	assert_true(report.count > 0);
	for (unsigned i = 0; i < report.count; i++) {
		const struct doctor_result *r = &report.results[i];
		int bad = r->verdict == DOCTOR_FAIL || r->verdict == DOCTOR_WARN;

		assert_string_equal(r->id, c->id);
		found += r->verdict == c->verdict && strstr(r->evidence, c->words);
		assert_int_equal(*r->cause != '\0', bad);
		assert_int_equal(*r->fix != '\0', bad);
		assert_true(*r->evidence);
	}
	if (!found)
		fail_msg("%s %s: %s %s", c->id, c->facts,
			 doctor_verdict_name(report.results[0].verdict),
			 report.results[0].evidence);
	/* one verdict that all is well, or that nobody knows, stands alone */
	if (c->verdict == DOCTOR_PASS || c->verdict == DOCTOR_SKIP)
		assert_int_equal(report.count, 1);
	doctor_facts_free(&facts);
}

static void rules_judge_what_they_are_given(void **state)
{
	(void)state;
	for (unsigned i = 0; i < CASES; i++)
		judge_one(&cases[i]);
}

static void every_rule_has_a_case_of_each_kind(void **state)
{
	const struct doctor_rule *rule;

	(void)state;
	for (unsigned i = 0; (rule = doctor_rule(i)); i++) {
		unsigned kinds[DOCTOR_VERDICTS] = {0};

		for (unsigned k = 0; k < CASES; k++)
			if (!strcmp(cases[k].id, rule->id))
				kinds[cases[k].verdict]++;
		if (!kinds[DOCTOR_PASS] || !kinds[DOCTOR_SKIP] ||
		    !(kinds[DOCTOR_FAIL] + kinds[DOCTOR_WARN]))
			fail_msg("%s lacks a case", rule->id);
	}
	assert_int_equal(doctor_rule_named("d01", 3) - doctor_rule(0), 0);
	assert_null(doctor_rule_named("D23", 3));
}

/* Facts that are not there never pass: take away any one, and no FAIL or SKIP becomes a PASS. */
static void without_facts_nothing_passes(void **state)
{
	struct doctor_facts none = {0};

	(void)state;
	doctor_judge_all(&none, UINT64_MAX, &report);
	assert_int_equal(report.count, 22);
	assert_int_equal(report.verdicts[DOCTOR_SKIP], 22);
}

static void bad_facts_are_refused_by_line(void **state)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{"", "truncated"},
		{"format=1\nkernel=6\n", "truncated"},
		{"format=2\nend=1\n", "line 1 is not format=1"},
		{"kernel=6\nend=1\n", "line 1 is not format=1"},
		{"format=1\nkernell=6\nend=1\n", "line 2: unknown key 'kernell'"},
		{"format=1\ngpu.256.pci=04:00.0\nend=1\n", "unknown key"},
		{"format=1\ngpu.x.pci=04:00.0\nend=1\n", "unknown key"},
		{"format=1\ngpu.0.pci=banana\nend=1\n", "a PCI address"},
		{"format=1\ngpu.count=-1\nend=1\n", "a whole number"},
		{"format=1\ngpu.count=99999999999999999999\nend=1\n", "a whole number"},
		{"format=1\nclock.offset_ns=1e9\nend=1\n", "a whole number"},
		{"format=1\ncontainer=maybe\nend=1\n", "yes or no"},
		{"format=1\nport.state=open\nend=1\n", "free|ours|taken"},
		{"format=1\nkernel=6\nkernel=7\nend=1\n", "line 3: kernel is there twice"},
		{"format=1\nkernel\nend=1\n", "line 2 is no key=value"},
		{"format=1\nend=1\nkernel=6\n", "something follows"},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct doctor_facts facts = {0};
		char why[300] = "";
		int rc = doctor_facts_parse(&facts, bad[i].text, strlen(bad[i].text), why,
					    sizeof(why));

		assert_int_equal(rc, -1);
		if (!strstr(why, bad[i].why))
			fail_msg("%s: %s", bad[i].text, why);
		assert_int_equal(facts.count, 0);
	}
	assert_int_equal(
		doctor_facts_parse(&(struct doctor_facts){0}, "a\0b", 3, (char[300]){0}, 300), -1);
}

static void facts_come_back_as_they_were_written(void **state)
{
	struct doctor_facts facts = {0}, back = {0};
	char *text = NULL, why[300] = "";
	size_t len = 0;
	uint64_t bytes = 0;
	int64_t skew = 0;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	assert_non_null(out);
	doctor_put_count(&facts, DOCTOR_UNLIMITED, "limit.memlock");
	doctor_put_signed(&facts, -5, "clock.offset_ns");
	doctor_put_flag(&facts, 1, "cap.ipc_lock");
	doctor_put_text(&facts, "a=b\nc", "env.%s", "TCPX_NIC");
	doctor_put_text(&facts, "6.1", "peer.kernel");
	doctor_put_text(&facts, "wild", "gpu.%u.pci", 0u); /* no value for its key: dropped */
	for (unsigned i = 0; i < DOCTOR_INDEX_MAX; i++)
		doctor_put_count(&facts, i, "nic.%u.mtu", i);
	doctor_facts_write(&facts, out);
	assert_int_equal(fclose(out), 0);
	if (doctor_facts_parse(&back, text, len, why, sizeof(why)))
		fail_msg("%s", why);
	assert_int_equal(back.count, facts.count);
	assert_int_equal(doctor_count(&back, &bytes, "limit.memlock"), 0);
	assert_true(bytes == DOCTOR_UNLIMITED);
	assert_int_equal(doctor_signed(&back, &skew, "clock.offset_ns"), 0);
	assert_int_equal(skew, -5);
	assert_int_equal(doctor_flag(&back, "cap.ipc_lock"), 1);
	assert_string_equal(doctor_text(&back, "env.TCPX_NIC"), "a=b?c");
	assert_null(doctor_text(&back, "gpu.0.pci"));
	assert_int_equal(doctor_count(&back, &bytes, "nic.%u.mtu", 255u), 0);
	assert_int_equal(bytes, 255);
	doctor_facts_free(&facts);
	doctor_facts_free(&back);
	free(text);
}

/* A fix of the library's is a setting, or it is shown as no command. */
static void fixes_that_are_no_setting_are_comments(void **state)
{
	static const struct {
		const char *fix;
		int setting;
	} rows[] = {
		{"export A_B=524288", 1},
		{"export A='eth1:8-21;eth2:22-35'", 1},
		{"export A=", 1},
		{"unset A_B", 1},
		{"unset A B", 0},
		{"export A=1; reboot", 0},
		{"export A='x'; reboot; 'y'", 0},
		{"export A=$(reboot)", 0},
		{"export A B=1", 0},
		{"echo 0 > /sys/class/net/eth1/device/numa_node", 0},
		{"reboot", 0},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct doctor_facts facts = {0};
		char body[300];

		snprintf(body, sizeof(body), "env.count=0\nproblem.0.what=a\nproblem.0.fix=%s\n",
			 rows[i].fix);
		read_facts(&facts, body);
		doctor_judge_all(&facts, bit_of("D16"), &report);
		assert_int_equal(report.count, 1);
		assert_int_equal(strncmp(report.results[0].fix, "# ", 2) != 0, rows[i].setting);
		assert_non_null(strstr(report.results[0].fix, rows[i].fix));
		doctor_facts_free(&facts);
	}
	assert_string_equal(doctor_quote("eth1"), "eth1");
	assert_string_equal(doctor_quote("a'b"), "'a'\\''b'");
	assert_string_equal(doctor_quote(""), "''");
}

/* What each probe is given is within what is left, and the whole is as the manual says. */
static void probes_share_one_time(void **state)
{
	struct doctor_probe_opts opts = {.deadline_ns = clock_after(CLOCK_S_NS)};
	int64_t now_ns = clock_now_ns(), until_ns;

	(void)state;
	assert_true(doctor_until(&opts, 60 * CLOCK_S_NS) == opts.deadline_ns);
	until_ns = doctor_until(&opts, 1);
	assert_true(until_ns > now_ns && until_ns <= opts.deadline_ns);
	opts.deadline_ns = now_ns - 1; /* over: nothing is waited for */
	assert_true(doctor_until(&opts, CLOCK_S_NS) == now_ns - 1);
	assert_true(DOCTOR_LOCAL_NS < 5 * CLOCK_S_NS && DOCTOR_LAST_NS < DOCTOR_LOCAL_NS);
	assert_true(DOCTOR_PAIR_NS + CLOCK_S_NS < 15 * CLOCK_S_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_judge_what_they_are_given),
		cmocka_unit_test(every_rule_has_a_case_of_each_kind),
		cmocka_unit_test(without_facts_nothing_passes),
		cmocka_unit_test(bad_facts_are_refused_by_line),
		cmocka_unit_test(facts_come_back_as_they_were_written),
		cmocka_unit_test(fixes_that_are_no_setting_are_comments),
		cmocka_unit_test(probes_share_one_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about the host: D08 versions, D10 kernel, D11 limits, D14 counts, D15 links, D19. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "doctor_rules.h"

#define OPTMEM_MIN 131072
#define MEMLOCK_MIN (64ull << 20)
#define CGROUP_MIN (2ull << 30)

static const char *or_none(const char *text)
{
	return text ? text : "none";
}

/* Compares a version of both ends. */
static void compare_version(struct doctor_judge *j, const char *key, const char *what)
{
	const char *ours = doctor_text(j->facts, "%s", key);
	const char *theirs = doctor_text(j->facts, "peer.%s", key);

	if (!ours || !theirs || !strcmp(ours, theirs))
		return;
	doctor_warn(j, "%s: %s here, %s at the other end", what, ours, theirs);
	doctor_cause(j, "ends of different versions are tried less, and differ in speed");
	doctor_fix(j, "# install the same %s on both", what);
}

/* Versions that a TCPX plugin depends on. */
static void unknown_versions(struct doctor_judge *j, char *out, size_t cap)
{
	static const char *const versions[][2] = {
		{"nccl.version", "the NCCL that is loaded"},
		{"plugin.nccl", "the plugin's NCCL"},
		{"rxdm.version", "RxDM"},
	};

	*out = '\0';
	for (unsigned i = 0; doctor_uses_tcpx(j->facts) && i < 3; i++)
		if (!doctor_text(j->facts, "%s", versions[i][0]))
			doctor_add(out, cap, "%s%s", *out ? ", " : "", versions[i][1]);
}

void doctor_d08_versions(struct doctor_judge *j)
{
	const struct doctor_facts *f = j->facts;
	const char *kernel = doctor_text(f, "kernel"), *file = doctor_text(f, "plugin.file");
	const char *loaded = doctor_text(f, "nccl.version"), *built = doctor_text(f, "plugin.nccl");
	const char *rxdm = doctor_text(f, "rxdm.version");
	char unknown[96], text[400];

	if (file && doctor_flag(f, "plugin.noexec") == 1) {
		doctor_fail(j, "%s lies on a file system mounted noexec", file);
		doctor_cause(j, "no library can be loaded from there");
		doctor_fix(j, "scripts/stage-plugin.sh --to /usr/local/tcpx/lib64\n"
			      "export TCPX_PLUGIN_PATH=/usr/local/tcpx/lib64/libnccl-net-tcpx.so");
	}
	if (loaded && built && strcmp(loaded, built)) {
		doctor_warn(j, "NCCL %s is loaded, the plugin was made for %s", loaded, built);
		doctor_cause(j, "the tables of the interface differ from version to version");
		doctor_fix(j, "export LD_LIBRARY_PATH=/usr/local/tcpx/lib64:$LD_LIBRARY_PATH");
	}
	compare_version(j, "tool", "tcpx");
	compare_version(j, "plugin.name", "plugin");
	compare_version(j, "driver.version", "GPU driver");
	compare_version(j, "rxdm.version", "RxDM");
	unknown_versions(j, unknown, sizeof(unknown));
	snprintf(text, sizeof(text), "kernel %s, driver %s, plugin %s%s%s", or_none(kernel),
		 or_none(doctor_text(f, "driver.version")), or_none(doctor_text(f, "plugin.name")),
		 file ? ", " : "", file ? file : "");
	if (loaded)
		doctor_add(text, sizeof(text), ", NCCL %s", loaded);
	if (rxdm)
		doctor_add(text, sizeof(text), ", RxDM %s", rxdm);
	if (!kernel || !doctor_text(f, "tool"))
		doctor_skip(j, "not known: kernel or tcpx");
	else if (file && doctor_flag(f, "plugin.noexec") < 0)
		doctor_skip(j, "not known: whether %s may be executed", file);
	else if (*unknown)
		doctor_skip(j, "tcpx %s, %s; not known: the version of %s", doctor_text(f, "tool"),
			    text, unknown);
	else
		doctor_pass(j, "tcpx %s, %s", doctor_text(f, "tool"), text);
}

/* The last number of "4096 131072 6291456"; 0: none. */
static uint64_t last_number(const char *text)
{
	const char *at = text + strlen(text);

	while (at > text && at[-1] >= '0' && at[-1] <= '9')
		at--;
	return strtoull(at, NULL, 10);
}

/* Checks a sysctl that should be at least min; returns whether it is known. */
static int at_least(struct doctor_judge *j, const char *name, uint64_t min, const char *cause,
		    int fatal, const char *fix)
{
	const char *text = doctor_text(j->facts, "sysctl.%s", name);
	uint64_t value = text ? last_number(text) : 0;

	if (!text)
		return 0;
	if (value >= min)
		return 1;
	if (fatal)
		doctor_fail(j, "%s is %s, %llu is wanted", name, text, (unsigned long long)min);
	else
		doctor_warn(j, "%s is %s, %llu is wanted", name, text, (unsigned long long)min);
	doctor_cause(j, "%s", cause);
	doctor_fix(j, "sysctl -w %s=%s", name, fix);
	return 1;
}

/* Checks a sysctl that should be 0. */
static int should_be_off(struct doctor_judge *j, const char *name, const char *cause)
{
	const char *text = doctor_text(j->facts, "sysctl.%s", name);

	if (!text)
		return 0;
	if (!strcmp(text, "0"))
		return 1;
	doctor_warn(j, "%s is %s, 0 is wanted", name, text);
	doctor_cause(j, "%s", cause);
	doctor_fix(j, "sysctl -w %s=0", name);
	return 1;
}

/* Judges full-sized packets of each pair; returns for how many reached pairs that is unknown. */
static unsigned judge_whole(struct doctor_judge *j)
{
	const char *answer;
	unsigned unknown = 0;

	for (unsigned i = 0; (answer = doctor_text(j->facts, "reach.%u.answer", i)); i++) {
		const char *from = doctor_text(j->facts, "reach.%u.from", i);
		const char *to = doctor_text(j->facts, "route.%u.to", i);
		int full = doctor_flag(j->facts, "reach.%u.full", i);

		unknown += !strcmp(answer, "yes") && full < 0;
		if (full || !from || !to)
			continue;
		doctor_fail(j,
			    "from %s to %s: packets of the whole MTU get no answer, small ones do",
			    from, to);
		doctor_cause(j,
			     "path MTU: a link on the way takes smaller packets and drops others "
			     "in silence: transfers hang after their first words");
		doctor_fix(j,
			   "tracepath -n %s\n# on both ends: ip link set dev NIC mtu what it says",
			   doctor_quote(to));
	}
	return unknown;
}

/* Whether full-sized packets were seen to arrive on every pair of addresses that was reached. */
static int whole_packets_pass(const struct doctor_judge *j)
{
	const char *answer;
	int pairs = 0;

	for (unsigned i = 0; (answer = doctor_text(j->facts, "reach.%u.answer", i)); i++) {
		if (strcmp(answer, "yes") != 0)
			continue;
		if (doctor_flag(j->facts, "reach.%u.full", i) != 1)
			return 0;
		pairs++;
	}
	return pairs > 0;
}

/* Judges the MTU of both ends and of the path; returns whether all requested facts are known. */
static int judge_mtu(struct doctor_judge *j, char *text, size_t cap)
{
	uint64_t ours, theirs = 0, path;
	unsigned unknown = judge_whole(j);

	snprintf(text, cap, "; MTU end to end not known (--peer)");
	if (doctor_count(j->facts, &ours, "mtu.route"))
		return !doctor_text(j->facts, "pair.address");
	snprintf(text, cap, "; MTU %llu here, not known at the other end",
		 (unsigned long long)ours);
	unknown += doctor_count(j->facts, &theirs, "peer.mtu.route") != 0;
	if (!unknown)
		snprintf(text, cap, "; MTU %llu on both ends", (unsigned long long)ours);
	if (doctor_text(j->facts, "peer.mtu.route") && ours != theirs &&
	    !doctor_uses_tcpx(j->facts) && whole_packets_pass(j)) {
		doctor_warn(j, "the MTU is %llu here, %llu at the other end",
			    (unsigned long long)ours, (unsigned long long)theirs);
		doctor_cause(j, "whole packets arrive: TCP uses the smaller size, which costs more "
				"CPU and is no fault");
		doctor_fix(j,
			   "ip link set dev NIC mtu %llu   # on the end with less, if the network "
			   "takes it",
			   (unsigned long long)(ours > theirs ? ours : theirs));
		return 1;
	}
	if (doctor_text(j->facts, "peer.mtu.route") && ours != theirs) {
		doctor_fail(j, "the MTU is %llu here, %llu at the other end",
			    (unsigned long long)ours, (unsigned long long)theirs);
		doctor_cause(j, "large packets of one end are dropped or cut on the way: "
				"stalls, and more fragments than a plugin takes");
		doctor_fix(j, "ip link set dev NIC mtu %llu   # on the end with less",
			   (unsigned long long)(ours > theirs ? ours : theirs));
		return 1;
	}
	if (doctor_count(j->facts, &path, "mtu.path")) {
		unknown++;
	} else if (path < ours) {
		doctor_fail(j, "packets of %llu B pass, the NIC's MTU is %llu",
			    (unsigned long long)path, (unsigned long long)ours);
		doctor_cause(j, "something on the way takes smaller packets only");
		doctor_fix(j, "ip link set dev NIC mtu %llu   # on both ends",
			   (unsigned long long)path);
	}
	return !unknown;
}

void doctor_d10_kernel(struct doctor_judge *j)
{
	int tcpx = doctor_uses_tcpx(j->facts), mtu_known;
	unsigned known = 0;
	char mtu[96];

	known += at_least(j, "net.core.optmem_max", OPTMEM_MIN,
			  "notifications of sends without a copy need it; too small, they spin",
			  tcpx, "131072");
	known += at_least(j, "net.core.somaxconn", 1024,
			  "many channels connect at once; what does not fit is dropped and retried",
			  0, "4096");
	known += at_least(j, "net.ipv4.tcp_rmem", 6291456,
			  "the receive window ends before the link is full", 0,
			  "\"4096 131072 67108864\"");
	known += at_least(j, "net.ipv4.tcp_wmem", 4194304,
			  "the send buffer ends before the link is full", 0,
			  "\"4096 16384 67108864\"");
	known += should_be_off(j, "net.ipv4.tcp_slow_start_after_idle",
			       "every pause starts the rate again from the bottom");
	known += should_be_off(
		j, "net.ipv4.tcp_mtu_probing",
		"probing changes packet sizes; RxDM switches it off for header split");
	mtu_known = judge_mtu(j, mtu, sizeof(mtu));
	if (known < 6)
		doctor_skip(j, "not known: %u of 6 sysctls", 6 - known);
	else if (!mtu_known)
		doctor_skip(j,
			    "6 sysctls as wanted; not known: the MTU of the way to the other end");
	else
		doctor_pass(j, "6 sysctls as wanted%s", mtu);
}

static const char *amount(uint64_t bytes, char buf[BYTES_TEXT_MAX])
{
	if (bytes == DOCTOR_UNLIMITED)
		return "unlimited";
	return bytes_format(bytes, buf, BYTES_TEXT_MAX);
}

void doctor_d11_limits(struct doctor_judge *j)
{
	uint64_t memlock, files, memory = DOCTOR_UNLIMITED;
	int lock = doctor_flag(j->facts, "cap.ipc_lock"), tcpx = doctor_uses_tcpx(j->facts);
	char locked[BYTES_TEXT_MAX], limit[BYTES_TEXT_MAX];

	if (doctor_count(j->facts, &memlock, "limit.memlock") ||
	    doctor_count(j->facts, &files, "limit.nofile") || lock < 0) {
		doctor_skip(j, "not known: memlock, nofile or CAP_IPC_LOCK");
		return;
	}
	doctor_count(j->facts, &memory, "cgroup.memory");
	amount(memlock, locked);
	if (memlock < MEMLOCK_MIN && !lock) {
		if (tcpx)
			doctor_fail(j, "memory that may be locked: %s, without CAP_IPC_LOCK",
				    locked);
		else
			doctor_warn(j, "memory that may be locked: %s, without CAP_IPC_LOCK",
				    locked);
		doctor_cause(j, "memory of sends without a copy counts as locked; beyond it, they "
				"fail");
		doctor_fix(j, "ulimit -l unlimited");
	}
	if (files < 1024) {
		doctor_fail(j, "%llu files may be open, 1024 are wanted",
			    (unsigned long long)files);
		doctor_cause(j, "each channel is a descriptor; the last ones are refused");
		doctor_fix(j, "ulimit -n 65536");
	}
	if (memory < CGROUP_MIN) {
		doctor_warn(j, "the control group has %s of memory", amount(memory, limit));
		doctor_cause(j,
			     "staging takes 128 MiB for each GPU and direction; beyond the limit "
			     "the kernel ends the process");
		doctor_fix(j, "export TCPX_STAGING_BYTES=32M   # or give the container more");
	}
	doctor_pass(j, "locked memory %s%s, %llu files, control group %s",
		    memlock == DOCTOR_UNLIMITED ? "unlimited" : locked,
		    lock ? " (CAP_IPC_LOCK)" : "", (unsigned long long)files,
		    memory == DOCTOR_UNLIMITED ? "unlimited" : amount(memory, limit));
}

static void judge_counts(struct doctor_judge *j, uint64_t pci, uint64_t seen, const char *by)
{
	const char *visible = doctor_text(j->facts, "env.CUDA_VISIBLE_DEVICES");

	if (seen == pci)
		return;
	if (seen < pci && visible) {
		doctor_warn(j, "%llu GPUs on PCI, %llu by %s; CUDA_VISIBLE_DEVICES=%.80s",
			    (unsigned long long)pci, (unsigned long long)seen, by, visible);
		doctor_cause(j, "the variable hides GPUs; ordinals are of those that are left");
		doctor_fix(j, "unset CUDA_VISIBLE_DEVICES");
		return;
	}
	doctor_fail(j, "%llu GPUs on PCI, %llu by %s%s", (unsigned long long)pci,
		    (unsigned long long)seen, by,
		    doctor_flag(j->facts, "container") == 1 ? ", in a container" : "");
	if (seen > pci) {
		doctor_cause(j, "sysfs of the host is not visible here");
		doctor_fix(j, "docker run -v /sys:/sys:ro ...");
	} else {
		doctor_cause(j, "the driver is not loaded, lost a GPU, or the container was given "
				"fewer");
		doctor_fix(j, "nvidia-smi -L\n# in a container: --gpus all");
	}
}

void doctor_d14_counts(struct doctor_judge *j)
{
	uint64_t pci, cuda, nvml, nics;
	int has_cuda = !doctor_count(j->facts, &cuda, "gpu.cuda");
	int has_nvml = !doctor_count(j->facts, &nvml, "gpu.nvml");

	if (doctor_count(j->facts, &pci, "gpu.count") ||
	    doctor_count(j->facts, &nics, "nic.count")) {
		doctor_skip(j, "not known: GPUs or NICs on PCI");
		return;
	}
	if (has_cuda)
		judge_counts(j, pci, cuda, "CUDA");
	if (has_nvml)
		judge_counts(j, pci, nvml, "the driver");
	if (pci && !nics) {
		doctor_fail(j, "%llu GPUs on PCI, and no NIC", (unsigned long long)pci);
		doctor_cause(j, "the container has a network of its own");
		doctor_fix(j, "# hostNetwork: true, or docker run --network host");
	}
	if (!has_cuda && !has_nvml)
		doctor_skip(j, "not known: GPUs by the driver (%llu on PCI)",
			    (unsigned long long)pci);
	else
		doctor_pass(j, "GPUs on PCI: %llu, the driver sees as many; NICs on PCI: %llu",
			    (unsigned long long)pci, (unsigned long long)nics);
}

/* Reports error counters of a NIC. */
static void judge_errors(struct doctor_judge *j, unsigned i, const char *nic)
{
	uint64_t rx = 0, tx = 0, crc = 0;

	doctor_count(j->facts, &rx, "nic.%u.rx_errors", i);
	doctor_count(j->facts, &tx, "nic.%u.tx_errors", i);
	doctor_count(j->facts, &crc, "nic.%u.crc_errors", i);
	if (!rx && !tx && !crc)
		return;
	doctor_warn(j, "%s counted %llu receive, %llu send and %llu checksum errors", nic,
		    (unsigned long long)rx, (unsigned long long)tx, (unsigned long long)crc);
	doctor_cause(j, "each is a packet sent again: a cable, a port or a driver");
	doctor_fix(j, "ethtool -S %s   # which of them grow", doctor_quote(nic));
}

/* Judges one NIC; returns whether enough is known. */
static int judge_link(struct doctor_judge *j, unsigned i, const char *nic, uint64_t fastest)
{
	int carrier = doctor_flag(j->facts, "nic.%u.carrier", i), known = 1;
	uint64_t speed;
	const char *want = doctor_text(j->facts, "want.nic");
	int matters = doctor_owns_gpu(j->facts, nic) || (want && doctor_is_listed(want, nic));

	if (!carrier && matters) {
		doctor_fail(j, "%s has no carrier", nic);
		doctor_cause(j, "the cable or the port of the switch is down, or the interface is");
		doctor_fix(j, "ip link set dev %s up", doctor_quote(nic));
	}
	if (matters && doctor_count(j->facts, &speed, "nic.%u.speed_mbps", i))
		known = 0;
	else if (matters && speed < fastest) {
		doctor_warn(j, "%s runs at %llu Mbit/s, others at %llu", nic,
			    (unsigned long long)speed, (unsigned long long)fastest);
		doctor_cause(j, "the link came up slower than its neighbours");
		doctor_fix(j, "ethtool -r %s", doctor_quote(nic));
	}
	judge_errors(j, i, nic);
	return known && carrier >= 0;
}

void doctor_d15_links(struct doctor_judge *j)
{
	const char *nic;
	unsigned count = 0, known = 0;
	uint64_t speed, fastest = 0, groups;

	for (unsigned i = 0; (nic = doctor_text(j->facts, "nic.%u.name", i)); i++)
		if (doctor_owns_gpu(j->facts, nic) &&
		    !doctor_count(j->facts, &speed, "nic.%u.speed_mbps", i) && speed > fastest)
			fastest = speed;
	for (; (nic = doctor_text(j->facts, "nic.%u.name", count)); count++)
		known += (unsigned)judge_link(j, count, nic, fastest);
	if (doctor_text(j->facts, "gpu.0.pci") && doctor_uses_tcpx(j->facts) &&
	    !doctor_count(j->facts, &groups, "iommu.groups") && groups) {
		doctor_warn(j, "the IOMMU is on: %llu groups", (unsigned long long)groups);
		doctor_cause(j, "traffic between NIC and GPU takes the way through the root port");
		doctor_fix(j, "# kernel command line: iommu=pt; ACS off below the switch");
	}
	if (!count)
		doctor_skip(j, "not known: NICs of this machine");
	else if (known < count)
		doctor_skip(j, "not known: carrier or speed of %u of %u NICs", count - known,
			    count);
	else
		doctor_pass(j, "NICs: %u; carrier, speed and counters as they should be", count);
}

void doctor_d19_libraries(struct doctor_judge *j)
{
	const char *file = doctor_text(j->facts, "plugin.file"), *name, *error;
	int loads = doctor_flag(j->facts, "plugin.loads");
	unsigned count = 0;

	if (file && !loads) {
		error = doctor_text(j->facts, "plugin.error");
		doctor_fail(j, "%s does not load: %s", file, error ? error : "no reason given");
		doctor_cause(j,
			     "a library or a symbol that it needs is missing, or it is no plugin");
		doctor_fix(j, "ldd %s\ntcpx info --plugin %s", doctor_quote(file),
			   doctor_quote(file));
	}
	for (; (name = doctor_text(j->facts, "library.%u.name", count)); count++) {
		error = doctor_text(j->facts, "library.%u.error", count);
		if (doctor_flag(j->facts, "library.%u.loads", count))
			continue;
		doctor_fail(j, "%s does not load: %s", name, error ? error : "no reason given");
		doctor_cause(j, "a library or a symbol version that it needs is missing");
		doctor_fix(j, "ldd -v %s", doctor_quote(name));
	}
	if (!file && !count)
		doctor_skip(j, "no plugin is installed or named (--plugin)");
	else if (file && loads < 0)
		doctor_skip(j, "not known: whether %s loads", file);
	else
		doctor_pass(j, "%s%s%s%s%u other libraries load", file ? file : "",
			    file ? " by interface " : "",
			    file ? or_none(doctor_text(j->facts, "plugin.interface")) : "",
			    file ? "; " : "", count);
}

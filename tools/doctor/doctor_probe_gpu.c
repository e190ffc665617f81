/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs and NICs on PCI, GPUs by the driver, RxDM and the plugin. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "doctor_probe.h"
#include "sys/nvml.h"
#include "topo/pairing.h"
#include "topo/rxdm_client.h"

/* time for CUDA and for the plugin, which run at the same time */
#define DRIVER_NS (3 * CLOCK_S_NS)
#define TEXT_CAP 16384
#define QUEUES "queue_ids_by_gpu"

/* The prefix of RxDM sockets that the tools set if the user does not. */
static const char *rxdm_prefix(void)
{
	const char *prefix = getenv("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX");

	return prefix && *prefix ? prefix : TOPO_RXDM_PREFIX;
}

static void put_nic(struct doctor_facts *facts, const struct topo *topo, const struct topo_nic *nic)
{
	int at = doctor_nic_row(facts, nic->name);
	const char *cpus = topo_node_cpus(topo, nic->place.numa);
	char pci[PCI_TEXT_MAX];

	if (at < 0)
		return;
	doctor_put_text(facts, pci_format(nic->place.pci, pci), "nic.%d.pci", at);
	doctor_put_signed(facts, nic->place.numa, "nic.%d.numa", at);
	if (cpus)
		doctor_put_text(facts, cpus, "nic.%d.cpus", at);
	if (*nic->driver)
		doctor_put_text(facts, nic->driver, "nic.%d.driver", at);
}

static void doctor_probe_gpu_put_owner(struct doctor_facts *facts, const struct topo *topo,
				       const struct topo_gpu *gpu, const struct topo_owner *owner,
				       unsigned at)
{
	static const char *const sources[] = {"none", "preset", "pcie"};
	static const char *const answers[] = {"silent", "known", "denied"};
	const struct topo_nic *nic = topo_nic_at(topo, owner->nic);

	doctor_put_text(facts, sources[owner->source], "gpu.%u.source", at);
	doctor_put_text(facts, answers[owner->rxdm], "gpu.%u.rxdm", at);
	if (owner->nic == PCI_NONE)
		return;
	doctor_put_text(facts, owner->nic_name, "gpu.%u.owner", at);
	if (nic)
		doctor_put_text(facts,
				topo_distance_name(topo_distance(topo, &gpu->place, &nic->place)),
				"gpu.%u.distance", at);
}

void doctor_probe_machine(struct doctor_facts *facts, int64_t deadline_ns)
{
	struct topo_rxdm_asker asker = {rxdm_prefix(), deadline_ns, TCPX_OK};
	struct topo_pairs pairs;
	struct topo *topo;
	char pci[PCI_TEXT_MAX];

	if (topo_scan(config_text(CONFIG_SYSFS), &topo) != TCPX_OK)
		return;
	topo_pairs_build(topo, topo_rxdm_ask, &asker, &pairs);
	doctor_put_count(facts, topo->ngpus, "gpu.count");
	doctor_put_count(facts, topo->nnics, "nic.count");
	for (unsigned i = 0; i < topo->nnics; i++)
		put_nic(facts, topo, &topo->nics[i]);
	for (unsigned i = 0; i < topo->ngpus; i++) {
		const struct topo_gpu *gpu = &topo->gpus[i];
		const struct topo_owner *owner = topo_owner_of(&pairs, gpu->place.pci);

		doctor_put_text(facts, pci_format(gpu->place.pci, pci), "gpu.%u.pci", i);
		doctor_put_signed(facts, gpu->place.numa, "gpu.%u.numa", i);
		if (owner)
			doctor_probe_gpu_put_owner(facts, topo, gpu, owner, i);
	}
	topo_free(topo);
}

/* Parses "  cuda:0   0000:04:00.0  NAME ...": the ordinal of a GPU. */
static void put_ordinal(struct doctor_facts *facts, const char *line)
{
	unsigned ordinal;
	char pci[32];
	const char *known;

	if (sscanf(line, " cuda:%u %31s", &ordinal, pci) != 2)
		return;
	for (unsigned i = 0; (known = doctor_text(facts, "gpu.%u.pci", i)); i++)
		if (!strcmp(known, pci))
			doctor_put_count(facts, ordinal, "gpu.%u.cuda", i);
}

/* Parses the GPU lines of "tcpx info". */
static void take_cuda(struct doctor_facts *facts, const char *text)
{
	unsigned count = 0;
	char rest[256];

	if (!doctor_line_after(text, "gpus: none: ", rest, sizeof(rest))) {
		doctor_put_count(facts, 0, "gpu.cuda");
		return;
	}
	if (doctor_line_after(text, "gpus: ", rest, sizeof(rest)))
		return;
	for (const char *at = text; (at = strstr(at, "\n  cuda:")); at++, count++)
		put_ordinal(facts, at + 1);
	doctor_put_count(facts, count, "gpu.cuda");
}

/* GPUs of the kernel driver, used without NVML. */
static void count_driver(struct doctor_facts *facts)
{
	DIR *folder = opendir("/proc/driver/nvidia/gpus");
	const struct dirent *entry;
	unsigned count = 0;

	if (!folder)
		return;
	while ((entry = readdir(folder)) != NULL)
		count += entry->d_name[0] != '.';
	closedir(folder);
	doctor_put_count(facts, count, "gpu.nvml");
}

#define NVML_SAYS "nvml: "

static void say_nvml(void)
{
	static struct sys_nvml_gpu gpus[TOPO_GPUS_MAX];
	unsigned count;

	if (sys_nvml_gpus(gpus, TOPO_GPUS_MAX, &count) == TCPX_OK)
		printf(NVML_SAYS "%u\n", count);
}

static void take_nvml(struct doctor_facts *facts, struct doctor_asked *nvml, int64_t deadline_ns)
{
	char text[256], count[32];

	if (nvml->fd < 0 || doctor_ask_end(nvml, deadline_ns, text, sizeof(text)) ||
	    doctor_line_after(text, NVML_SAYS, count, sizeof(count)))
		count_driver(facts);
	else
		doctor_put_text(facts, count, "gpu.nvml");
}

/* Whether a process accepts connections on the socket; nothing is sent. */
static const char *socket_state(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd, err = 0;

	if (strlen(path) >= sizeof(addr.sun_path))
		return "missing";
	memcpy(addr.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	if (connect(fd, (const struct sockaddr *)&addr,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))))
		err = errno;
	close(fd);
	if (!err)
		return "connects";
	if (err == ENOENT || err == ENOTDIR)
		return "missing";
	if (err == EACCES || err == EPERM)
		return "denied";
	return err == EAGAIN ? "silent" : "refused";
}

static void put_socket(struct doctor_facts *facts, const char *prefix, const char *name,
		       unsigned *count)
{
	char path[300], mode[16];
	const char *answer = doctor_text(facts, "gpu.0.rxdm"), *state;
	struct stat st;

	snprintf(path, sizeof(path), "%.200s/%s", prefix, name);
	state = socket_state(path);
	if (!state || *count == DOCTOR_INDEX_MAX)
		return;
	/* this socket was already asked for the queues of the GPUs */
	if (!strcmp(name, QUEUES) && !strcmp(state, "connects") && answer &&
	    !strcmp(answer, "silent"))
		state = "silent";
	doctor_put_text(facts, name, "rxdm.socket.%u.name", *count);
	doctor_put_text(facts, state, "rxdm.socket.%u.state", *count);
	if (!stat(path, &st)) {
		snprintf(mode, sizeof(mode), "%04o", st.st_mode & 07777);
		doctor_put_text(facts, mode, "rxdm.socket.%u.mode", *count);
	}
	++*count;
}

void doctor_probe_rxdm(struct doctor_facts *facts)
{
	static const char *const fixed[] = {"rx_rule_manager", "rx_rule_uninstall", QUEUES};
	const char *prefix = rxdm_prefix(), *pci;
	unsigned count = 0;
	char name[64];

	doctor_put_text(facts, prefix, "rxdm.prefix");
	for (unsigned i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		put_socket(facts, prefix, fixed[i], &count);
	for (unsigned i = 0; (pci = doctor_text(facts, "gpu.%u.pci", i)); i++) {
		snprintf(name, sizeof(name), "get_gpu_fd_%.20s", pci);
		put_socket(facts, prefix, name, &count);
		snprintf(name, sizeof(name), "get_gpu_metadata_%.20s", pci);
		put_socket(facts, prefix, name, &count);
	}
}

/* The path of the plugin; NULL: none is named or installed. */
static const char *plugin_file(const char *named)
{
	const char *path = named ? named : config_text(CONFIG_PLUGIN);

	if (*path && strcmp(path, "default"))
		return path;
	path = config_text(CONFIG_PLUGIN_PATH);
	if (!access(path, F_OK))
		return path;
	path = "/var/lib/tcpx/lib64/libnccl-net-tcpx.so";
	return access(path, F_OK) ? NULL : path;
}

/* The version of the NCCL in a folder, from the name of the file that libnccl.so.2 links to;
 * nothing is loaded. Returns 0; 1: NCCL is there, but its version is unknown; -1: it is not
 * there. */
static int put_nccl(struct doctor_facts *facts, const char *folder, size_t len, const char *key)
{
	static const char link[] = "libnccl.so.2", digits[] = ".0123456789";
	char path[PATH_MAX], real[PATH_MAX];
	const char *name;

	snprintf(path, sizeof(path), "%.*s%s", (int)len, folder, link);
	if (!realpath(path, real))
		return -1;
	name = strrchr(real, '/') + 1;
	if (strncmp(name, link, sizeof(link) - 1) || name[sizeof(link) - 1] != '.' ||
	    name[sizeof("libnccl.so.") - 1 + strspn(name + sizeof("libnccl.so.") - 1, digits)])
		return 1;
	doctor_put_text(facts, name + sizeof("libnccl.so.") - 1, "%s", key);
	return 0;
}

/* The NCCL next to the plugin is the one that it was made for; programs load the first one that
 * the linker finds. */
static void put_nccls(struct doctor_facts *facts, const char *file)
{
	static const char usual[] = ":/lib/x86_64-linux-gnu/:/usr/lib/x86_64-linux-gnu/:/lib64/"
				    ":/usr/lib64/:/usr/local/lib/";
	const char *named = getenv("LD_LIBRARY_PATH"), *slash = file ? strrchr(file, '/') : NULL;
	char folders[8192];
	int found = -1;
	size_t len;

	if (slash)
		put_nccl(facts, file, (size_t)(slash + 1 - file), "plugin.nccl");
	snprintf(folders, sizeof(folders), "%.8000s%s", named ? named : "", usual);
	for (const char *at = folders; found < 0 && *at; at += len + (at[len] == ':')) {
		char folder[PATH_MAX];

		len = strcspn(at, ":");
		snprintf(folder, sizeof(folder), "%.*s/", (int)len, at);
		if (len)
			found = put_nccl(facts, folder, strlen(folder), "nccl.version");
	}
}

/* Parses the output of "tcpx info --plugin". */
static void take_plugin(struct doctor_facts *facts, char *text, int failed)
{
	char rest[256];

	doctor_put_flag(facts, !failed, "plugin.loads");
	if (failed) {
		text[strcspn(text, "\n")] = '\0';
		doctor_put_text(facts, text, "plugin.error");
		return;
	}
	if (!doctor_line_after(text, "name: ", rest, sizeof(rest)))
		doctor_put_text(facts, rest, "plugin.name");
	if (!doctor_line_after(text, "interface: ", rest, sizeof(rest)))
		doctor_put_text(facts, rest, "plugin.interface");
}

/* The first call of the driver may take long, or hang with a broken GPU; NVML and plugins make
 * it as well. */
void doctor_probe_plugin(struct doctor_facts *facts, const struct doctor_probe_opts *opts, int cuda,
			 int load)
{
	static char text[TEXT_CAP];
	const char *file = plugin_file(opts->plugin);
	const char *const info[] = {"info", NULL}, *const args[] = {"info", "--plugin", file, NULL};
	struct doctor_asked asked = {.fd = -1}, driver = {.fd = -1}, nvml = {.fd = -1};
	int64_t deadline_ns = doctor_until(opts, DRIVER_NS);
	struct statvfs place;
	int failed;

	if (doctor_wants(opts, "D14"))
		doctor_ask_call(&nvml, say_nvml);
	if (cuda)
		doctor_ask_start(&driver, info);
	if (file && load)
		doctor_ask_start(&asked, args);
	if (file)
		doctor_put_text(facts, file, "plugin.file");
	if (file && !statvfs(file, &place))
		doctor_put_flag(facts, (place.f_flag & ST_NOEXEC) != 0, "plugin.noexec");
	put_nccls(facts, file);
	if (driver.fd >= 0 && !doctor_ask_end(&driver, deadline_ns, text, sizeof(text)))
		take_cuda(facts, text);
	if (asked.fd >= 0) {
		failed = doctor_ask_end(&asked, deadline_ns, text, sizeof(text));
		take_plugin(facts, text, failed);
	}
	take_nvml(facts, &nvml, deadline_ns);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the context of a trace: environment, loaded objects, devices, sockets, counters of
 * NICs. */
#include "trace/context.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <link.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/config.h"
#include "sys/ethtool.h"
#include "trace/device.h"
#include "trace/recorder.h"

#define SOCKETS_MAX 512u   /* maximum number of descriptors examined */
#define INTERFACES_MAX 64u /* maximum number of interfaces read from /proc/net/dev */
#define PLUGIN_DEVICES 32  /* device numbers of the plugin that are tried: 0 to 31 */

extern char **environ;

/* ---- environment ---- */

/* Prefixes of the environment variables that are recorded: variables of transports and of the
 * programs that load them. Others are not recorded, because they may be private. */
static const char *const env_shown[] = {
	"NCCL_", "TCPX", "UCCL_", "CUDA_", "LD_",   "NVIDIA_",	   "FAKECUDA_",
	"OMP_",	 "UCX_", "FI_",	  "GLOO_", "RANK=", "WORLD_SIZE=", "LOCAL_RANK=",
};
/* Variables that are not recorded although they match env_shown. They name files of this run and
 * differ in each run. */
static const char *const env_left_out[] = {"TCPX_TRACE=", "TCPX_RECIPE_FILE="};

static int begins_with(const char *text, const char *const *starts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strncmp(text, starts[i], strlen(starts[i])))
			return 1;
	return 0;
}

/* Whether the name of a variable suggests that its value is secret. */
static int env_is_secret(const char *variable, size_t len)
{
	static const char *const parts[] = {"SECRET", "TOKEN",	"PASS",	  "CREDENTIAL",
					    "_KEY",   "COOKIE", "PRIVATE"};
	char upper[128];
	size_t used = 0;

	for (; used < len && used < sizeof(upper) - 1; used++)
		upper[used] = (char)toupper((unsigned char)variable[used]);
	upper[used] = '\0';
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(upper, parts[i]))
			return 1;
	return 0;
}

/* Writes a value and a line feed; control characters in the value become blanks. */
static void put_value(FILE *out, const char *value)
{
	for (; *value; value++)
		fputc((unsigned char)*value < ' ' ? ' ' : *value, out);
	fputc('\n', out);
}

static void write_environment(FILE *out)
{
	for (char **at = environ; at && *at; at++) {
		size_t len = strcspn(*at, "=");

		if (!begins_with(*at, env_shown, sizeof(env_shown) / sizeof(env_shown[0])) ||
		    begins_with(*at, env_left_out, sizeof(env_left_out) / sizeof(env_left_out[0])))
			continue;
		fprintf(out, "env.%.*s=", (int)len, *at);
		put_value(out,
			  env_is_secret(*at, len) ? "(hidden)" : *at + len + ((*at)[len] == '='));
	}
}

/* ---- loaded objects ---- */

/* Callback of dl_iterate_phdr: writes "lib.PATH=BUILD-ID" for a loaded object. */
static int write_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	FILE *out = arg;
	const char *name = info->dlpi_name;

	(void)size;
	if (!name || !*name)
		return 0;
	fprintf(out, "lib.%s=", name);
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		const char *at = (const char *)(info->dlpi_addr + phdr->p_vaddr);
		const char *end = at + phdr->p_memsz;

		if (phdr->p_type != PT_NOTE)
			continue;
		while (at + sizeof(ElfW(Nhdr)) <= end) {
			const ElfW(Nhdr) *note = (const void *)at;
			const unsigned char *id = (const unsigned char *)at + sizeof(*note) +
						  ((note->n_namesz + 3) & ~3u);

			at = (const char *)id + ((note->n_descsz + 3) & ~3u);
			if (note->n_type != NT_GNU_BUILD_ID || note->n_namesz != 4 || at > end)
				continue;
			for (unsigned k = 0; k < note->n_descsz && k < 32; k++)
				fprintf(out, "%02x", id[k]);
			break;
		}
	}
	fputc('\n', out);
	return 0;
}

/* ---- sockets ---- */

/* Returns the name of the interface that has the address, or "?" if none has it. */
static const char *nic_of(const struct ifaddrs *list, const struct sockaddr_storage *addr)
{
	for (; list; list = list->ifa_next) {
		const struct sockaddr *there = list->ifa_addr;
		const struct sockaddr_in *a = (const void *)there, *b = (const void *)addr;
		const struct sockaddr_in6 *a6 = (const void *)there, *b6 = (const void *)addr;

		if (!there || there->sa_family != addr->ss_family)
			continue;
		if (addr->ss_family == AF_INET) {
			const struct sockaddr_in *mask = (const void *)list->ifa_netmask;
			uint32_t bits = mask ? mask->sin_addr.s_addr : UINT32_MAX;

			/* each address of the loopback network belongs to the loopback interface */
			if (a->sin_addr.s_addr == b->sin_addr.s_addr ||
			    ((list->ifa_flags & IFF_LOOPBACK) &&
			     !((a->sin_addr.s_addr ^ b->sin_addr.s_addr) & bits)))
				return list->ifa_name;
		} else if (!memcmp(&a6->sin6_addr, &b6->sin6_addr, 16)) {
			return list->ifa_name;
		}
	}
	return "?";
}

static void put_address(FILE *out, const struct sockaddr_storage *addr)
{
	const struct sockaddr_in *v4 = (const void *)addr;
	const struct sockaddr_in6 *v6 = (const void *)addr;
	char text[INET6_ADDRSTRLEN] = "";

	if (addr->ss_family == AF_INET)
		fprintf(out, "%s:%u", inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text)),
			ntohs(v4->sin_port));
	else
		fprintf(out, "[%s]:%u", inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text)),
			ntohs(v6->sin6_port));
}

/* Writes a TCP socket as "socket.FD=LOCAL REMOTE NIC state N rtt US retrans N sent BYTES received
 * BYTES", or, if it has no peer, as "socket.FD=LOCAL listens NIC". Writes nothing for other
 * descriptors. */
static void write_socket(FILE *out, int fd, const struct ifaddrs *list)
{
	struct sockaddr_storage local, remote;
	socklen_t len = sizeof(local), remote_len = sizeof(remote), info_len;
	struct tcp_info info;
	int type = 0;
	socklen_t type_len = sizeof(type);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) || type != SOCK_STREAM ||
	    getsockname(fd, (struct sockaddr *)&local, &len) ||
	    (local.ss_family != AF_INET && local.ss_family != AF_INET6))
		return;
	fprintf(out, "socket.%d=", fd);
	put_address(out, &local);
	if (getpeername(fd, (struct sockaddr *)&remote, &remote_len)) {
		fprintf(out, " listens %s\n", nic_of(list, &local));
		return;
	}
	fputc(' ', out);
	put_address(out, &remote);
	fprintf(out, " %s", nic_of(list, &local));
	memset(&info, 0, sizeof(info));
	info_len = sizeof(info);
	if (!getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_len))
		fprintf(out, " state %u rtt %u retrans %u sent %llu received %llu", info.tcpi_state,
			info.tcpi_rtt, info.tcpi_total_retrans,
			(unsigned long long)info.tcpi_bytes_acked,
			(unsigned long long)info.tcpi_bytes_received);
	fputc('\n', out);
}

static void write_sockets(FILE *out, const struct ifaddrs *list)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	unsigned count = 0;

	while (dir && (entry = readdir(dir)) && count < SOCKETS_MAX) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || fd == dirfd(dir))
			continue;
		write_socket(out, fd, list);
		count++;
	}
	if (dir)
		closedir(dir);
}

/* ---- counters ---- */

/* Reads the counter rx_devmem_pkts of a NIC. Returns 0 if the NIC does not have this counter. */
static int devmem_count(const char *nic, uint64_t *out_value)
{
	const char *source = config_text(CONFIG_DEVMEM_STATS);

	return sys_ethtool_statistic(nic, SYS_ETHTOOL_DEVMEM, *source ? source : NULL, out_value) ==
	       TCPX_OK;
}

static void write_counter(FILE *out, const char *nic, const char *when)
{
	uint64_t value;

	if (devmem_count(nic, &value))
		fprintf(out, "counter.%s.%s.%s=%llu\n", when, nic, SYS_ETHTOOL_DEVMEM,
			(unsigned long long)value);
}

void trace_context_counter(const char *nic)
{
	int err = errno;
	uint64_t value;
	char key[128];

	if (devmem_count(nic, &value)) {
		snprintf(key, sizeof(key), "counter.start.%s.%s", nic, SYS_ETHTOOL_DEVMEM);
		trace_recorder_note(key, "%llu", (unsigned long long)value);
	}
	errno = err;
}

/* Writes the kernel's packet counts of the interfaces, and the counter rx_devmem_pkts of each NIC
 * that has it. */
static void write_interfaces(FILE *out, enum trace_context_places place)
{
	const char *when = place == TRACE_AT_START ? "start" : "end";
	FILE *in = fopen("/proc/net/dev", "re");
	unsigned long long rx, rx_packets, tx, tx_packets;
	char line[512], name[64];
	unsigned count = 0;

	while (in && fgets(line, sizeof(line), in) && count < INTERFACES_MAX) {
		if (sscanf(line, " %63[^:]: %llu %llu %*u %*u %*u %*u %*u %*u %llu %llu", name, &rx,
			   &rx_packets, &tx, &tx_packets) != 5)
			continue;
		count++;
		fprintf(out, "counter.%s.%s.rx_packets=%llu\ncounter.%s.%s.tx_packets=%llu\n", when,
			name, rx_packets, when, name, tx_packets);
		if (!trace_device_is(name))
			write_counter(out, name, when);
	}
	if (in)
		fclose(in);
	for (int i = 0; i < PLUGIN_DEVICES; i++)
		if (trace_device_name(i, name, sizeof(name)))
			write_counter(out, name, when);
}

void trace_context_write(FILE *out, enum trace_context_places place)
{
	struct ifaddrs *list = NULL;

	if (place == TRACE_AT_START) {
		write_environment(out);
		trace_device_topology(out);
	}
	if (place != TRACE_BETWEEN) {
		dl_iterate_phdr(write_object, out);
		write_interfaces(out, place);
	}
	trace_device_write(out);
	if (getifaddrs(&list))
		list = NULL;
	write_sockets(out, list);
	if (list)
		freeifaddrs(list);
}

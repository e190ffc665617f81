/* SPDX-License-Identifier: Apache-2.0 */
/* Reads statistics of a NIC from the kernel by the ethtool ioctl, or from a file. */
#include "sys/ethtool.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "sys/fd.h"
#include "sys/sock.h"

#define STATISTICS_MAX 65536 /* a NIC with more is treated as if it had none */

static int all_digits(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isdigit((unsigned char)text[i]))
			return 0;
	return len > 0;
}

int sys_ethtool_counts(const char *label, const char *name)
{
	size_t len = strlen(name), all = strlen(label), digits;

	if (!strcmp(label, name))
		return 1;
	if (!strncmp(label, name, len) && label[len] == '[' && label[all - 1] == ']')
		return all_digits(label + len + 1, all - len - 2);
	/* for queue 3, rx_devmem_pkts is called rx3_devmem_pkts or rx3_rx_devmem_pkts */
	digits = 2 + strspn(strlen(label) > 2 ? label + 2 : "", "0123456789");
	if (strncmp(label, name, 2) || digits == 2 || label[digits] != '_')
		return 0;
	return !strcmp(label + digits, name + 2) || !strcmp(label + digits + 1, name);
}

static tcpx_status statistic_missing(const char *nic, const char *name)
{
	error_set(TCPX_ERR_NOT_FOUND, 0, "NIC %.16s has no statistic %.40s", nic, name);
	return error_next("only NICs whose driver can place packets in GPU memory have it");
}

static tcpx_status ioctl_failed(const char *nic)
{
	tcpx_status status = errno == ENODEV	   ? TCPX_ERR_NOT_FOUND
			     : errno == EOPNOTSUPP ? TCPX_ERR_NOT_FOUND
						   : TCPX_ERR_SYSTEM;

	return error_set(status, errno, "cannot read the statistics of NIC %.16s", nic);
}

static int ethtool_ioctl(int fd, const char *nic, void *command)
{
	struct ifreq ifr = {0};

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", nic);
	ifr.ifr_data = command;
	return ioctl(fd, SIOCETHTOOL, &ifr);
}

/* Asks the driver how many statistics it has. Returns 0, or -1 with errno set. */
static int count_statistics(int fd, const char *nic, unsigned *out_count)
{
	union {
		struct ethtool_sset_info info;
		uint8_t room[sizeof(struct ethtool_sset_info) + sizeof(uint32_t)];
	} set = {.room = {0}};

	set.info.cmd = ETHTOOL_GSSET_INFO;
	set.info.sset_mask = 1ull << ETH_SS_STATS;
	if (ethtool_ioctl(fd, nic, &set))
		return -1;
	*out_count = set.info.sset_mask ? set.info.data[0] : 0;
	return 0;
}

/* The caller's function that receives each statistic, and its argument. */
struct statistic_sink {
	void (*fn)(void *arg, const char *label, uint64_t value);
	void *arg;
};

/* Reads names and values, and passes at most `count` statistics to `to`. The driver writes all
 * statistics that it has at that moment, which may be more or fewer than `count`. `names` and
 * `values` therefore have room for twice as many as `count`. */
static tcpx_status list_statistics(int fd, const char *nic, unsigned count,
				   struct ethtool_gstrings *names, struct ethtool_stats *values,
				   const struct statistic_sink *to)
{
	names->cmd = ETHTOOL_GSTRINGS;
	names->string_set = ETH_SS_STATS;
	names->len = count;
	values->cmd = ETHTOOL_GSTATS;
	values->n_stats = count;
	if (ethtool_ioctl(fd, nic, names) || ethtool_ioctl(fd, nic, values))
		return ioctl_failed(nic);
	for (unsigned i = 0; i < count && i < names->len && i < values->n_stats; i++) {
		char label[ETH_GSTRING_LEN + 1];

		memcpy(label, names->data + (size_t)i * ETH_GSTRING_LEN, ETH_GSTRING_LEN);
		label[ETH_GSTRING_LEN] = '\0';
		to->fn(to->arg, label, values->data[i]);
	}
	return TCPX_OK;
}

static tcpx_status read_kernel(int fd, const char *nic, const struct statistic_sink *to)
{
	struct ethtool_gstrings *names = NULL;
	struct ethtool_stats *values = NULL;
	tcpx_status status;
	unsigned count;

	if (count_statistics(fd, nic, &count))
		return ioctl_failed(nic);
	if (!count || count > STATISTICS_MAX)
		return TCPX_OK;
	/* Room for twice as many: the driver may get more statistics, for example by new queues,
	 * before it writes them. */
	names = calloc(1, sizeof(*names) + 2 * (size_t)count * ETH_GSTRING_LEN);
	values = calloc(1, sizeof(*values) + 2 * (size_t)count * sizeof(uint64_t));
	if (names && values)
		status = list_statistics(fd, nic, count, names, values, to);
	else
		status = error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for %u statistics", count);
	free(names);
	free(values);
	return status;
}

static void read_statistics_file(FILE *file, const struct statistic_sink *to)
{
	char line[256], label[128];
	uint64_t value;

	while (fgets(line, sizeof(line), file))
		if (sscanf(line, " %127[^: \t] : %" SCNu64, label, &value) == 2)
			to->fn(to->arg, label, value);
}

/* Writes the path of the file `source`, with "%s" replaced by the NIC's name. Returns 0, or -1 if
 * the path is too long. */
static int source_path(const char *source, const char *nic, char path[PATH_MAX])
{
	const char *mark = strstr(source, "%s");
	int len = mark ? snprintf(path, PATH_MAX, "%.*s%s%s", (int)(mark - source), source, nic,
				  mark + 2)
		       : snprintf(path, PATH_MAX, "%s", source);

	return len < 0 || len >= PATH_MAX ? -1 : 0;
}

tcpx_status sys_ethtool_each(const char *nic, const char *source,
			     void (*fn)(void *arg, const char *label, uint64_t value), void *arg)
{
	const struct statistic_sink to = {fn, arg};
	char path[PATH_MAX];
	tcpx_status status;
	FILE *file;
	int fd;

	if (strlen(nic) >= IFNAMSIZ || strchr(nic, '/') ||
	    (source && source_path(source, nic, path)))
		return error_set(TCPX_ERR_INVALID, 0, "%.40s is not the name of a NIC, or too long",
				 nic);
	if (source) {
		file = fopen(path, "re");
		if (!file)
			return error_set(TCPX_ERR_NOT_FOUND, errno, "no statistics at %.100s",
					 path);
		read_statistics_file(file, &to);
		fclose(file);
		return TCPX_OK;
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_set(sys_errno_status(errno), errno, "cannot open a socket");
	status = read_kernel(fd, nic, &to);
	sys_fd_close(fd);
	return status;
}

/* The sum of the statistics that belong to `name`, and whether there were any. */
struct sum {
	const char *name;
	uint64_t value;
	int found;
};

static void add_statistic(void *arg, const char *label, uint64_t value)
{
	struct sum *sum = arg;

	if (!sys_ethtool_counts(label, sum->name))
		return;
	sum->value += value;
	sum->found = 1;
}

tcpx_status sys_ethtool_statistic(const char *nic, const char *name, const char *source,
				  uint64_t *out_value)
{
	struct sum sum = {.name = name};
	tcpx_status status;

	if (strlen(name) >= ETH_GSTRING_LEN)
		return error_set(TCPX_ERR_INVALID, 0, "%.40s is too long for a statistic", name);
	status = sys_ethtool_each(nic, source, add_statistic, &sum);
	if (status == TCPX_OK && !sum.found)
		return statistic_missing(nic, name);
	if (status == TCPX_OK)
		*out_value = sum.value;
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A NIC's devmem counter: from a file, from made-up drivers, and from the kernel. */
#include "unit/unit.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "base/error.h"
#include "descriptors.h"
#include "sys/ethtool.h"

/* A driver that answers in the kernel's place; names NULL: the kernel does. */
static struct {
	const char *const *names;
	unsigned count,
		later; /* what it tells first, and how many it has by the time it is asked */
	int failing;   /* errno of the values */
} driver;

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
	void *command = request == SIOCETHTOOL ? ((struct ifreq *)arg)->ifr_data : NULL;
	struct ethtool_gstrings *names = command;
	struct ethtool_stats *values = command;
	struct ethtool_sset_info *info = command;

	if (!driver.names || !command)
		return __real_ioctl(fd, request, arg);
	switch (*(uint32_t *)command) {
	case ETHTOOL_GSSET_INFO:
		info->data[0] = driver.count;
		return 0;
	case ETHTOOL_GSTRINGS:
		names->len = driver.later;
		for (unsigned i = 0; i < driver.later; i++)
			strncpy((char *)names->data + (size_t)i * ETH_GSTRING_LEN, driver.names[i],
				ETH_GSTRING_LEN);
		return 0;
	default:
		values->n_stats = driver.later;
		for (unsigned i = 0; i < driver.later; i++)
			values->data[i] = 1u << i;
		errno = driver.failing;
		return driver.failing ? -1 : 0;
	}
}

static void labels(void **state)
{
	static const char *const yes[] = {"rx_devmem_pkts", "rx_devmem_pkts[0]",
					  "rx_devmem_pkts[15]", "rx3_devmem_pkts",
					  "rx12_rx_devmem_pkts"};
	static const char *const no[] = {"",
					 "rx",
					 "rx_devmem_pkts_2",
					 "tx_devmem_pkts",
					 "rx_devmem_pkt",
					 "rx_devmem_pkts[",
					 "rx_devmem_pkts[]",
					 "rx_devmem_pkts[x]",
					 "rx3_devmem_bytes",
					 "rxx_devmem_pkts",
					 "rx3",
					 "xrx_devmem_pkts"};

	(void)state;
	for (unsigned i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		if (!sys_ethtool_counts(yes[i], SYS_ETHTOOL_DEVMEM))
			fail_msg("%s does not count", yes[i]);
	for (unsigned i = 0; i < sizeof(no) / sizeof(*no); i++)
		if (sys_ethtool_counts(no[i], SYS_ETHTOOL_DEVMEM))
			fail_msg("%s counts", no[i]);
}

static void from_a_file(void **state)
{
	char dir[] = "/tmp/tcpx-ethtool-XXXXXX", source[64], path[64];
	unsigned descriptors = open_descriptors();
	uint64_t value = 9;
	FILE *file;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(source, sizeof(source), "%s/%%s.txt", dir);
	snprintf(path, sizeof(path), "%s/eth1.txt", dir);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("NIC statistics:\n     rx_packets: 77\n     rx_devmem_pkts[8]: 40\n"
	      "rx_devmem_pkts[9]: 18446744069414584320\nrx_devmem_pkts: none\n",
	      file);
	fclose(file);
	assert_int_equal(sys_ethtool_statistic("eth1", SYS_ETHTOOL_DEVMEM, source, &value), 0);
	assert_true(value == 18446744069414584360ull);
	assert_int_equal(sys_ethtool_statistic("eth1", "rx_packets", path, &value), TCPX_OK);
	assert_int_equal(value, 77);
	assert_int_equal(sys_ethtool_statistic("eth1", "tx_packets", path, &value),
			 TCPX_ERR_NOT_FOUND);
	assert_int_equal(sys_ethtool_statistic("eth2", SYS_ETHTOOL_DEVMEM, source, &value),
			 TCPX_ERR_NOT_FOUND);
	assert_int_equal(sys_ethtool_statistic("../eth1", SYS_ETHTOOL_DEVMEM, source, &value),
			 TCPX_ERR_INVALID);
	assert_int_equal(value, 77);
	assert_int_equal(open_descriptors(), descriptors);
	unlink(path);
	rmdir(dir);
}

static void from_a_driver(void **state)
{
	static const char *const names[] = {"rx_packets", "rx_devmem_pkts[0]", "tx_packets",
					    "rx_devmem_pkts[1]", "rx_devmem_pkts[2]"};
	uint64_t value = 9;

	(void)state;
	driver.names = names;
	driver.count = driver.later = 4;
	assert_int_equal(sys_ethtool_statistic("lo", SYS_ETHTOOL_DEVMEM, NULL, &value), TCPX_OK);
	assert_int_equal(value, 2 + 8);
	driver.later = 5; /* a queue more than it told: the fifth is not looked at */
	assert_int_equal(sys_ethtool_statistic("lo", SYS_ETHTOOL_DEVMEM, NULL, &value), TCPX_OK);
	assert_int_equal(value, 2 + 8);
	driver.later = 2;
	assert_int_equal(sys_ethtool_statistic("lo", SYS_ETHTOOL_DEVMEM, NULL, &value), TCPX_OK);
	assert_int_equal(value, 2);
	driver.later = 1;
	assert_int_equal(sys_ethtool_statistic("lo", SYS_ETHTOOL_DEVMEM, NULL, &value),
			 TCPX_ERR_NOT_FOUND);
	driver.failing = EIO;
	assert_int_equal(sys_ethtool_statistic("lo", SYS_ETHTOOL_DEVMEM, NULL, &value),
			 TCPX_ERR_SYSTEM);
	driver.failing = 0;
	driver.count = 0;
	assert_int_equal(sys_ethtool_statistic("lo", SYS_ETHTOOL_DEVMEM, NULL, &value),
			 TCPX_ERR_NOT_FOUND);
	assert_int_equal(value, 2);
	driver.names = NULL;
}

/* lo has no statistics, and what is no NIC has none either: both are "not available". */
static void from_the_kernel(void **state)
{
	unsigned descriptors = open_descriptors();
	uint64_t value;

	(void)state;
	assert_int_equal(sys_ethtool_statistic("lo", SYS_ETHTOOL_DEVMEM, NULL, &value),
			 TCPX_ERR_NOT_FOUND);
	assert_int_equal(sys_ethtool_statistic("none0", SYS_ETHTOOL_DEVMEM, NULL, &value),
			 TCPX_ERR_NOT_FOUND);
	assert_int_equal(open_descriptors(), descriptors);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(labels),
		cmocka_unit_test(from_a_file),
		cmocka_unit_test(from_a_driver),
		cmocka_unit_test(from_the_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

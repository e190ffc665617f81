/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of a NIC, as ethtool -S shows them. The statistic rx_devmem_pkts shows whether a flow
 * was steered to a GPU. */
#ifndef SYS_ETHTOOL_H
#define SYS_ETHTOOL_H

#include <stdint.h>

#include <tcpx/types.h>

#define SYS_ETHTOOL_DEVMEM "rx_devmem_pkts"

/*
 * Reads the sum of the NIC's statistics with this name over all queues. Queue 3's rx_name may be
 * called "rx_name[3]", "rx3_name" or "rx3_rx_name". `source` is NULL for the kernel's statistics,
 * or the path of a file with lines "name: value", as ethtool -S prints them; "%s" in the path
 * stands for the NIC's name. Tests and the plugin emulator use such a file. Returns ERR_NOT_FOUND
 * if there is no such NIC or statistic, its driver tells none, or the file cannot be opened; a
 * missing statistic is not reported as 0. Returns ERR_INVALID if the path or a name is too long or
 * the NIC's name has a slash, ERR_NO_MEMORY, ERR_SYSTEM if the kernel refuses otherwise, or, if no
 * socket can be opened, the status for that error (sys_errno_status()), such as ERR_NO_DESCRIPTORS.
 */
tcpx_status sys_ethtool_statistic(const char *nic, const char *name, const char *source,
				  uint64_t *out_value);

/* Calls `fn` for each statistic of the NIC, in the driver's order. `source` and the errors are as
 * for sys_ethtool_statistic, except that a NIC without statistics is not an error. */
tcpx_status sys_ethtool_each(const char *nic, const char *source,
			     void (*fn)(void *arg, const char *label, uint64_t value), void *arg);

/* Whether the statistic `label` counts for `name`: `label` is equal to `name`, or is `name` with
 * the number of a queue. */
int sys_ethtool_counts(const char *label, const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of a NIC, as ethtool -S shows them; rx_devmem_pkts proves that a flow was steered. */
#ifndef SYS_ETHTOOL_H
#define SYS_ETHTOOL_H

#include <stdint.h>

#include <tcpx/types.h>

#define SYS_ETHTOOL_DEVMEM "rx_devmem_pkts"

/*
 * Reads the sum over all queues of the NIC's statistics of that name: "name", "name[3]" or
 * "rx3_name". `source` is NULL for the kernel, or a file of lines "name: value" (the output of
 * ethtool -S, blanks before the name allowed), in which "%s" stands for the NIC's name; tests and
 * the emulator of the plugin provide their own counter that way. ERR_NOT_FOUND: no such NIC or
 * file, or no such statistic ("not available", not 0); ERR_SYSTEM; ERR_NO_MEMORY;
 * ERR_NO_DESCRIPTORS; ERR_INVALID: source or name too long.
 */
tcpx_status sys_ethtool_statistic(const char *nic, const char *name, const char *source,
				  uint64_t *out_value);

/* Calls `fn` for each statistic of the NIC, in the driver's order. `source` and errors are those
 * of sys_ethtool_statistic, but a NIC without statistics is no error. */
tcpx_status sys_ethtool_each(const char *nic, const char *source,
			     void (*fn)(void *arg, const char *label, uint64_t value), void *arg);

/* Whether the statistic `label` belongs to the sum for `name`: it has that name, or the name with
 * the number of a queue. */
int sys_ethtool_counts(const char *label, const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of a NIC, as ethtool -S shows them; rx_devmem_pkts proves that a flow was steered. */
#ifndef SYS_ETHTOOL_H
#define SYS_ETHTOOL_H

#include <stdint.h>

#include <tcpx/types.h>

#define SYS_ETHTOOL_DEVMEM "rx_devmem_pkts"

/*
 * The sum of the NIC's statistics of that name, whichever queue each is of: "name", "name[3]" or
 * "rx3_name". source: NULL for the kernel, or a file of lines "name: value" (what ethtool -S
 * prints, blanks before the name allowed), where "%s" stands for the NIC's name; that is how a
 * test, or the stand-in for the plugin, gives a counter of its own.
 * ERR_NOT_FOUND: no such NIC, or it has no such statistic ("not available", not 0);
 * ERR_SYSTEM; ERR_NO_MEMORY; ERR_NO_DESCRIPTORS; ERR_INVALID: source or name too long.
 */
tcpx_status sys_ethtool_statistic(const char *nic, const char *name, const char *source,
				  uint64_t *out_value);

/* Calls fn for each statistic of the NIC, in the driver's order; source and errors as above, but
 * a NIC that has none is no error. */
tcpx_status sys_ethtool_each(const char *nic, const char *source,
			     void (*fn)(void *arg, const char *label, uint64_t value), void *arg);

/* Whether a statistic called label counts for name: the name alone, or with a queue's number. */
int sys_ethtool_counts(const char *label, const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The filter for a plugin's log lines: NCCL_DEBUG and NCCL_DEBUG_SUBSYS, as in NCCL. */
#ifndef PLUGIN_PLUGIN_LOG_H
#define PLUGIN_PLUGIN_LOG_H

struct net_plugin_filter {
	int level; /* enum ncclnet_log_levels: higher ones are dropped */
	unsigned long subsystems;
};

/* The filter for the values of the two variables; NULL: the variable is not set. */
struct net_plugin_filter net_plugin_filter_parse(const char *debug, const char *subsys);

int net_plugin_filter_passes(const struct net_plugin_filter *is, int level, unsigned long flags);

#endif

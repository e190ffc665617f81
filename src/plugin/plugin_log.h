/* SPDX-License-Identifier: Apache-2.0 */
/* Which lines of a plugin's log pass: what NCCL_DEBUG and NCCL_DEBUG_SUBSYS say, as in NCCL. */
#ifndef PLUGIN_PLUGIN_LOG_H
#define PLUGIN_PLUGIN_LOG_H

struct net_plugin_filter {
	int level; /* enum ncclnet_log_levels: more is left out */
	unsigned long subsystems;
};

/* The values of the two variables, or NULL. */
struct net_plugin_filter net_plugin_filter_parse(const char *debug, const char *subsys);

int net_plugin_filter_passes(const struct net_plugin_filter *is, int level, unsigned long flags);

#endif

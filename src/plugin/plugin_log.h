/* SPDX-License-Identifier: Apache-2.0 */
/* The filter for a plugin's log lines: NCCL_DEBUG and NCCL_DEBUG_SUBSYS, as in NCCL. */
#ifndef PLUGIN_PLUGIN_LOG_H
#define PLUGIN_PLUGIN_LOG_H

struct net_plugin_filter {
	int level; /* enum ncclnet_log_levels: lines of higher levels are dropped */
	/* bits NCCLNET_SUB_...; lines of other subsystems are dropped */
	unsigned long subsystems;
};

/* Makes the filter for the values of NCCL_DEBUG and NCCL_DEBUG_SUBSYS, which are NULL if not
 * set. */
struct net_plugin_filter net_plugin_filter_parse(const char *debug, const char *subsys);

/* Whether a line of that level passes the filter. `flags` are the subsystems of the line; one of
 * them must be in the filter. */
int net_plugin_filter_passes(const struct net_plugin_filter *is, int level, unsigned long flags);

#endif

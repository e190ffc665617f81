/* SPDX-License-Identifier: Apache-2.0 */
/* The adapter that records calls. It surrounds another one if TCPX_TRACE names a file. */
#ifndef PLUGIN_TRACED_H
#define PLUGIN_TRACED_H

struct net_plugin;

/* Puts the recording adapter around the adapter of a plugin that is loaded and not started. Does
 * nothing if TCPX_TRACE is not set, if the plugin is a tracer object, which records its calls
 * itself, or if there is no memory (which is logged). */
void net_traced_wrap(struct net_plugin *plugin);

#endif

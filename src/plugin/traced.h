/* SPDX-License-Identifier: Apache-2.0 */
/* The adapter that records the library's calls into a plugin, if TCPX_TRACE names a file. */
#ifndef PLUGIN_TRACED_H
#define PLUGIN_TRACED_H

struct net_plugin;

/* Replaces the adapter of a plugin, which is loaded and not started, by one that records each call
 * and passes it on. Does nothing if TCPX_TRACE is not set, if the plugin is a tracer object, which
 * records its calls itself, or if there is no memory (which is logged). */
void net_traced_wrap(struct net_plugin *plugin);

#endif

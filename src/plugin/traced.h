/* SPDX-License-Identifier: Apache-2.0 */
/* An adapter that records the library's calls into a plugin, if TCPX_TRACE names a file. */
#ifndef PLUGIN_TRACED_H
#define PLUGIN_TRACED_H

struct net_plugin;

/* Gives a plugin, before its init, an adapter that records each call and passes it on to the
 * plugin's previous adapter. Does nothing if TCPX_TRACE is not set, or if the plugin is a tracer
 * object, which records its calls itself. If there is no memory, only logs that. */
void net_traced_wrap(struct net_plugin *plugin);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The adapter that records: around any other one, if TCPX_TRACE names a file. */
#ifndef PLUGIN_TRACED_H
#define PLUGIN_TRACED_H

struct net_plugin;

/* Puts the recording adapter around that of a plugin which is loaded and not started. Does nothing
 * without TCPX_TRACE, for a tracer object, which records by itself, or without memory (logged). */
void net_traced_wrap(struct net_plugin *plugin);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx info --plugin. */
#ifndef TOOLS_INFO_PLUGIN_H
#define TOOLS_INFO_PLUGIN_H

/* What the plugin at path, or "default", offers; json: a file for it as JSON, "-", or NULL. Returns
 * the exit code. */
int info_plugin(const char *path, const char *json);

#endif

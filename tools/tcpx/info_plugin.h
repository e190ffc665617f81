/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx info --plugin. */
#ifndef TOOLS_INFO_PLUGIN_H
#define TOOLS_INFO_PLUGIN_H

/* Prints the properties of the plugin at path, or of "default". json: a file for them, "-", or
 * NULL. Returns the exit code. */
int info_plugin(const char *path, const char *json);

#endif

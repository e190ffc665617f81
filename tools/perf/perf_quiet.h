/* SPDX-License-Identifier: Apache-2.0 */
/* Hides warnings of the library whose cause perf prints itself, unless the user has chosen a log
 * level. Errors, and warnings about options, are never hidden. */
#ifndef TOOLS_PERF_QUIET_H
#define TOOLS_PERF_QUIET_H

/* While perf connects: hides all warnings but those about an interface that is left out. With
 * `by_plugin` hides none, because those about a plugin have more detail than the error. */
void perf_quiet_connecting(int by_plugin);
void perf_quiet_end(void);

#endif

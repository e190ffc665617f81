/* SPDX-License-Identifier: Apache-2.0 */
/* Hides warnings of the library whose cause perf prints itself, unless the user has chosen a log
 * level. Errors, and warnings about options, are never hidden. */
#ifndef TOOLS_PERF_QUIET_H
#define TOOLS_PERF_QUIET_H

#include <tcpx/log.h>

/* While perf connects: hides all warnings but those about an interface that is left out. With
 * `by_plugin` hides none, because those about a plugin have more detail than the error. */
void perf_quiet_connecting(int by_plugin);
/* While perf measures: holds back the line about the end of the peer. */
void perf_quiet_running(void);
/* Ends both. Prints the line that was held back, unless it tells the same as `error`; NULL: perf
 * prints none. */
void perf_quiet_end(const tcpx_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs in tcpx info. */
#ifndef TOOLS_INFO_GPU_H
#define TOOLS_INFO_GPU_H

#include "cli_json.h"

/* Prints a line per GPU, or one line that says why there are none. */
void info_gpu_print(void);
void info_gpu_put(struct cli_json *json);

#endif

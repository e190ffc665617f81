/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of connection infos. */
#ifndef TOOLS_CLI_ADDRESS_H
#define TOOLS_CLI_ADDRESS_H

#include <sys/socket.h>

#include "wire/hello.h"

void cli_address(const struct wire_address *from, struct sockaddr_storage *out);

#endif

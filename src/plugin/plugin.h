/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Foreign transport plugins (ncclNet, versions 6 to 12). Higher layers include only this header.
 * Each part of plugin/ is described in its own header:
 *
 *   image.h     a plugin's shared object: found, loaded, started once, described
 *   setup.h     calls that may block, on their own threads: listen, connect, accept, regMr, close
 *   comm.h      data calls of a comm: send, receive, poll, consumed
 *   messages.h  a stream channel whose payloads travel through two comms
 *   env.h       the environment that a TCPX plugin needs: check and recipe
 */
#ifndef PLUGIN_PLUGIN_H
#define PLUGIN_PLUGIN_H

#include "plugin/comm.h"
#include "plugin/env.h"
#include "plugin/image.h"
#include "plugin/messages.h"
#include "plugin/setup.h"

#endif

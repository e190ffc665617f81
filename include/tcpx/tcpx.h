/* SPDX-License-Identifier: Apache-2.0 */
/* Everything a program needs. */
#ifndef TCPX_TCPX_H
#define TCPX_TCPX_H

#include <tcpx/log.h>
#include <tcpx/memory.h>
#include <tcpx/notify.h>
#include <tcpx/plugin.h>
#include <tcpx/query.h>
#include <tcpx/session.h>
#include <tcpx/transfer.h>
#include <tcpx/types.h>

#endif

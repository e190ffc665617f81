/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of a session. engine_counters() adds the counters of the session's live peers. */
#ifndef ENGINE_LINK_SESSION_COUNTERS_H
#define ENGINE_LINK_SESSION_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "ctl/conn.h"
#include <tcpx/tcpx.h>

struct session_counters {
	struct tcpx_counters gone; /* under queue.lock: sums of the peers that have ended */
	struct ctl_counters ctl;
	_Atomic uint64_t posted, done, failed, active; /* numbers of requests */
	_Atomic uint64_t notes_in, notes_out;
	_Atomic uint64_t peers_up, peers_lost, peers_failed;
	_Atomic uint64_t channels_lost, redials, carrier_losses, protocol_errors;
};

#endif

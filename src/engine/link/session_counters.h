/* SPDX-License-Identifier: Apache-2.0 */
/* What a session counts; engine_counters() reports it together with what its live peers count. */
#ifndef ENGINE_LINK_SESSION_COUNTERS_H
#define ENGINE_LINK_SESSION_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "ctl/conn.h"
#include <tcpx/tcpx.h>

struct session_counters {
	struct tcpx_counters gone; /* queue.lock: the sums of peers that are gone */
	struct ctl_counters ctl;
	_Atomic uint64_t posted, done, failed, active; /* requests */
	_Atomic uint64_t notes_in, notes_out;
	_Atomic uint64_t peers_up, peers_lost, peers_failed;
	_Atomic uint64_t channels_lost, redials, carrier_losses, protocol_errors;
};

#endif

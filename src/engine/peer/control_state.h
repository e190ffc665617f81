/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's control link, and what is heard of the peer by it. Control thread only, but for the
 * round-trip time. */
#ifndef ENGINE_PEER_CONTROL_STATE_H
#define ENGINE_PEER_CONTROL_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/alive.h"
#include "ctl/conn.h"
#include "sys/loop.h"

struct ctl_link;

struct peer_control {
	struct ctl_link *link; /* or NULL */
	uint32_t iface;	       /* as in engine_chan */
	bool full;	       /* it does not drain: the peer is about to end */
	int rival;	       /* the peer's own dial, which crossed ours and lost; or -1 */
	struct core_alive alive;
	struct sys_timer timer;
	uint64_t echo_ns;
	_Atomic int64_t rtt_ns;
	uint64_t acked_bytes; /* at the last look */
	int64_t stuck_ns;     /* since when its bytes are not acknowledged; or 0 */
	int64_t lost_ns;
	int64_t looked_ns;	    /* when the peer's channels were last looked at */
	uint64_t link_id;	    /* at the acceptor */
	uint8_t key[CTL_KEY_BYTES]; /* of the session between the two */
};

#endif

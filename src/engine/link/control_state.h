/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's control link, and the signs of life that it carries. Control thread, except for the
 * round-trip time. */
#ifndef ENGINE_LINK_CONTROL_STATE_H
#define ENGINE_LINK_CONTROL_STATE_H

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
	bool full;	       /* the peer does not read it, and is about to be given up */
	int lost_dial_fd;      /* the peer's simultaneous dial, which lost against ours; or -1 */
	struct core_alive alive;
	struct sys_timer timer;
	uint64_t echo_ns;
	_Atomic int64_t rtt_ns;
	uint64_t acked_bytes; /* at the last look */
	int64_t stuck_ns;     /* time since which nothing is acknowledged; or 0 */
	int64_t lost_ns;
	int64_t looked_ns;	    /* when the peer's channels were last looked at */
	uint64_t link_id;	    /* names the link in dials to the acceptor */
	uint8_t key[CTL_KEY_BYTES]; /* authenticates further dials of this link */
};

#endif

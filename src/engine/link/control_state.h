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
	struct ctl_link *link; /* the control connection; NULL: it is down */
	uint32_t iface;	       /* as in engine_chan */
	/* the peer does not read the connection, and is about to be given up */
	bool full;
	/* the connection that the peer dialled at the same time and that is not used; or -1 */
	int lost_dial_fd;
	struct core_alive alive;
	struct sys_timer timer;
	uint64_t echo_ns;
	_Atomic int64_t rtt_ns;
	uint64_t acked_bytes; /* acknowledged bytes when they were looked at last */
	int64_t stuck_ns;     /* since when nothing is acknowledged; 0: something is */
	int64_t lost_ns;
	int64_t looked_ns;	    /* when the peer's channels were last looked at */
	uint64_t link_id;	    /* names this link in dials to the accepting side */
	uint8_t key[CTL_KEY_BYTES]; /* authenticates further connections of this link */
};

#endif

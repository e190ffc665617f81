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
	uint32_t iface;	       /* index of the interface of its local address; 0: none */
	/* the peer does not read the connection, so a frame could not be sent; the peer is about to
	 * be given up */
	bool full;
	/* a connection that the peer dialled at the same time and that is not used; -1: none */
	int lost_dial_fd;
	struct core_alive alive;
	struct sys_timer timer;
	uint64_t echo_ns;	/* time in the peer's last heartbeat, which is sent back to it */
	_Atomic int64_t rtt_ns; /* the last round-trip time of a heartbeat */
	uint64_t acked_bytes;	/* acknowledged bytes when they were looked at last */
	/* since when bytes that were sent are not acknowledged; 0: they are, or there are none */
	int64_t stuck_ns;
	int64_t lost_ns;	    /* when the control connection was lost */
	int64_t looked_ns;	    /* when the peer's channels were last looked at */
	uint64_t link_id;	    /* names this link in dials to the accepting side */
	uint8_t key[CTL_KEY_BYTES]; /* authenticates further connections of this link */
};

#endif

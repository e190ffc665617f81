/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's control link, and the heartbeats on it. Only the control thread uses the struct, except
 * for rtt_ns. */
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
	uint32_t iface;	       /* index of the interface of the link's local address; 0: none */
	/* a frame could not be sent, because the peer does not read the connection; the peer will
	 * be given up */
	bool full;
	/* an unused connection that the peer dialled while this side dialled, too; -1: none */
	int lost_dial_fd;
	struct core_alive alive;
	struct sys_timer timer;
	uint64_t echo_ns;	/* time stamp of the peer's last heartbeat, to be sent back */
	_Atomic int64_t rtt_ns; /* the last round-trip time of a heartbeat */
	uint64_t acked_bytes;	/* bytes acknowledged on this connection at the last check */
	/* since when bytes have waited for an acknowledgement and none has come; 0: none wait, or
	 * some were acknowledged at the last check */
	int64_t stuck_ns;
	int64_t lost_ns;	    /* when the control connection was lost */
	int64_t looked_ns;	    /* when the peer's channels were last checked */
	uint64_t link_id;	    /* identifies the link in further dials to the accepting side */
	uint8_t key[CTL_KEY_BYTES]; /* authenticates further connections of this link */
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The rails of a session, and what the dialling side of a link knows about the rails to its
 * peer. */
#ifndef ENGINE_LINK_RAIL_STATE_H
#define ENGINE_LINK_RAIL_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/link.h"

#define ENGINE_RAILS_MAX 16

struct ctl_dial;

/* The local NICs that channels use. Constant once the options are set, except `said`. */
struct session_rails {
	struct sockaddr_storage at[ENGINE_RAILS_MAX];
	uint32_t count;
	bool named; /* the option `bind` names the rails */
	/* bind is "auto" or excludes interfaces, so other source addresses may be used as well */
	bool any_source;
	uint32_t said; /* control thread: bits of the rails whose failure is in the log */
};

/* What is known of one rail to the peer. Control thread, like all that follows. */
struct peer_rail {
	bool dead; /* the last attempt did not reach the peer */
	bool back; /* the rail works again, and channels that left it are to return */
	/* largest payload of a packet, if full-sized ones are lost; else 0 */
	uint16_t segment_bytes;
	uint32_t tries;	 /* failed attempts; each one doubles the pause before the next */
	int64_t due_ns;	 /* when a dead rail is tried again */
	int64_t back_ns; /* when the rail last began to work again */
};

/* Whether full-sized packets of a channel arrive (path_mtu.c). Both sides. */
struct path_hole {
	uint32_t epoch;
	/* timeouts that TCP must count while the channel stalls; 0: not known yet */
	uint32_t timeouts;
	uint8_t in_vain; /* connections of the channel in a row on which nothing was acknowledged */
	uint16_t told;	 /* largest payload that this side's fence asks of the dialler; 0: none */
	uint64_t acked_bytes;
	/* when this epoch was first seen; since when nothing more is acknowledged although bytes
	 * wait for it */
	int64_t began_ns, stalled_ns;
	int64_t seen_ns; /* when the stall was first seen, or 0 if there is none */
};

struct peer_rails {
	/* the last entry: sources that belong to no rail */
	struct peer_rail at[ENGINE_RAILS_MAX + 1];
	struct path_hole holes[CORE_CHANNELS_MAX];
	bool segments_told, hole_said;
	/* acknowledged bytes of the control connection, when they were looked at last */
	uint64_t ctl_acked_bytes;
	int64_t ctl_looked_ns; /* when ctl_acked_bytes was looked at */
	/* a time after which more bytes of the control connection were acknowledged */
	int64_t ctl_answered_ns;
	/* until this time channels that were given up are being dialled again */
	int64_t replacing_ns;
	uint8_t of_channel[CORE_CHANNELS_MAX]; /* the rail over which each channel was dialled */
	/* the dial that tries the rail `probed`; NULL: none */
	struct ctl_dial *probe;
	uint32_t probed;
	/* local address of the control connection; no family: it is not bound to one */
	struct sockaddr_storage local;
	/* when the dial of the control connection began; how long the attempt that won took */
	int64_t dialled_ns, took_ns;
};

#endif

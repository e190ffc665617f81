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
	/* `bind` names "auto" or excludes interfaces, so other source addresses may be used, too */
	bool any_source;
	uint32_t said; /* control thread: bit mask of the rails whose failure was logged */
};

/* What is known of one rail to the peer. Only the control thread uses this struct and those
 * below. */
struct peer_rail {
	/* the rail is avoided: a dial over it failed or was slower than one over another route, or
	 * its interface has no carrier */
	bool dead;
	bool back; /* the rail works again, and channels that left it must return */
	/* largest payload of a packet on this rail if full-sized packets are lost; else 0 */
	uint16_t segment_bytes;
	uint32_t tries;	 /* failed attempts; each one doubles the pause before the next */
	int64_t due_ns;	 /* when a dead rail is tried again */
	int64_t back_ns; /* when the rail last began to work again */
};

/* Observations that tell whether full-sized packets of a channel arrive (peer/path_mtu.c). Kept by
 * both sides of a link. */
struct path_hole {
	uint32_t epoch;
	/* how many timeouts TCP must count before the stall is taken for a loss of full-sized
	 * packets; 0: not known yet */
	uint32_t timeouts;
	/* number of consecutive connections of the channel on which next to nothing was
	 * acknowledged */
	uint8_t in_vain;
	/* largest packet payload that this side's fence asks the dialling side to use; 0: no
	 * limit */
	uint16_t told;
	uint64_t acked_bytes;
	/* when this epoch was first seen; last check at which bytes had been acknowledged or none
	 * were waiting */
	int64_t began_ns, progress_ns;
	int64_t seen_ns; /* when the stall was first seen; 0 without a stall */
};

struct peer_rails {
	/* the last entry is for source addresses that belong to no rail */
	struct peer_rail at[ENGINE_RAILS_MAX + 1];
	struct path_hole holes[CORE_CHANNELS_MAX];
	bool segments_told, hole_said;
	/* acknowledged bytes of the control connection at the last check */
	uint64_t ctl_acked_bytes;
	int64_t ctl_looked_ns; /* time of the last check of ctl_acked_bytes */
	/* time of the last check of ctl_acked_bytes after which these bytes grew */
	int64_t ctl_answered_ns;
	/* until this time the peer stays up without channels, since they are being replaced */
	int64_t replacing_ns;
	uint8_t of_channel[CORE_CHANNELS_MAX]; /* the rail over which each channel was dialled */
	/* the dial that tests whether the rail `probed` works; NULL: none */
	struct ctl_dial *probe;
	uint32_t probed;
	/* local address of the control connection; ss_family 0: not bound to an address */
	struct sockaddr_storage local;
	/* when the dial of the control connection began; how long the attempt that succeeded
	 * took */
	int64_t dialled_ns, took_ns;
};

#endif

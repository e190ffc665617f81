/* SPDX-License-Identifier: Apache-2.0 */
/* The rails of a session, and what the dialling side of a link knows of them towards its peer. */
#ifndef ENGINE_LINK_RAIL_STATE_H
#define ENGINE_LINK_RAIL_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/link.h"

#define ENGINE_RAILS_MAX 16

struct ctl_dial;

/* Constant once the options are taken, except for `said`. */
struct session_rails {
	struct sockaddr_storage at[ENGINE_RAILS_MAX];
	uint32_t count;
	bool named;	 /* by the option bind */
	bool any_source; /* bind says "auto" or excludes interfaces: other sources will do, too */
	uint32_t said;	 /* control thread: rails, by bit, whose failure is in the log */
};

/* Of one peer. Control thread, as all that follows. */
struct peer_rail {
	bool dead;		/* the last attempt did not reach the peer */
	bool back;		/* it works again: its channels return to it */
	uint16_t segment_bytes; /* largest payload of a packet, if full ones are lost; or 0 */
	uint32_t tries;		/* failed attempts; each one delays the next longer */
	int64_t due_ns;		/* when a dead one is tried again */
	int64_t back_ns;
};

/* Whether full-sized packets of a channel arrive (path_mtu.c). Both sides. */
struct path_hole {
	uint32_t epoch;
	uint32_t timeouts; /* while it stalls: how many must come; 0: not known yet */
	uint8_t in_vain;   /* connections in a row that carried nothing */
	uint16_t told;	   /* largest payload, which the fence tells the dialler; or 0 */
	uint64_t acked_bytes;
	int64_t began_ns, stalled_ns;
	int64_t seen_ns; /* when the stall was first observed; 0: no stall */
};

struct peer_rails {
	struct peer_rail at[ENGINE_RAILS_MAX + 1]; /* the last: sources that are no rail */
	struct path_hole holes[CORE_CHANNELS_MAX];
	bool segments_told, hole_said;
	uint64_t ctl_acked_bytes; /* of the control link, at the last look */
	int64_t ctl_looked_ns;	  /* the time of that look */
	int64_t ctl_answered_ns;  /* more was acknowledged after this time */
	int64_t replacing_ns;	  /* until then, given-up channels are being dialled again */
	uint8_t of_channel[CORE_CHANNELS_MAX]; /* the rail that each channel was dialled over */
	struct ctl_dial *probe;		       /* the probe of the rail `probed`; or NULL */
	uint32_t probed;
	struct sockaddr_storage local; /* the control link is bound to it; no family: it is not */
	int64_t dialled_ns, took_ns;   /* when the first dial began, and how long it took */
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The rails of a session, and what the dialling side of a link knows of them towards its peer. */
#ifndef ENGINE_PEER_RAIL_STATE_H
#define ENGINE_PEER_RAIL_STATE_H

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
	bool dead;		/* it did not lead to the peer at the last attempt */
	bool back;		/* it does again: its channels come back to it */
	uint16_t segment_bytes; /* most payload of a packet, where full ones are lost; or 0 */
	uint32_t tries;		/* attempts in vain, which space the next one */
	int64_t due_ns;		/* when a dead one is tried again */
	int64_t back_ns;
};

/* What is known of full-sized packets on a channel (path_mtu.c). Both sides. */
struct path_hole {
	uint32_t epoch;
	uint32_t timeouts; /* of a stalled one, that have to come; 0: not known yet */
	uint8_t in_vain;   /* channels in a row that carried nothing */
	uint16_t told;	   /* what the dialler is to keep to, told with the fence */
	uint64_t acked_bytes;
	int64_t began_ns, stalled_ns;
	int64_t seen_ns; /* when the stall was first observed; 0: no stall */
};

struct peer_rails {
	struct peer_rail at[ENGINE_RAILS_MAX + 1]; /* the last: of sources that are no rail */
	struct path_hole holes[CORE_CHANNELS_MAX];
	bool segments_told, hole_said;
	uint64_t ctl_acked_bytes; /* of the control link, when it was looked at last */
	int64_t ctl_looked_ns;	  /* then */
	int64_t ctl_answered_ns;  /* more was acknowledged after this time */
	int64_t replacing_ns;	  /* until then channels that we gave up are dialled again */
	uint8_t of_channel[CORE_CHANNELS_MAX]; /* the rail that the channel was dialled over */
	struct ctl_dial *probe;		       /* of the rail probed */
	uint32_t probed;
	struct sockaddr_storage local; /* what the control link is bound to; no family: nothing */
	int64_t dialled_ns, took_ns;   /* when the first dial began; how long it took */
};

#endif

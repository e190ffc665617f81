/* SPDX-License-Identifier: Apache-2.0 */
/* What the dialling side of a link knows of its rails towards that peer. Control thread only. */
#ifndef ENGINE_RAIL_STATE_H
#define ENGINE_RAIL_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/link.h"

#define ENGINE_RAILS_MAX 16

struct ctl_dial;

struct peer_rail {
	bool dead;	/* it did not lead to the peer at the last attempt */
	bool back;	/* it does again: its channels come back to it */
	uint32_t tries; /* attempts in vain, which space the next one */
	int64_t due_ns; /* when a dead one is tried again */
	int64_t back_ns;
};

struct peer_rails {
	struct peer_rail at[ENGINE_RAILS_MAX];
	uint8_t of_channel[CORE_CHANNELS_MAX]; /* the rail that the channel was dialled over */
	struct ctl_dial *probe;		       /* of the rail probed */
	uint32_t probed;
	struct sockaddr_storage local; /* what the control link is bound to; no family: nothing */
	int64_t dialled_ns, took_ns;   /* when the first dial began; how long it took */
};

#endif

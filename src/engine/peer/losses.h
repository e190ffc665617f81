/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines about lost connections of a peer: one for all that end together. Control thread. */
#ifndef ENGINE_PEER_LOSSES_H
#define ENGINE_PEER_LOSSES_H

#include <stdint.h>

#define LOSSES_WHY_BYTES 320u

struct engine_peer;

/* What was lost and is not in the log yet. */
struct peer_losses {
	uint32_t channels;	    /* their number */
	const char *control;	    /* why the control link was lost; or NULL */
	int64_t since_ns;	    /* the first of them */
	char why[LOSSES_WHY_BYTES]; /* the first channel, and why it was lost */
};

void losses_add_channel(struct engine_peer *peer, const char *why);
void losses_add_control(struct engine_peer *peer, const char *why);
/* Each beat: logs losses that the peer outlived. */
void losses_look(struct engine_peer *peer, int64_t now_ns);
/* Logs them now. */
void losses_log(struct engine_peer *peer);
/* The line about the peer's end covers them. Returns the number of channels. */
uint32_t losses_take(struct engine_peer *peer);

#endif

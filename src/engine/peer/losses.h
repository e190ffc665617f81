/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines about lost connections of a peer: one for all that end together. Control thread. */
#ifndef ENGINE_PEER_LOSSES_H
#define ENGINE_PEER_LOSSES_H

#include <stdint.h>

struct engine_peer;

void losses_add_channel(struct engine_peer *peer, const char *why);
void losses_add_control(struct engine_peer *peer, const char *why);
/* Each beat: logs losses that the peer outlived. */
void losses_look(struct engine_peer *peer, int64_t now_ns);
/* Logs them now. */
void losses_log(struct engine_peer *peer);
/* The line about the peer's end covers them. Returns the number of channels. */
uint32_t losses_take(struct engine_peer *peer);

#endif

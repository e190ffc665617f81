/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines about lost connections of a peer: one line for all that are lost together. Control
 * thread. */
#ifndef ENGINE_PEER_LOSSES_H
#define ENGINE_PEER_LOSSES_H

#include <stdint.h>

struct engine_peer;

void losses_add_channel(struct engine_peer *peer, const char *why);
void losses_add_control(struct engine_peer *peer, const char *why);
/* At each heartbeat: logs losses that the peer has survived. */
void losses_look(struct engine_peer *peer, int64_t now_ns);
/* Logs the losses that wait, now. */
void losses_log(struct engine_peer *peer);
/* The line about the peer's end covers the losses that wait: forgets them, and returns the number
 * of channels. */
uint32_t losses_take(struct engine_peer *peer);

#endif

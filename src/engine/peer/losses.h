/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines about lost connections of a peer: one line for all that are lost together. Control
 * thread. */
#ifndef ENGINE_PEER_LOSSES_H
#define ENGINE_PEER_LOSSES_H

#include <stdint.h>

struct engine_peer;

/* Notes the loss of a channel, or of the control connection, for a later log line. */
void losses_add_channel(struct engine_peer *peer, const char *why);
void losses_add_control(struct engine_peer *peer, const char *why);
/* At each heartbeat: logs losses that are older than 200 ms, which the peer has survived. */
void losses_look(struct engine_peer *peer, int64_t now_ns);
/* Logs at once the losses that are noted. */
void losses_log(struct engine_peer *peer);
/* The peer has ended, and one log line says so: forgets the losses that are noted, so that they
 * are not logged. Returns how many of them were channels. */
uint32_t losses_take(struct engine_peer *peer);

#endif

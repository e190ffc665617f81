/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines about lost connections of a peer: one for all channels that are lost together, and one
 * for the control connection. Control thread. */
#ifndef ENGINE_PEER_LOSSES_H
#define ENGINE_PEER_LOSSES_H

#include <stdint.h>

struct engine_peer;

/* Notes the loss of a channel, or of the control connection, for a later log line. */
void losses_add_channel(struct engine_peer *peer, const char *why);
void losses_add_control(struct engine_peer *peer, const char *why);
/* Called at each heartbeat: logs the noted losses once they are 200 ms old. The peer has then
 * survived them. */
void losses_look(struct engine_peer *peer, int64_t now_ns);
/* Logs at once the losses that are noted. */
void losses_log(struct engine_peer *peer);
/* Forgets the noted losses without logging them, for example because the end of the peer has a log
 * line of its own. Returns how many of the losses were channels. */
uint32_t losses_forget(struct engine_peer *peer);

#endif

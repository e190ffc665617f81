/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that silently lose full-sized packets: their channels go on with smaller ones. */
#ifndef ENGINE_PEER_PATH_MTU_H
#define ENGINE_PEER_PATH_MTU_H

#include "engine/peer/peer_calls.h"
#include "engine/peer/peer_route.h"

/* Largest payload of a packet on a control link: every IP path carries it. */
uint16_t path_mtu_control(const struct peer_way *way);
/* The same for a channel over the rail. 0: the kernel chooses. */
uint16_t path_mtu_channel(const struct engine_peer *peer, uint32_t rail);
/* Notes the addresses of the channel's two ends. Called before a worker serves the channel. */
void path_mtu_ends(struct engine_chan *chan);
/* At each heartbeat, after carrier_look(): replaces a channel whose full-sized packets are lost.
 * If that does not help, the peer ends. */
void path_mtu_look(struct engine_peer *peer, int64_t now_ns);
/* Called for a channel that is given up because nothing is acknowledged. True: the channels
 * before it carried nothing either, so the peer has ended. */
bool path_mtu_in_vain(struct engine_peer *peer, struct engine_chan *chan);
/* Number of channels that have been up for a while, so that others may be replaced. */
uint32_t path_mtu_settled(const struct engine_peer *peer, int64_t now_ns);
/* Gives up a channel. It is dialled again, and the peer stays up. */
void path_mtu_replace(struct engine_chan *chan, int err);
/* The largest payload of a packet that a channel's fence asks of the dialling side; and what that
 * side does about it. */
uint16_t path_mtu_told(const struct engine_peer *peer, uint32_t channel);
void path_mtu_take(struct engine_peer *peer, uint32_t channel, uint64_t bytes);

#endif

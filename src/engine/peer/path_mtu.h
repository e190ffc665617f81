/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that lose full-sized packets in silence: their channels go on with smaller ones. */
#ifndef ENGINE_PEER_PATH_MTU_H
#define ENGINE_PEER_PATH_MTU_H

#include "engine/engine.h"
#include "engine/peer/peer_route.h"

/* The most payload of a packet on a control link: it fits into what every IP path carries. */
uint16_t path_mtu_control(const struct peer_way *way);
/* The same of a data channel by that rail; 0: as the kernel has it. */
uint16_t path_mtu_channel(const struct engine_peer *peer, uint32_t rail);
/* Before its worker has the channel. */
void path_mtu_ends(struct engine_chan *chan);
/* Each beat, behind carrier_look: a channel whose full packets are lost is replaced; without
 * success the peer ends. */
void path_mtu_look(struct engine_peer *peer, int64_t now_ns);
/* Of a channel that is given up as unanswered: true when that ended the peer, since those before
 * it carried nothing either. */
bool path_mtu_in_vain(struct engine_peer *peer, struct engine_chan *chan);
/* Channels that both ends have had for a while, so that others can be replaced. */
uint32_t path_mtu_settled(const struct engine_peer *peer, int64_t now_ns);
/* Gives a channel up that is dialled again, while the peer lives on. */
void path_mtu_replace(struct engine_chan *chan, int err);
/* What the fence of a channel tells the dialler to keep to, and the dialler's end of it. */
uint16_t path_mtu_told(const struct engine_peer *peer, uint32_t channel);
void path_mtu_take(struct engine_peer *peer, uint32_t channel, uint64_t bytes);

#endif

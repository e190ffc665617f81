/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that silently lose full-sized packets: channels over them go on with smaller packets.
 * Control thread. */
#ifndef ENGINE_PEER_PATH_MTU_H
#define ENGINE_PEER_PATH_MTU_H

#include "engine/peer/peer_calls.h"
#include "engine/peer/peer_route.h"

/* The largest payload of a packet on a control link, so small that every IP path carries it. */
uint16_t path_mtu_control(const struct peer_way *way);
/* The largest payload of a packet of a new channel over the rail. 0: the kernel chooses. */
uint16_t path_mtu_channel(const struct engine_peer *peer, uint32_t rail);
/* Notes the addresses of the channel's two ends. Called before a worker serves the channel. */
void path_mtu_ends(struct engine_chan *chan);
/* Called at each heartbeat, after carrier_look(): replaces channels whose full-sized packets are
 * lost. If that does not help, the peer ends. */
void path_mtu_look(struct engine_peer *peer, int64_t now_ns);
/* Called for a channel that is given up because nothing is acknowledged. True: too many of its
 * connections in a row carried almost nothing, so the peer has ended. */
bool path_mtu_in_vain(struct engine_peer *peer, struct engine_chan *chan);
/* Number of channels, other than those of a plugin, that have worked for a second. If there are
 * two, one may be replaced. */
uint32_t path_mtu_settled(const struct engine_peer *peer, int64_t now_ns);
/* Gives up a channel, which is then dialled again. For a while the peer stays up even if no
 * channel is left. */
void path_mtu_replace(struct engine_chan *chan, int err);
/* told: the largest payload of a packet that the channel's fence asks the dialling side to use;
 * 0: none. take: at the dialling side, limits the channel's rail to what a fence asks. */
uint16_t path_mtu_told(const struct engine_peer *peer, uint32_t channel);
void path_mtu_take(struct engine_peer *peer, uint32_t channel, uint64_t bytes);

#endif

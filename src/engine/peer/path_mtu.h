/* SPDX-License-Identifier: Apache-2.0 */
/* Detects paths that silently lose full-sized packets, and replaces the channels over them by
 * channels with smaller packets. Control thread. */
#ifndef ENGINE_PEER_PATH_MTU_H
#define ENGINE_PEER_PATH_MTU_H

#include "engine/peer/peer_calls.h"
#include "engine/peer/peer_route.h"

/* Returns the largest payload of a packet on a control connection. It is so small that in practice
 * every path carries such packets. */
uint16_t path_mtu_control(const struct peer_route *route);
/* Returns the largest payload of a packet of a new channel over the rail, or 0 if the kernel
 * chooses. */
uint16_t path_mtu_channel(const struct engine_peer *peer, uint32_t rail);
/* Stores the addresses of the channel's two ends. Called before a worker serves the channel. */
void path_mtu_ends(struct engine_chan *chan);
/* Called at each heartbeat, after carrier_look(): replaces channels whose full-sized packets are
 * lost. If that does not help, ends the peer. */
void path_mtu_look(struct engine_peer *peer, int64_t now_ns);
/* Called for a channel that is given up because nothing is acknowledged. If too many successive
 * connections of the channel carried almost nothing, ends the peer and returns true. */
bool path_mtu_in_vain(struct engine_peer *peer, struct engine_chan *chan);
/* Returns how many channels, not counting those of plugins, have worked for at least a second. If
 * there are two or more, one of them may be replaced. */
uint32_t path_mtu_settled(const struct engine_peer *peer, int64_t now_ns);
/* Gives up a channel, which is then dialled again. For 10 s the peer stays up even if it has only
 * its control connection left. */
void path_mtu_replace(struct engine_chan *chan, int err);
/* path_mtu_requested() returns the packet payload to which the channel's fence asks the dialling
 * side to limit itself, or 0 for no limit. path_mtu_apply() limits the channel's rail to the value
 * of a fence that has arrived; it does nothing at the accepting side. */
uint16_t path_mtu_requested(const struct engine_peer *peer, uint32_t channel);
void path_mtu_apply(struct engine_peer *peer, uint32_t channel, uint64_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames whose payload went to the transport without a copy: the kernel, on one host even the
 * peer's socket, goes on reading the slices they lie in. They stay as they are until the peer has
 * acknowledged the frame; of a lost channel until its fence is through, which says that the peer
 * takes nothing of it any more; of a dead peer until the socket is closed and its queue thrown away
 * (docs/design/zerocopy.md).
 */
#ifndef ENGINE_HOLD_H
#define ENGINE_HOLD_H

#include "engine/engine.h"

void hold_peer_init(struct engine_peer *peer);
void hold_chan_init(struct engine_chan *chan);

/* peer.lock, behind prefill_claim: the frame just cut may go without a copy. False: it may not. */
bool hold_frame(struct engine_chan *chan);

/* peer.lock: acknowledgements came on the channel. */
void hold_got(struct engine_chan *chan);

/* Control thread, no lock: the channel is stopped. */
void hold_lost(struct engine_chan *chan);
/* peer.lock: the fence of a lost channel is through. */
void hold_fenced(struct engine_peer *peer, uint32_t channel);
/* Control thread, no lock: the peer is dead and its channels are stopped. */
void hold_dead(struct engine_peer *peer);

/* No lock held: lets go of what is over. */
void hold_flush(struct engine_peer *peer);

/* The channel is going to be closed, by purge if this returns true; then nobody reads any more. */
bool hold_any(const struct engine_chan *chan);
void hold_closed(struct engine_chan *chan);

#endif

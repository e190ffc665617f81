/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames whose payload went to the transport without a copy: the kernel, on one host even the
 * peer's socket, goes on reading the slices they lie in. They stay as they are until the peer has
 * said that it took the frame out of its transport; of a lost channel until its fence is through,
 * which says that the peer takes nothing of it any more; of a dead peer until its end of the
 * connection is closed or gone, or for HOLD_DEAD_NS and then until the connection is reset
 * (docs/design/zerocopy.md).
 */
#ifndef ENGINE_LINK_HOLD_H
#define ENGINE_LINK_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct engine_chan;
struct engine_peer;
struct engine_runtime;

/* Of one link; its lock. */
struct link_pins {
	struct list_node lost;	 /* stopped channels with frames that are held */
	struct list_node fenced; /* of them those whose fence is through */
	struct list_node unheld; /* frames that are held no more */
};

void hold_peer_init(struct engine_peer *peer);
void hold_chan_init(struct engine_chan *chan);

/* peer.lock, behind prefill_claim: the frame just cut may go without a copy. False: it may not. */
bool hold_frame(struct engine_chan *chan);

/* peer.lock: acknowledgements came on the channel. */
void hold_got(struct engine_chan *chan);

/* Control thread, no lock: the channel is stopped. Takes a reference while something is held. */
void hold_lost(struct engine_chan *chan);
/* peer.lock: the fence of a lost channel is through. */
void hold_fenced(struct engine_peer *peer, uint32_t channel);
/* Control thread, no lock: the peer is dead, these channels (CORE_CHANNELS_MAX, NULL: none) of it
 * are stopped. */
void hold_dead(struct engine_peer *peer, struct engine_chan *const *chans);

/* No lock held: lets go of what is over. */
void hold_flush(struct engine_peer *peer);

void hold_init(struct engine_runtime *runtime);
void hold_stop(struct engine_runtime *runtime);

#endif

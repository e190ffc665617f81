/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zero-copy pins: the payload of a frame was given to the transport without a copy, so the kernel,
 * on one host even the peer's socket, still reads the slices that hold it. A pin keeps them until
 * the peer says that it has taken the frame out of its transport. On a lost channel pins end with
 * its fence, after which the peer takes nothing more from it. Those of a dead peer end when its end
 * of the connection is closed or gone, or after HOLD_DEAD_NS with a reset of the connection
 * (docs/design/zerocopy.md).
 */
#ifndef ENGINE_LINK_HOLD_H
#define ENGINE_LINK_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct engine_chan;
struct engine_peer;

/* The pins of a link; link.lock. */
struct link_pins {
	/* stopped channels with pinned frames, whose fence has not arrived */
	struct list_node lost;
	struct list_node fenced; /* stopped channels whose fence has arrived */
	struct list_node unheld; /* pins that have ended */
};

void hold_peer_init(struct engine_peer *peer);
void hold_chan_init(struct engine_chan *chan);

/* Under link.lock, after prefill_claim(): pins the slices of the frame that was just cut. False:
 * the frame cannot go without a copy, and nothing is pinned. */
bool hold_frame(struct engine_chan *chan);

/* Under link.lock, after acknowledgements arrived on the channel: ends the pins of frames that the
 * peer has taken. hold_flush() releases their slices. */
void hold_got(struct engine_chan *chan);

/* Control thread, no lock held: the channel has stopped. Keeps it as long as frames of it are
 * pinned, unless the core has ended. */
void hold_lost(struct engine_chan *chan);
/* Under link.lock: the peer's fence of a lost channel has arrived, so all pins of the channel
 * end. */
void hold_fenced(struct engine_peer *peer, uint32_t channel);
/* Control thread, no lock held: the peer is dead and its channels are stopped. Releases its pins as
 * soon as the peer reads the memory no more. chans: CORE_CHANNELS_MAX entries; NULL: no channel. */
void hold_dead(struct engine_peer *peer, struct engine_chan *const *chans);

/* No lock held: releases the slices of pins that have ended. */
void hold_flush(struct engine_peer *peer);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zero-copy pins. When a payload was given to the transport without a copy, the kernel still reads
 * the slices that hold the payload; if both ends are on one host, the peer's socket reads them,
 * too. A pin keeps the slices until the peer reports that it has taken the frame out of its
 * transport. The pins of a lost channel end with the peer's fence, after which the peer takes
 * nothing more from the channel. The pins of a dead peer end when the peer's end of the connection
 * is closed, or after HOLD_DEAD_NS, when this side resets the connection (docs/design/zerocopy.md).
 */
#ifndef ENGINE_LINK_HOLD_H
#define ENGINE_LINK_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct engine_chan;
struct engine_peer;

/* The pins of a link. Guarded by link.lock. */
struct link_pins {
	/* stopped channels that have pinned frames and wait for the peer's fence */
	struct list_node lost;
	struct list_node fenced; /* stopped channels whose fence from the peer has arrived */
	struct list_node unheld; /* pins that have ended; hold_flush() releases them */
};

void hold_peer_init(struct engine_peer *peer);
void hold_chan_init(struct engine_chan *chan);

/* Pins the slices that hold the payload of chan->tx.frame, until the peer has taken the frame.
 * Returns false if nothing is pinned; then the payload must be sent with a copy. Called under
 * link.lock, after prefill_claim() has returned the slices. */
bool hold_frame(struct engine_chan *chan);

/* Called under link.lock when a frame has arrived on the channel, since the frame may say which
 * frames the peer has taken. Ends the pins of those; hold_flush() releases their slices. */
void hold_got(struct engine_chan *chan);

/* Called by the control thread, with no lock held, when the channel has stopped. Keeps the channel
 * while its frames are pinned. Does nothing if the peer is dead, since hold_dead() follows. */
void hold_lost(struct engine_chan *chan);
/* Called under link.lock when the peer's fence of a lost channel has arrived and this end has sent
 * its own. Ends all pins of the channel. */
void hold_fenced(struct engine_peer *peer, uint32_t channel);
/* Called by the control thread, with no lock held, when the peer is dead and its channels have
 * stopped. Releases the peer's pins as soon as the peer no longer reads the memory. `chans` has
 * CORE_CHANNELS_MAX entries; an entry is NULL if there is no channel. */
void hold_dead(struct engine_peer *peer, struct engine_chan *const *chans);

/* Releases the slices of pins that have ended, and the channels in `fenced`. Called with no lock
 * held. */
void hold_flush(struct engine_peer *peer);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that vanishes while a request uses it: copies that fail instead of crashing, and the error
 * text. */
#ifndef ENGINE_LINK_VANISH_H
#define ENGINE_LINK_VANISH_H

#include "engine/link/engine.h"

/* Called by the owner of the channel's send direction. Copies pieces of the frame's payload to
 * `out`. Returns false if memory of the pieces has vanished; this is checked only if tx->vanishing
 * is set. */
bool vanish_gather(const struct chan_tx *tx, const struct iovec *iov, uint32_t n, uint8_t *out);

/* Called when the pieces in `iov`, of the channel's current frame, could not be read
 * (vanish_source()) or written (vanish_sink()), because memory has vanished. Logs the first address
 * in `iov` that cannot be read, or the start of `iov` if all of it can be read. Only a few such
 * lines are logged. If the frame belongs to a request of this side, stores the address for that
 * request's error text. The caller holds references to the frame's regions, and no lock. */
void vanish_source(struct engine_chan *chan, const struct iovec *iov, uint32_t n);
void vanish_sink(struct engine_chan *chan, const struct iovec *iov, uint32_t n);

/* Writes to `out` the part of a request's error text that tells of vanished memory: "" or ", whose
 * ...". Called under link.lock. */
void vanish_words(const struct engine_request *request, char *out, size_t bytes);

#endif

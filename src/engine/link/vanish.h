/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is gone under a request: copies that end there, and the words for it. */
#ifndef ENGINE_LINK_VANISH_H
#define ENGINE_LINK_VANISH_H

#include "engine/engine.h"

/* tx owner: pieces of the frame's own memory to out. False: some of it is gone. */
bool vanish_gather(const struct chan_tx *tx, const struct iovec *iov, uint32_t n, uint8_t *out);

/* The frame under way cannot be read from, or written to, where the first of the pieces that is
 * gone lies: one line in the log, and the request of ours whose frame it is can say so. The frame's
 * regions are held. No lock held. */
void vanish_source(struct engine_chan *chan, const struct iovec *iov, uint32_t n);
void vanish_sink(struct engine_chan *chan, const struct iovec *iov, uint32_t n);

/* What the error of a request says of memory that was gone: "" or ", whose ...". peer.lock. */
void vanish_words(const struct engine_request *request, char *out, size_t bytes);

#endif

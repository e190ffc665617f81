/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that vanishes while a request uses it: copies that stop there, and the error text. */
#ifndef ENGINE_LINK_VANISH_H
#define ENGINE_LINK_VANISH_H

#include "engine/link/engine.h"

/* Called by the channel's tx owner: copies pieces of the frame's own memory to `out`. False: a
 * part of it is gone. Checks this only if tx->vanishing is set. */
bool vanish_gather(const struct chan_tx *tx, const struct iovec *iov, uint32_t n, uint8_t *out);

/* A part of these pieces, which belong to the frame under way, is gone and cannot be read or
 * written. Logs the first such address, and keeps it for the error of the request if that is one
 * of this side. The caller holds references to the frame's regions, and no lock. */
void vanish_source(struct engine_chan *chan, const struct iovec *iov, uint32_t n);
void vanish_sink(struct engine_chan *chan, const struct iovec *iov, uint32_t n);

/* The part of a request's error text about memory that is gone: "" or ", whose ...". Under
 * link.lock. */
void vanish_words(const struct engine_request *request, char *out, size_t bytes);

#endif

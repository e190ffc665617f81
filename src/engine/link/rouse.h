/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes workers before their work is there. A worker that sleeps needs 40 to 90 us to wake up, and
 * without this a transfer after a rest would wait for that in each of its steps. A roused worker
 * waits for its work awake, for a limited time. Nobody is roused where cores are few
 * (worker_rouse). */
#ifndef ENGINE_LINK_ROUSE_H
#define ENGINE_LINK_ROUSE_H

#include <stdbool.h>
#include <stdint.h>

struct engine_peer;
struct engine_request;

/* Called under link.lock. Wakes the workers that will soon send `bytes` bytes of a staged source:
 * those of the channels that the core kicks next. */
void rouse_senders(struct engine_peer *peer, uint64_t bytes);

/* Called under link.lock when the request was posted. If it is a READ whose answer comes on several
 * bulk channels, notes the time. Returns whether rouse_reader() must be called when the lock is
 * free, because it is the first such READ after a rest. */
bool rouse_expects(const struct engine_request *request);
/* Called with no lock held. Wakes one worker, which calls rouse_receivers(). A thread that posts
 * wakes no more than one, because a second wake-up would often take the processor from it. */
void rouse_reader(struct engine_peer *peer);
/* Called with no lock held by the worker that rouse_reader() woke. Rouses the workers of all bulk
 * channels of the peer, because the channels that will carry the answer are not known. */
void rouse_receivers(struct engine_peer *peer);

#endif

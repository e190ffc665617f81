/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes workers before their work is there (rouse.h). */
#include "engine/link/rouse.h"

#include "base/clock.h"
#include "engine/link/engine.h"

#define SENDERS_MOST 8u		    /* most workers that are woken for the first slices */
#define SENDERS_NS (300 * 1000ll)   /* longest time from the begin of a slice until it is filled */
#define RECEIVERS_NS (600 * 1000ll) /* longest time from the post of a READ to the first bytes */
#define REST_NS (20 * CLOCK_MS_NS)  /* a READ that follows another one later is after a rest */
/* A worker is roused for receiving once in this time, so that it waits awake for at most 3 % of its
 * time, whatever the number of peers. */
#define EVERY_NS (20 * CLOCK_MS_NS)
#define READ_BYTES (256u << 10) /* smallest READ for which workers are roused */

void rouse_senders(struct engine_peer *peer, uint64_t bytes)
{
	uint64_t chunks = bytes / CORE_FIRST_CHUNK;

	for (uint32_t i = 0; i < SENDERS_MOST && i < chunks; i++) {
		struct engine_chan *chan = peer->link.chan[core_fill_chan(&peer->link.core, i)];

		if (chan && !chan->comms)
			worker_rouse(chan->worker, SENDERS_NS, 0);
	}
}

bool rouse_expects(const struct engine_request *request)
{
	const struct core_xfer *xfer = &request->xfer;
	struct link_rouse *rouse = &request->peer->link.rouse;
	int64_t before_ns = rouse->read_ns;

	if (xfer->op != TCPX_OP_READ || request->segs.total < READ_BYTES || xfer->by_prio ||
	    xfer->direct || xfer->path != CORE_PATH_STREAM)
		return false;
	rouse->read_ns = request->posted_ns;
	return rouse->read_ns - before_ns >= REST_NS;
}

void rouse_reader(struct engine_peer *peer)
{
	struct engine_chan *chan = NULL;

	link_lock(&peer->link);
	for (uint32_t i = 1; i < CORE_CHANNELS_MAX && !chan; i++)
		if (peer->link.chan[i] && !peer->link.chan[i]->comms)
			chan = peer_chan_get(peer, i);
	link_unlock_only(&peer->link);
	if (!chan)
		return;
	if (chan->worker->roomy) {
		atomic_store(&peer->link.rouse.due, true);
		worker_look(chan);
	}
	chan_put(chan);
}

void rouse_receivers(struct engine_peer *peer)
{
	struct engine_worker *workers[CORE_CHANNELS_MAX];
	uint32_t n = 0;

	if (!atomic_load_explicit(&peer->link.rouse.due, memory_order_relaxed) ||
	    !atomic_exchange(&peer->link.rouse.due, false))
		return;
	link_lock(&peer->link);
	for (uint32_t i = 1; i < CORE_CHANNELS_MAX; i++)
		if (peer->link.chan[i] && !peer->link.chan[i]->comms)
			workers[n++] = peer->link.chan[i]->worker;
	link_unlock_only(&peer->link);
	for (uint32_t i = 0; i < n; i++)
		worker_rouse(workers[i], RECEIVERS_NS, EVERY_NS);
}

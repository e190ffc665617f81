/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of the transport's figures, taken by the channel's worker. Other threads take no samples:
 * they might have to wait for a call under way, and that call may wait for a page of the
 * application's memory. */
#include <limits.h>

#include "base/clock.h"
#include "engine/channel/chan_calls.h"
#include "sys/futex.h"

/* how long chan_sample_all() waits for a sample */
#define SAMPLE_WAIT_NS (100 * CLOCK_MS_NS)

bool chan_sample_ask(struct engine_chan *chan)
{
	if (atomic_exchange(&chan->sample.asked, 1))
		return false;
	atomic_store(&chan->sample.asked_ns, clock_now_ns());
	worker_look(chan);
	return true;
}

static void sample_answered(struct engine_chan *chan)
{
	atomic_store(&chan->sample.asked, 0);
	sys_futex_wake(&chan->sample.asked, INT_MAX);
}

void chan_sample_drop(struct engine_chan *chan)
{
	sample_answered(chan);
}

void chan_sample_take(struct engine_chan *chan)
{
	struct net_chan_info info = {0};

	if (!atomic_load(&chan->sample.asked) || !chan_tx_try(chan))
		return;
	chan->net->ops->info(chan->net, &info);
	pthread_mutex_lock(&chan->sample.lock);
	chan->sample.info = info;
	pthread_mutex_unlock(&chan->sample.lock);
	sample_answered(chan);
	chan_tx_leave(chan);
}

void chan_sample_read(struct engine_chan *chan, struct net_chan_info *out_info)
{
	pthread_mutex_lock(&chan->sample.lock);
	*out_info = chan->sample.info;
	pthread_mutex_unlock(&chan->sample.lock);
}

void chan_sample_all(struct engine_chan *const *chans, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		(void)chan_sample_ask(chans[i]);
	for (uint32_t i = 0; i < count; i++) {
		struct engine_chan *chan = chans[i];
		int64_t deadline_ns = atomic_load(&chan->sample.asked_ns) + SAMPLE_WAIT_NS;

		while (atomic_load(&chan->sample.asked))
			if (sys_futex_wait(&chan->sample.asked, 1, deadline_ns) < 0)
				break; /* the wait timed out, so the last sample remains */
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the filters: their common head and the options a spec can give. */
#ifndef PARTS_FILTER_PRIV_H
#define PARTS_FILTER_PRIV_H

#include "parts/filter.h"

/* First member of every filter. The table is its own: name and capabilities are the inner one's. */
struct filter_chan {
	struct net_chan base;
	struct net_ops ops;
	struct net_zerocopy_ops zerocopy; /* in ops if the inner one has it; so is loan */
	struct net_loan_ops loan;
	struct net_chan *inner;
};

struct filter_fault_opts {
	uint64_t seed, drop, short_calls, again, flip, delay, first;
};

/* Sets up the head with every member passing through. */
void filter_init(struct filter_chan *filter, struct net_chan *inner);

/* On failure chan is untouched. */
tcpx_status filter_fault_create(const struct filter_fault_opts *opts, struct net_chan *chan,
				struct net_chan **out_chan);
tcpx_status filter_check_create(struct net_chan *chan, struct net_chan **out_chan);

/* The inner channel, told of the next call's buffers what the filter was. */
static inline struct net_chan *filter_tx(struct filter_chan *filter)
{
	filter->inner->tx_vanishing = filter->base.tx_vanishing;
	return filter->inner;
}

static inline struct net_chan *filter_rx(struct filter_chan *filter)
{
	filter->inner->rx_vanishing = filter->base.rx_vanishing;
	return filter->inner;
}

/* Copies the first max bytes of iov to out; returns the number of entries. */
int filter_iov_cut(const struct iovec *iov, int niov, size_t max, struct iovec *out);
size_t filter_iov_bytes(const struct iovec *iov, int niov);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a link, which the engine embeds in a struct of its own. Only the core and its tests
 * use the fields; others call the functions of core/link.h. */
#ifndef CORE_LINK_STATE_H
#define CORE_LINK_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/chan.h"
#include "core/cover.h"
#include "core/credit.h"
#include "core/fill.h"
#include "core/link_ops.h"
#include "core/notify.h"
#include "core/sendq.h"
#include "core/sendrecv.h"
#include "core/stage_quota.h"
#include "core/xfer.h"
#include <tcpx/types.h>

/* Counters for the statistics of a peer. Every frame with a sequence counts as a chunk. */
struct core_counters {
	uint64_t tx_bytes, rx_bytes, tx_chunks, rx_chunks;
	uint64_t resent; /* chunks queued again after a lost channel */
	/* chunks sent with wrong bytes: their request had ended, or their source could not be
	 * read */
	uint64_t aborted;
	uint64_t refused; /* chunks and READ requests of the peer that this side refused */
};

struct core_link {
	struct core_config cfg;
	struct core_chan chan[CORE_CHANNELS_MAX];
	uint32_t nchan; /* number of channels: the priority channel and the bulk ones */
	bool dead;
	bool leased; /* the peer may still read our sources after the link has failed */
	tcpx_status dead_status;

	struct core_sendq sendq;
	struct core_fillq fillq;
	struct list_node active; /* list of core_xfer: posted and not ended */
	struct core_sendrecv sendrecv;
	struct core_notify notify;
	struct core_cover cover;
	struct list_node resps; /* list of core_resp: READs of the peer that are being served */

	struct core_credit credit[FRAME_CREDIT_STAGE]; /* by enum frame_credit */
	struct core_stage_out stage_out;	       /* staging at the peer, for our chunks */
	struct core_stage_in stage_in;		       /* staging here, for the peer's chunks */
	uint32_t nresps;			       /* read responses in `resps` */
	uint32_t ref_chunk; /* largest chunk by reference; core_link_refs() may raise it */
	uint64_t ref_bytes; /* bytes of chunks by reference that are in flight */

	struct core_xfer_table xfers;
	/* unused entries for chunks that must be sent again */
	struct core_retransmit *retransmit_pool;
	struct core_counters count;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What waits to be sent on a link: control frames, SENDs in order, small jobs, bulk jobs. A job
 * is in one of the lists as long as a frame of it can be cut. */
#ifndef CORE_SENDQ_H
#define CORE_SENDQ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "base/list.h"

#define CORE_CTL_MAX 65536	 /* control frames that may wait while the peer does not receive */
#define CORE_CANCELLED_MAX 65536 /* cancelled SENDs whose CANCEL may wait */

/* A control frame with a sequence and without payload: CTS, FINAL, CANCEL. */
struct core_ctl {
	struct list_node node;
	struct frame frame;
};

struct core_sendq {
	struct list_node ctl;	/* core_ctl */
	uint32_t nctl;		/* length of `ctl`, at most CORE_CTL_MAX */
	struct list_node small; /* jobs for the priority channel, highest priority first */
	struct list_node bulk;	/* jobs for the other channels, highest priority first */
	struct list_node sends; /* SENDs that are not announced, by message number */
	/* core_ctl: CANCELs of SENDs that were never announced, by number */
	struct list_node cancelled;
	/* length of `cancelled`; at CORE_CANCELLED_MAX no SEND can be posted */
	uint32_t ncancelled;
	/* where the search for a channel to kick begins; grows with each search */
	uint32_t rotor;
	/* the last search for a small frame began with SENDs; the next one begins with small
	 * jobs */
	bool sends_first;
};

void core_sendq_init(struct core_sendq *sendq);

#endif

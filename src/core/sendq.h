/* SPDX-License-Identifier: Apache-2.0 */
/* What waits to be sent on a link: control frames, SENDs in order, small jobs, bulk jobs. A job is
 * in one of the lists while a frame of it can be cut. */
#ifndef CORE_SENDQ_H
#define CORE_SENDQ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "base/list.h"

#define CORE_CTL_MAX 65536	 /* control frames that wait for a peer that does not take them */
#define CORE_CANCELLED_MAX 65536 /* cancelled SENDs of which the peer has not heard */

/* A small sequenced frame of our own: CTS, FINAL, CANCEL. */
struct core_ctl {
	struct list_node node;
	struct frame frame;
};

struct core_sendq {
	struct list_node ctl;	    /* core_ctl */
	uint32_t nctl;		    /* of them, at most CORE_CTL_MAX */
	struct list_node small;	    /* jobs for the priority channel, by priority */
	struct list_node bulk;	    /* jobs for the other channels, by priority */
	struct list_node sends;	    /* SENDs not announced yet, by message number */
	struct list_node cancelled; /* core_ctl: CANCELs of SENDs never announced, by number */
	uint32_t ncancelled;	    /* of them; no SEND is posted at CORE_CANCELLED_MAX */
	uint32_t rotor;		    /* where the search for a channel to kick begins */
	bool sends_first;	    /* SENDs and small jobs take turns */
};

void core_sendq_init(struct core_sendq *sendq);

#endif

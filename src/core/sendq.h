/* SPDX-License-Identifier: Apache-2.0 */
/* What waits to be sent on a link: control frames, SENDs in order, small jobs, bulk jobs. A job is
 * in one of the lists while a frame of it can be cut (core_job_cuttable). */
#ifndef CORE_SENDQ_H
#define CORE_SENDQ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "base/list.h"

#define CORE_CTL_MAX 65536	 /* while this many wait in `ctl`, one more ends the link */
#define CORE_CANCELLED_MAX 65536 /* no SEND can be posted while this many wait in `cancelled` */

/* A control frame with a sequence and without payload: CTS, FINAL, CANCEL. */
struct core_ctl {
	struct list_node node;
	struct frame frame;
};

struct core_sendq {
	struct list_node ctl; /* list of core_ctl */
	uint32_t nctl;	      /* length of `ctl` */
	/* `small` and `bulk` are lists of jobs: a job is inserted by priority, and goes to the end
	 * when it has had its turn */
	struct list_node small; /* for the priority channel */
	struct list_node bulk;	/* for the other channels */
	struct list_node sends; /* SENDs whose first frame is not cut yet, by message number */
	/* list of core_ctl: CANCELs of SENDs that ended without eager credit, by message number */
	struct list_node cancelled;
	/* length of `cancelled`; at CORE_CANCELLED_MAX no SEND can be posted */
	uint32_t ncancelled;
	/* where the search for a channel to kick begins; grows with each search */
	uint32_t rotor;
	/* the last search for a small frame tried SENDs first; the next one tries small jobs
	 * first */
	bool sends_first;
};

void core_sendq_init(struct core_sendq *sendq);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages into GPU memory: they arrive as fragments in the plugin's bounce pages, and are unpacked
 * from there into the regions. The GPU's part of a comm is opened and closed on separate threads,
 * since opening and closing may wait for the work that runs on the GPU.
 *
 * Invariant: an unpack job (comms_job) is in engine_comms.jobs from the commit of its chunk until
 * its copies have ended. During that time its message is not given back to the plugin, and the
 * comms are not closed.
 */
#ifndef ENGINE_CHANNEL_COMMS_GPU_H
#define ENGINE_CHANNEL_COMMS_GPU_H

#include "engine/channel/comms.h"
#include "engine/link/stage.h"
#include "mem/unpack.h"

/* The GPU's part of a comm that receives. */
struct comms_gpu {
	struct mem_unpack *unpack;
	const char *mode; /* unpack mode, a value of TCPX_UNPACK_IMPL */
	/* Memory that receives are posted with: whole pages of GPU memory for one message, or host
	 * memory for a window of messages (host-recv). */
	void *landing;
	uint64_t landing_bytes;
	const struct ncclnet_queue_meta *meta; /* the queue's metadata at its CPU address */
	uint64_t pool, pool_bytes;
};

struct comms_gpu_op; /* an open or close, with what was opened */

/* A message that is being unpacked to its destinations. */
struct comms_job {
	struct list_node node; /* entry in engine_comms.jobs */
	struct engine_comms *comms;
	struct engine_stage *stage;
	uint64_t seq;	  /* sequence of the frame that announces the message */
	struct iovec *to; /* destinations, in the order of the message's bytes */
	/* number of destinations, of copies that were started, and of copies that have ended */
	uint32_t nto, pushed, ended;
	/* a copy of the message's fragments, and the parts into which the bounds of destinations
	 * cut them; NULL if there is one destination */
	struct base_frag *frags;
	struct mem_unpack_job *jobs; /* one for each destination */
	tcpx_status status;
	tcpx_error error; /* why the job failed; set if status is not OK */
};

/* Sets how `plugin` unpacks. `text` is a value of TCPX_UNPACK_IMPL; if it is NULL, the value comes
 * from the environment. Returns ERR_INVALID if the value is unknown. */
tcpx_status comms_gpu_mode(const char *text, struct engine_plugin *plugin);
/* Operations that make a GPU current for the plugin's calls. */
extern const struct net_gpu_ops comms_gpu_ops;

/* comms_gpu.c, control thread. Begins to open the GPU's part of the accepted comm, on a separate
 * thread, which wakes the peer's link when it ends. */
tcpx_status comms_gpu_open(struct engine_comms *comms);
/* Returns TCPX_IN_PROGRESS while the open is under way. Then takes its result: sets comms->gpu and
 * returns OK, or returns the error of the open. */
tcpx_status comms_gpu_opened(struct engine_comms *comms);
/* Whether the open of the GPU's part is under way. The thread that opens reads memory of the comm,
 * so the comm must not be closed before the thread ends; it then wakes the peer's link. */
bool comms_gpu_opens(const struct engine_comms *comms);
/* If an open has ended and comms_gpu_opened() did not take its result, frees that result. */
void comms_gpu_abandon(struct engine_comms *comms);
/* Begins to close the GPU's part, on a separate thread. No unpack job may be under way. */
void comms_gpu_close(struct engine_comms *comms);

/* comms_unpack.c, called by the rx owner. Whether the frame's payload is a message that arrives as
 * fragments in the plugin's bounce pages, and must be unpacked. */
bool comms_in_pieces(const struct engine_chan *chan);
/* Prepares the job that unpacks the frame's message, and puts it into rx->stage. The destination is
 * the local side of segs, or rx->iov if segs is NULL. Returns OK or ERR_NO_MEMORY. */
tcpx_status comms_receive(struct engine_chan *chan, const struct core_segs *segs);
/* Called when the chunk was refused or aborted: gives its message back to the plugin. */
void comms_message_drop(struct engine_chan *chan);
/* Adds the unpack job of the frame's message to the comms' jobs. Called after core_rx_end(). */
void comms_unpack_start(struct engine_chan *chan, struct engine_stage *stage);
/* Starts copies, checks which copies have ended, ends the unpack jobs that are complete, and gives
 * their messages back to the plugin. Returns whether unpack jobs are left. Called by the rx owner
 * of `chan`. After the channel was stopped, called with `chan` NULL; then no message is given
 * back. */
bool comms_unpack_run(struct engine_comms *comms, struct engine_chan *chan);

#endif

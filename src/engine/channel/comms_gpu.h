/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages into GPU memory: they arrive in pieces, in a pool of the plugin, and are unpacked from
 * there into the regions. The GPU's part of a comm is opened and closed on separate threads, since
 * that may wait for the work that runs on the GPU.
 *
 * Invariant: a job is in engine_comms.jobs from the commit of its chunk until its copy has ended;
 * until then its message is not given back, and the comms are not closed.
 */
#ifndef ENGINE_CHANNEL_COMMS_GPU_H
#define ENGINE_CHANNEL_COMMS_GPU_H

#include "engine/channel/comms.h"
#include "engine/link/stage.h"
#include "mem/unpack.h"

/* The GPU's part of a comm that receives. */
struct comms_gpu {
	struct mem_unpack *unpack;
	const char *mode; /* how it unpacks, as TCPX_UNPACK_IMPL spells it */
	/* Memory that receives are posted with: GPU memory for one message, or host memory for a
	 * window of messages. Whole pages. */
	void *landing;
	uint64_t landing_bytes;
	const struct ncclnet_queue_meta *meta; /* the queue's metadata at its CPU address */
	uint64_t pool, pool_bytes;
};

struct comms_gpu_op; /* an open or close under way */

/* A message that is being unpacked to its destinations. */
struct comms_job {
	struct list_node node; /* engine_comms.jobs */
	struct engine_comms *comms;
	struct engine_stage *stage;
	uint64_t seq;
	struct iovec *to; /* destinations, in the order of the message's bytes */
	uint32_t nto, pushed, ended;
	struct base_frag *frags;     /* fragments, cut at destinations; NULL: one destination */
	struct mem_unpack_job *jobs; /* one for each destination */
	tcpx_status status;
	tcpx_error error; /* why the job failed, if status says so */
};

/* Sets how plugin unpacks, by a value of TCPX_UNPACK_IMPL; text NULL: the value from the
 * environment. ERR_INVALID: the value is unknown. */
tcpx_status comms_gpu_mode(const char *text, struct engine_plugin *plugin);
/* Operations that make a GPU current for the plugin's calls. */
extern const struct net_gpu_ops comms_gpu_ops;

/* comms_gpu.c, control thread. Begins to open the GPU's part of the accepted comm; when the open
 * ends it wakes the peer's link. */
tcpx_status comms_gpu_open(struct engine_comms *comms);
/* Returns IN_PROGRESS, or how the open ended: OK, and comms->gpu is set; or an error, and the last
 * error says why. */
tcpx_status comms_gpu_opened(struct engine_comms *comms);
/* Whether the open is under way, which reads memory of the comm. When it ends it wakes the peer's
 * link. */
bool comms_gpu_opens(const struct engine_comms *comms);
/* Frees the result of an open that has ended and is not needed. */
void comms_gpu_abandon(struct engine_comms *comms);
/* Begins to close the GPU's part, on a thread of its own. No job may be under way. */
void comms_gpu_close(struct engine_comms *comms);

/* comms_unpack.c, rx owner. Whether the frame's payload is a message in pieces. */
bool comms_in_pieces(const struct engine_chan *chan);
/* Prepares the job that unpacks the frame; its destination is in rx->held and rx->iov, or is the
 * local side of prog. ERR_NO_MEMORY. */
tcpx_status comms_receive(struct engine_chan *chan, const struct core_prog *prog);
/* The chunk was refused or aborted: gives the message back to the plugin. */
void comms_message_drop(struct engine_chan *chan);
/* Adds the unpacking of the frame to the channel's jobs. Call it after core_rx_end(). */
void comms_unpack_start(struct engine_chan *chan, struct engine_stage *stage);
/* Takes the next step of all jobs. True: some are under way. chan: the channel whose rx owner this
 * thread is; NULL: the channel is stopped. */
bool comms_unpack_run(struct engine_comms *comms, struct engine_chan *chan);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages into GPU memory: they arrive in pieces, in a pool of the plugin, and are unpacked from
 * there into the regions. The GPU's part of a comm is opened and closed on threads of its own,
 * since that may wait for whatever runs on the GPU.
 *
 * Invariant: a job is in engine_comms.jobs from the commit of its chunk until its copy has ended;
 * until then neither is its message given back nor are the comms closed.
 */
#ifndef ENGINE_CHANNEL_COMMS_GPU_H
#define ENGINE_CHANNEL_COMMS_GPU_H

#include "engine/channel/comms.h"
#include "engine/link/stage.h"
#include "mem/unpack.h"

/* What the GPU holds for a comm that receives. */
struct comms_gpu {
	struct mem_unpack *unpack;
	const char *mode; /* how it unpacks, as TCPX_UNPACK_IMPL spells it */
	void *landing; /* message_bytes of its memory, or of the host's for a window; whole pages */
	uint64_t landing_bytes;
	const struct ncclnet_queue_meta *meta; /* as the CPU sees it */
	uint64_t pool, pool_bytes;
};

struct comms_gpu_op; /* one that is being opened */

/* A message on its way to its destination. */
struct comms_job {
	struct list_node node; /* engine_comms.jobs */
	struct engine_comms *comms;
	struct engine_stage *stage;
	uint64_t seq;
	struct iovec *to; /* destinations, one behind the other */
	uint32_t nto, pushed, ended;
	struct base_frag *frags; /* copies, cut at the destinations' borders; NULL: one is all */
	struct mem_unpack_job *jobs; /* one for each destination */
	tcpx_status status;
	tcpx_error error; /* why, where it failed */
};

/* TCPX_UNPACK_IMPL; NULL: as the options say. ERR_INVALID. */
tcpx_status comms_gpu_mode(const char *text, struct engine_plugin *plugin);
/* The plugin's calls are made with a GPU current by these. */
extern const struct net_gpu_ops comms_gpu_ops;

/* comms_gpu.c, control thread. For the comm that was accepted; wakes the peer when it ends. */
tcpx_status comms_gpu_open(struct engine_comms *comms);
/* IN_PROGRESS, or the end of it: comms->gpu is there, or the last error says why not. */
tcpx_status comms_gpu_opened(struct engine_comms *comms);
/* It is under way: it reads memory of the comm that receives. The peer is woken at its end. */
bool comms_gpu_opens(const struct engine_comms *comms);
/* It has ended, and nobody takes what it made. */
void comms_gpu_abandon(struct engine_comms *comms);
/* No job is under way. */
void comms_gpu_close(struct engine_comms *comms);

/* comms_unpack.c, rx owner. The frame's payload is a message in pieces. */
bool comms_in_pieces(const struct engine_chan *chan);
/* Its destination is in rx->held and rx->iov, or of prog. ERR_NO_MEMORY. */
tcpx_status comms_receive(struct engine_chan *chan, const struct core_prog *prog);
/* It is of no use: refused, aborted. */
void comms_message_drop(struct engine_chan *chan);
/* Behind core_rx_end. */
void comms_unpack_start(struct engine_chan *chan, struct engine_stage *stage);
/* What was started goes on. True: something is under way. chan: whose rx owner this is; NULL: the
 * channel is stopped. */
bool comms_unpack_run(struct engine_comms *comms, struct engine_chan *chan);

#endif

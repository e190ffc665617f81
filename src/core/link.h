/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pure core of a link between two sessions: which frame goes next on which channel, what an
 * arriving frame means, when a transfer ends. No I/O, no clock, no thread: every function runs
 * under the link's lock, time is an argument, effects leave through struct core_ops.
 *
 * Invariants
 *  I1  A transfer ends exactly once: ops->ended runs once per core_xfer_post that returned OK.
 *  I2  When ended ran, no channel reads or writes the transfer's local memory: each use is counted
 *      in xfer->refs, from the moment a frame is cut or accepted until the transport gave the
 *      buffer back or the channel was redirected to scratch.
 *  I3  A WRITE is DONE only when every chunk was acknowledged, i.e. applied and not refused; a READ
 *      only when every byte was applied here; a notification is published after that.
 *  I4  A chunk of a lost channel is cut again only after the peer's fence for that epoch; the fence
 *      tells exactly which chunks were applied, so nothing is applied twice or missed.
 *  I5  State that a peer can make us keep is bounded by credits given in the hello; more is
 *      ERR_PROTOCOL.
 */
#ifndef CORE_LINK_H
#define CORE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/frame.h"
#include "base/list.h"
#include "core/chan.h"
#include "core/cover.h"
#include "core/credit.h"
#include "core/prog.h"
#include "core/stage_quota.h"
#include <tcpx/types.h>

#define CORE_LANE 0		      /* channel of small messages, and of what is by_lane */
#define CORE_CHANNELS_MAX 64	      /* the lane and 63 bulk channels: one word is a mask */
#define CORE_SMALL_BYTES (16u << 10)  /* greatest eager SEND; up to here the lane carries it */
#define CORE_PIECES_MAX 1000	      /* pieces of one chunk */
#define CORE_REQUEST_BYTES (1u << 30) /* one piece of a READ's list */
#define CORE_ACK_BYTES (8u << 20)     /* an acknowledgement is asked for at least so often */
#define CORE_FILLED_CHUNKS 4u	      /* staged sources: on the way on one channel */
#define CORE_QUANTUM_BYTES (4u << 20) /* of one transfer before the next one's turn */
#define CORE_GRANT_BYTES (4u << 20)   /* staging is granted so much at once, while some is left */
#define CORE_REF_BYTES (16u << 20)    /* a chunk that goes by reference */
#define CORE_REF_MOST (128u << 20)    /* one to a peer who takes it: a copy begins slowly */
#define CORE_REF_QUANTUM 8u	      /* of them, as CORE_QUANTUM_BYTES */
#define CORE_REF_WINDOW                                                                            \
	(512u << 20)		   /* of them, sent and not acknowledged: a cancel waits for them */
#define CORE_FILL_BYTES (4u << 20) /* most of a source that is filled as one */
#define CORE_BEHIND_BYTES 4096	   /* greatest notification that leaves with its WRITE */
#define CORE_NOTE_COST 128	   /* budget bytes of a notification beyond its payload */
#define CORE_COVER_AHEAD 8u	   /* shares that a wish goes beyond what waits */
#define CORE_VOIDS_MAX 65536	   /* SENDs that ended unannounced before another may be posted */
#define CORE_CTL_MAX 65536	   /* control frames that wait for a peer who does not take them */

struct core_link;

/* What a push is made of. */
enum core_job_kind {
	CORE_JOB_WRITE = 1, /* DATA frames of a core_xfer */
	CORE_JOB_REQUEST,   /* READ_REQ frames of a core_xfer */
	CORE_JOB_SEND,	    /* SEND or RTS, then SDATA frames of a core_xfer */
	CORE_JOB_PUSH,	    /* RDATA frames of a core_push */
	CORE_JOB_NOTE,	    /* NOTIFY frames of a core_note */
};

/* A chunk to be cut again after a lost channel. */
struct core_redo {
	struct core_redo *next;
	struct core_cursor at;
	uint64_t linear;
	uint32_t bytes, pieces;
	uint8_t type;
};

/* Something that is cut into frames. Embedded in a transfer, a push or a note. */
struct core_job {
	struct list_node node; /* in one of the link's queues */
	enum core_job_kind kind;
	bool queued, small, stopped;
	bool announced; /* SEND: its SEND or RTS is on the way */
	bool staged;	/* destination is staged: needs grants */
	bool fills;	/* source is staged: only what is ready is cut */
	bool by_ref;	/* the peer copies from the source by itself, until it acknowledged */
	bool by_msg;	/* its chunks are messages, which may be read until they are acknowledged */
	bool by_lane;	/* the lane carries it, whatever its size */
	bool stuck;	/* one of them has ended a channel */
	bool cleared;	/* SEND: the receiver has taken it, and its CTS came */
	int32_t priority;
	const struct core_prog *prog; /* NULL for notes */
	struct core_cursor at;
	uint64_t linear, end;	/* next byte to cut; where to stop */
	uint64_t peer_xfer;	/* PUSH, SEND: the receiver's id */
	uint64_t linear_base;	/* PUSH: linear offset of the request's piece */
	struct core_redo *redo; /* before anything new */
	uint32_t inflight;	/* frames in channels' rings */
	uint32_t lent;		/* of them chunks by reference, or messages: the source is in use */
	uint64_t quantum;
	uint64_t acked; /* bytes */
	/* fills */
	struct list_node fill_node; /* link->fills: more is to be filled */
	struct list_node slices;    /* the engine's: what is filled, or being filled */
	void *block;		    /* the engine's */
	struct core_cursor fill_at; /* of filling */
	uint64_t filling, ready;    /* up to there: asked for; there */
	uint64_t fill_quantum;
	bool unpulled; /* what was filled was taken back, and nothing of it was cut since */
};

enum core_xfer_state {
	CORE_IDLE = 0, /* never posted */
	CORE_ACTIVE,
	CORE_NOTIFYING,
	CORE_ENDING,
	CORE_FINAL
};

struct core_note;

/* One request. The engine owns the memory and fills the first block before each post. */
struct core_xfer {
	enum tcpx_op op;
	const struct core_prog *prog; /* also for SEND and RECV; nseg may be 0 */
	const void *notify;	      /* attached or alone; copied by the core's owner */
	uint32_t notify_bytes;
	bool has_notify;
	bool strict;	    /* a cancelled WRITE waits for the peer */
	bool remote_staged; /* some destination is staged at the peer */
	bool local_staged;  /* some local region is: of a source, all of it is filled */
	bool by_ref;	    /* WRITE, READ: its chunks go by reference, nothing is staged; SEND,
			     * RECV: they may */
	bool by_msg;	    /* the same, as messages; not both */
	bool by_lane; /* WRITE, READ: they go by the lane; neither of the two, nothing staged */
	int32_t priority;
	int64_t deadline_ns; /* absolute; 0: none */

	enum core_xfer_state state;
	tcpx_status status;	/* decided end; TCPX_IN_PROGRESS before */
	uint64_t id;		/* on the wire */
	uint64_t applied;	/* bytes */
	uint64_t arrived;	/* READ, RECV: bytes of chunks that came or are coming */
	uint64_t limit;		/* RECV: bytes agreed */
	uint64_t message_bytes; /* RECV: the peer's length */
	uint64_t sender;	/* RECV: the SEND's id */
	uint64_t message;	/* SEND: message number, given at post */
	bool matched;		/* RECV: has its message; SEND: the peer said how it ended */
	bool charged;		/* SEND: paid its eager credit; those of link->sends first */
	bool eager;		/* SEND */
	bool truncated;		/* RECV */
	uint64_t reserved;	/* READ into staged memory: staging bytes not used yet */
	uint32_t refs;		/* channel operations that use its local memory */
	struct core_job job;
	struct core_note *note;
	struct list_node node; /* link->active */
	struct list_node recv; /* link->receives */
};

/* The responder's part of a READ: pushes one requested piece. Owned by the engine, which frees it
 * (and its region references) in ops->push_ended. */
struct core_push {
	struct core_job job;
	struct core_prog prog;
	struct list_node node; /* link->pushes */
	uint32_t refs;
	bool ended;
};

/* An outgoing notification; the data is a copy behind the struct. */
struct core_note {
	struct core_job job;
	struct core_xfer *xfer; /* who waits for it, or NULL */
	uint64_t number;
	uint64_t bytes;
	uint32_t refs; /* frames of it under way */
	bool standalone;
	bool behind;		 /* its frame left behind its WRITE's only one */
	bool paid;		 /* of what the peer granted */
	struct list_node node;	 /* link->notes */
	struct list_node unpaid; /* cover.unpaid */
	const void *data;
};

/* A notification that arrives, by ops->note_alloc: until it is published the core's, then the
 * engine's. */
struct core_notify_in {
	struct list_node node;
	struct core_notify_in *chain; /* incoming.c */
	uint64_t number;	      /* its own; of one behind a WRITE: the WRITE's sequence */
	uint64_t bytes;		      /* whole length */
	uint64_t got;		      /* bytes of parts that are in place */
	uint64_t begun;		      /* bytes of parts that came or are coming, <= bytes */
	uint64_t seams;		      /* keyed sum over the ends of its parts */
	uint64_t there;		      /* bytes of memory that are charged */
	void *from;		      /* the engine's, after ops->notify */
	bool standalone;
	bool whole; /* waits for those before it */
	unsigned char data[];
};

/* A SEND that waits for its RECV, by ops->alloc. */
struct core_send_in {
	struct list_node node; /* link->messages, by number */
	uint64_t number;
	uint64_t bytes;	 /* whole length */
	uint64_t sender; /* its transfer id */
	uint64_t cost;	 /* of the eager budget */
	bool eager;	 /* its bytes are in data */
	bool dead;
	tcpx_status status;   /* dead: why */
	unsigned char data[]; /* eager: bytes */
};

/* Effects. Called under the link's lock; must not call the core. */
struct core_ops {
	void (*ended)(void *arg, struct core_xfer *xfer); /* xfer->status is final */
	void (*push_ended)(void *arg, struct core_push *push);
	/* Channel has something to send (it said idle before). */
	void (*kick)(void *arg, uint32_t channel);
	/* The peer fenced a channel that we still have up: close it and call core_chan_lost. */
	void (*close_channel)(void *arg, uint32_t channel);
	/* Send on the control link; FENCE only. The payload is nacks as pairs. */
	void (*fence)(void *arg, uint32_t channel, uint32_t epoch, uint64_t applied,
		      const struct core_nack *nacks, uint32_t count);
	/* Both fences are through: the channel may be dialled again with a higher epoch. */
	void (*channel_free)(void *arg, uint32_t channel);
	/* A whole notification; the callee owns it (free by note_free, with msg->there). */
	void (*notify)(void *arg, struct core_notify_in *msg);
	/* A notification nobody waits for was taken by the peer (flush). */
	void (*note_ended)(void *arg);
	/* Copies an eager message into a RECV: applied later (staged) returns IN_PROGRESS and ends
	 * by core_recv_applied; else TCPX_OK or an error. */
	tcpx_status (*deliver)(void *arg, struct core_xfer *xfer, const void *data, uint64_t bytes);
	/* Staging for bytes that arrive: takes at most want bytes of the shared pool for this link,
	 * but none if fewer than least are free, and returns how many. A link that got fewer
	 * than it wants waits (core_stage_waits): core_stage_more is called when there is more. */
	uint64_t (*stage_take)(void *arg, uint64_t want, uint64_t least);
	/* How much of want a peer that rests may have of the pool for as long as the link lives. */
	uint64_t (*stage_ahead)(void *arg, uint64_t want);
	void (*stage_give)(void *arg, uint64_t bytes);
	/* core_fill_next has something. */
	void (*fill)(void *arg);
	/* Nobody will cut what is filled of the job, or being filled, beyond what is cut. */
	void (*fill_drop)(void *arg, struct core_job *job);
	void *(*alloc)(void *arg, size_t bytes); /* NULL: out of memory or budget */
	void (*free)(void *arg, void *ptr, size_t bytes);
	/* Memory that what was granted covers, so the budget is not asked. `there` of it are
	 * charged now, more when they arrived; those are no more when it is freed. */
	void *(*note_alloc)(void *arg, size_t bytes, size_t there);
	void (*note_grew)(void *arg, size_t more);
	void (*note_free)(void *arg, void *ptr, size_t there);
	/* Sets aside want bytes of the account for the peer's notifications, or least, or none. One
	 * that got less than it wants is told by core_note_more when there may be more. */
	uint64_t (*note_take)(void *arg, uint64_t want, uint64_t least);
	void (*note_give)(void *arg, uint64_t bytes);
	/* The link cannot go on (memory, protocol). Ends it from outside. */
	void (*fail)(void *arg, tcpx_status status);
};

struct core_config {
	uint32_t chunk_bytes;
	uint32_t filled_chunk_bytes; /* most for staged sources; 0: chunk_bytes */
	uint32_t bulk_channels;
	uint32_t
		message_channels; /* of them the last ones, which carry messages and nothing else */
	uint32_t message_bytes;	  /* most of a message; 0: chunk_bytes */
	uint32_t message_window;  /* sent and not acknowledged, on one channel */
	uint32_t small_bytes;	  /* up to here the lane carries it; 0: CORE_SMALL_BYTES */
	uint32_t ref_chunk;	  /* until the peer says more; 0: CORE_REF_BYTES */
	uint32_t ref_window;	  /* 0: CORE_REF_WINDOW */
	uint8_t secret[16];	  /* a number the peer cannot know */
	uint64_t credit_out[FRAME_CREDIT_COUNT]; /* what the peer's hello gave us */
	uint64_t credit_in[FRAME_CREDIT_COUNT];	 /* what ours gave the peer */
	/* Of the budget of notifications what is granted from the first; 0: all of it. */
	uint64_t cover_out, cover_in;
	const struct core_ops *ops;
	void *arg;
};

struct core_link {
	struct core_config cfg;
	struct core_chan chan[CORE_CHANNELS_MAX];
	uint32_t nchan; /* lane + bulk */
	bool dead;
	bool leased; /* dead, but the peer may still read what was lent to it */
	tcpx_status dead_status;

	struct list_node ctl;	      /* core_ctl */
	uint32_t nctl;		      /* of them */
	struct list_node small;	      /* jobs for the lane */
	struct list_node bulk;	      /* jobs for bulk channels */
	struct list_node fills;	      /* jobs of which more is to be filled */
	struct list_node fills_ahead; /* the same, filled as far as is worth others' room */
	struct list_node sends;	      /* SENDs not announced yet, in order */
	struct list_node voids;	      /* core_ctl: SENDs that ended unannounced, by number */
	uint32_t nvoids;
	struct list_node active;   /* core_xfer */
	struct list_node receives; /* RECVs not matched */
	struct list_node messages; /* core_send_in: SENDs not matched, by number */
	struct core_incoming incoming;
	struct core_cover cover;
	struct list_node pushes, notes;
	uint64_t send_next, recv_next;	 /* message numbers */
	uint64_t note_next, attach_next; /* notification numbers we give */
	uint64_t note_due;		 /* next standalone number to publish */

	struct core_credit credit[FRAME_CREDIT_STAGE]; /* by kind */
	struct core_stage_out stage_out;	       /* what we want at the peer */
	struct core_stage_in stage_in;		       /* what the peer wants here */
	uint32_t npushes, rotor;
	uint32_t ref_chunk; /* most bytes of a chunk by reference, as the peer takes it */
	uint64_t ref_bytes; /* of bulk chunks by reference in the rings */
	bool turn;	    /* sends or small jobs next */
	bool flush;	    /* notifications ask for acknowledgements until all are taken */

	struct core_xfer **table; /* by id */
	uint32_t *generation;
	uint32_t ntable, table_free; /* table_free: hint */
	struct core_redo *redo_pool;
	uint64_t tx_bytes, rx_bytes, tx_chunks, rx_chunks, resent, aborted, refused;
};

tcpx_status core_link_init(struct core_link *link, const struct core_config *cfg);
/* After core_link_fail only. Frees what it owns. */
void core_link_fini(struct core_link *link);

/* The peer takes chunks by reference of so many bytes; less than before counts for nothing. */
void core_link_refs(struct core_link *link, uint64_t bytes);

/* Every transfer ends with status, every push and note is dropped. No channel may be in a call but
 * those of core_chan_stays, whose transfers end with core_chan_left. Idempotent. Where leased is
 * set, those of which chunks by reference are under way end by core_link_unlease. */
void core_link_unlease(struct core_link *link);
void core_link_fail(struct core_link *link, tcpx_status status);

/* Channels. */
tcpx_status core_chan_up(struct core_link *link, uint32_t channel, uint32_t epoch);
/* The transport is closed and nobody is inside it, nor reads what its messages were sent from.
 * Sends the fence when no commit is under way. */
void core_chan_lost(struct core_link *link, uint32_t channel);
/* Its sender, or its receiver, is in a call that may last: until core_chan_left the channel is not
 * lost, and when the link fails the memory of that call stays in use. */
void core_chan_stays(struct core_link *link, uint32_t channel, bool tx, bool rx);
void core_chan_left(struct core_link *link, uint32_t channel);
/* Before that, of a channel of messages: its oldest one did not go, and nobody said why. A transfer
 * that does this again ends with status: its source may be at fault. */
void core_chan_stuck(struct core_link *link, uint32_t channel, tcpx_status status);
/* The peer's fence. */
tcpx_status core_chan_fence(struct core_link *link, uint32_t channel, uint32_t epoch,
			    uint64_t applied, const struct core_nack *nacks, uint32_t count);
/* The control link came back: fences not answered yet are sent again. */
void core_link_refence(struct core_link *link);
uint32_t core_link_channels_up(const struct core_link *link); /* of all kinds */
uint32_t core_link_messages_up(const struct core_link *link); /* of messages */
/* No channel of messages will be up: what waits for one ends with status. */
void core_link_strand(struct core_link *link, tcpx_status status);

/* Transfers. Post takes the transfer from IDLE or FINAL. ERR_STATE; ERR_AGAIN (notification
 * budget; or the peer does not take the numbers of cancelled SENDs); ERR_NO_MEMORY; the link's
 * error when dead. An OP_NOTIFY and attached bytes are copied. */
tcpx_status core_xfer_post(struct core_link *link, struct core_xfer *xfer);
/* Ends it with status as soon as its memory is quiet; may call ended at once. ERR_STATE. */
tcpx_status core_xfer_cancel(struct core_link *link, struct core_xfer *xfer, tcpx_status status);
/* Ends those whose deadline is over; returns the next deadline or 0. */
int64_t core_link_expire(struct core_link *link, int64_t now_ns);
/* Sends a notification alone that nobody waits for. */
tcpx_status core_note_send(struct core_link *link, const void *data, uint64_t bytes);
/* The application released a notification of so many bytes; empty: none is unread. */
void core_note_consumed(struct core_link *link, uint64_t bytes, bool empty);

/* Somebody flushes: every frame sent so far is to be acknowledged soon, and notifications ask for
 * it, those queued and those sent again included, until all are taken (note_ended tells). */
void core_link_ask(struct core_link *link);

/* Sending: one frame at a time per channel. */
struct core_tx {
	struct frame frame;
	uint32_t channel;
	const struct core_prog *prog; /* payload from its local side, from at on; NULL: bytes */
	struct core_cursor at;
	uint32_t pieces;
	bool table;	      /* encode the pieces' remote side as the frame's table */
	const void *bytes;    /* payload of a note */
	struct core_job *job; /* of a frame with prog; good until the lock is let go */
};
/* 1: *tx is the next frame, its call has begun (core_tx_pause or core_tx_sent follows). */
int core_tx_next(struct core_link *link, uint32_t channel, struct core_tx *tx);
/* The transport gave the buffers back before the frame was through; 1: aborted, use scratch. While
 * it has them lent the call stays open; a kick tells that they are wanted back. */
int core_tx_pause(struct core_link *link, uint32_t channel);
/* Before going on with it; 1: aborted, use scratch and an ABORTED trailer. */
int core_tx_resume(struct core_link *link, uint32_t channel);
/* The frame under way arrives torn: aborted, even when it is acknowledged already. */
void core_tx_torn(struct core_link *link, uint32_t channel);
/* The source of the frame under way cannot be read: the frame ends aborted, its request with
 * status, a push with ERR_REMOTE at the reader. */
void core_tx_spoiled(struct core_link *link, uint32_t channel, tcpx_status status);
/* The channel goes away, and what it had lent of the frame under way was taken back unread. The
 * peer may count the frame as received: it is sent again all the same. */
void core_tx_unread(struct core_link *link, uint32_t channel);
/* The whole frame is with the transport. valid: its trailer said so. A frame that was lent may have
 * been acknowledged before. */
void core_tx_sent(struct core_link *link, uint32_t channel, bool valid);

/* A staged or lent source is still read while its channel goes away: takes its reference along;
 * core_io_drop gives it back when the read ended. */
void core_tx_take(struct core_link *link, uint32_t channel, struct core_io *out_io);
void core_io_drop(struct core_link *link, struct core_io *io);

/* Receiving. */
enum core_rx_kind {
	CORE_RX_NONE = 0, /* frame has no payload: core_rx_end follows at once */
	CORE_RX_SCRATCH,  /* read the payload and forget it */
	CORE_RX_REGION,	  /* DATA: the engine resolves key, offset and table */
	CORE_RX_PROG,	  /* local side of prog at linear */
	CORE_RX_MESSAGE,  /* collect the payload, hand it to core_rx_end */
	CORE_RX_NOTE,	  /* into note->data + frame->linear */
	CORE_RX_LIST,	  /* READ_REQ: the table is a list to push */
};
struct core_rx {
	enum core_rx_kind kind;
	const struct core_prog *prog;
	struct core_xfer *xfer;
	struct core_notify_in *note;
	uint64_t linear;
};
/* A validated header arrived; its call has begun. ERR_PROTOCOL ends the link; ERR_NO_MEMORY the
 * channel, and the frame comes again over another one. READ_REQ: the engine makes a push and passes
 * it to core_push_start, or refuses by core_push_refuse, then rx_end. */
tcpx_status core_rx_begin(struct core_link *link, uint32_t channel, const struct frame *frame,
			  struct core_rx *out_rx);
int core_rx_pause(struct core_link *link, uint32_t channel);
int core_rx_resume(struct core_link *link, uint32_t channel);
/* The trailer is there. status: TCPX_OK applied; TCPX_IN_PROGRESS: a commit is under way, ends by
 * core_rx_committed with the same sequence; a request error: refused (NACK). valid: the trailer's
 * word. data: the payload of CORE_RX_MESSAGE. Errors as above. */
tcpx_status core_rx_end(struct core_link *link, uint32_t channel, bool valid, tcpx_status status,
			const void *data);
/* xfer: whose memory was written (by id, it may be gone), bytes of the chunk; staged: the part of
 * them that was in staging, none of a chunk by reference. */
void core_rx_committed(struct core_link *link, uint32_t channel, uint32_t epoch, uint64_t seq,
		       uint64_t xfer_id, uint64_t bytes, uint64_t staged, tcpx_status status);
void core_recv_applied(struct core_link *link, struct core_xfer *xfer, tcpx_status status);

/* READ at the responder. push->prog and job.peer_xfer/linear_base are filled by the engine. */
void core_push_start(struct core_link *link, struct core_push *push);
void core_push_refuse(struct core_link *link, uint64_t xfer_id, tcpx_status status);
/* The source region goes away: the reader's request fails with status. */
void core_push_stop(struct core_link *link, struct core_push *push, tcpx_status status);

/* Filling staged sources ahead of what is cut (fill.c). */
struct core_fill {
	struct core_job *job;
	struct core_cursor at;
	uint64_t linear;
	uint32_t bytes, pieces;
	/* It would wait, for the peer's staging or for a channel that pulls: no reason to take
	 * others' room. It may wait for room; ops->fill tells when it is worth more. */
	bool ahead;
};
/* What is to be filled next; false: nothing. Asked again it says the same. */
bool core_fill_next(struct core_link *link, struct core_fill *out_fill);
/* It is under way; core_fill_end follows once, and the job lives until then. */
void core_fill_begin(struct core_link *link, const struct core_fill *fill);
/* ready: up to where all is there now; less than before says nothing. An error ends the request, or
 * the reader's with ERR_REMOTE. */
void core_fill_end(struct core_link *link, struct core_job *job, uint64_t ready,
		   tcpx_status status);
/* Takes back what is filled and not cut, for somebody else's use; it is asked for again. An engine
 * that is short of room for what core_fill_next says must do so, small jobs included: their bytes
 * may wait for grants that depend on others. False: nothing is there, or it leaves without the
 * peer. */
bool core_fill_back(struct core_link *link, struct core_job *job);

/* The link waits for room in the shared staging pool, and is told by core_stage_more. */
static inline bool core_stage_waits(const struct core_link *link)
{
	return link->stage_in.waiting;
}
void core_stage_more(struct core_link *link);

/* The account has room again for the notifications of a peer that waits. */
void core_note_more(struct core_link *link);
/* What it has set aside for the peer beyond its share, and the application cannot give back. */
uint64_t core_note_held(const struct core_link *link);

#endif

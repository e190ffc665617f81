/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated world of one schedule: two sessions, their channels, the network between them and
 * an oracle that knows what must be true. Everything follows from one seed; time is virtual.
 */
#ifndef SIM_H
#define SIM_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/rng.h"
#include "core/link.h"

#define SIM_CHANNELS 5	       /* the priority channel and up to four bulk channels */
#define SIM_REGIONS 2	       /* regions on each side of one transfer */
#define SIM_FRAME_SLICES 4     /* most slices one frame lies in */
#define SIM_GUARD 16	       /* bytes around a region's memory */
#define SIM_EVENTS_MAX 4000000 /* more: the schedule does not end */

struct sim;
struct sim_side;
struct sim_xfer;

/* What a schedule is like; drawn from the seed, or written down by a directed case. */
struct sim_profile {
	uint32_t chunk_bytes, filled_chunk_bytes, bulk_channels, small_bytes;
	uint64_t credit[2][FRAME_CREDIT_COUNT]; /* what each side gives */
	uint64_t cover[2];	/* of that for notifications without being asked; 0: all */
	uint64_t stage_pool[2]; /* bytes of staging */
	uint32_t staged[2];	/* percent of a side's regions that are staged */
	uint32_t delay, call, commit, consume; /* greatest times of one step, ns */
	uint32_t slow_channel; /* this one takes 20 times as long; SIM_CHANNELS: none */
	uint32_t partial;      /* percent of calls that move a part only */
	uint32_t actions;      /* of each side */
	uint32_t action_gap;   /* ns */
	uint64_t bytes_max;
	uint32_t segments_max;
	uint32_t losses, control_cuts, stops;			    /* how many */
	uint32_t cancel, deregister, bad, deadline, repost, strict; /* percent */
	uint32_t alloc_fail;					    /* one in so many, 0: never */
	uint32_t corrupt;  /* percent of chunks whose application fails */
	uint32_t hostile;  /* percent of frames to side 0 that the peer made up */
	uint32_t spurious; /* percent of sends after which an idle channel is asked again */
	bool fail_link, restart;
	bool no_notice;	       /* the far side of a lost channel hears of it by the fence only */
	uint32_t mix[5];       /* weights of WRITE, READ, SEND, RECV, NOTIFY */
	uint64_t fill_pool[2]; /* bytes of staging for sources */
	uint32_t fill;	       /* greatest time of one fill, ns */
	uint32_t fill_fail;    /* percent of fills that fail */
	uint32_t fill_back;    /* percent of moments at which somebody else wants room */
	uint32_t by_ref;       /* percent of posts from staged memory that go by reference */
	uint32_t ref_chunk, ref_window;
	uint32_t by_prio;  /* percent of plain WRITEs and READs that go by the priority channel */
	uint32_t ref_most; /* the peer says some time that it takes such chunks by reference */
	uint32_t by_msg;   /* percent of posts whose bytes go as messages; not beside by_ref */
	uint32_t message_channels, message_bytes, message_window;
};

struct sim_region {
	struct sim_side *side;
	struct sim_xfer *owner;
	uint8_t *mem, *map; /* map: 0 gap, 1 a segment's byte, 2 applied */
	uint64_t length, key;
	uint32_t rights, io;
	bool retired, dead; /* dead: retired and quiesced */
	bool staged;
};

enum { SIM_READ_RIGHT = 1, SIM_WRITE_RIGHT = 2 };

struct sim_xfer {
	struct core_xfer x; /* first */
	struct sim_side *side;
	uint32_t number, index, post; /* of all, of its side; how often posted */
	struct core_segs segs;
	uint64_t keys[SIM_REGIONS + 1];
	struct sim_region *local[SIM_REGIONS], *remote[SIM_REGIONS];
	void *local_table[SIM_REGIONS];
	uint64_t pattern;
	uint8_t note[24];
	bool active, bad, cancelled, local_gone, remote_gone;
	bool corrupt; /* a chunk of it could not be applied */
	bool refused; /* WRITE: a chunk of it was refused, or arrived aborted */
	bool frozen;  /* nothing may be written to its destination any more */
	bool waits;   /* memory was lent at its cancel: the peer must say that it is done */
	bool loose;   /* messages of it were under way when their comm was closed */
	int64_t posted_ns, cancelled_ns;
	uint64_t cut; /* so many bytes went out at least once: of a source that is filled */
	uint32_t ended, notified;
	tcpx_status status, bad_status;
	uint64_t wire_id;
	uint64_t order; /* SEND, RECV: post order of this side */
	uint32_t noted; /* OP_NOTIFY: its place in the log */
};

/* One piece of a frame's destination or READ list as it travels. */
struct sim_piece {
	uint64_t key, offset, bytes;
};

/* A frame on the wire. */
struct sim_frame {
	struct list_node node;
	struct sim_conn *conn;
	int from;
	struct frame frame;
	struct sim_piece *pieces;
	uint32_t npieces;
	uint8_t *payload;
	uint32_t travels;      /* of the payload; by reference: none */
	uint32_t sent, here;   /* of them: left the sender, arrived */
	struct sim_lent *lent; /* where the payload lies, by reference */
	bool header_here, trailer_here, valid;
	struct sim_slice *slices[SIM_FRAME_SLICES]; /* the payload went without a copy */
	uint32_t nslices, by_slices;		    /* so many bytes of it: the rest was aborted */
	uint64_t linear;			    /* where it begins in the job */
};

/* One connection; it lives until the end of the schedule. */
struct sim_conn {
	struct sim *sim;
	uint32_t channel, epoch, sides_incarnation[2];
	bool cut, drop, closed[2]; /* drop: what is on its way dies too */
	struct list_node pipe[2];  /* sim_frame: from side i to the other */
	int64_t last_ns[2];
};

/* Filled bytes of a job, or bytes being filled. */
struct sim_slice {
	struct list_node node, all; /* job->fill.slices while listed; side->slices */
	struct sim_side *side;
	struct core_job *job;	     /* good while it is listed or being filled */
	struct sim_xfer *xfer;	     /* NULL: a read response */
	uint32_t post, bytes, users; /* users: frames under way */
	struct core_cursor at;
	uint64_t linear;
	bool filling, ready, fails;
	bool listed; /* bytes of it may be cut for the first time */
	uint8_t *data;
};

/* Memory of a chunk by reference, as the peer is told of it. */
struct sim_lent {
	struct list_node node; /* side->lents, while the chunk is under way */
	struct sim_side *side;
	struct sim_conn *conn;
	uint64_t seq;
	uint32_t bytes, post, npieces;
	struct sim_xfer *xfer; /* of that post */
	struct sim_push *resp; /* or this one */
	struct sim_piece *pieces;
	uint8_t *copy; /* a message whose comm is closed */
};

struct sim_tx {
	bool busy, in_call, aborted, scheduled, begun, last;
	struct core_tx tx;
	struct sim_frame *frame;
	struct sim_xfer *xfer; /* whose memory is read, if a transfer's */
	uint32_t post;
	struct core_cursor at;
	uint32_t from, want;			    /* bytes of the call */
	uint64_t call;				    /* number of the call under way */
	struct sim_slice *slices[SIM_FRAME_SLICES]; /* the payload is there; none: in memory */
	uint32_t nslices;
	uint64_t linear; /* where the payload begins in the job */
};

struct sim_rx {
	bool busy, in_call, scratch, scheduled;
	struct core_rx rx;
	struct sim_frame *frame;
	struct sim_xfer *xfer;
	uint32_t post;
	tcpx_status status;
	bool staged, held; /* held: references on the regions of the frame's pieces */
	uint32_t done, want;
	uint8_t *collect; /* message payload or the slot of a staged chunk */
	uint64_t call;
	uint64_t taken;	 /* the last sequence that was taken whole */
	uint64_t *asked; /* sequences that asked to be acknowledged and were not yet */
	uint32_t nasked, cap_asked;
};

struct sim_chan {
	struct sim_conn *conn;
	bool up, free;
	struct sim_tx tx;
	struct sim_rx rx;
};

/* A responder's read response and what it holds. */
struct sim_push {
	struct core_resp resp; /* first */
	struct sim_side *side;
	struct list_node node;
	struct sim_region **regions;
	uint32_t nregions;
	uint64_t cut; /* as in sim_xfer */
	bool stopped;
};

/* A staged chunk, or an eager message, between its slot and the memory; or a copy of what the peer
 * lent. */
struct sim_commit {
	struct list_node node;
	struct sim_side *side;
	uint32_t channel, post;
	bool deliver, fails;
	struct frame frame;
	struct sim_piece *pieces;
	uint32_t npieces;
	uint8_t *slot;
	struct sim_xfer *xfer; /* NULL: regions */
	struct sim_lent *lent;
	uint64_t linear, bytes;
};

/* A source that is still read when its channel is gone. */
struct sim_orphan {
	struct list_node node;
	struct core_io io;
	struct sim_xfer *xfer; /* NULL: a read response */
	uint32_t post;
	struct sim_slice *slices[SIM_FRAME_SLICES];
	uint32_t nslices;
};

/* One SEND that was posted. */
struct sim_sent {
	uint64_t wire_id, pattern, total;
	struct sim_xfer *xfer;
	bool failed;
};

/* One notification of its own that was sent. */
struct sim_noted {
	uint64_t tag, bytes;
	struct sim_xfer *xfer; /* NULL: core_note_send */
	uint32_t post;
	bool dropped; /* its request ended in an error: it may be missing */
};

struct sim_side {
	struct sim *sim;
	struct sim_side *peer;
	int index;
	struct core_link link;
	bool alive;	      /* the link is initialised and not failed */
	bool made;	      /* the link is initialised */
	uint32_t incarnation; /* of the link */
	bool fail_scheduled;
	int64_t stopped_until, control_last_ns;
	struct sim_chan chan[SIM_CHANNELS];
	struct list_node resps, commits, orphans;
	struct sim_region **regions;
	uint32_t nregions, cap_regions;
	struct sim_xfer **xfers;
	uint32_t nxfers, cap_xfers;
	struct list_node unread; /* core_notify_in */
	bool consuming;
	struct sim_sent *sent;
	uint32_t nsent, cap_sent;
	uint32_t *got; /* by RECV in post order: 1 + place of its SEND, 0: none */
	uint32_t nrecv, cap_got;
	struct sim_noted *noted;
	uint32_t nnoted, cap_noted, noted_seen;
	uint64_t empty_done, empty_seen; /* attached notifications of 0 bytes */
	uint64_t allocs, alloc_bytes;
	uint64_t stage_used;
	uint64_t note_there, note_taken; /* charged; set aside beyond the share */
	uint32_t note_takes;
	bool stage_offered;
	struct list_node slices; /* of any job, until their room is back */
	struct list_node holds;	 /* sim_hold: frames the transport may still read */
	struct list_node lents;	 /* sim_lent: chunks the peer may still copy */
	uint64_t fill_used;
	uint32_t reclaims, whims; /* how often room was taken back: it was short; for no reason */
	bool pumping, reclaiming;
	uint32_t actions_left;
};

struct sim_event {
	int64_t when;
	uint64_t order;
	void (*run)(struct sim *sim, const struct sim_event *event);
	struct sim_side *side; /* stopped sides do not run theirs */
	void *ptr;
	uint64_t a, b;
};

struct sim {
	uint64_t seed;
	struct rng rng, ref_rng; /* its own: schedules without references are as ever */
	struct sim_profile p;
	struct sim_side side[2];
	int64_t now;
	uint64_t order, events, calls;
	struct sim_event *heap;
	uint32_t nheap, cap_heap;
	uint32_t epoch[SIM_CHANNELS];
	struct sim_conn *pending[SIM_CHANNELS]; /* dialled, not up at the acceptor yet */
	bool verbose, harsh, control_up;
	uint32_t control_id;
	bool broken;	/* some link failed in this schedule */
	bool disturbed; /* some request was cancelled, refused, timed out or lost its region */
	int in_core;
	uint32_t xfer_count;
	struct { /* what the schedule did, for the summary */
		uint64_t posts, done, failed, notes, resent, aborted, refused, losses, commits,
			fills, behind, lent, messages, by_prio;
	} count;
	jmp_buf out;
	char why[512];
};

/* sim_base.c: memory of a schedule, the event queue, violations */
void *sim_alloc(size_t bytes);
void sim_arena_reset(void);
void sim_arena_free(void);
void sim_at(struct sim *sim, int64_t when, struct sim_side *side,
	    void (*run)(struct sim *, const struct sim_event *), void *ptr, uint64_t a, uint64_t b);
bool sim_step(struct sim *sim); /* false: nothing is left */
void sim_fail(struct sim *sim, const char *format, ...)
	__attribute__((noreturn, format(printf, 2, 3)));
void sim_trace(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t sim_upto(struct sim *sim, uint64_t most); /* 0 .. most */
bool sim_chance(struct sim *sim, uint32_t percent);

#define SIM_CHECK(sim, cond, ...)                                                                  \
	do {                                                                                       \
		if (!(cond))                                                                       \
			sim_fail(sim, __VA_ARGS__);                                                \
	} while (0)
/* What an honest peer guarantees; a hostile one may only harm itself and its own requests. */
#define SIM_HONEST(sim, cond, ...) SIM_CHECK(sim, (sim)->p.hostile || (cond), __VA_ARGS__)
#define SIM_TRACE(sim, ...)                                                                        \
	do {                                                                                       \
		if ((sim)->verbose)                                                                \
			sim_trace(sim, __VA_ARGS__);                                               \
	} while (0)

/* Every call of the core is between these: ops may come only then and must not nest. */
#define SIM_ENTER(sim) ((sim)->in_core++)
#define SIM_LEAVE(sim) ((sim)->in_core--)

/* sim_profile.c */
void sim_profile_draw(struct sim_profile *p, struct rng *rng);
void sim_profile_plain(struct sim_profile *p);
const struct sim_profile *sim_profile_parts(void); /* for directed cases that cut frames in two */
void sim_profile_harsh(struct sim_profile *p);
void sim_profile_refs(struct sim_profile *p, struct rng *rng);
void sim_profile_lane(struct sim_profile *p, uint64_t seed);

/* sim_world.c: sides and their life */
void sim_world_init(struct sim *sim);
void sim_world_fini(struct sim *sim);
void sim_link_start(struct sim_side *side);
void sim_link_fail(struct sim_side *side, tcpx_status status);
void sim_link_fail_later(struct sim_side *side, tcpx_status status, uint64_t delay);
void sim_run_all(struct sim *sim);
void sim_try_restart(struct sim *sim);
void sim_side_check(struct sim_side *side);
void sim_none_outlives(struct sim_side *side);

/* sim_ops.c: the engine's part */
extern const struct core_ops sim_ops;
void sim_consume_later(struct sim_side *side);
void sim_consume_one(struct sim_side *side);
void sim_commit_start(struct sim_commit *commit);
void sim_free(struct sim_side *side, void *ptr, size_t bytes);
void sim_note_free(struct sim_side *side, void *ptr, size_t there);

/* sim_fill.c: staged sources */
void sim_fill_due(struct sim_side *side);
void sim_fill_drop(struct sim_side *side, struct core_job *job);
void sim_fill_back_some(struct sim_side *side);
void sim_fill_claim(struct sim_side *side, struct sim_tx *tx);
void sim_fill_read(const struct sim_tx *tx, uint8_t *to);
void sim_fill_put(struct sim_slice **slices, uint32_t *count);
bool sim_fill_under_way(const struct sim_side *side, const struct sim_xfer *xfer);
void sim_fill_check(struct sim_side *side, struct core_job *job);

/* sim_hold.c: what the transport reads after the call, what is acknowledged */
void sim_hold_frame(struct sim_side *side, struct sim_tx *tx, struct sim_conn *conn);
void sim_hold_got(struct sim_side *side, uint32_t channel);
void sim_hold_fenced(struct sim_side *side, uint32_t channel);
void sim_hold_dead(struct sim_side *side);
void sim_hold_ended(struct sim_side *side, const struct sim_conn *conn);
void sim_hold_taken(struct sim *sim, const struct sim_frame *frame, uint32_t from, uint32_t bytes);
void sim_taken(struct sim_rx *rx, const struct frame *frame);
void sim_told(struct sim *sim, struct sim_rx *rx, const struct frame *frame);
void sim_asked_check(struct sim *sim, const struct sim_side *side, uint32_t channel);
void sim_idle_check(struct sim *sim, const struct sim_side *side);

/* sim_msgs.c: chunks that are messages; their memory is lent as that of chunks by reference */
void sim_msg_profile(struct sim_profile *p, struct rng *rng);
void sim_msg_route(struct sim_xfer *xfer);
bool sim_msg_channel(const struct sim *sim, uint32_t channel);
bool sim_is_msg(const struct frame *frame);
void sim_msg_check(struct sim_side *side, const struct core_tx *tx, uint32_t others);
bool sim_msg_waits(const struct core_job *job);

/* sim_refs.c: chunks by reference */
bool sim_route_drawn(struct sim *sim, uint32_t percent);
void sim_ref_route(struct sim_xfer *xfer);
bool sim_ref_served(struct sim_side *side, const struct sim_frame *frame);
struct sim_lent *sim_ref_lend(struct sim_side *side, const struct core_tx *tx,
			      struct sim_conn *conn);
void sim_ref_closed(struct sim_side *side, const struct sim_conn *conn);
void sim_ref_fenced(struct sim_side *side, uint32_t channel);
bool sim_ref_odd(const struct sim_frame *frame, enum core_rx_kind kind);
bool sim_ref_revoked(const struct sim_lent *lent);
void sim_ref_read(const struct sim_lent *lent, uint8_t *to);
void sim_ref_ended(struct sim_xfer *xfer);
void sim_ref_resp_ended(struct sim_push *resp);
void sim_ref_failing(struct sim_side *side);
void sim_ref_look(struct sim *sim);

/* sim_tx.c, sim_rx.c: channels */
void sim_tx_kick(struct sim_side *side, uint32_t channel);
void sim_tx_leave(struct sim_side *side, uint32_t channel);
void sim_tx_orphan(struct sim_side *side, uint32_t channel);
void sim_rx_kick(struct sim_side *side, uint32_t channel);
void sim_rx_leave(struct sim_side *side, uint32_t channel);
int64_t sim_call_time(struct sim *sim, uint32_t channel);

/* sim_engine.c: memory behind frames */
void sim_region_copy(struct sim_region *region, uint64_t off, uint8_t *bytes, uint64_t n,
		     bool into);
void sim_segs_copy(struct sim *sim, const struct core_segs *segs, struct core_cursor at,
		   uint8_t *bytes, uint64_t n, bool into);
void sim_pieces_copy(struct sim_side *side, const struct sim_piece *pieces, uint32_t count,
		     uint64_t skip, uint8_t *bytes, uint64_t n);
tcpx_status sim_pieces_hold(struct sim_side *side, const struct sim_piece *pieces, uint32_t count,
			    uint32_t right);
void sim_pieces_put(struct sim_side *side, const struct sim_piece *pieces, uint32_t count);
bool sim_pieces_retired(struct sim_side *side, const struct sim_piece *pieces, uint32_t count);
void sim_pieces_applied(struct sim_side *side, const struct sim_piece *pieces, uint32_t count);
void sim_segs_applied(struct sim *sim, const struct core_segs *segs, uint64_t linear, uint64_t n);
void sim_read_request(struct sim_side *side, const struct sim_frame *frame);

/* sim_net.c: connections, losses, the control link */
void sim_dial_all(struct sim *sim);
void sim_chan_free(struct sim_side *side, uint32_t channel);
bool sim_cut(struct sim *sim, uint32_t channel); /* false: it is the last one */
void sim_cut_force(struct sim *sim, uint32_t channel);
void sim_close(struct sim_side *side, uint32_t channel, bool tell);
void sim_close_later(struct sim_side *side, uint32_t channel, uint64_t delay);
void sim_frame_send(struct sim_frame *frame, uint32_t bytes, bool header, bool trailer);
void sim_control_send(struct sim_side *side, uint32_t channel, uint32_t epoch, uint64_t applied,
		      const struct core_nack *nacks, uint32_t count);
void sim_control_cut(struct sim *sim, int64_t length);

/* sim_memory.c: regions and transfers */
void *sim_grow(void *old, uint32_t count, uint32_t *cap, size_t each);
struct sim_region *sim_region_new(struct sim_side *side, struct sim_xfer *owner, uint64_t length,
				  uint32_t rights, bool staged);
struct sim_region *sim_region_at(struct sim_side *side, uint64_t key); /* retired ones too */
tcpx_status sim_region_check(struct sim_side *side, const struct sim_piece *piece, uint32_t right,
			     struct sim_region **out_region);
void sim_region_retire(struct sim_region *region);
void sim_region_put(struct sim_region *region);
struct sim_xfer *sim_xfer_new(struct sim_side *side, enum tcpx_op op, uint64_t total,
			      uint32_t segments);
uint8_t sim_pattern(uint64_t pattern, uint64_t linear);
void sim_xfer_fill(struct sim_xfer *xfer);
void sim_xfer_poison(struct sim_xfer *xfer);
bool sim_xfer_equal(const struct sim_xfer *xfer, uint64_t bytes, uint64_t pattern);
void sim_mark_applied(struct sim *sim, struct sim_region *region, uint64_t off, uint64_t n);

/* sim_app.c: what the applications do */
tcpx_status sim_post(struct sim_xfer *xfer);
tcpx_status sim_cancel(struct sim_xfer *xfer, tcpx_status status);
void sim_deregister(struct sim_region *region);
tcpx_status sim_note(struct sim_side *side, uint64_t bytes);
void sim_app_start(struct sim *sim);

/* sim_check.c: the oracle */
void sim_ended(struct sim_xfer *xfer);
void sim_notified(struct sim_side *side, const struct core_notify_in *msg);
void sim_budget_check(struct sim_side *side);
void sim_quiet_check(struct sim *sim);
void sim_final_check(struct sim *sim);

/* sim_hostile.c: a peer that lies */
void sim_hostile_frame(struct sim *sim, struct frame *frame);
void sim_hostile_fence(struct sim *sim, uint32_t *channel, uint32_t *epoch, uint64_t *applied);
bool sim_hostile_pieces(const struct sim_frame *frame);

/* sim_run.c: one schedule. 0: everything held; else sim->why says what did not. */
int sim_schedule(struct sim *sim, uint64_t seed, const struct sim_profile *profile,
		 void (*script)(struct sim *sim));

#endif

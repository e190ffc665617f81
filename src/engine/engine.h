/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's objects: one runtime a process, sessions, peers, channels, requests.
 *
 * Locks, in the order they may be taken: runtime.lock, session.lock, peer.lock, then the leaves
 * (worker.lock, session.queue_lock, chan.poll_lock). Nothing is called out of the library, and no
 * system call but a wake-up is made, under peer.lock.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/alive.h"
#include "core/link.h"
#include "ctl/conn.h"
#include "engine/account.h"
#include "engine/handles.h"
#include "engine/inbound.h"
#include "engine/peer_identity.h"
#include "engine/peer_local.h"
#include "engine/rail_state.h"
#include "engine/session_told.h"
#include "mem/region.h"
#include "net/local/local.h"
#include "net/net.h"
#include "sys/links.h"
#include "wire/hello.h"
#include <tcpx/tcpx.h>

#define ENGINE_CHUNK_BYTES (512u << 10) /* where neither side has a wish */
#define ENGINE_FILLED_CHUNK_BYTES (2u << 20)
#define ENGINE_CHUNK_MIN 4096u
#define ENGINE_CHUNK_MAX (16u << 20)
#define ENGINE_TX_BUFFER (128u << 10) /* a batch, the largest tables, a copied payload */
#define ENGINE_RX_BUFFER (FRAME_TABLE_MAX + 4096)
#define ENGINE_COPY_BYTES CORE_SMALL_BYTES /* up to here a payload is copied, above never */
#define ENGINE_EAGER_BUDGET (1u << 20)
#define ENGINE_READ_WINDOW 64
#define ENGINE_SHARE_BUCKETS 64

struct engine_worker {
	int epfd, wakefd;
	uint32_t index;
	_Atomic uint32_t channels; /* that it serves; the next one goes where they are fewest */
	int node;		   /* whose CPUs it runs on; TOPO_NUMA_UNKNOWN: any */
	bool lanes, polls;	   /* polls: some channel is looked at again without an event */
	pthread_t thread;
	pthread_mutex_t lock;		 /* guards kicked */
	struct list_node kicked, graves; /* graves: channels to let go of after this round */
	_Atomic uint32_t sleeping;
	_Atomic int stop;
};

struct engine_runtime {
	pthread_mutex_t lock;
	_Atomic uint32_t refs; /* changes under the lock, which a forked child may find held */
	struct sys_loop loop;
	pthread_t control;
	_Atomic int stop;
	struct engine_worker *workers;
	uint32_t nworkers; /* of bulk channels; one more behind them serves the lanes */
	_Atomic uint32_t fork_generation; /* of the process that started it */
	struct list_node late;		  /* closed sessions whose memory a copy still has; lock */
	bool late_looked;		  /* a thread looks after them; lock */
	struct sys_post prefill_post;	  /* somebody waits for staging memory */
	_Atomic bool prefill_watched;
	_Atomic uint32_t lone_posted, lone_answered; /* lone.c: how many there are */

	/* control thread only */
	struct sys_links links;
	struct list_node sessions;
	struct list_node leases;  /* stopped channels whose peer still reads */
	struct list_node shares;  /* of dead peers that may still read */
	struct list_node holding; /* of dead peers that may still take what is held */
	struct sys_timer lease_timer, prefill_timer, share_timer, hold_timer;
};

/* Who may run one direction of a channel. */
enum engine_owner { OWNER_FREE = 0, OWNER_BUSY, OWNER_AGAIN, OWNER_CLOSED };

struct peer_dial;
struct engine_again;
struct prefill_slice;
struct engine_stage;

/* Slices that one chunk may lie in: those of a chunk of 16 MiB, and one at each end. */
#define CHAN_SLICES_MAX (ENGINE_CHUNK_MAX / CORE_FILL_BYTES + 2)

struct chan_tx {
	uint8_t *buf;
	uint32_t start, end;
	bool big;     /* a frame whose payload is not copied ends the batch */
	bool posting; /* the frame is a message, which the plugin has not taken yet */
	bool aborted; /* the rest of it comes from scratch */
	struct core_tx frame;
	struct iovec *iov;
	uint32_t niov, at;
	uint64_t left;
	uint8_t trailer[FRAME_TRAILER_BYTES];
	uint32_t trailer_sent;
	struct prefill_slice *slices[CHAN_SLICES_MAX]; /* staged source: where it was filled */
	uint32_t nslices;
	bool staged, vanishing;	    /* source; it may vanish, and is sent from where it lies */
	struct engine_stage *stage; /* staged source: a slot of its own */
	_Atomic int filling;
	bool held;	  /* the slices stay as they are until the peer has taken the frame */
	bool torn;	  /* the peer knows the frame for aborted, whatever its trailer says */
	_Atomic int lent; /* the peer may read the frame's memory now: the call stays open */
};

/* A region that a chunk is written to, with an io reference, and how many pieces in a row. */
struct chan_held {
	struct mem_region *region;
	uint32_t pieces;
};

enum chan_rx_state { RX_HEADER = 0, RX_PAYLOAD, RX_TRAILER };

struct chan_rx {
	enum chan_rx_state state;
	uint8_t *buf, *message;
	uint32_t used, have;
	struct frame frame;
	struct core_rx core;
	struct iovec *iov;
	uint32_t niov, at;
	struct core_cursor next; /* of a program: the first piece that iov has no room for */
	uint64_t beyond;	 /* bytes from there on */
	uint64_t left;
	bool aborted, vanishing; /* the rest goes to scratch; iov is memory that may vanish */
	bool bulk;		 /* the last frame was large: read little ahead */
	tcpx_status verdict;	 /* of a DATA frame's access */
	struct chan_held *held;
	uint32_t nheld, cap_held;
	bool torn; /* some of it was taken back by the sender: the frame counts as aborted */
	struct engine_stage *stage;  /* staged destination: its slot */
	struct engine_stage *commit; /* to be started behind core_rx_end */
};

struct engine_chan {
	struct engine_peer *peer;
	uint32_t index, epoch;
	uint32_t iface; /* index of its local address's interface; 0: none */
	struct net_chan *net;
	struct engine_worker *worker;
	struct engine_comms *comms;	/* of a channel of messages */
	_Atomic int tx_owner, rx_owner; /* enum engine_owner */
	_Atomic int tx_blocked;
	_Atomic int kicked; /* in the worker's list */
	struct list_node kick_node;
	bool stopped;		   /* worker.lock: enters the list no more */
	_Atomic int again;	   /* the worker is to receive without an event */
	pthread_mutex_t poll_lock; /* guards the four below */
	uint32_t poll_events, recv_events, send_events;
	bool polled;
	_Atomic int failed; /* the first failure's status */
	_Atomic int failed_errno;
	struct chan_tx tx;
	struct chan_rx rx;
	_Atomic int64_t heard_ns;
	_Atomic uint32_t refs;
	int64_t stuck_ns;	 /* control thread: how long nothing sent was acknowledged */
	int64_t trimmed_ns;	 /* control thread: heard_ns when its memory was given back */
	struct list_node holds;	 /* peer.lock: frames sent without a copy */
	struct list_node lost;	 /* peer.lost, peer.fenced or runtime.holding, with a reference */
	int64_t held_until_ns;	 /* control thread: in runtime.holding not longer than that */
	struct core_io lease;	 /* of a stopped channel: what its last frame lent */
	struct list_node leased; /* runtime.leases, with a reference */
	struct list_node grave;	 /* worker's */
};

struct engine_peer {
	struct handle_slot slot; /* first: id, references */
	struct engine_session *session;
	pthread_mutex_t lock; /* the link's */
	struct core_link core;
	bool core_ready, core_done;
	struct engine_chan *chan[CORE_CHANNELS_MAX]; /* lock */
	_Atomic uint64_t kick_mask;		     /* bulk channels 1..63; the lane is bit 0 */
	_Atomic int kick_last;			     /* channel 64 */
	_Atomic uint32_t state;			     /* enum tcpx_peer_state; futex */
	_Atomic uint32_t flush_word, flush_waiters;
	uint64_t post_seq;
	uint32_t lone_streak;		     /* lock: the last posts that had no company */
	struct list_node early, early_notes; /* lock: posted while it connects */
	struct list_node doubts;	     /* lock: refused, and waiting for a goodbye */
	size_t early_note_bytes;
	struct list_node buried; /* lock: requests released while active, now over */
	struct list_node lost;	 /* lock: stopped channels with frames that are held */
	struct list_node fenced; /* lock: of them those whose fence is through */
	struct list_node unheld; /* lock: frames that are held no more */
	tcpx_error error;	 /* why it is dead; lock */
	char name[TCPX_NAME_MAX + 1];
	uint8_t uuid[WIRE_UUID_BYTES], incarnation[WIRE_UUID_BYTES];
	struct peer_identity who;
	struct peer_inbound inbound; /* control thread */
	struct peer_account account;
	const char *transport, *auth;
	uint32_t nbulk, chunk_bytes;
	uint64_t stage_held, stage_ahead, unread;    /* queue_lock */
	bool stage_hungry;			     /* queue_lock: got less than it asked for */
	struct list_node landings;		     /* lock: blocks that neighbours may land in */
	struct stage_share *shares;		     /* lock: of staging pools */
	struct list_node dropped, spent, deliveries; /* lock: left for prefill_flush */
	struct engine_shares *shared;		     /* lock: memory shared with it; or NULL */
	struct engine_peer_comms *comms;	     /* its channels of messages; or NULL */
	_Atomic bool prefill_due;
	bool pumping;	  /* lock */
	uint64_t slot_id; /* its handle, also after it was hidden */

	/* control thread only */
	struct ctl_link *ctl;
	uint32_t ctl_iface; /* as in engine_chan */
	bool ctl_full;	    /* it does not drain: the peer is about to end */
	int rival;	    /* the peer's own dial, which crossed ours and lost; or -1 */
	struct peer_dial *dial;
	struct peer_dial *chan_dial[CORE_CHANNELS_MAX];
	struct peer_rails rails;
	struct peer_local shared_memory; /* dialling channels of it */
	struct list_node node;		 /* session->peers */
	struct list_node accept_node;	 /* session->accepts, with a reference */
	struct core_alive alive;
	struct sys_timer connect_timer, redial_timer, ctl_timer, doubt_timer;
	struct sys_post wake_post;
	_Atomic int wake_posted;
	bool dialler, counted_up, awaiting, released, died;
	bool in_view; /* lock of the session: its handle was given out before it came up */
	struct engine_again *again; /* session.lock: how it is dialled again; or NULL */
	struct engine_peer *now; /* session.lock: where its handle leads since its own link ended */
	bool lent;		 /* made for another's handle: it goes when it ends */
	int64_t redial_at_ns;	 /* of such a one: when its dial begins */
	uint64_t same_as;	 /* the handle of the link that this dial found in place */
	bool have_local_offer, offered, channels_dialled;
	uint64_t echo_ns;
	_Atomic int64_t rtt_ns;
	uint64_t rate[2];     /* lock: bytes a second of READs, WRITEs */
	uint64_t acked_bytes; /* of the control link at the last look */
	int64_t looked_ns;    /* when its channels were last looked at */
	int64_t ctl_stuck_ns; /* since when the control link's bytes are not acknowledged; or 0 */
	uint8_t local_nonce[LOCAL_NONCE_BYTES];
	char local_name[LOCAL_NAME_MAX];
	uint8_t session_key[CTL_KEY_BYTES];
	uint64_t link_id; /* at the acceptor */
	int64_t connect_deadline_ns, ctl_lost_ns;
	struct sockaddr_storage addrs[WIRE_ADDR_MAX]; /* where it can be reached */
	uint32_t naddrs;
	struct sockaddr_storage remote;
	uint32_t redial_tries, ctl_tries;
	uint64_t redial_mask; /* channels to dial again, bit by index */
	uint64_t free_mask;   /* filled under lock by the core, taken by the control thread */
	uint64_t close_mask;
	struct wire_hello dial_hello;
	uint8_t dial_key[CTL_KEY_BYTES];
	struct {
		bool pending;
		tcpx_status status;
	} core_failed;		  /* lock */
	struct fence_out *fences; /* lock: fences to send */
};

struct fence_out {
	struct fence_out *next;
	uint32_t channel, epoch, count;
	uint64_t applied;
	struct core_nack nacks[];
};

enum engine_request_state { REQUEST_IDLE = 0, REQUEST_ACTIVE = 1, REQUEST_FINAL = 2 };

struct engine_lead;

struct engine_request {
	struct handle_slot slot;
	struct engine_session *session;
	_Atomic(struct engine_peer *) peer; /* again.h: another one once its link ended */
	uint64_t peer_id;		    /* the handle that it was prepared by */
	struct core_xfer xfer;
	struct core_prog prog;
	struct core_seg one[2]; /* program of a single piece */
	struct core_seg *segs;
	struct mem_region **regions;
	uint64_t *keys;
	uint32_t nregions;
	void *notify;
	int64_t deadline_ns; /* relative */
	tcpx_request_fn callback;
	void *user;
	_Atomic uint32_t state; /* futex */
	_Atomic uint32_t waiters;
	_Atomic bool leads;	  /* its end comes by the lane: who waits may lead */
	struct engine_lead *lead; /* peer lock */
	struct list_node done;	  /* session->done, peer->buried, ->early or ->doubts */
	bool early, doubted;	  /* peer lock: waits in peer->early, peer->doubts */
	int64_t doubt_ns;	  /* not longer than that */
	bool in_done, io_held, zombie;
	bool sends;			       /* who posts it sends the first of it */
	bool local_staged, remote_staged;      /* as the regions say */
	bool local_shares, remote_shares;      /* all of it is memory that can go by reference */
	bool local_messages, remote_messages;  /* the same, as messages */
	uint64_t post_seq, gone_at, gone_base; /* peer lock; memory that vanished: offset, region */
	int64_t posted_ns;
	tcpx_completion completion;
};

struct engine_session {
	_Atomic uint32_t magic;
	uint32_t fork_generation;
	pthread_mutex_t lock; /* peers list changes, listeners, handles */
	uint64_t flags;
	char name[TCPX_NAME_MAX + 1];
	uint8_t uuid[WIRE_UUID_BYTES], incarnation[WIRE_UUID_BYTES], secret[WIRE_SECRET_BYTES];
	struct session_identity identity;
	struct session_inbound inbound;
	struct sockaddr_storage rails[ENGINE_RAILS_MAX];
	uint32_t nrails;
	bool bound, any_source; /* the user named rails; by "auto": other sources will do, too */
	uint32_t rails_said;	/* control thread, by bit: that it leads nowhere */
	char *filters;
	struct session_told told;
	struct ctl_keys keys;
	struct engine_plugin *plugin;	/* or NULL */
	uint32_t channels, chunk_bytes; /* wishes; 0: none */
	uint32_t inline_bytes;
	int64_t silent_ns, stopped_ns;
	_Atomic int64_t goodbye_ns; /* doubt.h */
	uint64_t notify_budget;
	struct session_account account;
	struct mem_regions *regions;
	struct handles peers, requests, imports;
	struct list_node peer_list; /* lock */
	struct ctl_listener *listeners[ENGINE_RAILS_MAX];
	uint32_t nlisteners;
	uint16_t port;
	struct local_listener *local;
	char local_name[LOCAL_NAME_MAX];
	bool listening, closing;
	struct list_node node; /* runtime's; control thread */
	struct sys_timer deadline_timer;
	struct sys_post deadline_post;
	_Atomic int deadline_posted;

	pthread_mutex_t queue_lock; /* everything below */
	struct list_node notes;	    /* core_msg with a header */
	struct list_node taken;	    /* the same, not released yet */
	struct list_node events, accepts, done;
	uint32_t nevents;
	int eventfd;
	bool signalled;
	_Atomic uint32_t note_word, note_waiters, accept_word, done_word, any_waiters;
	struct engine_lead *note_lead;
	struct engine_lead *leads; /* free ones */
	uint64_t stage_pool, stage_free, stage_ahead;
	uint32_t stage_hungry; /* peers that are */
	bool stage_returned;
	struct ctl_counters ctl_counters;
	struct tcpx_counters counters; /* of peers that are gone; queue_lock */
	_Atomic uint64_t posted, done_count, failed, notes_in, notes_out, peers_up, peers_lost;
	_Atomic uint64_t channels_lost, redials, protocol_errors, active, carrier_losses,
		peers_failed;
};

extern struct engine_runtime engine_runtime;

/* runtime.c */
tcpx_status runtime_get(uint32_t workers);
void runtime_put(void);
/* Runs fn(arg) on the control thread and waits for its end. */
void runtime_call(void (*fn)(void *arg), void *arg);

/* worker.c */
tcpx_status worker_start(struct engine_worker *worker, uint32_t index, bool lanes);
void worker_stop(struct engine_worker *worker);
void worker_kick(struct engine_chan *chan);
bool worker_sleeps(const struct engine_chan *chan);
void worker_again(struct engine_chan *chan); /* runs chan_event(EPOLLIN) soon */
void worker_poll(struct engine_chan *chan);  /* its own thread: the same, and who else may run */
void worker_bury(struct engine_chan *chan);  /* takes over one reference */
void worker_looked(void);  /* an application did, and found nothing: it may spin */
bool worker_watched(void); /* one did just now, and the lanes' worker may stay awake beside it */
bool worker_is_current(const struct engine_worker *worker);

/* chan.c */
tcpx_status chan_create(struct engine_peer *peer, uint32_t index, uint32_t epoch,
			struct net_chan *net, int node, struct engine_chan **out_chan);
void chan_start(struct engine_chan *chan); /* into its worker's set */
/* Nobody is inside any more, and nobody gets in; the descriptor closes with the last reference. */
void chan_stop(struct engine_chan *chan);
void chan_get(struct engine_chan *chan); /* peer.lock, or a reference is held */
void chan_put(struct engine_chan *chan);
void chan_fail(struct engine_chan *chan, tcpx_status status, int err);
void chan_event(struct engine_chan *chan, uint32_t events);
/* Control thread, each beat: a channel that was idle since the last one keeps little memory. */
void chan_trim(struct engine_chan *chan, int64_t now_ns);
void chan_tx_kick(struct engine_chan *chan);
bool chan_rx_try(struct engine_chan *chan);
void chan_rx_leave(struct engine_chan *chan);
int chan_wait_recv(struct engine_chan *chan);
void chan_keep_recv(struct engine_chan *chan);
int chan_wait_send(struct engine_chan *chan);

/* chan_tx.c, chan_rx.c: with the direction's ownership */
void chan_tx_run(struct engine_chan *chan, uint64_t budget);
void chan_tx_drop(struct engine_chan *chan);
void chan_tx_slices_put(struct engine_chan *chan); /* no lock held */
/* lease.c, control thread: a stopped channel whose peer may be reading; takes the frame's io. */
void lease_start(struct engine_chan *chan);
void leases_init(struct engine_runtime *runtime);
void leases_forget(struct engine_runtime *runtime); /* the runtime stops */
/* Receives until nothing is there or budget bytes came; true when something came. */
void chan_rx_run(struct engine_chan *chan, uint64_t budget);
void chan_rx_drop(struct engine_chan *chan);
/* Before the worker sleeps on it: in the middle of a large payload not for every segment. */
void chan_rx_mark(struct engine_chan *chan);
/* peer.lock: the region goes away; what is parked lets go of it. */
void chan_rx_forget(struct engine_chan *chan, struct mem_region *region);

/* hooks.c */
extern const struct core_ops engine_core_ops;
/* After peer.lock is free: does what the core asked for. */
void peer_flush_kicks(struct engine_peer *peer);
void peer_kick(struct engine_peer *peer, bool here); /* here: the lane may be served here */
/* What a post sends itself: nothing, what is for the lane, or the first channel's share, too. */
enum post_sends { POST_NOTHING, POST_LANE, POST_FIRST };
void peer_kick_posted(struct engine_peer *peer, enum post_sends sends);
void peer_progress(struct engine_peer *peer); /* something ended: flushes look again */
void peer_wake_control(struct engine_peer *peer);
void session_signal(struct engine_session *session); /* queue_lock held */

/* peer.c, peer_dial*.c, peer_accept.c: control thread unless said otherwise */
struct engine_peer *peer_create(struct engine_session *session); /* any thread */
void peer_enlist(struct engine_peer *peer); /* any thread: who it is stands, look-ups find it */
void peer_put(struct engine_peer *peer);    /* any thread */
void peer_die(struct engine_peer *peer, tcpx_status status, int err, const char *what);
void peer_die_last(struct engine_peer *peer);	   /* as this thread's last error says */
bool peer_unknown(const struct engine_peer *peer); /* session.lock held; see NO_ACCEPT */
tcpx_status peer_control_up(struct engine_peer *peer, const struct ctl_conn *conn, bool dialler);
void peer_control_again(struct engine_peer *peer, const struct ctl_conn *conn);
tcpx_status peer_attach(struct engine_peer *peer, uint32_t channel, uint32_t epoch,
			struct net_chan *net);
void peer_check_up(struct engine_peer *peer); /* it is, when its channels are there */
void peer_set_state(struct engine_peer *peer, enum tcpx_peer_state state);
void peer_event(struct engine_peer *peer, enum tcpx_event_type type, tcpx_status status,
		uint32_t channel);
void peer_dial_start(struct engine_peer *peer);
void peer_dial_cancel(struct engine_peer *peer);
void peer_dial_channels(struct engine_peer *peer);
void peer_dial_channel(struct engine_peer *peer, uint32_t channel);
void peer_dial_control(struct engine_peer *peer);
extern const struct ctl_accept_ops peer_accept_ops;
void peer_fill_hello(struct engine_session *session, struct wire_hello *hello);
void peer_forget(struct engine_peer *peer);
void peer_redial_later(struct engine_peer *peer, uint32_t channel);
void peer_redial_parked(struct engine_peer *peer, uint32_t channel); /* its rail has no carrier */
void peer_redial_now(struct engine_peer *peer);
void peer_control_lost(struct engine_peer *peer, tcpx_status status, int err);
void peer_control_later(struct engine_peer *peer);
void peer_connect_timer(struct engine_peer *peer);
void peer_beat(struct sys_timer *timer, int64_t now_ns);
tcpx_status peer_ctl_open(struct engine_peer *peer, int fd);
void peer_send_offers(struct engine_peer *peer, bool local);
void peer_rival_close(struct engine_peer *peer);
void peer_send_fences(struct engine_peer *peer);
void peer_ctl_send(struct engine_peer *peer, const struct frame *frame, const void *payload);
void peer_send_goodbye(struct engine_peer *peer);

uint32_t session_auto_channels(void);
/* session.c, control thread: it has a local listener from now on; false: it cannot. */
bool session_local_open(struct engine_session *session);
/* session_opts.c */
tcpx_status session_options(struct engine_session *session, const tcpx_session_opts *opts);
void session_timer_kick(struct engine_session *session); /* any thread: a deadline is near */

/* request.c */
void request_ended(struct engine_request *request);
/* peer.lock: its memory is used no more. */
void request_quiet(struct engine_request *request);
/* request_opts.c */
tcpx_status request_take_options(struct engine_request *request, const tcpx_request_opts *opts);
/* An active one to the core, peer.lock held: its status. */
tcpx_status request_hand_over(struct engine_request *request);
void request_free(void *object);
/* The request of a handle with a reference, or NULL and ERR_STALE as the last error. It may be
 * released meanwhile: slot.id tells. request_put: no lock held. */
struct engine_request *request_get(struct engine_session *session, uint64_t id);
void request_put(struct engine_request *request);
tcpx_status request_stale(void);

/* notes.c */
void note_published(struct engine_peer *peer, struct core_msg *msg);
void notes_drop_all(struct engine_session *session);

#endif

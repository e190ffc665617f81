/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's objects: one runtime a process, sessions, peers, channels, requests.
 *
 * Locks, in the order they may be taken: runtime.lock, session.lock, peer.lock, then the leaves
 * (worker.lock, session.queue_lock). Under the first three nothing is called out of the library, no
 * line is logged, and no system call but a wake-up is made (base/law.h). Locks that are held across
 * a call of a transport (chan.poll_lock) are its owner's, and never the control thread's.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "ctl/conn.h"
#include "engine/again.h"
#include "engine/channel.h"
#include "engine/peer/control_state.h"
#include "engine/peer/dial_state.h"
#include "engine/doubt.h"
#include "engine/early.h"
#include "engine/inbound.h"
#include "engine/link/engine_link.h"
#include "engine/peer_identity.h"
#include "engine/peer_local.h"
#include "engine/peer_route.h"
#include "engine/rail_state.h"
#include "engine/session_told.h"
#include "mem/region.h"
#include "net/local/local.h"
#include "net/net.h"
#include "sys/links.h"
#include "wire/hello.h"
#include <tcpx/tcpx.h>

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

struct engine_peer {
	struct link link; /* first: the handle is its slot */
	uint64_t slot_id; /* its handle, also after it was hidden */
	struct peer_identity who;
	_Atomic uint32_t state; /* enum tcpx_peer_state; futex */
	tcpx_error error;	/* lock: why it is dead */
	const char *transport;
	uint32_t nbulk, chunk_bytes;
	uint64_t post_seq;		 /* lock */
	uint64_t rate[2];		 /* lock: bytes a second of READs, WRITEs */
	uint64_t unread;		 /* session.queue_lock: notifications */
	struct peer_pending pending;	 /* lock: posted while it connects */
	struct peer_doubt doubt;	 /* requests that wait for a goodbye */
	struct peer_reconnect reconnect; /* session.lock */
	struct engine_shares *shared;	 /* lock: memory shared with it; or NULL */
	struct engine_peer_comms *comms; /* its plugin channels; or NULL */

	/* control thread only */
	struct peer_address address;
	struct peer_dialling dialling;
	struct peer_control control;
	struct peer_rails rails;
	struct peer_local shared_memory; /* dialling channels of it */
	struct peer_inbound inbound;
	struct list_node node;	      /* session->peers */
	struct list_node accept_node; /* session->accepts, with a reference */
	bool dialler, counted_up, released, died;
	bool in_view; /* session.lock: its handle was given out before it came up */
};

static inline struct engine_peer *link_peer(struct link *link)
{
	return LIST_ENTRY(link, struct engine_peer, link);
}

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
	void *user;
	_Atomic uint32_t state; /* futex */
	_Atomic uint32_t waiters;
	_Atomic bool leads;	  /* its end comes by the lane: who waits may lead */
	struct engine_lead *lead; /* peer lock */
	struct list_node done;	  /* session->completions, peer->buried, ->early, ->doubts */
	bool early, doubted;	  /* peer lock: waits in peer->early, peer->doubts */
	int64_t doubt_ns;	  /* not longer than that */
	_Atomic bool queued;	  /* in session->completions: set under both locks, cleared under
				     queue_lock */
	bool wants_queue, io_held, zombie;
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
	char *filters;		/* what tests put around channels, net_wrapper; or NULL */
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
	struct list_node notes;	    /* core_notify_in with a header */
	struct list_node taken;	    /* the same, not released yet */
	struct list_node events, accepts;
	struct list_node completions; /* ended requests that nobody polled yet; ready.h */
	uint32_t nevents;
	int eventfd;
	bool fd_used, signalled; /* the eventfd: somebody has it, it is readable */
	_Atomic uint32_t note_word, note_waiters, accept_word;
	_Atomic uint32_t ready_word, ready_waiters;
	struct engine_lead *note_lead, *ready_lead;
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

static inline void peer_get(struct engine_peer *peer)
{
	link_get(&peer->link);
}

static inline void peer_put(struct engine_peer *peer)
{
	link_put(&peer->link);
}

/* base/law.h says what is not done while it is held. */
static inline void session_lock(struct engine_session *of)
{
	pthread_mutex_lock(&of->lock);
	law_enter();
}

static inline void session_unlock(struct engine_session *of)
{
	law_leave();
	pthread_mutex_unlock(&of->lock);
}

/* runtime_start.c */
tcpx_status runtime_get(uint32_t workers);
void runtime_put(void);
/* runtime.c */
/* Runs fn(arg) on the control thread and waits for its end. */
void runtime_call(void (*fn)(void *arg), void *arg);
bool runtime_is_control(void); /* this thread is; it touches no memory of the caller */

/* worker.c */
tcpx_status worker_start(struct engine_worker *worker, uint32_t index, bool lanes);
void worker_stop(struct engine_worker *worker);
void worker_kick(struct engine_chan *chan);
bool worker_sleeps(const struct engine_chan *chan);
void worker_again(struct engine_chan *chan); /* runs chan_event(EPOLLIN) soon */
void worker_poll(struct engine_chan *chan);  /* its own thread: the same, and who else may run */
void worker_look(struct engine_chan *chan);  /* at what it is asked for */
void worker_bury(struct engine_chan *chan);  /* takes over one reference */
void worker_looked(void);  /* an application did, and found nothing: it may spin */
bool worker_watched(void); /* one did just now, and the lanes' worker may stay awake beside it */
bool worker_is_current(const struct engine_worker *worker);

/* peer.c, peer_channels.c, peer_dial*.c, peer_accept.c: control thread unless said otherwise */
struct engine_peer *peer_create(struct engine_session *session); /* any thread */
void peer_enlist(struct engine_peer *peer); /* any thread: who it is stands, look-ups find it */
void peer_woken(struct sys_post *post);
void peer_free(struct link *link); /* any thread: the last reference went */
void peer_counters_add(tcpx_counters *sum, const struct core_link *link);
void peer_die(struct engine_peer *peer, tcpx_status status, int err, const char *what);
void peer_die_last(struct engine_peer *peer);	   /* as this thread's last error says */
bool peer_unknown(const struct engine_peer *peer); /* session.lock held; see NO_ACCEPT */
tcpx_status peer_control_up(struct engine_peer *peer, const struct ctl_conn *conn, bool dialler);
void peer_control_again(struct engine_peer *peer, const struct ctl_conn *conn);
tcpx_status peer_attach(struct engine_peer *peer, uint32_t channel, uint32_t epoch,
			struct net_chan *net);
/* Channels that failed, or that the peer gave up, go. */
void peer_take_down(struct engine_peer *peer);
void peer_left_dead(struct engine_chan *chan); /* its peer died, and now its last call returned */
bool peer_malformed(tcpx_status status);       /* the peer broke the protocol */
void peer_check_up(struct engine_peer *peer);  /* it is, when its channels are there */
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
extern const struct ctl_link_ops peer_ctl_ops;
void peer_send_offers(struct engine_peer *peer, bool local);
void peer_rival_close(struct engine_peer *peer);
void peer_send_fences(struct engine_peer *peer);
void peer_send_goodbye(struct engine_peer *peer);

/* session.c, control thread: it has a local listener from now on; false: it cannot. */
bool session_local_open(struct engine_session *session);
/* session_opts.c */
tcpx_status session_options(struct engine_session *session, const tcpx_session_opts *opts);
void session_timer_kick(struct engine_session *session); /* any thread: a deadline is near */

/* request.c */
void request_ended(struct engine_request *request);
/* peer.lock: its memory is used no more. */
void request_quiet(struct engine_request *request);
/* peer.lock: not active any more, or again as it was; whoever waits hears of it. */
void request_set_state(struct engine_request *request, uint32_t state);
/* request_opts.c */
tcpx_status request_take_options(struct engine_request *request, const tcpx_request_opts *opts);
/* request_post.c, peer.lock: an active one to the core, its status; its regions are free to go. */
tcpx_status request_hand_over(struct engine_request *request);
void request_io_put(struct engine_request *request);
void request_free(void *object);
/* The request of a handle with a reference, or NULL and ERR_STALE as the last error. It may be
 * released meanwhile: slot.id tells. request_put: no lock held. */
struct engine_request *request_get(struct engine_session *session, uint64_t id);
void request_put(struct engine_request *request);
tcpx_status request_stale(void);
/* A request's peer with a reference; locked, too. */
struct engine_peer *request_peer(struct engine_request *request);
struct engine_peer *request_lock(struct engine_request *request);
void request_unlock(struct engine_peer *peer);

/* notes.c */
void note_published(struct engine_peer *peer, struct core_notify_in *msg);
void notes_drop_all(struct engine_session *session);

#endif

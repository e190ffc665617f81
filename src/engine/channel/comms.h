/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugin channels: the plugin of a session, and the comms of its peers. The comms of a channel are
 * set up while its guide is dialled, by COMM frames of the control link. They are closed after the
 * channel has stopped. docs/design/messages.md has the rules.
 *
 * Invariants: each attempt to set up a channel has an epoch that no earlier attempt had. The core
 * is told that a channel is lost only when its comms are closed or the plugin did not close them in
 * time. Memory registered with a comm has an io reference of its region until it is deregistered or
 * the comm is closed.
 *
 * Thread: the control thread calls all functions, unless a comment says otherwise.
 */
#ifndef ENGINE_CHANNEL_COMMS_H
#define ENGINE_CHANNEL_COMMS_H

#include "engine/channel/chan_calls.h"
#include "engine/link/comms_state.h"

#define COMMS_NICS_ALL "all"
#define COMMS_TOLD 240u /* most bytes of a reason in a COMM frame */
#define COMMS_WHERE_BYTES sizeof(((struct net_setup_opts *)0)->where)

struct comms_place;

/* comms.c: loads the plugin that opts or the environment names, and picks its NICs. Any thread. */
tcpx_status comms_session_open(struct engine_session *session, const tcpx_session_opts *opts);
void comms_session_close(struct engine_session *session);
/* What this end requests in its hello, and what the acceptor grants of a dialler's request. */
void comms_hello(const struct engine_session *session, struct wire_messages *out_messages);
void comms_grant(const struct engine_session *session, const struct wire_messages *wish,
		 struct wire_messages *out_messages);
/* Makes the peer's table of plugin channels from what the acceptor granted, at either end. */
tcpx_status comms_peer_open(struct engine_peer *peer, const struct wire_messages *granted,
			    bool begin_empty);
void comms_peer_free(struct engine_peer *peer); /* the peer's last reference is gone; any thread */
/* The peer's entry for a plugin channel; NULL: it is no plugin channel. */
struct comms_slot *comms_slot(const struct engine_peer *peer, uint32_t channel);
uint32_t comms_given_up(const struct engine_peer *peer); /* number of channels given up */
/* For the dialler. True: plugin channels to this peer are not tried, for the reason *out_why. */
bool comms_not_tried(const struct engine_peer *peer, const char **out_why);
/* Called at each post, with link.lock held: whether the request goes as messages. */
bool comms_carries(struct engine_request *request);
/* Answers a READ by messages if the reader asks for them. ERR_REMOTE: impossible. Any thread. */
tcpx_status comms_serve(struct engine_peer *peer, struct core_resp *resp, const uint64_t *keys,
			bool asked);

/* comms_nics.c, any thread: sets the plugin's NICs. names: a list; "all"; "": the GPU's NIC, or for
 * host memory the first one. ERR_NOT_FOUND; ERR_UNSUPPORTED: a NIC cannot reach the GPU. */
tcpx_status comms_nics_pick(struct engine_plugin *plugin, const char *names,
			    struct comms_place *place);

const struct engine_nic *comms_nic(const struct engine_comms *comms); /* comms_words.c */
const char *comms_nic_name(const struct engine_comms *comms);	      /* any thread */
bool comms_relayed(const struct engine_comms *comms); /* whether another GPU receives; any thread */
/* comms_gpu.c: how messages are unpacked, as TCPX_UNPACK_IMPL spells it; "": they are not. */
const char *comms_unpack_text(const struct engine_comms *comms);
/* comms_words.c, any thread: copies text, with channel and NIC in front unless text begins with
 * them. text may be that of the last error. */
void comms_named(const struct engine_comms *comms, const char *text, char *out_text, size_t size);
/* Records why the channel fails, unless a reason is recorded: this thread's last error if that has
 * this status, else the text of the status. Any thread. */
void comms_why(struct engine_comms *comms, tcpx_status status);
/* Copies the recorded reason, else the text of status, with channel and NIC. Any thread. */
void comms_reason(struct engine_comms *comms, tcpx_status status, char *out_text, size_t size);
/* Texts. where: " (to ADDRESS from ADDRESS)" for a connect, " (at ...)" for an accept, "" if the
 * addresses are not known. awaits: what a setup is waiting for. */
void comms_where(const struct engine_comms *comms, enum comms_op op, char *out_text, size_t size);
void comms_awaits(const struct engine_comms *comms, char *out_text, size_t size);

/* comms.c: options of an operation on the comms; sends a COMM frame with that payload. */
struct net_setup_opts comms_opts(const struct engine_comms *comms, int64_t deadline_ns);
void comms_tell(struct engine_comms *comms, enum frame_comm what, const void *payload,
		uint32_t bytes);
/* comms_setup.c: takes over the connected guide. ERR_STALE: the attempt ended, guide is closed. */
tcpx_status comms_guide(struct engine_peer *peer, uint32_t channel, uint32_t epoch,
			struct net_chan *guide);
/* comms.c: stores a connect handle that the peer sent. An error: it may not be followed. */
tcpx_status comms_take_handle(struct engine_comms *comms, const uint8_t *handle);
/* comms_setup.c, to the end of this group: a COMM frame arrived. ERR_PROTOCOL: it is malformed. */
tcpx_status comms_frame(struct engine_peer *peer, const struct frame *frame, const void *payload);
/* Ends an attempt that failed and tells the peer; another attempt may follow. */
void comms_fail(struct engine_comms *comms, const char *why);
/* The channel cannot be set up: tells the peer, and lets the link come up without it. */
void comms_give_up(struct engine_peer *peer, uint32_t channel, const char *why);
/* Lets the peer come up without plugin channels that are late. True: some were, and it is up. */
bool comms_hurry(struct engine_peer *peer);
/* The epoch with which the dialler dials the channel next. */
uint32_t comms_next_epoch(struct engine_peer *peer, uint32_t channel);
/* Takes the next step of each setup, registration and close. The peer may be dead afterwards. */
void comms_run(struct engine_peer *peer);

/* Takes the result of an operation. False: none has ended, or it failed, which ends the attempt. */
bool comms_took(struct engine_comms *comms, enum comms_op which, struct net_setup_result *result);

/* comms_first.c */
/* Whether this end's comms can begin with an empty message. They do if the peer's can, too. */
bool comms_first_known(const struct engine_session *session);
/* True: both comms can be used. Else begins first messages that may begin; comms may be freed. */
bool comms_first(struct engine_comms *comms);

/* comms_end.c */
void comms_free(struct engine_comms *comms);
/* If no plugin channel is up for TCPX_MESSAGE_TIMEOUT_MS, requests that need one fail. */
void comms_strand_later(struct engine_peer *peer);
void comms_slot_set(struct engine_peer *peer, uint32_t channel, struct engine_comms *comms);
/* Begins to close comms that the caller took out of its slot. lost: at the end tells the core. */
void comms_close(struct engine_comms *comms, bool lost);
void comms_close_step(struct engine_comms *comms); /* when closed, comms is freed */
/* Whether the channel failed only because the peer ended it, so that the peer knows more. */
bool comms_follows(struct engine_comms *comms);
/* Closes the comms of a stopped channel. False: it has none, so the caller tells the core. */
bool comms_stopped(struct engine_chan *chan, const char *why);
/* The peer says why it lost the channel, or its message counts: logs that, and keeps a reason. */
void comms_lost_there(struct engine_peer *peer, uint32_t channel, const char *why);
/* Whether the channel is not to be dialled yet, after four losses in a row without data. */
bool comms_rests(const struct engine_peer *peer, uint32_t channel);
/* Closes the comms of a dead peer, whose channels are stopped. Comms whose channel has a call under
 * way are closed by comms_left(). */
void comms_peer_dead(struct engine_peer *peer);
/* Called if a call of the stopped channel of these comms (may be NULL) is still under way: they are
 * not closed before comms_stopped(), or comms_left() if the peer died. */
void comms_stays(struct engine_comms *comms);
void comms_left(struct engine_comms *comms);
/* At each heartbeat: fails a channel if no message is acknowledged for TCPX_MESSAGE_TIMEOUT_MS. */
void comms_beat(struct engine_peer *peer, int64_t now_ns);

/* comms_cover.c */
/* The whole pages that contain a region: returns their bytes and sets where they begin. */
uint64_t comms_cover(const struct mem_region *region, uintptr_t *out_base);
/* Called after a registration, on the same thread: asks the driver whether it exports the pages
 * that the plugin will ask for. If not, the region goes over tcp, and the log says so. */
void comms_cover_check(const struct engine_session *session, struct mem_region *region);

/* comms_mem.c */
/* For the worker as tx owner: posts the payload of the frame that is being sent. *out_valid false:
 * it is never posted, and the frame is a NOP now. Returns false if it cannot be posted yet (the
 * worker is kicked when it can), or if the channel has failed. */
bool comms_post(struct engine_chan *chan, bool *out_valid);
/* Called with link.lock held: the region is deregistered, so its registrations with comms end. */
void comms_forget(struct engine_peer *peer, struct mem_region *region);
void comms_mem_step(struct engine_comms *comms);
/* Whether memory is being registered. The peer cannot acknowledge a frame that waits for that. */
bool comms_mem_begins(struct engine_comms *comms);
/* Abandons operations that run. The caller makes sure that no message is posted any more. */
void comms_mem_stop(struct engine_comms *comms);
/* Releases the regions that were registered with a closed comm. */
void comms_mem_drop(struct engine_comms *comms);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugin channels: the plugin of a session, and the comms of its peers. The comms of a channel are
 * set up while its guide is dialled, by COMM frames of the control link. They are closed after the
 * channel has stopped or its setup has failed. docs/design/messages.md has the rules.
 *
 * Invariants: each attempt to set up a channel has an epoch that no earlier attempt had. The core
 * is told that a channel is lost only when its comms are closed, the plugin did not close them in
 * time, or the peer is about to end. A registration with a comm keeps its region in use (io
 * reference) until the registration ends or the comm is closed.
 *
 * Thread: the control thread calls all functions, unless a comment says otherwise.
 */
#ifndef ENGINE_CHANNEL_COMMS_H
#define ENGINE_CHANNEL_COMMS_H

#include "engine/channel/chan_calls.h"
#include "engine/link/comms_state.h"

#define COMMS_NICS_ALL "all"
#define COMMS_REASON_BYTES 240u /* longest reason text in a COMM frame, in bytes */
#define COMMS_WHERE_BYTES sizeof(((struct net_setup_opts *)0)->where)

struct comms_place;

/* comms.c: loads the plugin that opts or the environment names, and picks its NICs. Any thread. */
tcpx_status comms_session_open(struct engine_session *session, const tcpx_session_opts *opts);
void comms_session_close(struct engine_session *session);
/* comms_hello(): what this end requests. comms_grant(): what it, as acceptor, grants of `wish`. */
void comms_hello(const struct engine_session *session, struct wire_messages *out_messages);
void comms_grant(const struct engine_session *session, const struct wire_messages *wish,
		 struct wire_messages *out_messages);
/* At both ends: makes the peer's table of the plugin channels that the acceptor granted. */
tcpx_status comms_peer_open(struct engine_peer *peer, const struct wire_messages *granted,
			    bool begin_empty);
void comms_peer_free(struct engine_peer *peer); /* when the peer is freed; any thread */
/* Returns the peer's entry for a plugin channel; NULL if `channel` is not a plugin channel. */
struct comms_slot *comms_slot(const struct engine_peer *peer, uint32_t channel);
uint32_t comms_given_up(const struct engine_peer *peer); /* number of channels given up */
/* For the dialler: whether plugin channels to the peer must not be tried; *out_why is why. */
bool comms_not_tried(const struct engine_peer *peer, const char **out_why);
/* Called by path_choose(), with link.lock held: whether the request may go as messages. */
bool comms_carries(struct engine_request *request);
/* If `asked`, makes the READ's answer travel as messages, or returns ERR_REMOTE. Any thread. */
tcpx_status comms_serve(struct engine_peer *peer, struct core_resp *resp, const uint64_t *keys,
			bool asked);

/* comms_nics.c, any thread: sets the plugin's NICs from `names`, a list or "all". If `names` is "",
 * uses the GPU's own NIC, or for host memory the plugin's first NIC. Returns an error such as
 * ERR_NOT_FOUND, or ERR_UNSUPPORTED if a NIC cannot reach the GPU. */
tcpx_status comms_nics_pick(struct engine_plugin *plugin, const char *names,
			    struct comms_place *place);

const struct engine_nic *comms_nic(const struct engine_comms *comms); /* comms_words.c */
const char *comms_nic_name(const struct engine_comms *comms);	      /* any thread */
/* Whether the channel's NIC receives into another GPU than the session's (a relay). Any thread. */
bool comms_relayed(const struct engine_comms *comms);
/* comms_gpu.c: the unpack mode, a value of TCPX_UNPACK_IMPL; "" if messages are not unpacked. */
const char *comms_unpack_text(const struct engine_comms *comms);
/* comms_words.c, any thread: copies `text`, preceded by channel and NIC unless it begins with them.
 * `text` may be that of the last error. */
void comms_named(const struct engine_comms *comms, const char *text, char *out_text, size_t size);
/* Records why the channel fails, unless a reason is recorded already: the thread's last error if it
 * has this status, else the text of `status`. Any thread. */
void comms_why(struct engine_comms *comms, tcpx_status status);
/* Copies channel, NIC, and the recorded reason or else the text of `status`. Any thread. */
void comms_reason(struct engine_comms *comms, tcpx_status status, char *out_text, size_t size);
/* comms_where() writes " (to ADDRESS from ADDRESS)" for a connect, " (at ...)" for an accept, ""
 * if the addresses are not known. comms_awaits() writes what a setup is waiting for. */
void comms_where(const struct engine_comms *comms, enum comms_op op, char *out_text, size_t size);
void comms_awaits(const struct engine_comms *comms, char *out_text, size_t size);

/* comms.c: comms_opts() returns the options of an operation, comms_tell() sends a COMM frame. */
struct net_setup_opts comms_opts(const struct engine_comms *comms, int64_t deadline_ns);
void comms_tell(struct engine_comms *comms, enum frame_comm what, const void *payload,
		uint32_t bytes);
/* comms_setup.c: gives `guide` to the attempt with this epoch, which begins if it is new. If the
 * attempt has ended, cannot begin or has a guide, closes `guide` and returns ERR_STALE. */
tcpx_status comms_guide(struct engine_peer *peer, uint32_t channel, uint32_t epoch,
			struct net_chan *guide);
/* comms.c: stores a connect handle of the peer, or returns an error if it may not be used. */
tcpx_status comms_take_handle(struct engine_comms *comms, const uint8_t *handle);
/* From here to comms_result(): comms_setup.c. Handles a COMM frame, or returns ERR_PROTOCOL. */
tcpx_status comms_frame(struct engine_peer *peer, const struct frame *frame, const void *payload);
/* Ends an attempt that failed and tells the peer; another attempt may follow. */
void comms_fail(struct engine_comms *comms, const char *why);
/* Called if a channel cannot be set up: tells the peer, and lets the link come up without it. */
void comms_give_up(struct engine_peer *peer, uint32_t channel, const char *why);
/* Lets the peer come up without late plugin channels. Returns whether this brought it up. */
bool comms_hurry(struct engine_peer *peer);
/* Returns the epoch with which the dialler dials the channel next. */
uint32_t comms_next_epoch(struct engine_peer *peer, uint32_t channel);
/* Takes the next step of each setup, registration and close. The peer may be dead afterwards. */
void comms_run(struct engine_peer *peer);

/* If operation `which` has succeeded, takes its result, returns true. Failure ends the attempt. */
bool comms_result(struct engine_comms *comms, enum comms_op which, struct net_setup_result *result);

/* comms_first.c: whether this end's comms can begin with an empty message. */
bool comms_first_known(const struct engine_session *session);
/* Returns true if both comms can be used. Otherwise begins those first messages that
 * may begin; afterwards comms may be freed. */
bool comms_first(struct engine_comms *comms);

void comms_free(struct engine_comms *comms); /* from here to comms_beat(): comms_end.c */
/* Fails requests that need a plugin channel, if none is up after TCPX_MESSAGE_TIMEOUT_MS. */
void comms_strand_later(struct engine_peer *peer);
void comms_slot_set(struct engine_peer *peer, uint32_t channel, struct engine_comms *comms);
/* Begins to close comms in no comms_slot; at the end, if `lost`, tells the core of the loss. */
void comms_close(struct engine_comms *comms, bool lost);
void comms_close_step(struct engine_comms *comms); /* frees comms when all is closed */
/* Whether the channel failed only because the peer ended it, so that the peer knows why. */
bool comms_peer_ended_first(struct engine_comms *comms);
/* Closes a stopped channel's comms. If there are none, returns false: the caller tells the core. */
bool comms_stopped(struct engine_chan *chan, const char *why);
/* Logs what the peer reported of a lost channel: a reason, which is kept, or message counts. */
void comms_lost_there(struct engine_peer *peer, uint32_t channel, const char *why);
/* Whether the channel must not be dialled yet, after four losses in a row without data. */
bool comms_rests(const struct engine_peer *peer, uint32_t channel);
/* Closes the comms of a dead peer, whose channels are stopped, except those with a pending call. */
void comms_peer_dead(struct engine_peer *peer);
/* Called if a call of a stopped channel is still under way, and when it has returned. After that
 * comms_stopped() or comms_peer_dead() closes the comms; if the peer died in between, the caller
 * must call comms_close(). `comms` may be NULL. */
void comms_call_pending(struct engine_comms *comms);
void comms_call_returned(struct engine_comms *comms);
/* At each heartbeat: fails channels that wait TCPX_MESSAGE_TIMEOUT_MS for an acknowledgement. */
void comms_beat(struct engine_peer *peer, int64_t now_ns);

/* comms_cover.c: the size and start of the pages of NET_MR_PAGE bytes that contain a region. */
uint64_t comms_cover(const struct mem_region *region, uintptr_t *out_base);
/* Called after a region was registered, by the same thread: asks the driver whether it exports the
 * pages that the plugin will ask for. If not, logs that the region goes over TCP. */
void comms_cover_check(const struct engine_session *session, struct mem_region *region);

/* comms_mem.c. Called by the worker as tx owner: posts the payload of the frame being sent. Sets
 * *out_valid to false if the payload will never be posted; the frame is then a NOP. Returns false
 * if the payload cannot be posted yet (later the worker is kicked), or the channel has failed. */
bool comms_post(struct engine_chan *chan, bool *out_valid);
/* Called with link.lock held when the region is deregistered: ends its registrations. */
void comms_forget(struct engine_peer *peer, struct mem_region *region);
void comms_mem_step(struct engine_comms *comms);
/* Whether memory is being registered. The peer cannot acknowledge a frame that waits for that. */
bool comms_mem_begins(struct engine_comms *comms);
/* Abandons running registrations and deregistrations. No message may be posted any more. */
void comms_mem_stop(struct engine_comms *comms);
/* Releases the regions that were registered with a closed comm. */
void comms_mem_drop(struct engine_comms *comms);

#endif

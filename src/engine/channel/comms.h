/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugin channels: the plugin of a session, and the comms of its peers. The comms of a channel are
 * set up in parallel with its guide, by COMM frames of the control link, before the channel comes
 * up, and are closed after it. docs/design/messages.md has the rules.
 *
 * Invariants: each attempt to set up a channel has an epoch that no earlier attempt had; the core
 * hears that a channel is lost only when its comms are closed, or their close has taken too long;
 * memory that is registered with a comm has an io reference of its region until it is deregistered
 * or the comm is closed.
 *
 * Thread: the control thread calls all functions, unless a comment says otherwise.
 */
#ifndef ENGINE_CHANNEL_COMMS_H
#define ENGINE_CHANNEL_COMMS_H

#include "engine/channel/chan_calls.h"
#include "engine/link/comms_state.h"

#define COMMS_NICS_ALL "all"
#define COMMS_TOLD 240u /* most bytes of a reason that is sent to the peer */
#define COMMS_WHERE_BYTES sizeof(((struct net_setup_opts *)0)->where)

struct comms_place;

/* comms.c */
tcpx_status comms_session_open(struct engine_session *session, const tcpx_session_opts *opts);
void comms_session_close(struct engine_session *session);
/* What this end requests in its hello, and what the acceptor grants of a dialler's request. */
void comms_hello(const struct engine_session *session, struct wire_messages *out_messages);
void comms_grant(const struct engine_session *session, const struct wire_messages *wish,
		 struct wire_messages *out_messages);
/* Makes the peer's table of plugin channels from what was granted. */
tcpx_status comms_peer_open(struct engine_peer *peer, const struct wire_messages *granted,
			    bool begin_empty);
void comms_peer_free(struct engine_peer *peer); /* the peer's last reference is gone; any thread */
/* The peer's entry for a plugin channel; NULL: channel is no plugin channel. */
struct comms_slot *comms_slot(const struct engine_peer *peer, uint32_t channel);
uint32_t comms_given_up(const struct engine_peer *peer); /* how many channels were given up */
/* For the dialler. True: it does not try plugin channels to this peer, for the reason *out_why. */
bool comms_not_tried(const struct engine_peer *peer, const char **out_why);
/* Called at each post, with link.lock held: whether the request goes as messages. */
bool comms_carries(struct engine_request *request);
/* The source of a READ: sends messages if the reader asks; ERR_REMOTE: impossible. Any thread. */
tcpx_status comms_serve(struct engine_peer *peer, struct core_push *push, const uint64_t *keys,
			bool asked);

/* comms_nics.c: chooses NICs by name; "all"; "": the GPU's NIC, or the first one for host memory.
 * ERR_NOT_FOUND; ERR_UNSUPPORTED: a NIC does not reach the GPU. May ask RxDM. Any thread. */
tcpx_status comms_nics_pick(struct engine_plugin *plugin, const char *names,
			    struct comms_place *place);

const struct engine_nic *comms_nic(const struct engine_comms *comms);
const char *comms_nic_name(const struct engine_comms *comms); /* any thread */
bool comms_relayed(const struct engine_comms *comms); /* receives land on another GPU; any thread */
/* How messages to GPU memory are unpacked, as TCPX_UNPACK_IMPL spells it; "": not at all. */
const char *comms_unpack_text(const struct engine_comms *comms);
/* Copies text, with channel and NIC in front unless it begins with them. text may be that of the
 * last error. Any thread. */
void comms_named(const struct engine_comms *comms, const char *text, char *out_text, size_t size);
/* comms_words.c. Records why the channel fails, unless a reason is recorded: this thread's last
 * error if it has that status, else the text of the status. Any thread. */
void comms_why(struct engine_comms *comms, tcpx_status status);
/* Copies that reason, or the text of status, with channel and NIC. Any thread. */
void comms_reason(struct engine_comms *comms, tcpx_status status, char *out_text, size_t size);
/* Texts: " (to ADDRESS from ADDRESS)" of a connect or accept, "" if the plugin's handles hold no
 * addresses; and what a setup is waiting for. */
void comms_where(const struct engine_comms *comms, enum comms_op op, char *out_text, size_t size);
void comms_awaits(const struct engine_comms *comms, char *out_text, size_t size);

/* comms_setup.c */
struct net_setup_opts comms_opts(const struct engine_comms *comms, int64_t deadline_ns);
void comms_tell(struct engine_comms *comms, enum frame_comm what, const void *payload,
		uint32_t bytes);
/* Takes over the guide, which is connected. */
tcpx_status comms_guide(struct engine_peer *peer, uint32_t channel, uint32_t epoch,
			struct net_chan *guide);
/* Checks and stores a connect handle that the peer sent for this end's plugin. */
tcpx_status comms_take_handle(struct engine_comms *comms, const uint8_t *handle);
tcpx_status comms_frame(struct engine_peer *peer, const struct frame *frame, const void *payload);
/* The attempt failed: tells the peer, and another attempt may follow. */
void comms_fail(struct engine_comms *comms, const char *why);
/* The channel cannot be set up: tells the peer once. */
void comms_give_up(struct engine_peer *peer, uint32_t channel, const char *why);
/* Lets the peer come up without late plugin channels. True: there were some, and it is up. */
bool comms_hurry(struct engine_peer *peer);
/* Chooses the epoch of the next attempt. */
uint32_t comms_next_epoch(struct engine_peer *peer, uint32_t channel);
/* Takes the next step of every setup and close. The peer may be dead afterwards. */
void comms_run(struct engine_peer *peer);

/* Takes the result of an operation. False: it still runs, or it failed, and so did the attempt. */
bool comms_took(struct engine_comms *comms, enum comms_op which, struct net_setup_result *result);

/* comms_first.c */
/* Whether comms of the session can begin with an empty message; they do if the peer's can, too. */
bool comms_first_known(const struct engine_session *session);
/* True: both directions are usable. Otherwise begins the first messages that may begin; the attempt
 * may have failed afterwards. */
bool comms_first(struct engine_comms *comms);

/* comms_end.c */
void comms_free(struct engine_comms *comms);
/* If no plugin channel is up, requests that need one fail unless one comes up in time. */
void comms_strand_later(struct engine_peer *peer);
void comms_slot_set(struct engine_peer *peer, uint32_t channel, struct engine_comms *comms);
/* Closes comms that no slot names, after their channel. lost: the core then hears of the loss. */
void comms_close(struct engine_comms *comms, bool lost);
void comms_close_step(struct engine_comms *comms); /* comms may be freed afterwards */
/* Whether the channel failed only because the peer ended it, so that the peer knows more. */
bool comms_follows(struct engine_comms *comms);
/* The channel is stopped: closes its comms. False: it has none, and the caller tells the core. */
bool comms_stopped(struct engine_chan *chan, const char *why);
/* The peer lost the channel, and says why, or its message counts. */
void comms_lost_there(struct engine_peer *peer, uint32_t channel, const char *why);
/* Whether the channel is not dialled for a while, after four losses in a row without data. */
bool comms_rests(const struct engine_peer *peer, uint32_t channel);
/* Closes the comms of a dead peer, whose channels are stopped; those whose channel has a call under
 * way wait for comms_left(). */
void comms_peer_dead(struct engine_peer *peer);
/* A call of the stopped channel of these comms (NULL: none) is still under way: they stay until
 * comms_stopped(), or comms_left() if the peer died. */
void comms_stays(struct engine_comms *comms);
void comms_left(struct engine_comms *comms);
/* At each heartbeat: fails a channel on which the peer acknowledges nothing for too long. */
void comms_beat(struct engine_peer *peer, int64_t now_ns);

/* comms_cover.c */
/* The whole pages around a region: returns their bytes, and where they begin. */
uint64_t comms_cover(const struct mem_region *region, uintptr_t *out_base);
/* Once per registration, on the caller's thread: asks the driver whether it exports the pages that
 * the plugin will ask for. If not, the region goes over tcp, and the log says so. */
void comms_cover_check(const struct engine_session *session, struct mem_region *region);

/* comms_mem.c */
/* For the worker as tx owner: posts the payload of the frame under way. *out_valid false: it is
 * never posted, and the frame is a NOP now. Returns false if it cannot be posted yet, and the
 * worker is kicked later; or if the channel has failed. */
bool comms_post(struct engine_chan *chan, bool *out_valid);
/* A region is deregistered; link.lock is held. */
void comms_forget(struct engine_peer *peer, struct mem_region *region);
void comms_mem_step(struct engine_comms *comms);
/* Whether memory is being registered: the peer cannot acknowledge a frame that waits for that. */
bool comms_mem_begins(struct engine_comms *comms);
/* Abandons the operations. Nothing may be posted any more. */
void comms_mem_stop(struct engine_comms *comms);
/* Releases the regions of a closed comm. */
void comms_mem_drop(struct engine_comms *comms);

#endif

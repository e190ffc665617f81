/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugin channels: the plugin of a session, and the comms of its peers. The comms of a channel are
 * set up beforehand, in parallel with its guide, by frames COMM of the control link, and are closed
 * after it. docs/design/messages.md has the rules.
 *
 * Invariants: each attempt to set up a channel has an epoch that no earlier attempt had; the core
 * hears that a channel is lost only when its comms are closed, or their close has taken too long;
 * memory that is registered with a comm has an io reference of its region until it is deregistered
 * or the comm is closed.
 *
 * Threads: the control thread, unless a function says otherwise.
 */
#ifndef ENGINE_CHANNEL_COMMS_H
#define ENGINE_CHANNEL_COMMS_H

#include "engine/channel/chan_calls.h"
#include "engine/link/comms_state.h"

#define COMMS_NICS_ALL "all"
#define COMMS_TOLD 240u /* longest reason that is sent to the peer */
#define COMMS_WHERE_BYTES sizeof(((struct net_setup_opts *)0)->where)

struct comms_place;

/* comms.c */
tcpx_status comms_session_open(struct engine_session *session, const tcpx_session_opts *opts);
void comms_session_close(struct engine_session *session);
/* What the hello requests, and what the acceptor grants of a dialler's request. */
void comms_hello(const struct engine_session *session, struct wire_messages *out_messages);
void comms_grant(const struct engine_session *session, const struct wire_messages *wish,
		 struct wire_messages *out_messages);
/* Applies to the peer what was granted. */
tcpx_status comms_peer_open(struct engine_peer *peer, const struct wire_messages *granted,
			    bool begin_empty);
void comms_peer_free(struct engine_peer *peer); /* the last reference went; any thread */
/* The slot of a plugin channel; NULL: it is another channel. */
struct comms_slot *comms_slot(const struct engine_peer *peer, uint32_t channel);
uint32_t comms_given_up(const struct engine_peer *peer); /* number of channels */
/* Dialler: another transport is better for this peer, or the plugin does not reach it. */
bool comms_senseless(const struct engine_peer *peer, const char **out_why);
/* link.lock, at each post: whether the request goes as messages. */
bool comms_carries(struct engine_request *request);
/* A READ's source: sends messages if the reader asks; ERR_REMOTE: impossible. Any thread. */
tcpx_status comms_serve(struct engine_peer *peer, struct core_push *push, const uint64_t *keys,
			bool asked);

/* comms_nics.c: chooses NICs by name; "all"; or "": the GPU's NIC, for host memory the first one.
 * ERR_NOT_FOUND; ERR_UNSUPPORTED: a NIC does not reach the GPU. May ask RxDM. Any thread. */
tcpx_status comms_nics_pick(struct engine_plugin *plugin, const char *names,
			    struct comms_place *place);

const struct engine_nic *comms_nic(const struct engine_comms *comms);
const char *comms_nic_name(const struct engine_comms *comms); /* any thread */
bool comms_relayed(const struct engine_comms *comms); /* receives land on another GPU; any thread */
/* How messages to GPU memory are unpacked, in the words of TCPX_UNPACK_IMPL; "": they are not. */
const char *comms_unpack_text(const struct engine_comms *comms);
/* text, with channel and NIC in front unless it begins with them. text may be the last error's. Any
 * thread. */
void comms_named(const struct engine_comms *comms, const char *text, char *out_text, size_t size);
/* comms_words.c: " (to ADDRESS from ADDRESS)" of a connect or accept if the plugin's handles hold
 * addresses, else ""; and what a setup is waiting for. */
void comms_where(const struct engine_comms *comms, enum comms_op op, char *out_text, size_t size);
void comms_awaits(const struct engine_comms *comms, char *out_text, size_t size);

/* comms_setup.c */
struct net_setup_opts comms_opts(const struct engine_comms *comms, int64_t deadline_ns);
void comms_tell(struct engine_comms *comms, enum frame_comm what, const void *payload,
		uint32_t bytes);
/* The guide is connected; takes it over. */
tcpx_status comms_guide(struct engine_peer *peer, uint32_t channel, uint32_t epoch,
			struct net_chan *guide);
/* Checks and stores a handle of the peer for our plugin. */
tcpx_status comms_take_handle(struct engine_comms *comms, const uint8_t *handle);
tcpx_status comms_frame(struct engine_peer *peer, const struct frame *frame, const void *payload);
/* The attempt failed: tells the peer, and another attempt may follow. */
void comms_fail(struct engine_comms *comms, const char *why);
/* The channel cannot be set up: tells the peer once. */
void comms_give_up(struct engine_peer *peer, uint32_t channel, const char *why);
/* The peer comes up without channels whose setup has not ended in time. True: there were some. */
bool comms_hurry(struct engine_peer *peer);
/* The epoch for the next attempt. */
uint32_t comms_next_epoch(struct engine_peer *peer, uint32_t channel);
/* Takes the next step of every setup and close. The peer may be dead afterwards. */
void comms_run(struct engine_peer *peer);

/* The result of an operation that ended; false: it runs, or failed, and with it the attempt. */
bool comms_took(struct engine_comms *comms, enum comms_op which, struct net_setup_result *result);

/* comms_first.c */
/* Comms of the session can begin with an empty message; they do if those of the peer can. */
bool comms_first_known(const struct engine_session *session);
/* True: both directions are usable. Otherwise begins the first messages that may begin; the attempt
 * may have failed afterwards. */
bool comms_first(struct engine_comms *comms);

/* comms_end.c */
/* Keeps this thread's last error as why the channel fails, if it is the first. Any thread. */
void comms_why(struct engine_comms *comms, tcpx_status status);
/* That reason, or the text of the status, with channel and NIC. Any thread. */
void comms_reason(struct engine_comms *comms, tcpx_status status, char *out_text, size_t size);
void comms_free(struct engine_comms *comms);
/* If no plugin channel is up, requests that need one fail unless one comes up in time. */
void comms_strand_later(struct engine_peer *peer);
void comms_slot_set(struct engine_peer *peer, uint32_t channel, struct engine_comms *comms);
/* Closes comms that are in no slot, after their channel. lost: the core hears of it at the end. */
void comms_close(struct engine_comms *comms, bool lost);
void comms_close_step(struct engine_comms *comms); /* comms may be freed afterwards */
/* The level at which the log tells that a channel was lost. */
enum tcpx_log_level comms_level(const struct engine_peer *peer, bool of_messages);
/* The channel is stopped. False: it is no plugin channel, and the caller tells the core. */
bool comms_stopped(struct engine_chan *chan, const char *why);
/* The peer lost the channel, and says why, or its message counts. */
void comms_lost_there(struct engine_peer *peer, uint32_t channel, const char *why);
/* The channel is not dialled for a while, since nothing arrived by it four times in a row. */
bool comms_rests(const struct engine_peer *peer, uint32_t channel);
/* The peer is dead and its channels are stopped. Comms whose channel has a call under way are not
 * closed yet. */
void comms_peer_dead(struct engine_peer *peer);
/* A call of the stopped channel of these comms (or NULL) is still under way: they stay until
 * comms_stopped(), or comms_left() if the peer died. */
void comms_stays(struct engine_comms *comms);
void comms_left(struct engine_comms *comms);
/* Each heartbeat: a channel on which the peer acknowledges nothing for too long fails. */
void comms_beat(struct engine_peer *peer, int64_t now_ns);

/* comms_cover.c */
/* The whole pages around a region: returns their bytes, and where they begin. */
uint64_t comms_cover(const struct mem_region *region, uintptr_t *out_base);
/* Once per registration, on the caller's thread: asks the driver whether it exports the pages that
 * the plugin will ask for. If not, the region goes over tcp, and the log says so. */
void comms_cover_check(const struct engine_session *session, struct mem_region *region);

/* comms_mem.c */
/* Worker, tx owner: posts the payload of the frame under way. *out_valid false: it is never posted,
 * and the frame is a NOP now. False: not yet, and the worker is kicked when it may go on; or the
 * channel has failed. */
bool comms_post(struct engine_chan *chan, bool *out_valid);
/* link.lock: a region is deregistered. */
void comms_forget(struct engine_peer *peer, struct mem_region *region);
void comms_mem_step(struct engine_comms *comms);
/* Memory is being registered, so a frame may wait that the peer cannot acknowledge yet. */
bool comms_mem_begins(struct engine_comms *comms);
/* Nothing is posted any more. Abandons the operations. */
void comms_mem_stop(struct engine_comms *comms);
/* The comm is closed: releases the regions. */
void comms_mem_drop(struct engine_comms *comms);

#endif

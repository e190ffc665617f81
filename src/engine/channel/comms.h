/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels of messages: the plugin of a session, and the comms of its peers. A channel's comms are
 * made beside its guide, by frames COMM of the control link, before the channel is there; they are
 * closed behind it. docs/design/messages.md has the rules.
 *
 * Invariants: an attempt has an epoch of its own, which no earlier attempt of the channel had; a
 * channel is told to the core as lost only when its comms are closed, or their closing has taken
 * too long; memory that is registered with a comm has an io reference of its region until it is
 * deregistered or the comm is closed.
 *
 * Threads: the control thread, unless a function says otherwise.
 */
#ifndef ENGINE_CHANNEL_COMMS_H
#define ENGINE_CHANNEL_COMMS_H

#include "base/error.h"
#include "engine/link/comms_state.h"

#define COMMS_NICS_ALL "all"
#define COMMS_TOLD 240u /* most of a reason that is told the peer */
#define COMMS_WHERE_BYTES sizeof(((struct net_setup_opts *)0)->where)

struct comms_place;

/* comms.c */
tcpx_status comms_session_open(struct engine_session *session, const tcpx_session_opts *opts);
void comms_session_close(struct engine_session *session);
/* The hello's wish, and what the acceptor grants of the dialler's. */
void comms_hello(const struct engine_session *session, struct wire_messages *out_messages);
void comms_grant(const struct engine_session *session, const struct wire_messages *wish,
		 struct wire_messages *out_messages);
/* What was granted holds for the peer from here on. */
tcpx_status comms_peer_open(struct engine_peer *peer, const struct wire_messages *granted,
			    bool begin_empty);
void comms_peer_free(struct engine_peer *peer); /* the last reference went; any thread */
/* The slot of a channel of messages; NULL: it is another one. */
struct comms_slot *comms_slot(const struct engine_peer *peer, uint32_t channel);
uint32_t comms_given_up(const struct engine_peer *peer); /* how many */
/* The dialler: there are better ways to this peer, or the plugin does not lead to it. */
bool comms_senseless(const struct engine_peer *peer, const char **out_why);
/* peer.lock, at each post: as messages or not? */
bool comms_carries(struct engine_request *request);
/* A READ's source: as messages if the reader asks for it; ERR_REMOTE: it cannot be. Any thread. */
tcpx_status comms_serve(struct engine_peer *peer, struct core_push *push, const uint64_t *keys,
			bool asked);

/* comms_nics.c: by their names, "all", or "": the GPU's own, the first for host memory.
 * ERR_NOT_FOUND, ERR_UNSUPPORTED: a NIC that does not lead to the GPU. May ask RxDM. Any thread. */
tcpx_status comms_nics_pick(struct engine_plugin *plugin, const char *names,
			    struct comms_place *place);

const struct engine_nic *comms_nic(const struct engine_comms *comms);
const char *comms_nic_name(const struct engine_comms *comms); /* any thread */
bool comms_relayed(const struct engine_comms *comms); /* likewise: receives land on another GPU */
/* How messages of GPU memory are unpacked, as TCPX_UNPACK_IMPL spells it; "": none are. */
const char *comms_unpack_text(const struct engine_comms *comms);
/* text with its channel and NIC in front, unless they are there. It may be the last error's. Any
 * thread. */
void comms_named(const struct engine_comms *comms, const char *text, char *out_text, size_t size);
/* comms_words.c: " (to ADDRESS from ADDRESS)" of a connect or accept, where the plugin's handles
 * tell them; else "". And what a setup waits for. Control thread. */
void comms_where(const struct engine_comms *comms, enum comms_op op, char *out_text, size_t size);
void comms_awaits(const struct engine_comms *comms, char *out_text, size_t size);

/* comms_setup.c */
struct net_setup_opts comms_opts(const struct engine_comms *comms, int64_t deadline_ns);
void comms_tell(struct engine_comms *comms, enum frame_comm what, const void *payload,
		uint32_t bytes);
/* A guide is there; owns it. */
tcpx_status comms_guide(struct engine_peer *peer, uint32_t channel, uint32_t epoch,
			struct net_chan *guide);
/* The peer's for our plugin, once it is checked; else the last error says what is wrong. */
tcpx_status comms_take_handle(struct engine_comms *comms, const uint8_t *handle);
tcpx_status comms_frame(struct engine_peer *peer, const struct frame *frame, const void *payload);
/* The attempt is over: the peer is told, and another one may follow. */
void comms_fail(struct engine_comms *comms, const char *why);
/* The channel is not to be had: the peer is told once. */
void comms_give_up(struct engine_peer *peer, uint32_t channel, const char *why);
/* The peer has waited long enough for those that are not there. True: there were some. */
bool comms_hurry(struct engine_peer *peer);
/* The epoch of the next attempt. */
uint32_t comms_next_epoch(struct engine_peer *peer, uint32_t channel);
/* Operations that ended go on. The peer may be dead. */
void comms_run(struct engine_peer *peer);

/* The result of an operation that ended; false: it has not, or the attempt is over. */
bool comms_took(struct engine_comms *comms, enum comms_op which, struct net_setup_result *result);

/* comms_first.c */
/* Comms of the session begin with an empty message, if the peer's do. */
bool comms_first_known(const struct engine_session *session);
/* Both directions are usable; else what may begin of their first messages begins. The attempt may
 * be over afterwards, if it says false. */
bool comms_first(struct engine_comms *comms);

/* comms_end.c */
/* Why the channel fails, as this thread's last error says. The first reason stays. Any thread. */
void comms_why(struct engine_comms *comms, tcpx_status status);
/* That, or what the status says, with channel and NIC. Any thread. */
void comms_reason(struct engine_comms *comms, tcpx_status status, char *out_text, size_t size);
void comms_free(struct engine_comms *comms);
/* No channel of messages is up, maybe for long. */
void comms_strand_later(struct engine_peer *peer);
void comms_slot_set(struct engine_peer *peer, uint32_t channel, struct engine_comms *comms);
/* It is in no slot, and its channel is stopped. lost: the core hears of it when it is closed. */
void comms_close(struct engine_comms *comms, bool lost);
void comms_close_step(struct engine_comms *comms); /* it may be gone behind it */
/* Of what is said of a channel that was lost. */
enum tcpx_log_level comms_level(const struct engine_peer *peer, bool of_messages);
/* The channel is stopped. False: it is none of messages, and the caller tells the core. */
bool comms_stopped(struct engine_chan *chan, const char *why);
/* The peer lost it, and says why, or how far it came. */
void comms_lost_there(struct engine_peer *peer, uint32_t channel, const char *why);
/* The channel is not dialled now: again and again nothing arrived by it. */
bool comms_rests(const struct engine_peer *peer, uint32_t channel);
/* The peer is dead and its channels are stopped; comms that stay are not closed yet. */
void comms_peer_dead(struct engine_peer *peer);
/* Of a stopped channel that a call is still inside of, or NULL: until comms_stopped, or comms_left
 * where its peer died. */
void comms_stays(struct engine_comms *comms);
void comms_left(struct engine_comms *comms);
/* Each beat: a peer that acknowledges nothing for too long loses the channel. */
void comms_beat(struct engine_peer *peer, int64_t now_ns);

/* comms_cover.c */
/* The whole pages around a region: their bytes, and where they begin. */
uint64_t comms_cover(const struct mem_region *region, uintptr_t *out_base);
/* Once a registration, on the caller's thread: asks the driver whether it gives out the pages that
 * the plugin will ask it for. Where it does not, the region goes over tcp, which the log says. */
void comms_cover_check(const struct engine_session *session, struct mem_region *region);

/* comms_mem.c */
/* The worker, with the sender's ownership: the payload of the frame under way is posted; or, with
 * *out_valid unset, never will be, and the frame says nothing any more. False: later, which the
 * worker is told, or the channel is lost. */
bool comms_post(struct engine_chan *chan, bool *out_valid);
/* peer.lock: a region goes away. */
void comms_forget(struct engine_peer *peer, struct mem_region *region);
void comms_mem_step(struct engine_comms *comms);
/* Memory is being registered: a frame may wait for that, and nobody can acknowledge it. */
bool comms_mem_begins(struct engine_comms *comms);
/* Nobody posts any more. Its operations are left alone. */
void comms_mem_stop(struct engine_comms *comms);
/* The comm is closed. */
void comms_mem_drop(struct engine_comms *comms);

#endif

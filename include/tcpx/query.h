/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to know: version, build, options, capabilities, counters, state of a peer. */
#ifndef TCPX_QUERY_H
#define TCPX_QUERY_H

#include <tcpx/session.h>
#include <tcpx/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Run-time version "0.1.0". @threads any. */
TCPX_API const char *tcpx_version(void);

/** One optional part of the build. */
typedef struct tcpx_feature {
	size_t sz;	    /**< set by the caller */
	const char *name;   /**< "crypto", "tcp", "local", "cuda", ... */
	uint32_t built;	    /**< 1: in this build */
	const char *reason; /**< why not, or what it uses; never NULL */
} tcpx_feature;

/** Feature number index. @return TCPX_OK; ERR_NOT_FOUND past the end; ERR_INVALID.
 * @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_feature_get(uint32_t index, tcpx_feature *out_feature);

/** One option of the environment; the table behind 'tcpx info --env'. */
typedef struct tcpx_option {
	size_t sz;	   /**< set by the caller */
	const char *name;  /**< "TCPX_CHUNK_BYTES" */
	const char *alias; /**< the predecessor's name, or "" */
	const char *type;  /**< "bytes", "count", "ms", "bool", "text", "path", "log" */
	const char *default_text;
	const char *range; /**< "4K..16M" */
	const char *help;
	char value[4096];   /**< in force in this process */
	const char *source; /**< "default", "environment", "alias", "set" */
} tcpx_option;

/** Option number index. @return TCPX_OK; ERR_NOT_FOUND past the end; ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_option_get(uint32_t index, tcpx_option *out_option);

/** Sets an option of this process in place of its environment's; a field of tcpx_session_opts that
 * is given still wins.
 * @param name  as tcpx_option has it @param value "": the default
 * @return TCPX_OK; ERR_NOT_FOUND (no such option; the next step names the nearest); ERR_INVALID
 *         (not in its range); ERR_STATE (another value, and a session was opened already);
 *         ERR_NO_MEMORY. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_option_set(const char *name, const char *value);

/** Value of an option from text, and nothing is changed: numbers and sizes as they are, 0 or 1 of
 * yes and no, the place of a word among those allowed, the length of free text.
 * @param value "": the default
 * @return TCPX_OK; ERR_NOT_FOUND; ERR_INVALID as tcpx_option_set(). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_option_parse(const char *name, const char *value,
						       uint64_t *out_value);

/** Unknown TCPX_* or UCCL_TCPX_* variable number index of the environment, with the nearest known
 * name, or "" if none is near. The first session that is opened logs a warning for each variable
 * with a near name, unless this was called before: a program that calls it reports them itself.
 * @return TCPX_OK; ERR_NOT_FOUND past the end. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_option_unknown(uint32_t index, char *name, size_t cap,
							 const char **out_nearest);

/** Parses "64K", "64KB", "64KiB", "1.5M", plain bytes; units are powers of 1024.
 * @return TCPX_OK; ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_parse_bytes(const char *text, uint64_t *out_bytes);

typedef struct tcpx_peer_info {
	size_t sz; /**< set by the caller */
	char name[TCPX_NAME_MAX + 1];
	enum tcpx_peer_state state;
	char transport[16];	    /**< "tcp", "local", "plugin": channels of messages, too */
	char congestion[16];	    /**< of the data channels, "" where there is none */
	char address[64];	    /**< control link's remote address */
	char auth[16];		    /**< "secret", "key", "loopback", "insecure" */
	uint32_t channels;	    /**< bulk channels up */
	uint32_t chunk_bytes;	    /**< in use towards this peer */
	uint64_t busy_ns;	    /**< TCP_INFO sums over data channels: sending, */
	uint64_t rwnd_limited_ns;   /**< held by the receiver's window, */
	uint64_t sndbuf_limited_ns; /**< held by the send buffer */
	uint64_t retransmits;
	uint64_t rtt_ns; /**< smoothed, of the control link */
	char copy[16];	 /**< how bulk bytes leave over the same host: "ring" (two copies),
			    "one-copy", "memcpy" (one process); "" over a network */
	uint32_t message_channels; /**< channels of messages up; not among channels */
	uint64_t read_bytes_per_s; /**< of our READs of 64 KiB and more over this link, from post to
				       end: a moving mean; 0 before the first */
	uint64_t write_bytes_per_s; /**< the same of WRITEs */
	char message_error[320];    /**< why a channel of messages is not there: its step, NIC and
				       addresses; "" when all are up, or nothing is known */
	char key[65]; /**< the public key that it proved to have, 64 hex digits; "": it proved
			   nothing, no side's crypto being enough */
} tcpx_peer_info;

/** Describes a peer. What its sockets say is asked for anew, or after 100 ms as it was last known.
 * @return TCPX_OK; ERR_STALE. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_peer_query(tcpx_session *session, tcpx_peer peer,
						     tcpx_peer_info *out_info);

/** One channel of a peer. The counts are of messages since the channel came up (it starts anew when
 * it was lost); where nothing is under way, sends_done equals sends_posted, and the last four are
 * equal. They are read one after the other while the channel goes on. */
typedef struct tcpx_channel_info {
	size_t sz;	       /**< set by the caller */
	uint32_t channel;      /**< its number, as events and the log have it */
	uint32_t messages;     /**< 1: of messages, over a plugin; 0: a stream */
	char nic[64];	       /**< of the plugin; "": a stream's */
	uint64_t sends_posted; /**< messages given to the plugin */
	uint64_t sends_done;   /**< that it has sent */
	uint64_t posted;       /**< receives given to the plugin */
	uint64_t done;	       /**< messages that are there */
	uint64_t unpacked;     /**< copied to where they belong */
	uint64_t consumed;     /**< given back to the plugin */
	uint32_t relayed;      /**< 1: the NIC is another GPU's, through which receives come */
	char unpack[12];       /**< how this end unpacks, as TCPX_UNPACK_IMPL spells it; "": nothing
				    is unpacked, the messages are of host memory */
} tcpx_channel_info;

/** The index-th channel of a peer that is up, from 0; the lane for small frames is one of them.
 * @return TCPX_OK; ERR_NOT_FOUND past the last; ERR_STALE; ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_channel_query(tcpx_session *session, tcpx_peer peer,
							uint32_t index,
							tcpx_channel_info *out_info);

/** Counters. X(name, help). All are u64 and only grow, but for the gauges named so. */
#define TCPX_COUNTER_MAP(X)                                                                        \
	X(tx_bytes, "payload bytes sent, or written into GPU memory that this end has mapped")     \
	X(rx_bytes, "payload bytes applied here; a peer that has mapped GPU memory counts alone")  \
	X(tx_chunks, "frames with sequence numbers sent")                                          \
	X(rx_chunks, "frames with sequence numbers applied")                                       \
	X(resent_chunks, "chunks sent again after a lost channel")                                 \
	X(aborted_chunks, "chunks finished from scratch after a cancel")                           \
	X(requests_posted, "requests posted")                                                      \
	X(requests_done, "requests that ended well")                                               \
	X(requests_failed, "requests that ended with an error")                                    \
	X(notifications_sent, "notifications sent")                                                \
	X(notifications_received, "notifications published")                                       \
	X(peers_up, "peers that came up")                                                          \
	X(peers_lost, "peers that died")                                                           \
	X(channels_lost, "channels lost while their peer lived")                                   \
	X(control_redials, "control links dialled again")                                          \
	X(accepted, "connections accepted")                                                        \
	X(preauth_rejects, "connections closed before authentication")                             \
	X(auth_failures, "hellos with a wrong proof")                                              \
	X(impostors, "links ended since they only said to be a session that has a key")            \
	X(protocol_errors, "peers ended for malformed frames")                                     \
	X(remote_rejects, "peers' accesses refused: key, rights or range")                         \
	X(staging_bytes, "gauge: staging memory in use")                                           \
	X(regions, "gauge: registered regions")                                                    \
	X(requests_active, "gauge: requests under way")                                            \
	X(memory_bytes, "gauge: memory counted against the budget")                                \
	X(carrier_losses, "connections given up because their interface lost its carrier")         \
	X(peers_failed, "peers that ended before they were up")                                    \
	X(peers_connecting, "gauge: peers that are not up yet")                                    \
	X(holders_ended, "peers ended since they held memory that others waited for")

typedef struct tcpx_counters {
	size_t sz; /**< set by the caller */
#define TCPX_COUNTER_FIELD(name, help) uint64_t name;
	TCPX_COUNTER_MAP(TCPX_COUNTER_FIELD)
#undef TCPX_COUNTER_FIELD
} tcpx_counters;

/** Sums over the session. @return TCPX_OK; ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_counters(tcpx_session *session,
							   tcpx_counters *out_counters);

/** What stands between a stranger and the session: "loopback", "key", "secret" (connection info
 * only) or "insecure". Never NULL. @threads any. */
TCPX_API const char *tcpx_session_trust(tcpx_session *session);

/** The session's own public key as 64 hex digits and a NUL, which tcpx_connect_opts.expect_key
 * takes on another host; "" without a crypto library.
 * @return TCPX_OK; ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_key(tcpx_session *session, char out_key[65]);

/** Makes an identity file, which tcpx_session_opts.identity_file takes: a session's own key as
 * text, mode 0600, never overwrites. @return as tcpx_key_create(). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_identity_create(const char *path);

/** The public key of an identity file: what tcpx_session_key() gives for a session that has it.
 * @return TCPX_OK; ERR_INVALID (no path); ERR_NOT_FOUND; ERR_AUTH (not an identity file, or others
 * may use it); ERR_UNSUPPORTED (no crypto library); ERR_NO_DESCRIPTORS; ERR_SYSTEM. @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_identity_key(const char *path, char out_key[65]);

/** Makes a key file: 32 random bytes as text, mode 0600, never overwrites; append: adds a second
 * key to a file that is there.
 * @return TCPX_OK; ERR_INVALID (no path); ERR_EXISTS; when appending ERR_NOT_FOUND, ERR_AUTH (not a
 * key file, or others may use it; the next step repairs it) and ERR_LIMIT (it has two);
 * ERR_NO_DESCRIPTORS; ERR_SYSTEM (cannot be written). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_key_create(const char *path, bool append);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to know: version, build, options, capabilities, counters, state of a peer. */
#ifndef TCPX_QUERY_H
#define TCPX_QUERY_H

#include <tcpx/session.h>
#include <tcpx/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Version of the running library, such as "0.1.0". @threads any. */
TCPX_API const char *tcpx_version(void);

/** One optional part of the build. */
typedef struct tcpx_feature {
	size_t sz;	    /**< set by the caller */
	const char *name;   /**< "crypto", "tcp", "local", "cuda", ... */
	uint32_t built;	    /**< 1: can be used */
	const char *reason; /**< what it uses, or why it cannot be used; never NULL */
} tcpx_feature;

/** Describes feature number `index`, from 0.
 * @return TCPX_OK; ERR_NOT_FOUND past the end; ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_feature_get(uint32_t index, tcpx_feature *out_feature);

/** One option of the environment; the table behind 'tcpx info --env'. */
typedef struct tcpx_option {
	size_t sz;	   /**< set by the caller */
	const char *name;  /**< "TCPX_CHUNK_BYTES" */
	const char *alias; /**< older names, with spaces between them, or "" */
	const char *type;  /**< "bytes", "count", "ms", "bool", "text", "path", "log" */
	const char *default_text;
	const char *range; /**< "4K..16M" */
	const char *help;
	char value[4096];   /**< value in force in this process */
	const char *source; /**< of the value: "default", "environment", "alias", "set" */
} tcpx_option;

/** Describes option number `index`, from 0.
 * @return TCPX_OK; ERR_NOT_FOUND past the end; ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_option_get(uint32_t index, tcpx_option *out_option);

/** Sets an option for this process; the value replaces that of the environment. A field of
 * tcpx_session_opts that is not 0 or NULL replaces both for its session.
 * @param name  as in tcpx_option.name
 * @param value "": the default
 * @return TCPX_OK; ERR_NOT_FOUND (no such option; tcpx_error.next may name the nearest one);
 *         ERR_INVALID (not in its range); ERR_STATE (a session was opened before, and the value
 *         would change); ERR_NO_MEMORY. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_option_set(const char *name, const char *value);

/** Parses a value of an option and sets nothing. Writes a number or size as it is, 1 or 0 for yes
 * or no, the index (from 0) of a word among the words allowed, or the length of free text.
 * @param value "": the default
 * @return TCPX_OK; ERR_NOT_FOUND; ERR_INVALID as tcpx_option_set(). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_option_parse(const char *name, const char *value,
						       uint64_t *out_value);

/** Finds variables of the environment that are named TCPX_* or UCCL_TCPX_* but are no option. Gives
 * number `index` of them, from 0, and the nearest name of an option ("" if none is near). The first
 * session that is opened logs those with a near name, unless this was called before.
 * @return TCPX_OK; ERR_NOT_FOUND past the end; ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_option_unknown(uint32_t index, char *name, size_t cap,
							 const char **out_nearest);

/** Parses a number of bytes: "64K", "64KB", "64KiB", "1.5M" or "65536"; units are powers of 1024.
 * @return TCPX_OK; ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_parse_bytes(const char *text, uint64_t *out_bytes);

/** State of a peer. Figures of the channels are sums. */
typedef struct tcpx_peer_info {
	size_t sz;		      /**< set by the caller */
	char name[TCPX_NAME_MAX + 1]; /**< name of its session */
	enum tcpx_peer_state state;
	char transport[16];  /**< "tcp", "local", or "plugin" if there are plugin channels */
	char congestion[16]; /**< congestion control of the channels; "" if none uses TCP */
	char address[64];    /**< remote address of the control link */
	/** how the peer was authenticated: "secret" (that of a connection info) or "key" (a key
	 * file); if it was not, where it is: "loopback" or "insecure" (any other address) */
	char auth[16];
	uint32_t channels;	    /**< bulk channels that are up, without plugin channels */
	uint32_t chunk_bytes;	    /**< size of the chunks to this peer */
	uint64_t busy_ns;	    /**< TCP_INFO: time with bytes to send */
	uint64_t rwnd_limited_ns;   /**< part of busy_ns limited by the peer's receive window */
	uint64_t sndbuf_limited_ns; /**< part of busy_ns limited by the send buffer */
	uint64_t retransmits;	    /**< TCP_INFO: packets sent again */
	uint64_t rtt_ns;	    /**< last round trip on the control link; 0 before the first */
	/** how bulk bytes leave over the same host: "ring" (two copies), "one-copy", "memcpy" (both
	 * ends in one process); "" over a network */
	char copy[16];
	uint32_t message_channels; /**< plugin channels that are up */
	/** moving mean of this side's READs of 64 KiB and more over this link, from post to end; 0
	 * before the first */
	uint64_t read_bytes_per_s;
	uint64_t write_bytes_per_s; /**< the same of WRITEs */
	/** why a plugin channel is missing: step, NIC and addresses; "" if all are up or the reason
	 * is not known */
	char message_error[320];
	char key[65]; /**< public key that it has proven, 64 hex digits; "" if none */
	/** why GPU memory of one end is not mapped by the other, although both are on one host, and
	 * what changes that: its bytes go through host memory; "" if there is no such memory, or
	 * none was used yet */
	char share_error[320];
} tcpx_peer_info;

/** Describes a peer. Waits at most 100 ms for the present figures of its channels; gives the last
 * known ones of a channel that takes longer.
 * @return TCPX_OK; ERR_STALE. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_peer_query(tcpx_session *session, tcpx_peer peer,
						     tcpx_peer_info *out_info);

/** One channel of a peer. The counts are those of messages since the channel last came up. While
 * nothing is under way, sends_done equals sends_posted, and posted, done, unpacked and consumed are
 * equal. The counts are read one after another, while the channel works. */
typedef struct tcpx_channel_info {
	size_t sz;	       /**< set by the caller */
	uint32_t channel;      /**< its number, as in events and in the log */
	uint32_t messages;     /**< 1: a plugin channel; 0: a stream without messages */
	char nic[64];	       /**< NIC of a plugin channel; "" of a stream */
	uint64_t sends_posted; /**< messages to send that were given to the plugin */
	uint64_t sends_done;   /**< of these: messages that the plugin has sent */
	uint64_t posted;       /**< receives given to the plugin */
	uint64_t done;	       /**< messages that have arrived */
	uint64_t unpacked;     /**< messages copied to their destination */
	uint64_t consumed;     /**< messages given back to the plugin */
	uint32_t relayed;      /**< 1: the NIC receives into the memory of another GPU */
	char unpack[12];       /**< how this end unpacks, a value of TCPX_UNPACK_IMPL; "": messages
				    are not unpacked */
} tcpx_channel_info;

/** Describes channel number `index`, from 0, of those of a peer that are up, including the priority
 * channel. @return TCPX_OK; ERR_NOT_FOUND past the last; ERR_STALE; ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_channel_query(tcpx_session *session, tcpx_peer peer,
							uint32_t index,
							tcpx_channel_info *out_info);

/** Counters of a session: X(name, help). They only grow, except those that `help` calls a gauge. */
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

/** Reads the counters of a session. @return TCPX_OK; ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_counters(tcpx_session *session,
							   tcpx_counters *out_counters);

/** Returns what keeps strangers out of the session: "loopback" (it is bound only there), "key" (a
 * key file), "secret" (that of its connection info; always so with TCPX_SESSION_INFO_ONLY) or
 * "insecure" (nothing). Returns "closed" if the session is NULL, closed or of a parent process.
 * Never NULL. @threads any. */
TCPX_API const char *tcpx_session_trust(tcpx_session *session);

/** Writes the session's own public key, 64 hex digits and a NUL; "" without a crypto library. A
 * session that connects to this one can take it as tcpx_connect_opts.expect_key.
 * @return TCPX_OK; ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_key(tcpx_session *session, char out_key[65]);

/** Makes an identity file for tcpx_session_opts.identity_file: a session's own key as text, mode
 * 0600. Overwrites no file. @return as tcpx_key_create() without append. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_identity_create(const char *path);

/** Writes the public key of an identity file: the result of tcpx_session_key() for a session that
 * uses the file.
 * @return TCPX_OK; ERR_INVALID (no path); ERR_NOT_FOUND; ERR_AUTH (not an identity file, or others
 * may use it); ERR_UNSUPPORTED (no crypto library); ERR_NO_DESCRIPTORS; ERR_SYSTEM. @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_identity_key(const char *path, char out_key[65]);

/** Makes a key file: 32 random bytes as text, mode 0600. Overwrites no file. If `append` is true,
 * adds a second key to an existing key file instead.
 * @return TCPX_OK; ERR_INVALID (no path); ERR_EXISTS; ERR_NO_DESCRIPTORS; ERR_SYSTEM (cannot be
 *         written); with append also ERR_NOT_FOUND, ERR_AUTH (not a key file, or others may use
 *         it; tcpx_error.next says how to repair that) and ERR_LIMIT (it has two keys).
 *         @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_key_create(const char *path, bool append);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions and peers: open, listen, connect, accept, disconnect, events, completions. */
#ifndef TCPX_SESSION_H
#define TCPX_SESSION_H

#include <tcpx/log.h>
#include <tcpx/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Fills an option struct: TCPX_OPTS(tcpx_session_opts, o, .name = "a"); missing fields are 0 and
 * 0 (or NULL) means the default. In C++ zero the struct and set .sz by hand. */
#define TCPX_OPTS(type, var, ...) type var = {.sz = sizeof(type), __VA_ARGS__}

/** Flags of tcpx_session_opts. */
enum tcpx_session_flags {
	TCPX_SESSION_INSECURE = 1u << 0,      /**< accept peers without a key beyond loopback */
	TCPX_SESSION_NO_LOCAL = 1u << 1,      /**< never use the same-host transport */
	TCPX_SESSION_BUSY_POLL = 1u << 2,     /**< waiters and workers spin instead of sleeping */
	TCPX_SESSION_NO_INLINE = 1u << 3,     /**< a post never sends on the caller's thread */
	TCPX_SESSION_STRICT_CANCEL = 1u << 4, /**< a cancelled WRITE ends when no byte can land */
	TCPX_SESSION_LOCAL_ONLY = 1u << 5,    /**< peers only over the same-host transport */
	TCPX_SESSION_PLUGIN_HOST = 1u << 6,   /**< host memory as messages, TCPX_PLUGIN_HOST */
	TCPX_SESSION_INFO_ONLY = 1u << 7, /**< only holders of the connection info may connect, and
					     need no key on any address; key files prove nobody */
	TCPX_SESSION_NO_ACCEPT = 1u << 8, /**< a peer that connects raises no event and is forgotten
					     when it leaves, unless this session connects to it */
};

/** Options of tcpx_session_open(). Every 0 is a default that tcpx info --env lists. */
typedef struct tcpx_session_opts {
	size_t sz;	  /**< sizeof this struct */
	const char *name; /**< a label that peers see, it proves nothing; default
				 "<host>-<pid>-<n>-<random>" */
	const char *bind; /**< comma list of addresses, subnets, interfaces, eth*, ^docker0; each
				 address is a rail; tcpx(7); NULL: TCPX_BIND, else loopback */
	const char *key_file; /**< key(s) for a bootstrap port; default TCPX_KEY_FILE */
	uint64_t flags;	      /**< enum tcpx_session_flags */
	uint32_t channels;    /**< bulk channels per peer, 1..64; at most 63 open */
	uint32_t chunk_bytes; /**< 4096..16 MiB; the smaller wish; default 512 KiB, staged 2 MiB */
	uint32_t workers;     /**< threads of the process-wide runtime; the first open decides */
	uint32_t silent_ms;   /**< a silent peer is dead after it, 1000..60000, default 5000 */
	uint32_t stopped_ms;  /**< a stopped peer is dead after it, 3000..600000, default 10000 */
	uint64_t notify_budget_bytes; /**< unread notifications per peer, default 128 MiB */
	uint64_t memory_budget_bytes; /**< library memory of the session, default 1 GiB */
	uint32_t inline_bytes;	  /**< the caller's thread sends up to it (a READ's list); 8 KiB */
	uint32_t plugin_channels; /**< channels of messages per peer, 1..63 (62 open); default 4 */
	const char *plugin;	  /**< ncclNet plugin for them, "default": where TCPX is installed;
				     NULL: TCPX_PLUGIN, which is none by default; "": none */
	const char *nic;	  /**< the plugin's devices, comma list or "all"; NULL: TCPX_NIC */
	const char *unpack;	  /**< as TCPX_UNPACK_IMPL, tcpx-gpudirect(7); NULL: that */
	uint32_t message_gpu; /**< whose memory messages carry: 1 + its number; 0: TCPX_LOCAL_DEVICE
			       */
	uint64_t without;     /**< flags that the environment does not add, which else it may */
	const char *advertise; /**< where peers reach it, "HOST[:PORT][,...]", told in place of its
				  addresses (NAT, published ports); NULL: TCPX_ADVERTISE, ours */
	uint32_t goodbye_ms;   /**< a request whose region the peer took back waits so long for the
				 peer's goodbye, 1..10000, default 100 */
	const char *identity_file; /**< the session's own key, which 'tcpx key identity' makes:
				 peers know it again after a restart; one session at a time;
				 NULL: TCPX_IDENTITY_FILE, else a fresh key */
	uint32_t max_peers; /**< that may have connected to it at a time, 1..2^20, default 4096 */
} tcpx_session_opts;

/** Sets an option by the name that it has in the environment: what a session has for itself in
 * opts, anything else as tcpx_option_set() does for the process.
 * @param value  "": the default; where the field is a text, it must live as long as opts
 * @return as tcpx_option_set(). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_opts_set(tcpx_session_opts *opts,
							   const char *name, const char *value);

/**
 * Opens a session; starts the process-wide runtime with the first one.
 * @param opts   options or NULL for the defaults; read during the call only
 * @param out_session written on success
 * @return TCPX_OK; ERR_INVALID (an option, named); ERR_ADDRESS (bind names nothing usable);
 *         ERR_NO_MEMORY; ERR_NO_DESCRIPTORS; ERR_SYSTEM. @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_open(const tcpx_session_opts *opts,
						       tcpx_session **out_session);

/** Ends every request (ERR_SESSION_CLOSED), says goodbye to peers, frees everything. Waits up to
 * 0.2 s for notifications that are on their way; what peers have not acknowledged then may be lost,
 * which the log says: tcpx_peer_flush() before waits as long as it takes. Takes at most
 * 1.2 s; what a copy of a memory kind has in its hands after that stays until the copy ended and a
 * session opens or closes. The last session's close lets go of GPUs as well, and waits 1 s more
 * where kernels of the program fill them (tcpx(7)). NULL is allowed. In a forked child it only
 * forgets. @threads any; no other call may run. */
TCPX_API void tcpx_session_close(tcpx_session *session);

/** Options of tcpx_session_listen(). */
typedef struct tcpx_listen_opts {
	size_t sz;
	uint32_t port;	  /**< first port tried; 0: any free one */
	uint32_t retries; /**< further ports tried when taken; 0: none */
} tcpx_listen_opts;

/** Base of the built-in bootstrap's ports: TCPX_PORT_BASE + index of the GPU or process. */
#define TCPX_PORT_BASE 20000

/**
 * Listens on every bound address, control and data on one port.
 * @param out_port the port in use, written on success
 * @return TCPX_OK; ERR_ADDRESS (taken, after the retries); ERR_AUTH (an address beyond loopback
 *         without key file, TCPX_SESSION_INFO_ONLY or TCPX_SESSION_INSECURE, or of INFO_ONLY in a
 *         library without libcrypto); ERR_STATE (listens already);
 *         ERR_INVALID (TCPX_CTRL_IP is no IP address, advertise no list of them); ERR_NOT_FOUND (a
 *         name in advertise); ERR_SYSTEM. @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_listen(tcpx_session *session,
							 const tcpx_listen_opts *opts,
							 uint16_t *out_port);

/**
 * Connection info: a versioned byte string with name, addresses, port and a secret; whoever was
 * handed it may connect, nobody else.
 * @param buf      at least TCPX_INFO_MAX_BYTES
 * @param out_len  bytes written
 * @return TCPX_OK; ERR_RANGE (buffer too small); ERR_STATE (not listening). @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_info(tcpx_session *session, void *buf, size_t cap,
						       size_t *out_len);

/** The name in a connection info: whose it is. Connects to nobody.
 * @param name  at least TCPX_NAME_MAX + 1 bytes
 * @return TCPX_OK; ERR_INVALID (not an info, or damaged); ERR_VERSION; ERR_RANGE (buffer too
 *         small). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_info_name(const void *info, size_t len, char *name,
						    size_t cap);

/** The public key in a connection info, by which its session proves who it is: 64 hex digits and a
 * NUL; "" when it has none (no crypto library there). Connects to nobody.
 * @return TCPX_OK; ERR_INVALID, ERR_VERSION as tcpx_info_name(). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_info_key(const void *info, size_t len, char out_key[65]);

/** Options of tcpx_session_connect() and tcpx_session_connect_to(). */
typedef struct tcpx_connect_opts {
	size_t sz;
	int64_t timeout_ns;	/**< name resolution included; 0: 10 s */
	uint32_t nonblocking;	/**< 1: return at once, the event or the state tells */
	uint32_t reconnect;	/**< 1: a link that ended is dialled again by the handle's next use,
				 see tcpx_session(3) */
	const char *expect_key; /**< 64 hex digits, as tcpx_session_key() gives them: only the
				     session of that key will do, else ERR_AUTH; NULL: any */
} tcpx_connect_opts;

/**
 * Connects to the session that made the info. Connecting twice gives the same peer; a nonblocking
 * dial that learns on its way that the peer is linked already ends with ERR_EXISTS, and
 * tcpx_peer_find() has the peer. A session may be its own peer. With reconnect the handle outlives
 * its links; connecting once more dials at once.
 * @return TCPX_OK; ERR_INVALID (not an info); ERR_VERSION; ERR_REFUSED; ERR_UNREACHABLE; ERR_AUTH;
 *         ERR_TIMED_OUT; ERR_PEER_RESTARTED (info of an earlier incarnation); ERR_NO_DESCRIPTORS;
 *         ERR_UNSUPPORTED (another host, without a crypto library). @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_connect(tcpx_session *session, const void *info,
							  size_t len, const tcpx_connect_opts *opts,
							  tcpx_peer *out_peer);

/** The same over the built-in bootstrap: "host:port", "[v6]:port"; trust by key file, or loopback.
 * @return as tcpx_session_connect(), and ERR_NOT_FOUND (name). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_connect_to(tcpx_session *session,
							     const char *address,
							     const tcpx_connect_opts *opts,
							     tcpx_peer *out_peer);

/** Waits for the next peer that connected to us. @param timeout_ns 0: only look;
 * TCPX_WAIT_FOREVER. @return TCPX_OK; TCPX_IN_PROGRESS (time is over); ERR_STATE (not listening).
 * @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_accept(tcpx_session *session, int64_t timeout_ns,
							 tcpx_peer *out_peer);

/** Ends one peer: its requests end with ERR_DISCONNECTED, its imported regions go stale, other
 * peers do not notice. @return TCPX_OK; ERR_STALE. @threads any. */
TCPX_API tcpx_status tcpx_peer_disconnect(tcpx_session *session, tcpx_peer peer);

/** Waits until everything posted to the peer before the call has ended.
 * @return TCPX_OK; TCPX_IN_PROGRESS (time is over, what was posted goes on); ERR_STALE; a peer
 * error. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_peer_flush(tcpx_session *session, tcpx_peer peer,
						     int64_t timeout_ns);

/** Finds a connected peer by its session name. @return TCPX_OK; ERR_NOT_FOUND. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_peer_find(tcpx_session *session, const char *name,
						    tcpx_peer *out_peer);

enum tcpx_peer_state {
	TCPX_PEER_CONNECTING = 1,
	TCPX_PEER_UP = 2,
	TCPX_PEER_SUSPECT = 3, /**< not heard of for a while; requests go on */
	TCPX_PEER_DEAD = 4,    /**< tcpx_peer_error() says why */
};

enum tcpx_event_type {
	TCPX_EVENT_PEER_UP = 1,
	TCPX_EVENT_PEER_SUSPECT = 2,
	TCPX_EVENT_PEER_RECOVERED = 3,
	TCPX_EVENT_PEER_DOWN = 4, /**< of a peer that was up, or whose connect did not block */
	TCPX_EVENT_PEER_RESTARTED = 5,
	TCPX_EVENT_CHANNEL_DOWN = 6,
	TCPX_EVENT_CHANNEL_UP = 7,
};

/** What happened to a peer or to one of its channels. */
typedef struct tcpx_event {
	size_t sz; /**< set by the caller */
	enum tcpx_event_type type;
	tcpx_status status; /**< why, for DOWN events */
	tcpx_peer peer;
	uint32_t channel; /**< for channel events */
} tcpx_event;

/** Removes the oldest event from the queue.
 * @return TCPX_OK, TCPX_IN_PROGRESS if the queue is empty, or ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_event(tcpx_session *session,
							tcpx_event *out_event);

/**
 * Waits until tcpx_session_poll(), tcpx_session_event() or tcpx_notify_take() has something to
 * give. The thread may do the library's polling meanwhile. Of several threads that wait all return,
 * and one of them gets it.
 * @param timeout_ns how long; 0: only look; TCPX_WAIT_FOREVER
 * @return TCPX_OK; TCPX_IN_PROGRESS (time is over); ERR_INVALID; ERR_FORKED. @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_wait(tcpx_session *session, int64_t timeout_ns);

/** An eventfd, readable while a completion, an event or a notification waits, for poll/epoll in
 * programs with their own loop. Never read it: the call that takes the last of them clears it.
 * @return the descriptor, owned by the session, or -1. @threads any. */
TCPX_API int tcpx_session_fd(tcpx_session *session);

/** Stored reason of a dead peer; with `reconnect` of its last link, until the next one is up.
 * @return TCPX_OK; ERR_STALE; ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_peer_error(tcpx_session *session, tcpx_peer peer,
						     tcpx_error *out_error);

#ifdef __cplusplus
}
#endif
#endif

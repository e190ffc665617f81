/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions and peers: open, listen, connect, accept, disconnect, events, completions. */
#ifndef TCPX_SESSION_H
#define TCPX_SESSION_H

#include <tcpx/log.h>
#include <tcpx/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Declares and fills an option struct: TCPX_OPTS(tcpx_session_opts, o, .name = "a"); fields that
 * are not named are 0, and 0 or NULL means the default. In C++ zero the struct and set .sz. */
#define TCPX_OPTS(type, var, ...) type var = {.sz = sizeof(type), __VA_ARGS__}

/** Flags of tcpx_session_opts. */
enum tcpx_session_flags {
	TCPX_SESSION_INSECURE = 1u << 0,  /**< accept peers without a key on any address */
	TCPX_SESSION_NO_LOCAL = 1u << 1,  /**< never use the same-host transport */
	TCPX_SESSION_BUSY_POLL = 1u << 2, /**< waiters and workers spin instead of sleeping */
	TCPX_SESSION_NO_INLINE = 1u << 3, /**< a post never sends on the caller's thread */
	/** a cancelled WRITE ends only when none of its bytes can arrive any more */
	TCPX_SESSION_STRICT_CANCEL = 1u << 4,
	TCPX_SESSION_LOCAL_ONLY = 1u << 5, /**< peers only over the same-host transport */
	/** host memory goes over plugin channels even if the plugin is made for GPU memory */
	TCPX_SESSION_PLUGIN_HOST = 1u << 6,
	/** only holders of the connection info may connect, from any address and without a key; key
	 * files admit nobody */
	TCPX_SESSION_INFO_ONLY = 1u << 7,
	/** a peer that connects raises no event, is not given by tcpx_session_accept(), and is
	 * forgotten when it leaves, unless this session connects to it, too */
	TCPX_SESSION_NO_ACCEPT = 1u << 8,
};

/** Options of tcpx_session_open(). A field that is 0 or NULL has the default that 'tcpx info --env'
 * lists. */
typedef struct tcpx_session_opts {
	size_t sz; /**< sizeof this struct */
	/** a label that peers see and that proves nothing; default "<host>-<pid>-<n>-<random>" */
	const char *name;
	/** comma list of addresses, subnets, interfaces, eth*, ^docker0, see tcpx(7); each address
	 * that results is a rail; NULL: TCPX_BIND, else loopback */
	const char *bind;
	/** file with the key or keys that tcpx_session_connect_to() needs on both sides; NULL:
	 * TCPX_KEY_FILE */
	const char *key_file;
	uint64_t flags;	   /**< enum tcpx_session_flags */
	uint32_t channels; /**< bulk channels per peer, 1..64, of which at most 63 open */
	/** largest chunk, 4096..16 MiB; the smaller one counts if the peer sets it, too; default
	 * 512 KiB, and 2 MiB of staged memory */
	uint32_t chunk_bytes;
	uint32_t workers; /**< worker threads of the process; the first open session decides */
	/** a peer that sends nothing for so long is dead, 1000..60000, default 5000 */
	uint32_t silent_ms;
	/** the same of a peer whose kernel still answers, 3000..600000, default 10000 */
	uint32_t stopped_ms;
	/** most bytes of unread notifications of each peer, default 128 MiB; at most half of
	 * memory_budget_bytes */
	uint64_t notify_budget_bytes;
	uint64_t memory_budget_bytes; /**< most library memory of the session, default 1 GiB */
	/** a post of up to so many bytes (of a READ: of its list) is sent on the caller's thread,
	 * 1..8192, default 8192 */
	uint32_t inline_bytes;
	/** plugin channels per peer, 1..63, of which at most 62 open; default 4 */
	uint32_t plugin_channels;
	/** path of the ncclNet plugin for these channels; "default": where a TCPX plugin is
	 * installed; "": no plugin; NULL: TCPX_PLUGIN, whose default is no plugin */
	const char *plugin;
	const char *nic; /**< devices of the plugin, a comma list or "all"; NULL: TCPX_NIC */
	/** a value of TCPX_UNPACK_IMPL, see tcpx-gpudirect(7); NULL: the value of that variable */
	const char *unpack;
	/** 1 + number of the GPU whose memory goes over plugin channels; 0: TCPX_LOCAL_DEVICE */
	uint32_t message_gpu;
	uint64_t without; /**< flags that variables of the environment must not add */
	/** addresses that peers are told in place of the bound ones, "HOST[:PORT][,...]" (NAT,
	 * published ports); NULL: TCPX_ADVERTISE, else the bound ones */
	const char *advertise;
	/** a request that the peer refuses because it does not know the region waits so long for
	 * the peer's goodbye before it ends, 1..10000, default 100 */
	uint32_t goodbye_ms;
	/** file with the session's own key (tcpx_identity_create()), by which peers know it again
	 * after a restart; for one session at a time; NULL: TCPX_IDENTITY_FILE, else a fresh key */
	const char *identity_file;
	/** most peers that have connected to this session at a time, 1..2^20, default 4096 */
	uint32_t max_peers;
} tcpx_session_opts;

/** Sets an option by the name of its variable: in opts if opts has a field or a flag for it, else
 * for the whole process, as tcpx_option_set() does.
 * @param value  "": the default; a text is not copied to opts and must live as long as opts
 * @return as tcpx_option_set(). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_opts_set(tcpx_session_opts *opts,
							   const char *name, const char *value);

/**
 * Opens a session; starts the process-wide runtime with the first one.
 * @param opts   options or NULL for the defaults; read during the call only
 * @param out_session written on success
 * @return TCPX_OK; ERR_INVALID (the last error names the option); ERR_ADDRESS (bind names nothing
 *         usable); ERR_NO_MEMORY; ERR_NO_DESCRIPTORS; ERR_SYSTEM; an error of the key file, the
 *         identity file or the plugin. @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_open(const tcpx_session_opts *opts,
						       tcpx_session **out_session);

/** Ends every request (ERR_SESSION_CLOSED), says goodbye to peers, frees everything. First waits up
 * to 0.2 s for notifications that are on their way. Those that a peer has not acknowledged then may
 * be lost, and the log says so; to wait longer, call tcpx_peer_flush() first. Takes at most 1.2 s.
 * If copies still use memory of the session then, that memory is freed after they have ended.
 * Closing the process's last session also releases its GPUs; this waits
 * 1 s more while kernels of the program fill a GPU (tcpx(7)). Does nothing for NULL. In a forked
 * child only makes the handle invalid. @threads any; no other call may run. */
TCPX_API void tcpx_session_close(tcpx_session *session);

/** Options of tcpx_session_listen(). */
typedef struct tcpx_listen_opts {
	size_t sz;
	uint32_t port;	  /**< first port tried; 0: any free port */
	uint32_t retries; /**< how many further ports are tried if that one is taken */
} tcpx_listen_opts;

/** Default of the lowest bootstrap port; a process adds the index of its GPU or of itself. */
#define TCPX_PORT_BASE 20000

/**
 * Listens on every bound address at the same port, for control and data.
 * @param out_port the port in use, written on success
 * @return TCPX_OK; ERR_ADDRESS (all ports tried are taken); ERR_AUTH (an address is not loopback,
 *         and the session has neither a key file nor TCPX_SESSION_INSECURE, nor
 *         TCPX_SESSION_INFO_ONLY together with libcrypto); ERR_STATE (listens already);
 *         ERR_INVALID (opts, or TCPX_CTRL_IP is no IP address, or advertise is no list of
 *         addresses); ERR_NOT_FOUND (a name in advertise); ERR_SYSTEM. @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_listen(tcpx_session *session,
							 const tcpx_listen_opts *opts,
							 uint16_t *out_port);

/**
 * Writes the session's connection info: its name, addresses, port, public key and a secret.
 * Every process that has the info may connect, so keep it secret.
 * @param buf      room for cap bytes; TCPX_INFO_MAX_BYTES are always enough
 * @param out_len  bytes written
 * @return TCPX_OK; ERR_RANGE (buffer too small); ERR_STATE (not listening). @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_info(tcpx_session *session, void *buf, size_t cap,
						       size_t *out_len);

/** Writes the name of the session that made a connection info. Opens no connection.
 * @param name  room for cap bytes; TCPX_NAME_MAX + 1 are always enough
 * @return TCPX_OK; ERR_INVALID (not an info, or damaged); ERR_VERSION; ERR_RANGE (buffer too
 *         small). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_info_name(const void *info, size_t len, char *name,
						    size_t cap);

/** Writes the public key of the session that made a connection info: 64 hex digits and a NUL; "" if
 * that session has no key (no crypto library there). Opens no connection.
 * @return TCPX_OK; ERR_INVALID or ERR_VERSION as tcpx_info_name(). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_info_key(const void *info, size_t len, char out_key[65]);

/** Options of tcpx_session_connect() and tcpx_session_connect_to(). */
typedef struct tcpx_connect_opts {
	size_t sz;
	int64_t timeout_ns;   /**< longest time, name resolution included; 0: 10 s */
	uint32_t nonblocking; /**< 1: return at once; an event tells how the dial ends */
	uint32_t reconnect;   /**< 1: the handle's next use dials an ended link, tcpx_session(3) */
	const char *expect_key; /**< key that the other session must prove, else ERR_AUTH: 64 hex
				     digits as of tcpx_session_key(); NULL: any key or none */
} tcpx_connect_opts;

/**
 * Connects to the session that made the info. If there is a link with that session, gives its peer.
 * A nonblocking dial that finds such a link later ends with ERR_EXISTS in its event; then
 * tcpx_peer_find() gives the peer. A session may connect to itself. With `reconnect` the handle
 * outlives its links, and a further call dials at once if the link has ended.
 * @return TCPX_OK; ERR_INVALID (not an info); ERR_VERSION; ERR_REFUSED; ERR_UNREACHABLE; ERR_AUTH;
 *         ERR_TIMED_OUT; ERR_PEER_RESTARTED (info of an earlier incarnation); ERR_BUSY (the other
 *         session has max_peers already); ERR_NO_DESCRIPTORS; ERR_NO_MEMORY; ERR_UNSUPPORTED
 *         (another host, without a crypto library). @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_connect(tcpx_session *session, const void *info,
							  size_t len, const tcpx_connect_opts *opts,
							  tcpx_peer *out_peer);

/** Connects to the session that listens at an address, "host:port" or "[v6]:port". The two sides
 * prove themselves by a key file; on loopback they may both have none.
 * @return as tcpx_session_connect(), and ERR_NOT_FOUND (name). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_connect_to(tcpx_session *session,
							     const char *address,
							     const tcpx_connect_opts *opts,
							     tcpx_peer *out_peer);

/** Takes the next peer that has connected to this session.
 * @param timeout_ns how long to wait for one; 0: does not wait; TCPX_WAIT_FOREVER
 * @return TCPX_OK; TCPX_IN_PROGRESS (no peer in that time); ERR_STATE (not listening).
 * @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_accept(tcpx_session *session, int64_t timeout_ns,
							 tcpx_peer *out_peer);

/** Ends one peer: requests to it end with ERR_DISCONNECTED, and regions imported from it are no
 * longer usable. First waits up to 0.2 s for notifications to it that are on their way.
 * @return TCPX_OK; ERR_STALE. @threads any. */
TCPX_API tcpx_status tcpx_peer_disconnect(tcpx_session *session, tcpx_peer peer);

/** Waits until all requests and notifications posted to the peer before the call have ended.
 * @param timeout_ns how long; TCPX_WAIT_FOREVER
 * @return TCPX_OK; TCPX_IN_PROGRESS (timeout; what was posted goes on); ERR_STALE; a peer error.
 * @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_peer_flush(tcpx_session *session, tcpx_peer peer,
						     int64_t timeout_ns);

/** Finds a connected peer by the name of its session; of several with that name, gives one.
 * @return TCPX_OK; ERR_NOT_FOUND. @threads any. */
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
	TCPX_EVENT_PEER_DOWN = 4, /**< a peer that was up, or a nonblocking dial, has ended */
	TCPX_EVENT_PEER_RESTARTED = 5,
	TCPX_EVENT_CHANNEL_DOWN = 6,
	TCPX_EVENT_CHANNEL_UP = 7,
};

/** What happened to a peer or to one of its channels. */
typedef struct tcpx_event {
	size_t sz; /**< set by the caller */
	enum tcpx_event_type type;
	tcpx_status status; /**< in DOWN events: why */
	tcpx_peer peer;
	uint32_t channel; /**< in CHANNEL events: number of the channel */
} tcpx_event;

/** Removes the oldest event from the queue.
 * @return TCPX_OK, TCPX_IN_PROGRESS if the queue is empty, or ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_event(tcpx_session *session,
							tcpx_event *out_event);

/**
 * Waits until tcpx_session_poll(), tcpx_session_event() or tcpx_notify_take() has something to
 * give. The thread may do the library's polling meanwhile. If several threads wait, all return, but
 * only one of them can take the same completion, event or notification.
 * @param timeout_ns how long; 0: does not wait; TCPX_WAIT_FOREVER
 * @return TCPX_OK (there is something); TCPX_IN_PROGRESS (nothing in that time); ERR_INVALID;
 *         ERR_FORKED. @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_session_wait(tcpx_session *session, int64_t timeout_ns);

/** Returns an eventfd for poll or epoll. It is readable while a completion, an event or a
 * notification can be taken. The program must not read it: the call that takes the last of these
 * clears it.
 * @return the descriptor, owned by the session, or -1. @threads any. */
TCPX_API int tcpx_session_fd(tcpx_session *session);

/** Gives the reason why a peer is dead. For a peer with `reconnect`: why its last link ended, until
 * the next link is up. While the peer lives, the status is TCPX_OK.
 * @return TCPX_OK; ERR_STALE; ERR_INVALID. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_peer_error(tcpx_session *session, tcpx_peer peer,
						     tcpx_error *out_error);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes, handles, memory kinds and constants shared by every public header. */
#ifndef TCPX_TYPES_H
#define TCPX_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TCPX_VERSION_MAJOR 0
#define TCPX_VERSION_MINOR 1
#define TCPX_VERSION_PATCH 0

#if defined(__GNUC__)
#define TCPX_API __attribute__((visibility("default")))
#define TCPX_MUST_CHECK __attribute__((warn_unused_result))
#else
#define TCPX_API
#define TCPX_MUST_CHECK
#endif

/*
 * Status codes. X(name, value, text, next step). Ranges say what is lost:
 *   -1..-19   usage: the call itself was wrong, nothing changed
 *   -20..-39  resources: try later or give more
 *   -40..-59  request: this request is lost, the peer lives
 *   -60..-69  channel: one channel is lost (in events; a request that needs a plugin channel may
 *             end with it)
 *   -70..-89  peer: every request of the peer is lost
 *   -90..-99  session: the session is unusable
 */
#define TCPX_STATUS_MAP(X)                                                                         \
	X(OK, 0, "success", "")                                                                    \
	X(IN_PROGRESS, 1, "in progress", "test or wait again")                                     \
	X(ERR_INVALID, -1, "invalid argument", "check the argument the message names")             \
	X(ERR_STALE, -2, "stale handle", "make or import it again")                                \
	X(ERR_STATE, -3, "wrong call order", "check the object's life cycle in tcpx(7)")           \
	X(ERR_UNSUPPORTED, -4, "not supported", "see 'tcpx info' for what this build can do")      \
	X(ERR_VERSION, -5, "incompatible version", "use the same major version on both sides")     \
	X(ERR_RANGE, -6, "out of range", "check offset and length against the region")             \
	X(ERR_NOT_FOUND, -7, "not found", "check the name")                                        \
	X(ERR_EXISTS, -8, "already exists", "use another name")                                    \
	X(ERR_FORKED, -9, "used in a forked child", "open a session of its own in the child")      \
	X(ERR_NO_MEMORY, -20, "out of memory", "free memory or lower the budgets")                 \
	X(ERR_NO_DESCRIPTORS, -21, "out of file descriptors", "raise 'ulimit -n'")                 \
	X(ERR_AGAIN, -22, "try again", "the peer's budget is used up; retry after it consumed")    \
	X(ERR_BUSY, -23, "busy", "wait for the operation that still uses the object")              \
	X(ERR_LIMIT, -24, "limit reached", "ask for less, or raise its option, if it has one")     \
	X(ERR_ADDRESS, -25, "address not usable", "choose another address or port")                \
	X(ERR_SYSTEM, -26, "system call failed", "see the errno in the message")                   \
	X(ERR_TIMED_OUT, -40, "timed out", "raise the deadline or look at the peer's state")       \
	X(ERR_CANCELLED, -41, "cancelled", "")                                                     \
	X(ERR_TRUNCATED, -42, "message truncated", "post a larger receive")                        \
	X(ERR_REMOTE_KEY, -43, "remote region unknown", "exchange a fresh token")                  \
	X(ERR_REMOTE_RIGHTS, -44, "remote rights do not allow it",                                 \
	  "the owner must register it with that right")                                            \
	X(ERR_REMOTE_RANGE, -45, "outside the remote region",                                      \
	  "check remote offset and length; with TCPX_LOG=info the owner's log has them")           \
	X(ERR_REMOTE, -46, "failed at the peer", "look at the peer's log")                         \
	X(ERR_CORRUPT, -47, "data corrupt", "check the network path and its cards")                \
	X(ERR_DEREGISTERED, -48, "region deregistered", "keep regions until requests ended")       \
	X(ERR_CHANNEL_LOST, -60, "channel lost", "the other channels carry on")                    \
	X(ERR_PEER_CLOSED, -70, "peer closed the connection",                                      \
	  "look whether its process ended, and connect again")                                     \
	X(ERR_PEER_RESET, -71, "connection reset by peer", "look whether the peer process died")   \
	X(ERR_PEER_SILENT, -72, "peer silent", "check the network path to the peer")               \
	X(ERR_PEER_STOPPED, -73, "peer not responding", "look whether the peer is stopped")        \
	X(ERR_PEER_RESTARTED, -74, "peer restarted", "import its tokens again")                    \
	X(ERR_REFUSED, -75, "connection refused", "check that the peer listens there")             \
	X(ERR_UNREACHABLE, -76, "peer unreachable", "check address and route")                     \
	X(ERR_AUTH, -77, "authentication failed", "use the same key on both sides")                \
	X(ERR_PROTOCOL, -78, "protocol violation", "check that the port belongs to tcpx")          \
	X(ERR_DISCONNECTED, -79, "disconnected by this side", "connect again")                     \
	X(ERR_SESSION_CLOSED, -90, "session closed", "open a new session")                         \
	X(ERR_INTERNAL, -91, "internal error", "report it with the log")

/**
 * Status of a call, a request, a peer or a channel. TCPX_STATUS_MAP above lists the values.
 *
 * A call that waits returns TCPX_IN_PROGRESS at its timeout if what it waited for may still come:
 * wait or test again. An error says that the operation itself has ended or did not happen: a
 * connect that took too long is over (ERR_TIMED_OUT), a region that is still in use was not
 * deregistered (ERR_BUSY).
 */
typedef enum tcpx_status {
#define TCPX_STATUS_ENUM(name, value, text, next) TCPX_##name = (value),
	TCPX_STATUS_MAP(TCPX_STATUS_ENUM)
#undef TCPX_STATUS_ENUM
} tcpx_status;

/*
 * Sizes of structs. Every struct that may grow has its size as its first field, sz, so that a
 * program and a library of different versions work together:
 *   options  The caller sets sz, see TCPX_OPTS(). If the caller's struct is shorter than the
 *            library's, the missing fields count as 0. If it is longer, the additional bytes must
 *            be 0, else the call returns ERR_INVALID.
 *   outputs  The caller sets sz before the call: tcpx_event event = {.sz = sizeof(event)}. The
 *            library writes at most sz bytes, keeps sz, and sets fields that it does not know to 0.
 *   arrays   of outputs: sz of the first element is the size of each element. The library writes
 *            it to each element that it fills.
 * If sz is below the size of the struct's first version, the call returns ERR_INVALID and does
 * nothing else. The handles below and tcpx_segment have no sz, because they never change.
 *
 * A field that says yes or no is uint32_t, which has the same size in every compiler and language.
 * The library writes 0 or 1. It takes any value but 0 for 1 (tcpx_request_opts.queue: only 1).
 * Arguments and results that say yes or no are bool.
 */

/** An open session; see tcpx_session_open(). */
typedef struct tcpx_session tcpx_session;

/** Handle of a peer. Handles are values (index and generation); a stale one is ERR_STALE. */
typedef struct tcpx_peer {
	uint64_t id;
} tcpx_peer;

/** Handle of a registered local region or of an imported remote region. */
typedef struct tcpx_region {
	uint64_t id;
} tcpx_region;

/** Handle of a prepared request. */
typedef struct tcpx_request {
	uint64_t id;
} tcpx_request;

#define TCPX_TOKEN_BYTES 24	      /**< size of an exported region token */
#define TCPX_INFO_MAX_BYTES 2048      /**< largest connection info */
#define TCPX_NAME_MAX 255	      /**< longest session name, without the NUL */
#define TCPX_SEGMENTS_MAX 0xfffffffeu /**< of one request; memory_budget_bytes may allow fewer */
#define TCPX_TOTAL_MAX (1ULL << 48)   /**< most bytes of one request */
#define TCPX_NOTIFY_MAX (64u << 20)   /**< largest notification, bytes */
#define TCPX_WAIT_FOREVER (-1LL)      /**< a timeout that never ends */

/** Memory kinds. */
enum tcpx_mem_kind {
	TCPX_MEM_HOST = 0, /**< host memory */
	TCPX_MEM_CUDA = 1, /**< memory of the GPU tcpx_region_opts.device, see tcpx(7) */
};

/** Operations of a request. */
enum tcpx_op {
	TCPX_OP_WRITE = 1,  /**< local segments to remote regions */
	TCPX_OP_READ = 2,   /**< remote regions to local segments */
	TCPX_OP_SEND = 3,   /**< local segments to the peer's next RECV */
	TCPX_OP_RECV = 4,   /**< the peer's next SEND into local segments */
	TCPX_OP_NOTIFY = 5, /**< a notification alone */
};

#ifdef __cplusplus
}
#endif
#endif

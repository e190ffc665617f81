/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory: regions, rights, tokens. */
#ifndef TCPX_MEMORY_H
#define TCPX_MEMORY_H

#include <tcpx/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Rights of a peer on a region. Local use needs none. */
enum tcpx_rights {
	TCPX_RIGHT_READ = 1u << 0,  /**< peers may READ it */
	TCPX_RIGHT_WRITE = 1u << 1, /**< peers may WRITE it */
};

enum tcpx_region_flags {
	TCPX_REGION_STABLE = 1u << 0, /**< same memory, same token, as long as the session lives */
};

typedef struct tcpx_region_opts {
	size_t sz;
	enum tcpx_mem_kind kind; /**< TCPX_MEM_HOST by default */
	uint32_t device;	 /**< which of that kind; of a GPU its ordinal in the process */
	uint32_t rights;	 /**< enum tcpx_rights; 0: local use only */
	uint32_t flags;		 /**< enum tcpx_region_flags */
} tcpx_region_opts;

/** How many devices of a kind this process may use: 1 for the host, else those that the driver
 * shows. No context is made on any.
 * @return TCPX_OK; ERR_UNSUPPORTED (no driver, or none that can be used: the reason is in the last
 *         error); ERR_INVALID (no such kind). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_memory_devices(enum tcpx_mem_kind kind,
							 uint32_t *out_count);

/**
 * Registers memory. Overlapping and duplicate registrations are legal and independent; those of the
 * same memory with TCPX_REGION_STABLE are counted: the token is good until the last one goes.
 * Memory that vanishes meanwhile (a file is truncated) ends the requests that use it, see
 * tcpx_region(3).
 * @param addr,length the memory, length > 0; stays the caller's and must live until deregistered
 * @return TCPX_OK; ERR_INVALID (NULL, zero, wrap-around, no such device, not memory of that kind
 *         and device, a right that the mapping does not allow); ERR_UNSUPPORTED (kind not in this
 *         build, no driver, memory that cannot be moved: the reason is in the last error);
 *         ERR_EXISTS (TCPX_REGION_STABLE, and what was registered here before was freed but not
 *         deregistered); ERR_NO_MEMORY; ERR_LIMIT; ERR_SYSTEM (the device's driver). @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_region_register(tcpx_session *session, void *addr,
							  uint64_t length,
							  const tcpx_region_opts *opts,
							  tcpx_region *out_region);

/**
 * Takes the memory back (or forgets an imported region). This session's requests that use it end
 * with ERR_DEREGISTERED, and accesses of peers are refused. After TCPX_OK the library does not read
 * or write it.
 * @param timeout_ns how long to wait for accesses under way; 0: 1 s
 * @return TCPX_OK; ERR_STALE; ERR_BUSY (still accessed at the deadline, on a GPU by what sits in a
 *         stream: it stays registered for local bookkeeping, call again). @threads any.
 */
TCPX_API tcpx_status tcpx_region_deregister(tcpx_session *session, tcpx_region region,
					    int64_t timeout_ns);

/** Writes the token that a peer imports; TCPX_TOKEN_BYTES bytes. A capability: whoever is connected
 * and holds it may use the rights. For one peer alone: tcpx_region_token_for(). @return TCPX_OK;
 * ERR_STALE; ERR_INVALID (an imported one). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_region_export(tcpx_session *session, tcpx_region region,
							void *token);

/**
 * Writes a token that serves one peer: whoever proves the key that this one has proven
 * (tcpx_peer_info.key). Accesses of others by it are refused with ERR_REMOTE_KEY. It is the same
 * each time for the same region and key, good for later connections of that key, and dies with the
 * region.
 * @param peer one that has connected
 * @param token TCPX_TOKEN_BYTES bytes
 * @return TCPX_OK; ERR_STALE (region or peer); ERR_INVALID (an imported region); ERR_STATE (the
 *         peer is still connecting, or never did); ERR_UNSUPPORTED (it has proven no key: no crypto
 *         library here or there); ERR_LIMIT (1048576 such tokens in the session); ERR_NO_MEMORY.
 *         @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_region_token_for(tcpx_session *session,
							   tcpx_region region, tcpx_peer peer,
							   void *token);

/** Makes a peer's token usable in segments. Rights and range are checked by the owner at each
 * access. @return TCPX_OK; ERR_INVALID (not a token); ERR_VERSION; ERR_STALE (peer).
 * @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_region_import(tcpx_session *session, tcpx_peer peer,
							const void *token, size_t token_len,
							tcpx_region *out_region);

#ifdef __cplusplus
}
#endif
#endif

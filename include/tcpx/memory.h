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
	TCPX_REGION_STABLE = 1u << 0, /**< registered again, the memory has the same token again */
};

typedef struct tcpx_region_opts {
	size_t sz;
	enum tcpx_mem_kind kind; /**< TCPX_MEM_HOST by default */
	uint32_t device;	 /**< index within the kind; of a GPU its ordinal in the process */
	uint32_t rights;	 /**< enum tcpx_rights; 0: local use only */
	uint32_t flags;		 /**< enum tcpx_region_flags */
} tcpx_region_opts;

/** Counts the devices of a kind that this process may use: 1 for the host, else those that the
 * driver shows. Makes no context on them.
 * @return TCPX_OK; ERR_UNSUPPORTED (no driver, or none that can be used: the reason is in the last
 *         error); ERR_INVALID (no such kind). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_memory_devices(enum tcpx_mem_kind kind,
							 uint32_t *out_count);

/**
 * Registers memory. Registrations may overlap or be equal, and are independent of one another.
 * Only those of the same memory with TCPX_REGION_STABLE are one region: its token is valid until
 * the last of them is deregistered. If registered memory vanishes (its file is truncated), the
 * requests that use it end, see tcpx_region(3).
 * @param addr,length the memory, length > 0; stays the caller's and must exist until deregistered
 * @param opts NULL: host memory without rights
 * @return TCPX_OK; ERR_INVALID (NULL, zero, wrap-around, no such device, not memory of that kind
 *         and device, a right that the mapping does not allow); ERR_UNSUPPORTED (kind not in this
 *         build, no driver, memory that cannot be moved: the reason is in the last error);
 *         ERR_EXISTS (TCPX_REGION_STABLE, and other memory that was registered here was freed but
 *         not deregistered); ERR_NO_MEMORY; ERR_LIMIT; ERR_SYSTEM (the device's driver).
 *         @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_region_register(tcpx_session *session, void *addr,
							  uint64_t length,
							  const tcpx_region_opts *opts,
							  tcpx_region *out_region);

/**
 * Ends a registration. This session's requests that use the region end with ERR_DEREGISTERED, and
 * accesses of peers are refused. After TCPX_OK the library neither reads nor writes the memory. If
 * memory was registered several times with TCPX_REGION_STABLE, only the last deregistration does
 * this; the others only free their handles. Of an imported region, only frees the handle.
 * @param timeout_ns how long to wait for accesses under way; 0: 1 s; TCPX_WAIT_FOREVER
 * @return TCPX_OK; ERR_STALE; ERR_BUSY (still accessed at the timeout, perhaps by copies that wait
 *         in a stream of a GPU; do not free the memory, and call again). @threads any.
 */
TCPX_API tcpx_status tcpx_region_deregister(tcpx_session *session, tcpx_region region,
					    int64_t timeout_ns);

/** Writes the region's token, TCPX_TOKEN_BYTES bytes, which peers import. Every connected peer that
 * has the token may use the region's rights. tcpx_region_token_for() makes a token for one peer.
 * @return TCPX_OK; ERR_STALE; ERR_INVALID (an imported region). @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_region_export(tcpx_session *session, tcpx_region region,
							void *token);

/**
 * Writes a token for one peer. It is valid for every connection whose remote session proves the
 * key that `peer` has proven (tcpx_peer_info.key), until the region is deregistered. For all others
 * it is refused with ERR_REMOTE_KEY. The same region and key always give the same token.
 * @param peer a peer that has connected
 * @param token TCPX_TOKEN_BYTES bytes
 * @return TCPX_OK; ERR_STALE (region or peer); ERR_INVALID (an imported region); ERR_STATE (the
 *         peer has not connected); ERR_UNSUPPORTED (the peer has proven no key: this side or the
 *         peer has no crypto library); ERR_LIMIT (1048576 such tokens in the session);
 *         ERR_NO_MEMORY. @threads any.
 */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_region_token_for(tcpx_session *session,
							   tcpx_region region, tcpx_peer peer,
							   void *token);

/** Makes a peer's token usable in segments. Checks only its form; the peer checks key, rights and
 * range at each access. @return TCPX_OK; ERR_INVALID (not a token); ERR_VERSION; ERR_STALE (peer);
 * ERR_NO_MEMORY. @threads any. */
TCPX_API TCPX_MUST_CHECK tcpx_status tcpx_region_import(tcpx_session *session, tcpx_peer peer,
							const void *token, size_t token_len,
							tcpx_region *out_region);

#ifdef __cplusplus
}
#endif
#endif

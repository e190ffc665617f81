/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes the descriptors of offered memory. The control link cannot carry a descriptor, and each
 * byte on the socket of a local channel is a wake-up. So the peer fetches the descriptor over a
 * separate connection to this end's local listener. The peer sends the number of the region and the
 * nonce of the link, which no one else knows.
 */
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "engine/path/share.h"
#include "sys/crypto.h"
#include "sys/fd.h"
#include "wire/control.h"

/* Most descriptors that are open at a time for one peer to fetch, and most fetches from one peer
 * that are under way. The limit is needed because an application may have any number of regions. */
#define FDS_MAX 16u

/* If FDS_MAX is reached, the share waits in out_wait. It becomes due when share_fd_end() takes the
 * descriptor out of another share. */
bool share_fd_begin(struct engine_share *share)
{
	struct engine_shares *table = share->peer->shared;

	if (table->out_fds >= FDS_MAX) {
		list_remove(&share->due);
		list_push_back(&table->out_wait, &share->due);
		return false;
	}
	table->out_fds++;
	share->counted = true;
	return true;
}

int share_fd_end(struct engine_share *share)
{
	struct engine_shares *table = share->peer->shared;
	struct list_node *next;
	int fd = share->job.fd;

	share->job.fd = -1;
	if (!share->counted)
		return fd;
	share->counted = false;
	table->out_fds--;
	next = list_pop_front(&table->out_wait);
	if (next)
		share_due(LIST_ENTRY(next, struct engine_share, due));
	return fd;
}

void share_fd_close(int fd)
{
	if (fd >= 0)
		sys_fd_close(fd);
}

/* Sends the peer the address of this end's local listener, from which the peer fetches descriptors,
 * unless the peer has it already. Opens the listener if there is none yet; returns false if that
 * fails. Called right before an offer. */
bool share_fd_tell(struct engine_peer *peer)
{
	struct engine_session *session = peer->link.session;
	struct wire_local offer = {0};
	uint8_t bytes[WIRE_LOCAL_MAX];
	struct frame frame = {.type = FRAME_LOCAL};

	if (!peer->link.events->listen_local(&peer->link))
		return false;
	if (!peer->dialler) /* this end accepted the peer and told it the address then */
		return true;
	memcpy(offer.nonce, peer->shared_memory.nonce, sizeof(offer.nonce));
	memcpy(offer.name, session->listen.local_name, sizeof(offer.name) - 1);
	frame.payload_bytes = (uint32_t)wire_local_encode(&offer, bytes);
	link_tell(&peer->link, &frame, bytes);
	return true;
}

/* Called by the local listener when a process asks for the descriptor of region `number`. Returns
 * the descriptor, which the share keeps. Returns -1 if no live peer has this nonce, or if no
 * descriptor of the region is offered to that peer. */
int share_fd_asked(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint64_t number)
{
	struct engine_session *session = arg;
	struct list_node *pos;
	int fd = -1;

	session_lock(session);
	LIST_FOREACH(pos, &session->peer_list) {
		struct engine_peer *peer = LIST_ENTRY(pos, struct engine_peer, node);
		struct engine_share *share;

		if (peer->died ||
		    !(peer->shared_memory.offered || peer->shared_memory.have_offer) ||
		    !sys_equal_secret(peer->shared_memory.nonce, nonce, LOCAL_NONCE_BYTES))
			continue;
		link_lock(&peer->link);
		share = share_find(peer, number);
		if (share && (share->state == SHARE_OFFERED || share->state == SHARE_OPEN))
			fd = share->job.fd;
		link_unlock_only(&peer->link);
	}
	session_unlock(session);
	return fd;
}

/* Called when the fetch of a descriptor has ended. `fd` is the descriptor if `status` is OK. */
static void share_fetched(void *arg, tcpx_status status, int fd)
{
	struct engine_map *map = arg;

	map->fetch = NULL;
	map->job.fd = fd;
	share_map_open(map, status);
}

tcpx_status share_fetch_start(struct engine_map *map)
{
	struct engine_peer *peer = map->peer;
	tcpx_status status;

	if (!peer->shared_memory.name[0])
		return error_set(TCPX_ERR_UNSUPPORTED, 0,
				 "the peer gave no address to fetch a descriptor from");
	status = local_fetch_start(&engine_runtime.loop, peer->shared_memory.name,
				   peer->shared_memory.nonce, map->id, share_fetched, map,
				   &map->fetch);
	/* ERR_AGAIN asks the peer to offer the region again later */
	return status == TCPX_ERR_NO_DESCRIPTORS || status == TCPX_ERR_NO_MEMORY ? TCPX_ERR_AGAIN
										 : status;
}

bool share_fetch_begin(struct engine_map *map, struct engine_shares *table)
{
	if (table->in_fds >= FDS_MAX)
		return false;
	table->in_fds++;
	map->counted = true;
	return true;
}

void share_fetch_end(struct engine_map *map)
{
	if (map->counted)
		map->peer->shared->in_fds--;
	map->counted = false;
}

bool share_fetch_stop(struct engine_map *map)
{
	if (!map->fetch)
		return false;
	share_fetch_end(map);
	map->state = MAP_FAILED;
	map->status = TCPX_ERR_CANCELLED;
	return true;
}

void share_fetch_cancel(struct engine_map *map)
{
	if (map->fetch)
		local_fetch_cancel(map->fetch);
	map->fetch = NULL;
}

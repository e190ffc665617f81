/* SPDX-License-Identifier: Apache-2.0 */
/* Work for a peer, which other threads hand to the control thread. */
#include "base/error.h"
#include "engine/request/reconnect.h"
#include "engine/channel/comms.h"
#include "engine/request/goodbye_wait.h"
#include "engine/peer/peer_dial.h"
#include "engine/path/share.h"
#include "engine/link/stage.h"

/* Does the work that is noted for a peer. Begins a dial for which reconnect_use() asked, ends a
 * peer that does not read the control connection or whose core has failed, and stops failed
 * channels. Then dials lost channels, sends frames, continues plugin channels, releases ended
 * requests, and offers returned staging memory to peers. */
void peer_woken(struct sys_post *post)
{
	struct engine_peer *peer = LIST_ENTRY(post, struct engine_peer, link.wake.post);
	struct engine_session *session = peer->link.session;
	uint64_t free_mask;
	bool failed;
	tcpx_status status;

	atomic_store(&peer->link.wake.posted, 0);
	reconnect_start(peer);
	if (peer->control.full)
		peer_die(peer, TCPX_ERR_PEER_STOPPED, 0, "peer does not read the control link");
	peer_take_down(peer);
	link_lock(&peer->link);
	failed = peer->link.wake.failed;
	status = peer->link.wake.failed_status;
	free_mask = peer->link.wake.free_mask;
	peer->link.wake.free_mask = 0;
	link_unlock(&peer->link);
	if (failed && status == TCPX_ERR_NO_MEMORY)
		status = session_memory_error(session);
	if (failed)
		peer_die(peer, status, 0,
			 status == TCPX_ERR_LIMIT ? error_last()->what : error_status_text(status));
	for (uint32_t i = 0; free_mask && i <= peer->nbulk && !peer->died; i++)
		if ((free_mask & (1ull << i)) && peer->dialler)
			peer_redial_later(peer, i);
	if (!peer->died)
		peer_send_fences(peer);
	if (!peer->died)
		share_run(peer);
	comms_run(peer);
	goodbye_waits_look(peer);
	for (;;) {
		struct list_node *node;

		link_lock(&peer->link);
		node = list_pop_front(&peer->link.wake.buried);
		link_unlock(&peer->link);
		if (!node)
			break;
		request_put(LIST_ENTRY(node, struct engine_request, done));
	}
	stage_offer(session);
	peer_put(peer);
}

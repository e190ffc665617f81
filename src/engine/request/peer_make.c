/* SPDX-License-Identifier: Apache-2.0 */
/* Creates a peer: its handle, and the state that it has before it connects. */
#include "engine/link/block.h"
#include "engine/request/goodbye_wait.h"
#include "engine/request/pending.h"
#include "engine/request/request_calls.h"
#include "engine/link/hold.h"
#include "sys/cpu.h"

struct engine_peer *peer_create(struct engine_session *session)
{
	struct engine_peer *peer = handle_take(&session->peers);

	if (!peer)
		return NULL;
	peer->link.session = session;
	peer->link.events = &engine_link_events;
	sys_mutex_init_short(&peer->link.lock);
	list_init(&peer->link.wake.buried);
	pending_init(peer);
	goodbye_wait_init(peer);
	block_peer_init(peer);
	hold_peer_init(peer);
	list_init(&peer->node);
	list_init(&peer->accept_node);
	list_init(&peer->inbound.half);
	list_init(&peer->inbound.dead);
	list_init(&peer->link.account.waiting);
	list_init(&peer->dialling.connect_timer.node);
	list_init(&peer->dialling.redial_timer.node);
	list_init(&peer->control.timer.node);
	list_init(&peer->link.wake.post.node);
	peer->link.wake.post.fn = peer->link.events->woken;
	peer->transport = "";
	peer->who.auth = "";
	atomic_store(&peer->state, TCPX_PEER_CONNECTING);
	handle_publish(&session->peers, peer);
	peer->app_handle = peer->link.slot.id;
	peer->control.lost_dial_fd = -1;
	return peer;
}

void peer_enlist(struct engine_peer *peer)
{
	struct engine_session *session = peer->link.session;

	session_lock(session);
	list_push_back(&session->peer_list, &peer->node);
	session_unlock(session);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The empty message with which each comm begins, if both ends agreed on that (begin_empty). Some
 * plugins make progress only within their calls, and accept no message before both ends have called
 * them. Without a first message neither end would call: a receiver posts nothing before a message
 * is announced, and a message is announced only after the plugin accepted it. So both ends call the
 * plugin until an empty message has arrived; see docs/design/messages.md, "Plugins that move when
 * called".
 */
#include "engine/channel/comms.h"

#include "base/error.h"

bool comms_first_known(const struct engine_session *session)
{
	const struct engine_plugin *plugin = session->plugin;

	return plugin && net_plugin_device(plugin->plugin, plugin->nics[0].dev)->ptr_support &
				 NCCLNET_PTR_HOST;
}

/* Begins the first message of each direction, unless it has begun or may not begin yet. The send
 * may begin when the peer's READY frame has come, because the peer's accept has ended then. The
 * receive may begin when this end has sent its READY frame. Returns an error if the plugin failed;
 * the caller must then end the attempt. */
static tcpx_status first_begin(struct engine_comms *comms)
{
	struct net_setup_opts opts = comms_opts(comms, comms->deadline_ns);
	tcpx_status status = TCPX_OK;

	if (comms->setup.ready_came && !comms->setup.first_out_begun) {
		comms->setup.first_out_begun = true;
		status = net_first_send_start(&opts, comms->out, &comms->setup.op[COMMS_FIRST_OUT]);
	}
	if (status == TCPX_OK && comms->setup.ready_told && !comms->setup.first_in_begun) {
		comms->setup.first_in_begun = true;
		opts.gpu = comms_nic(comms)->landing;
		status = net_first_recv_start(&opts, comms->in, comms->bounce_mr,
					      &comms->setup.op[COMMS_FIRST_IN]);
	}
	return status;
}

bool comms_first(struct engine_comms *comms)
{
	struct engine_peer *peer = comms->peer;
	struct comms_slot *slot = comms_slot(peer, comms->channel);
	struct net_setup_result result;

	if (!peer->comms->begin_empty)
		return comms->setup.ready_told && comms->setup.ready_came;
	if (comms_result(comms, COMMS_FIRST_OUT, &result))
		comms->setup.first_out = true;
	if (slot->comms != comms)
		return false;
	if (comms_result(comms, COMMS_FIRST_IN, &result))
		comms->setup.first_in = true;
	if (slot->comms != comms)
		return false;
	if (first_begin(comms) != TCPX_OK) {
		comms_fail(comms, error_last()->what);
		return false;
	}
	return comms->setup.first_out && comms->setup.first_in;
}

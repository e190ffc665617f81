/* SPDX-License-Identifier: Apache-2.0 */
/* The path of payloads that travel as messages of a plugin, between memory that the plugin carries.
 * A message to host memory is received like a stream. A message to GPU memory arrives as fragments,
 * which are then unpacked. The file is in channel/, not in path/, because it calls the functions of
 * comms.h, which path/ may not include. */
#include "engine/channel/comms_gpu.h"
#include "engine/path/paths.h"

static void message_registered(struct engine_session *session, uint64_t id)
{
	struct mem_region *region = session->plugin ? mem_region_get(session->regions, id) : NULL;

	if (!region)
		return;
	comms_cover_check(session, region);
	mem_region_put(region);
}

static uint8_t message_token(const struct engine_session *session, const struct mem_region *region)
{
	return comms_takes(session, region) ? WIRE_TOKEN_MESSAGES : 0;
}

static void message_prepared(struct engine_request *request)
{
	for (uint32_t i = 0; i < request->regions.count; i++)
		request->local.messages &= comms_takes(request->session, request->regions.at[i]);
}

static enum path_loaded message_load(struct engine_chan *chan, bool *out_valid)
{
	if (!comms_post(chan, out_valid))
		return PATH_LATER;
	path_header(&chan->tx, NULL);
	return PATH_APART;
}

static bool message_sinks(const struct engine_chan *chan, const struct core_segs *segs)
{
	(void)segs;
	return comms_in_pieces(chan);
}

static tcpx_status message_receive(struct engine_chan *chan, const struct core_segs *segs,
				   const uint8_t *sources, uint32_t bytes)
{
	const struct engine_session *session = chan->peer->link.session;
	const struct chan_rx *rx = &chan->rx;

	(void)sources;
	(void)bytes;
	for (uint32_t i = 0; i < rx->nheld; i++)
		if (!comms_takes(session, rx->held[i].region))
			return TCPX_ERR_REMOTE_KEY; /* the region's token does not offer messages */
	for (uint32_t i = 0; segs && i < segs->nlocal; i++)
		if (!comms_takes(session, segs->local[i]))
			return TCPX_ERR_PROTOCOL;
	return comms_receive(chan, segs);
}

static const struct path_extra message_extra = {
	.registered = message_registered,
	.token = message_token,
	.prepared = message_prepared,
};

const struct path_ops path_message = {
	.extra = &message_extra,
	.core = CORE_PATH_MESSAGE,
	.apart = true,
	.carries = comms_carries,
	.serve = comms_serve,
	.forget = comms_forget,
	.load = message_load,
	.sinks = message_sinks,
	.receive = message_receive,
	.commit = comms_unpack_start,
	.discard = comms_message_drop,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the transports, and the functions that search it. */
#include "base/error.h"
#include "net/transport.h"

/* The order matters: a socket is offered to the adopt of each transport in this order until one
 * takes the socket. tcp takes every socket, so it must be the last. Of the transports that are
 * dialled by an offer (transport.h), only the first is used. */
static const struct transport_ops *const transports[] = {
	&transport_local,
	&transport_tcp,
};

static const struct transport_ops *enrolled; /* a transport that a test added, or NULL */

void net_transport_enrol(const struct transport_ops *transport)
{
	enrolled = transport;
}

const struct transport_ops *net_transport_at(unsigned index)
{
	if (enrolled && !index--)
		return enrolled;
	return index < sizeof(transports) / sizeof(transports[0]) ? transports[index] : NULL;
}

tcpx_status net_transport_adopt(int fd, struct net_chan **out_chan)
{
	const struct transport_ops *transport;

	for (unsigned i = 0; (transport = net_transport_at(i)); i++) {
		tcpx_status status = TCPX_ERR_UNSUPPORTED;

		if (transport->adopt)
			status = transport->adopt(fd, out_chan);
		if (status != TCPX_ERR_UNSUPPORTED)
			return status;
	}
	return error_set(TCPX_ERR_UNSUPPORTED, 0, "no transport takes the connected socket %d", fd);
}

const struct transport_ops *net_transport_of_offers(void)
{
	const struct transport_ops *transport;
	unsigned i = 0;

	while ((transport = net_transport_at(i)) && !transport->dial)
		i++;
	return transport;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Code that transports share: members of net_ops that do nothing, and the status for an errno. */
#include "net/net_wrapper.h"

#include <errno.h>

#include "sys/sock.h"

const struct net_wrapper *net_wrapper;

void net_none_recv_mark(struct net_chan *chan, size_t bytes)
{
	(void)chan;
	(void)bytes;
}

void net_none_trim(struct net_chan *chan)
{
	(void)chan;
}

tcpx_status net_status_errno(int err)
{
	tcpx_status status;

	if (err == EAGAIN || err == ENOBUFS || err == ENOMEM)
		return TCPX_IN_PROGRESS; /* no room or memory for now; the channel still works */
	if (err == EFAULT)
		return TCPX_ERR_INVALID; /* caller's memory not mapped; the channel still works */
	status = sys_errno_status(err);
	/* Any other errno, except 0, means that the channel is lost. If the status for this errno
	 * does not say so, CHANNEL_LOST is returned instead. */
	return !err || status <= TCPX_ERR_CHANNEL_LOST ? status : TCPX_ERR_CHANNEL_LOST;
}

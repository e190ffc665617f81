/* SPDX-License-Identifier: Apache-2.0 */
/* What every transport shares: members that do nothing, and errno as a status. */
#include "net/net_wrapper.h"

#include <errno.h>
#include <string.h>

#include "sys/sock.h"

const struct net_wrapper *net_wrapper;

void net_none_recv_mark(struct net_chan *chan, size_t bytes)
{
	(void)chan;
	(void)bytes;
}

void net_none_info(const struct net_chan *chan, struct net_chan_info *out_info)
{
	(void)chan;
	memset(out_info, 0, sizeof(*out_info));
}

tcpx_status net_status_errno(int err)
{
	tcpx_status status;

	if (err == EAGAIN || err == ENOBUFS || err == ENOMEM)
		return TCPX_IN_PROGRESS; /* the kernel's shortage passes, the channel is whole */
	if (err == EFAULT)
		return TCPX_ERR_INVALID; /* the caller's memory is gone, not the channel */
	status = sys_errno_status(err);
	/* Whatever is no judgement about the peer leaves this channel useless all the same. */
	return !err || status <= TCPX_ERR_CHANNEL_LOST ? status : TCPX_ERR_CHANNEL_LOST;
}

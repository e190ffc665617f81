/* SPDX-License-Identifier: Apache-2.0 */
/* What tests put around the channels of a session. */
#ifndef NET_NET_WRAPPER_H
#define NET_NET_WRAPPER_H

#include "net/net.h"

/* What tests put around each new channel of a session. */
struct net_wrapper {
	/* For a session that opens: its text for wrap, from malloc; NULL: nothing is put around its
	 * channels. ERR_INVALID names a mistake. */
	tcpx_status (*spec)(char **out_spec);
	/* The outermost channel, which owns chan. On failure chan is untouched. */
	tcpx_status (*wrap)(const char *spec, struct net_chan *chan, struct net_chan **out_chan);
};

/* NULL in what is shipped. A constructor of a test program sets it. */
extern const struct net_wrapper *net_wrapper;

#endif

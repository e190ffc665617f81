/* SPDX-License-Identifier: Apache-2.0 */
/* Lets a test program wrap the channels of a session, for example by filters that inject faults. */
#ifndef NET_NET_WRAPPER_H
#define NET_NET_WRAPPER_H

#include "net/net.h"

struct net_wrapper {
	/* Called when a session opens, with *out_spec NULL. Sets *out_spec to a text from malloc,
	 * which says how to wrap and is passed to wrap for each channel of the session. Leaves it
	 * NULL if the channels are not to be wrapped; wrap is not called then. Returns ERR_INVALID
	 * if the text would have a mistake, or ERR_NO_MEMORY; *out_spec stays NULL then. */
	tcpx_status (*spec)(char **out_spec);
	/* Wraps a new channel; *out_chan then owns chan. On failure, such as ERR_NO_MEMORY, chan is
	 * not changed. */
	tcpx_status (*wrap)(const char *spec, struct net_chan *chan, struct net_chan **out_chan);
};

/* Set by a constructor of a test program; NULL in the shipped library. */
extern const struct net_wrapper *net_wrapper;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Lets a test program wrap the channels of a session, such as in filters that inject faults. */
#ifndef NET_NET_WRAPPER_H
#define NET_NET_WRAPPER_H

#include "net/net.h"

struct net_wrapper {
	/* Called when a session opens: the text that is passed to wrap for its channels, from
	 * malloc. NULL: they are not wrapped. ERR_INVALID: a mistake in the text. */
	tcpx_status (*spec)(char **out_spec);
	/* Wraps a new channel: *out_chan owns chan. On failure chan is untouched. */
	tcpx_status (*wrap)(const char *spec, struct net_chan *chan, struct net_chan **out_chan);
};

/* NULL in the shipped library; set by a constructor of a test program. */
extern const struct net_wrapper *net_wrapper;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Filters: channels that wrap a channel. They own the inner one. */
#ifndef PARTS_FILTER_H
#define PARTS_FILTER_H

#include "net/net.h"

/*
 * Wraps chan in the filters of spec, "name:key=value:key=value,name..." innermost first:
 *   fault  seed=N  drop=N      the channel fails after about N MiB (0: never), both ways
 *          short=P             P percent of calls take only part of the bytes
 *          again=P             P percent of calls say IN_PROGRESS first
 *          flip=N              one byte flipped after about N MiB received (silent corruption)
 *          delay=US            a call in eight waits up to US microseconds
 *          first=1             only the first channel wrapped in this process is affected
 *   check  verifies the contract (two senders at once, use after close, empty iov, more than
 *          NET_CALL_BYTES per call, iov changed, wrong status) and logs + counts a breach
 * NULL or "": chan itself. ERR_INVALID: unknown filter or key, named.
 */
tcpx_status filter_wrap(const char *spec, struct net_chan *chan, struct net_chan **out_chan);

/* The filters of each session that this process opens from now on, in place of what the variable
 * TESTS_FILTERS says; NULL: that again. One thread. */
void filter_choose(const char *spec);

/* Breaches seen by check in this process; tests demand 0. */
uint64_t filter_check_breaches(void);

#endif

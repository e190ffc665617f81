/* SPDX-License-Identifier: Apache-2.0 */
/* Reports changes of network interfaces, such as a lost carrier, as soon as the kernel announces
 * them. */
#ifndef SYS_LINKS_H
#define SYS_LINKS_H

#include <stddef.h>

#include "sys/loop.h"

struct sys_links {
	struct sys_loop *loop;
	struct sys_watch watch;
	/* Called on the loop's thread whenever a property of an interface changes, and for all
	 * interfaces after the kernel dropped messages. `up` is 1 if the interface is up and has a
	 * carrier. `name` is "" if the kernel sent no name. */
	void (*changed)(void *arg, unsigned index, const char *name, int up);
	void *arg;
};

/* Begins to watch all interfaces. The caller must set `changed` and `arg` before. On an error no
 * interface is watched, and watch.fd is -1. */
tcpx_status sys_links_open(struct sys_loop *loop, struct sys_links *links);
void sys_links_close(struct sys_links *links); /* may be called after a failed open too */

/* Parses messages from the kernel, and calls `changed` for each message about an interface. Skips
 * truncated and unknown messages. */
void sys_links_read(const struct sys_links *links, const void *messages, size_t len);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Events of interfaces, reported as soon as one gets or loses its carrier. */
#ifndef SYS_LINKS_H
#define SYS_LINKS_H

#include <stddef.h>

#include "sys/loop.h"

struct sys_links {
	struct sys_loop *loop;
	struct sys_watch watch;
	/* Called on the loop's thread for each change of an interface, also of other properties.
	 * `up` is 1 if the interface is up and has a carrier; `name` is "" if the kernel sent
	 * none. */
	void (*changed)(void *arg, unsigned index, const char *name, int up);
	void *arg;
};

/* Begins to watch all interfaces; the caller has set `changed` and `arg` before. ERR_SYSTEM,
 * ERR_NO_DESCRIPTORS: no events come, and watch.fd is -1. */
tcpx_status sys_links_open(struct sys_loop *loop, struct sys_links *links);
void sys_links_close(struct sys_links *links); /* also to be called after a failed open */

/* Parses messages of the kernel and calls `changed` for each that is about an interface;
 * truncated and unknown ones are skipped. */
void sys_links_read(const struct sys_links *links, const void *messages, size_t len);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says about interfaces: told at once when one gets or loses its carrier. */
#ifndef SYS_LINKS_H
#define SYS_LINKS_H

#include <stddef.h>

#include "sys/loop.h"

struct sys_links {
	struct sys_loop *loop;
	struct sys_watch watch;
	/* up: the interface is up and has a carrier. Also told when nothing but its other
	 * properties changed. On the loop's thread. */
	void (*changed)(void *arg, unsigned index, const char *name, int up);
	void *arg;
};

/* changed and arg are the caller's. ERR_SYSTEM, ERR_NO_DESCRIPTORS: nobody tells, fd is -1. */
tcpx_status sys_links_open(struct sys_loop *loop, struct sys_links *links);
void sys_links_close(struct sys_links *links); /* also of one that did not open */

/* Reads messages of the kernel; what is cut short or of another kind is skipped. */
void sys_links_read(const struct sys_links *links, const void *messages, size_t len);

#endif

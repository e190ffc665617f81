/* SPDX-License-Identifier: Apache-2.0 */
/* What the mappings under a range of this process's memory allow, as the kernel lists them. */
#ifndef SYS_MAPS_H
#define SYS_MAPS_H

#include <stdint.h>

struct sys_maps {
	int readable, writable; /* every page of the range is */
	/* Some page is a file's, also a memfd's or shared memory's: whoever truncates the file
	 * takes it away. Not of devices and of anonymous memory, which nobody can truncate. */
	int file;
	/* The first address without that permission, and the permissions there: "r--p", or "" where
	 * nothing is mapped. */
	uint64_t no_read, no_write;
	char read_perms[5], write_perms[5];
};

/* 0, or -1 where /proc cannot tell: out is then not written. Some microseconds; before Linux 6.11
 * as many as the process has mappings. */
int sys_maps_look(const void *addr, uint64_t length, struct sys_maps *out);

/* The same from the text of /proc/self/maps, as kernels before 6.11 have to. */
int sys_maps_read(const void *addr, uint64_t length, struct sys_maps *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Permissions of the mappings under a range of this process's memory. */
#ifndef SYS_MAPS_H
#define SYS_MAPS_H

#include <stdint.h>

/* What the mappings of a range of memory allow. */
struct sys_maps {
	int readable, writable; /* whether all pages of the range are readable, or writable */
	/* 1 if a page of the range belongs to a file, a memfd or shared memory. Such a page
	 * vanishes when the file is truncated. Devices and anonymous memory do not count. */
	int file;
	/* The first address that is not readable (no_read) or not writable (no_write), and the
	 * permissions of its mapping: "r--p", or "" if nothing is mapped. no_read is valid if
	 * `readable` is 0, no_write if `writable` is 0. */
	uint64_t no_read, no_write;
	char read_perms[5], write_perms[5];
};

/* Examines the mappings of `length` bytes at `addr`. Returns 0. Returns -1 if /proc cannot be read;
 * *out is then unchanged. Takes some microseconds; before Linux 6.11 the time grows with the number
 * of mappings of the process. */
int sys_maps_look(const void *addr, uint64_t length, struct sys_maps *out);

/* Like sys_maps_look, but reads the text of /proc/self/maps, the only way before Linux 6.11. */
int sys_maps_read(const void *addr, uint64_t length, struct sys_maps *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Permissions of the mappings under a range of this process's memory. */
#ifndef SYS_MAPS_H
#define SYS_MAPS_H

#include <stdint.h>

/* What the mappings under a range of memory allow. */
struct sys_maps {
	int readable, writable; /* whether every page of the range is readable, or writable */
	/* Whether a page belongs to a file, a memfd or shared memory, and so may vanish when that
	 * is truncated. Devices and anonymous memory cannot be truncated. */
	int file;
	/* The first address that is not readable (no_read), or not writable (no_write), and the
	 * permissions there: "r--p", or "" if nothing is mapped. Valid if readable, or writable, is
	 * 0. */
	uint64_t no_read, no_write;
	char read_perms[5], write_perms[5];
};

/* Looks at the mappings under length bytes at addr. Returns 0, or -1 if /proc cannot be read; then
 * *out is unchanged. Takes some microseconds; before Linux 6.11 the time grows with the number of
 * mappings. */
int sys_maps_look(const void *addr, uint64_t length, struct sys_maps *out);

/* As sys_maps_look, but from the text of /proc/self/maps, as needed before Linux 6.11. */
int sys_maps_read(const void *addr, uint64_t length, struct sys_maps *out);

#endif

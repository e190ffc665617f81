/* SPDX-License-Identifier: Apache-2.0 */
/* What the process has open: back to the same number means that nothing leaked. */
#ifndef TESTS_DESCRIPTORS_H
#define TESTS_DESCRIPTORS_H

#include <fcntl.h>

static inline unsigned open_descriptors(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 2048; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* One call site of the library fails once: how to list the sites and choose one. */
#ifndef TORTURE_TORTURE_H
#define TORTURE_TORTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SITES_MAX 1024

struct site {
	_Atomic uintptr_t address; /* of the call, a return address */
	const char *call;
	_Atomic uint32_t count;
};

/* Shared between the recording child and the parent. */
struct torture {
	struct site site[SITES_MAX];
	_Atomic uint32_t nsites;
	_Atomic uint32_t fired; /* the chosen call was failed */
};

extern struct torture *torture;
extern bool torture_recording;
extern uintptr_t torture_victim; /* address of the site, 0: none */
extern uint32_t torture_nth;	 /* its n-th call fails, from 1 */

#endif

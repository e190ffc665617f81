/* SPDX-License-Identifier: Apache-2.0 */
/* The fork handlers. In a child they raise the generation and close the library's descriptors. */
#include "sys/fork.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "sys/fd.h"

/* `generation` is what sys_fork_generation() returns. `owner` is the generation of the process that
 * called sys_fork_init() last. */
static _Atomic uint32_t generation, owner;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int register_err;

/* Closes the library's descriptors and raises the generation. Takes no lock and allocates nothing,
 * because another thread of the parent may have held any lock at the fork. */
static void fork_in_child(void)
{
	sys_fd_in_child();
	atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
}

static void register_handler(void)
{
	register_err = pthread_atfork(sys_fd_before_fork, sys_fd_in_parent, fork_in_child);
}

tcpx_status sys_fork_init(void)
{
	pthread_once(&once, register_handler);
	if (register_err)
		return error_set(TCPX_ERR_NO_MEMORY, register_err,
				 "cannot register the fork handler");
	atomic_store_explicit(&owner, sys_fork_generation(), memory_order_relaxed);
	return TCPX_OK;
}

int sys_forked(void)
{
	return atomic_load_explicit(&generation, memory_order_relaxed) !=
	       atomic_load_explicit(&owner, memory_order_relaxed);
}

uint32_t sys_fork_generation(void)
{
	return atomic_load_explicit(&generation, memory_order_relaxed);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How many sessions keep the runtime's threads; 0: they have ended, which the lock is held for. */
#ifndef SUPPORT_RUNTIME_REFS_H
#define SUPPORT_RUNTIME_REFS_H

#include "engine/session/calls.h"

static inline uint32_t runtime_refs(void)
{
	uint32_t refs;

	pthread_mutex_lock(&engine_runtime.lock);
	refs = engine_runtime.refs;
	pthread_mutex_unlock(&engine_runtime.lock);
	return refs;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Argument checks of the public calls: sessions, sized structs, pointers. */
#ifndef API_CHECKS_H
#define API_CHECKS_H

#include <stdbool.h>

#include "base/error.h"
#include "engine/calls.h"

static inline struct engine_session *api_session(tcpx_session *session)
{
	return (struct engine_session *)session;
}

/* Copies a sized struct of the caller: shorter ones are older and end in zeros, a longer one must
 * have a zero tail. ERR_INVALID names it. */
tcpx_status api_opts(const char *name, const void *opts, size_t min, void *out, size_t size);

/* The output half: copies at most what the caller's struct holds. */
tcpx_status api_out(const char *name, void *out, const void *from, size_t size);

tcpx_status api_null(const char *name);

#define API_ENTER(session)                                                                         \
	do {                                                                                       \
		tcpx_status api_status_ = engine_session_check(api_session(session));              \
		if (api_status_ != TCPX_OK)                                                        \
			return api_status_;                                                        \
	} while (0)

#define API_NOT_NULL(pointer)                                                                      \
	do {                                                                                       \
		if (!(pointer))                                                                    \
			return api_null(#pointer);                                                 \
	} while (0)

#endif

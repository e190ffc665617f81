/* SPDX-License-Identifier: Apache-2.0 */
/* Argument checks of the public calls: open sessions, structs that begin with their size,
 * pointers. */
#ifndef API_CHECKS_H
#define API_CHECKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "engine/session/calls.h"

static inline struct engine_session *api_session(tcpx_session *session)
{
	return (struct engine_session *)session;
}

/* Copies the caller's struct `opts`, which begins with its size (sz), to `out`, a struct of `size`
 * bytes. If the caller's struct is of an older version and shorter, its missing fields become 0. If
 * it is longer, the bytes after `size` must be 0. If `opts` is NULL, all fields become 0. Returns
 * ERR_INVALID, with the struct's name, if sz is less than `min` or too large, or if one of the
 * bytes after `size` is not 0. */
tcpx_status api_opts(const char *name, const void *opts, size_t min, void *out, size_t size);

/* Checks an output struct before the public call has any effect. Returns ERR_INVALID if `out` is
 * NULL, if out->sz is less than `first` (the size of the struct's first version), or if out->sz is
 * larger than any struct. */
tcpx_status api_out_check(const char *name, const void *out, size_t first);

/* Copies `from`, a struct of `size` bytes, to the caller's struct `out`, as far as `out` has room.
 * The rest of a longer `out` becomes 0. The caller must have checked out->sz by api_out_check. */
void api_out_write(void *out, const void *from, size_t size);

/* As api_out_write, for the element `index` of an array whose elements have sz bytes each. Also
 * sets the element's own sz. */
void api_out_element(void *array, size_t index, size_t sz, const void *from, size_t size);

/* Logs, at the first call, each unknown environment variable whose name is near a known one. Logs
 * nothing if tcpx_option_unknown() was called before. */
void api_options_warn(void);

/* Sets and returns ERR_INVALID for the argument called `name`, which is NULL. */
tcpx_status api_null(const char *name);

/* The macros below return from a public call if an argument is wrong. API_ENTER returns if the
 * session is not open. */
#define API_ENTER(session)                                                                         \
	do {                                                                                       \
		tcpx_status api_status_ = engine_session_check(api_session(session));              \
		if (api_status_ != TCPX_OK)                                                        \
			return api_status_;                                                        \
	} while (0)

/* Returns from the public call if the output struct is NULL or its sz is wrong (api_out_check).
 * `last` is the last field of the first version of `type`, so it never changes. */
#define API_OUT(type, out, last)                                                                   \
	do {                                                                                       \
		tcpx_status api_status_ = api_out_check(                                           \
			#type, (out), offsetof(type, last) + sizeof(((type *)0)->last));           \
		if (api_status_ != TCPX_OK)                                                        \
			return api_status_;                                                        \
	} while (0)

/* Returns from the public call if the pointer is NULL. */
#define API_NOT_NULL(pointer)                                                                      \
	do {                                                                                       \
		if (!(pointer))                                                                    \
			return api_null(#pointer);                                                 \
	} while (0)

#endif

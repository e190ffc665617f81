/* SPDX-License-Identifier: Apache-2.0 */
/* Argument checks of the public calls: sessions, sized structs, pointers. */
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

/* Copies a struct of the caller that begins with its size (sz) to out, a struct of size bytes. A
 * shorter one is of an older version, and its missing fields become 0; a longer one must have a
 * zero tail. NULL: all fields become 0. ERR_INVALID: sz is below min or too large, or the tail is
 * not zero; the error names the struct. */
tcpx_status api_opts(const char *name, const void *opts, size_t min, void *out, size_t size);

/* Checks an output struct before the call has any effect. ERR_INVALID: `out` is NULL, or out->sz
 * is less than `first`, the size of the struct's first version, or larger than any struct. */
tcpx_status api_out_check(const char *name, const void *out, size_t first);

/* Copies as much as the caller's struct has room for; its sz was checked by api_out_check. The rest
 * of a longer struct becomes 0. */
void api_out_write(void *out, const void *from, size_t size);

/* As api_out_write for the element with that index of an array whose elements have sz bytes; sets
 * the element's sz as well. */
void api_out_element(void *array, size_t index, size_t sz, const void *from, size_t size);

/* Sets ERR_INVALID for an argument that is NULL, and returns it. */
tcpx_status api_null(const char *name);

/* The macros below return from a public call whose arguments are wrong. API_ENTER returns if the
 * session is not open. */
#define API_ENTER(session)                                                                         \
	do {                                                                                       \
		tcpx_status api_status_ = engine_session_check(api_session(session));              \
		if (api_status_ != TCPX_OK)                                                        \
			return api_status_;                                                        \
	} while (0)

/* Returns if the output struct is NULL or too small. `last` is the last field of the first
 * version of `type`; it never changes. */
#define API_OUT(type, out, last)                                                                   \
	do {                                                                                       \
		tcpx_status api_status_ = api_out_check(                                           \
			#type, (out), offsetof(type, last) + sizeof(((type *)0)->last));           \
		if (api_status_ != TCPX_OK)                                                        \
			return api_status_;                                                        \
	} while (0)

/* Returns if the pointer is NULL. */
#define API_NOT_NULL(pointer)                                                                      \
	do {                                                                                       \
		if (!(pointer))                                                                    \
			return api_null(#pointer);                                                 \
	} while (0)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The paths by which the bytes of a chunk get to the peer. */
#ifndef CORE_PATH_H
#define CORE_PATH_H

#include <stdint.h>

#include "base/frame.h"

enum core_path {
	CORE_PATH_STREAM = 0, /* the bytes follow the chunk's header on the channel */
	CORE_PATH_REFERENCE,  /* the peer copies the bytes out of the source by itself */
	CORE_PATH_MESSAGE,    /* the bytes are the next message of a plugin channel */
};

/* Returns the frame flag of a chunk that goes by this path. In a READ_REQ the flag demands the path
 * for the data, in a CTS it allows the path. */
static inline uint16_t core_path_flag(enum core_path path)
{
	static const uint16_t flags[] = {
		[CORE_PATH_STREAM] = 0,
		[CORE_PATH_REFERENCE] = FRAME_F_REF,
		[CORE_PATH_MESSAGE] = FRAME_F_MSG,
	};

	return flags[path];
}

/* Returns the path that the frame's flags name. */
static inline enum core_path core_path_of(const struct frame *frame)
{
	if (frame->flags & FRAME_F_REF)
		return CORE_PATH_REFERENCE;
	return frame->flags & FRAME_F_MSG ? CORE_PATH_MESSAGE : CORE_PATH_STREAM;
}

/* Returns the path by which the frame's payload goes. Returns STREAM if the frame has no payload:
 * the flag of a READ_REQ or CTS concerns the frames that answer it. */
static inline enum core_path core_path_of_payload(const struct frame *frame)
{
	return frame->payload_bytes ? core_path_of(frame) : CORE_PATH_STREAM;
}

#endif

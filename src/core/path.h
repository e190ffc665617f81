/* SPDX-License-Identifier: Apache-2.0 */
/* The ways in which the bytes of a chunk get to the peer. */
#ifndef CORE_PATH_H
#define CORE_PATH_H

#include <stdint.h>

#include "base/frame.h"

enum core_path {
	CORE_PATH_STREAM = 0, /* behind the chunk's header */
	CORE_PATH_REFERENCE,  /* not on the channel: the peer copies them out of the source */
	CORE_PATH_MESSAGE,    /* as the next message of a channel of messages */
};

/* What says so in a chunk, and in a READ's request or a CTS, which agree to it. */
static inline uint16_t core_path_flag(enum core_path path)
{
	static const uint16_t flags[] = {
		[CORE_PATH_STREAM] = 0,
		[CORE_PATH_REFERENCE] = FRAME_F_REF,
		[CORE_PATH_MESSAGE] = FRAME_F_MSG,
	};

	return flags[path];
}

static inline enum core_path core_path_of(const struct frame *frame)
{
	if (frame->flags & FRAME_F_REF)
		return CORE_PATH_REFERENCE;
	return frame->flags & FRAME_F_MSG ? CORE_PATH_MESSAGE : CORE_PATH_STREAM;
}

/* How the frame's payload goes; STREAM if it has none: a READ's request and a CTS carry the flag
 * without one. */
static inline enum core_path core_path_of_payload(const struct frame *frame)
{
	return frame->payload_bytes ? core_path_of(frame) : CORE_PATH_STREAM;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A region of a peer: its token, and the handle that this session refers to it by. */
#ifndef ENGINE_LINK_IMPORT_H
#define ENGINE_LINK_IMPORT_H

#include "engine/link/engine.h"

struct engine_import {
	struct handle_slot slot;
	struct engine_session *session;
	uint64_t peer_id, link_id; /* handle by which it was imported; handle of that peer's link */
	struct wire_token token;
};

#endif

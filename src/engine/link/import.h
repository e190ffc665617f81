/* SPDX-License-Identifier: Apache-2.0 */
/* A region of a peer: its token, and the handle that it was imported by. */
#ifndef ENGINE_LINK_IMPORT_H
#define ENGINE_LINK_IMPORT_H

#include "engine/link/engine.h"

struct engine_import {
	struct handle_slot slot;
	struct engine_session *session;
	uint64_t peer_id, link_id; /* the handle that it was imported by, its link's own */
	struct wire_token token;
};

#endif

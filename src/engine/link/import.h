/* SPDX-License-Identifier: Apache-2.0 */
/* A region of a peer: its token, and the handle that this session refers to it by. */
#ifndef ENGINE_LINK_IMPORT_H
#define ENGINE_LINK_IMPORT_H

#include "engine/link/engine.h"

struct engine_import {
	struct handle_slot slot;
	struct engine_session *session;
	/* handle of the peer that it was imported with; handle of that peer's link */
	uint64_t peer_id, link_id;
	struct wire_token token;
};

#endif

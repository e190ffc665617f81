/* SPDX-License-Identifier: Apache-2.0 */
/* A region of a peer as this session knows it: the region's token, and a handle for the
 * application. */
#ifndef ENGINE_LINK_IMPORT_H
#define ENGINE_LINK_IMPORT_H

#include "engine/link/engine.h"

struct engine_import {
	struct handle_slot slot;
	struct engine_session *session;
	/* the peer handle with which the region was imported; app_handle of the peer to which that
	 * handle led at that time */
	uint64_t peer_id, link_id;
	struct wire_token token;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The dials of a link, for its control link and its channels, and when a dial is repeated. Once the
 * peer is in session->peer_list, only the control thread uses the struct, except for
 * duplicate_of. */
#ifndef ENGINE_LINK_DIAL_STATE_H
#define ENGINE_LINK_DIAL_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/link.h"
#include "ctl/conn.h"
#include "sys/loop.h"
#include "wire/hello.h"

struct peer_dial;

struct peer_dialling {
	/* the dial of the control connection; NULL: none is under way */
	struct peer_dial *control;
	/* the dial of each data channel, by index; NULL: none is under way */
	struct peer_dial *channel[CORE_CHANNELS_MAX];
	bool channels_begun;
	struct wire_hello hello;
	uint8_t key[CTL_KEY_BYTES];
	int64_t deadline_ns;
	struct sys_timer connect_timer, redial_timer;
	uint64_t redial_mask; /* bit mask, by index, of channels that must be dialled again */
	uint32_t tries, control_tries;
	/* if the dial ended because a link with the same session existed: the handle of that link;
	 * else 0 */
	uint64_t duplicate_of;
};

#endif

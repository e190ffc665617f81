/* SPDX-License-Identifier: Apache-2.0 */
/* The dials of a link: those of its control link and of its channels, and when one is repeated.
 * Control thread only. */
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
	uint64_t redial_mask; /* channels, by index, that must be dialled again */
	uint32_t tries, control_tries;
	/* handle of the link with the same session that existed before; 0: none */
	uint64_t duplicate_of;
};

#endif

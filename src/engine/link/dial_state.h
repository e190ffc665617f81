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
	struct peer_dial *control;		      /* under way; or NULL */
	struct peer_dial *channel[CORE_CHANNELS_MAX]; /* the same of each channel, by index */
	bool channels_begun;
	struct wire_hello hello;
	uint8_t key[CTL_KEY_BYTES];
	int64_t deadline_ns;
	struct sys_timer connect_timer, redial_timer;
	uint64_t redial_mask; /* channels to dial again, by index */
	uint32_t tries, control_tries;
	uint64_t duplicate_of; /* handle of the link with that session that already existed; or 0 */
};

#endif

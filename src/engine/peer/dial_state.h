/* SPDX-License-Identifier: Apache-2.0 */
/* What a link that we dial knows of its dials: the control link's, those of channels, and when one
 * is made again. Control thread only. */
#ifndef ENGINE_PEER_DIAL_STATE_H
#define ENGINE_PEER_DIAL_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/link.h"
#include "ctl/conn.h"
#include "sys/loop.h"
#include "wire/hello.h"

struct peer_dial;

struct peer_dialling {
	struct peer_dial *control;		      /* under way; or NULL */
	struct peer_dial *channel[CORE_CHANNELS_MAX]; /* the same, by index */
	bool channels_begun;
	struct wire_hello hello;
	uint8_t key[CTL_KEY_BYTES];
	int64_t deadline_ns;
	struct sys_timer connect_timer, redial_timer;
	uint64_t redial_mask; /* channels to dial again, by index */
	uint32_t tries, control_tries;
	uint64_t same_as; /* the handle of the link that this dial found in place */
};

#endif

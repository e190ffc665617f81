/* SPDX-License-Identifier: Apache-2.0 */
/* The attacker's repertoire in fuzz_session: each takes what it needs from the input. */
#ifndef FUZZ_SESSION_FRAMES_H
#define FUZZ_SESSION_FRAMES_H

#include "session_raw.h"
#include "session_victim.h"
#include "wire/cursor.h"

extern struct victim session_victim;
extern struct raw session_raw;

void session_send_data(struct wire_cursor *in);
void session_send_table(struct wire_cursor *in, bool read);
/* Answers to what the session asked for: READ_REQ; RTS, CTS and others. */
void session_send_rdata(struct wire_cursor *in);
void session_send_answer(struct wire_cursor *in);
void session_send_message(struct wire_cursor *in);
void session_send_note(struct wire_cursor *in);
void session_send_told(struct wire_cursor *in);
/* Fields of any value; no frame at all; the control link; channels that go and come back. */
void session_send_anything(struct wire_cursor *in);
void session_send_bytes(struct wire_cursor *in);
void session_send_control(struct wire_cursor *in);
void session_change_channel(struct wire_cursor *in);

#endif

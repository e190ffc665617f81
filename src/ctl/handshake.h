/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three messages of conn.h as bytes: building, sealing, checking, and moving them over a
 * non-blocking socket. No policy: listener.c and dial.c decide when.
 */
#ifndef CTL_HANDSHAKE_H
#define CTL_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "ctl/conn.h"

/* One message on its way in or out. */
struct ctl_message {
	size_t len;  /* of the whole; 0 while receiving and not yet known */
	size_t done; /* bytes moved so far */
	uint8_t bytes[WIRE_HELLO_MAX];
};

struct ctl_handshake {
	bool dialler;
	bool foreign; /* acceptor: a dial of another version, of which little is known */
	uint8_t key[CTL_KEY_BYTES];
	struct ctl_identity identity;	 /* ours */
	uint8_t exchange[CTL_KEY_BYTES]; /* the secret half of our part of the exchange */
	struct wire_hello dial, answer;
	struct ctl_message dial_msg, answer_msg, proof_msg;
};

/* Moves a message, never a byte beyond it. TCPX_OK: complete; IN_PROGRESS: wait for the socket;
 * PROTOCOL: not ours or too long; PEER_CLOSED: end of stream; otherwise what *out_err means. */
tcpx_status ctl_message_recv(int fd, struct ctl_message *msg, int *out_err);
tcpx_status ctl_message_send(int fd, struct ctl_message *msg, int *out_err);

/* Dialler: fills step, nonce, version range (when 0) and proof of hs->dial and encodes it.
 * UNSUPPORTED: the method needs crypto, which this build lacks. */
tcpx_status ctl_handshake_dial(struct ctl_handshake *hs);

/* Acceptor: decodes dial_msg into hs->dial. ERR_VERSION also fills it: once the proof holds, the
 * answer may say so. PROTOCOL otherwise. */
tcpx_status ctl_handshake_read_dial(struct ctl_handshake *hs);

/* Acceptor, with hs->key set: ERR_AUTH when the dial does not prove it, or its uuid is not of the
 * key that it names. */
tcpx_status ctl_handshake_check_dial(const struct ctl_handshake *hs);

/* Acceptor: completes hs->answer (step, role, auth, version, nonce, proof) and encodes it. */
tcpx_status ctl_handshake_answer(struct ctl_handshake *hs);

/* Dialler: decodes and checks answer_msg. AUTH, VERSION, PROTOCOL, or what its status says. */
tcpx_status ctl_handshake_check_answer(struct ctl_handshake *hs);

/* Dialler: encodes the proof. Acceptor: ERR_AUTH or PROTOCOL when proof_msg is not one. */
tcpx_status ctl_handshake_proof(struct ctl_handshake *hs);
tcpx_status ctl_handshake_check_proof(const struct ctl_handshake *hs);

/* Both ends signed, or the dial and the answer say that they cannot. */
bool ctl_handshake_proven(const struct ctl_handshake *hs);

/* Both, at the end. Without an exchange and without a key it is made of both nonces: only who saw
 * them knows it. */
tcpx_status ctl_handshake_session_key(const struct ctl_handshake *hs,
				      uint8_t out_key[CTL_KEY_BYTES]);

void ctl_handshake_wipe(struct ctl_handshake *hs); /* keys and proofs */

#endif

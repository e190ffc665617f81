/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three messages of conn.h as bytes: encoding, proofs, checks, and transfer over a
 * non-blocking socket. Policy is in listener.c and dial.c.
 */
#ifndef CTL_HANDSHAKE_H
#define CTL_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "ctl/conn.h"

/* A message that is being sent or received. */
struct ctl_message {
	size_t len;  /* total length; 0 while receiving and not known yet */
	size_t done; /* bytes moved so far */
	uint8_t bytes[WIRE_HELLO_MAX];
};

struct ctl_handshake {
	bool dialler;
	bool foreign; /* acceptor: a dial of another version, of which only the common fields are
		       * known */
	uint8_t key[CTL_KEY_BYTES];
	struct ctl_identity identity;	 /* key pair of this end */
	uint8_t exchange[CTL_KEY_BYTES]; /* secret key of this end for the key exchange */
	struct wire_hello dial, answer;
	struct ctl_message dial_msg, answer_msg, proof_msg;
};

/* Sends or receives a message and never reads past it. TCPX_OK: complete; IN_PROGRESS: wait for the
 * socket; PROTOCOL: wrong magic or too long; PEER_CLOSED: end of stream; else the status that
 * belongs to the errno *out_err. */
tcpx_status ctl_message_recv(int fd, struct ctl_message *msg, int *out_err);
tcpx_status ctl_message_send(int fd, struct ctl_message *msg, int *out_err);

/* Dialler: fills in step, nonce, version range (if 0) and proof of hs->dial and encodes it.
 * UNSUPPORTED: the method needs crypto, which is missing. */
tcpx_status ctl_handshake_dial(struct ctl_handshake *hs);

/* Acceptor: decodes dial_msg into hs->dial. With ERR_VERSION hs->dial is filled as well, because
 * the answer may report the version after the proof is checked. Other failures are PROTOCOL. */
tcpx_status ctl_handshake_read_dial(struct ctl_handshake *hs);

/* Acceptor, with hs->key set: ERR_AUTH if the dial does not prove hs->key, or if the uuid in the
 * dial does not match the public key in the dial. */
tcpx_status ctl_handshake_check_dial(const struct ctl_handshake *hs);

/* Acceptor: completes hs->answer (step, role, auth, version, nonce, proof) and encodes it. */
tcpx_status ctl_handshake_answer(struct ctl_handshake *hs);

/* Dialler: decodes and checks answer_msg. AUTH, VERSION, PROTOCOL, or the status of the answer. */
tcpx_status ctl_handshake_check_answer(struct ctl_handshake *hs);

/* Dialler: encodes the proof. Acceptor: checks proof_msg; ERR_AUTH or PROTOCOL. */
tcpx_status ctl_handshake_proof(struct ctl_handshake *hs);
tcpx_status ctl_handshake_check_proof(const struct ctl_handshake *hs);

/* Whether both ends proved their keys. */
bool ctl_handshake_proven(const struct ctl_handshake *hs);

/* Both ends, when the handshake is complete. Without an exchange and without a key the session key
 * is made of both nonces: only those who saw them know it. */
tcpx_status ctl_handshake_session_key(const struct ctl_handshake *hs,
				      uint8_t out_key[CTL_KEY_BYTES]);

void ctl_handshake_wipe(struct ctl_handshake *hs); /* clears keys and proofs */

#endif

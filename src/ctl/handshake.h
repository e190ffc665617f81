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
	size_t done; /* bytes sent or received so far */
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

/* Sends or receives the rest of a message; nothing after the message is read. TCPX_OK: complete;
 * IN_PROGRESS: wait for the socket; PROTOCOL: wrong magic or too long; PEER_CLOSED: end of stream;
 * else the status that belongs to the errno *out_err. */
tcpx_status ctl_message_recv(int fd, struct ctl_message *msg, int *out_err);
tcpx_status ctl_message_send(int fd, struct ctl_message *msg, int *out_err);

/* Dialler: fills in step, nonce, version range (if 0) and proof of hs->dial and encodes it as
 * dial_msg. ERR_UNSUPPORTED: the auth method needs crypto, which is missing. */
tcpx_status ctl_handshake_dial(struct ctl_handshake *hs);

/* Acceptor: decodes dial_msg into hs->dial. ERR_VERSION: no common version, or something unknown
 * is required; hs->dial has the fields that all versions share, because the proof is checked
 * before the answer reports the version. ERR_PROTOCOL: malformed. */
tcpx_status ctl_handshake_read_dial(struct ctl_handshake *hs);

/* Acceptor: checks the dial with hs->key. ERR_AUTH: the dial does not prove that key, or its uuid
 * does not match its public key; ERR_PROTOCOL: the method requires a public key, which the dial
 * lacks. */
tcpx_status ctl_handshake_check_dial(const struct ctl_handshake *hs);

/* Acceptor: completes hs->answer (step, role, auth, version, nonce, proof) and encodes it as
 * answer_msg. */
tcpx_status ctl_handshake_answer(struct ctl_handshake *hs);

/* Dialler: decodes and checks answer_msg. ERR_AUTH: not proven, or not from the wanted session;
 * ERR_VERSION; ERR_PROTOCOL: malformed; else the status with which the acceptor refuses. */
tcpx_status ctl_handshake_check_answer(struct ctl_handshake *hs);

/* Dialler: makes proof_msg. Acceptor: checks proof_msg; ERR_AUTH: not proven; ERR_PROTOCOL:
 * malformed or not of this handshake. */
tcpx_status ctl_handshake_proof(struct ctl_handshake *hs);
tcpx_status ctl_handshake_check_proof(const struct ctl_handshake *hs);

/* Whether both ends have key pairs, so that a complete handshake proves both public keys. */
bool ctl_handshake_proven(const struct ctl_handshake *hs);

/* Either end, when the handshake is complete: computes the session key. Without an exchange and
 * without a key it is made of both nonces, so only those who saw them know it. */
tcpx_status ctl_handshake_session_key(const struct ctl_handshake *hs,
				      uint8_t out_key[CTL_KEY_BYTES]);

void ctl_handshake_wipe(struct ctl_handshake *hs); /* clears keys and proofs */

#endif

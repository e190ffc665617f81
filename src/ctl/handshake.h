/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three messages of conn.h as bytes: encoding, proofs, checks, and how they are sent and
 * received over a non-blocking socket. Policy is in listener.c and dial.c.
 */
#ifndef CTL_HANDSHAKE_H
#define CTL_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "ctl/conn.h"

/* A message that is being sent or received. */
struct ctl_message {
	size_t len;  /* total length; 0 until the received part contains it */
	size_t done; /* bytes sent or received so far */
	uint8_t bytes[WIRE_HELLO_MAX];
};

struct ctl_handshake {
	bool dialler;
	bool foreign; /* acceptor: the dial has another version; only its common fields are known */
	uint8_t key[CTL_KEY_BYTES];
	struct ctl_identity identity;	 /* key pair of this end */
	uint8_t exchange[CTL_KEY_BYTES]; /* secret key of this end for the key exchange */
	struct wire_hello dial, answer;
	struct ctl_message dial_msg, answer_msg, proof_msg;
};

/* ctl_message_recv() receives and ctl_message_send() sends the rest of a message; nothing after the
 * message is read. Both return TCPX_OK if the message is complete, and IN_PROGRESS if they must
 * wait for the socket. Receiving returns PROTOCOL if the magic or the length is impossible, and
 * PEER_CLOSED at the end of the stream. Any other status is that of the errno in *out_err. */
tcpx_status ctl_message_recv(int fd, struct ctl_message *msg, int *out_err);
tcpx_status ctl_message_send(int fd, struct ctl_message *msg, int *out_err);

/* Dialler: fills in step, nonce, identity (if this end proves one) and version range (if 0) of
 * hs->dial, and encodes it with its proof as dial_msg. Returns ERR_UNSUPPORTED if the auth method
 * needs a crypto library and none is loaded. */
tcpx_status ctl_handshake_dial(struct ctl_handshake *hs);

/* Acceptor: decodes dial_msg into hs->dial. Returns ERR_VERSION if there is no common version, or
 * if something unknown is required. In this case hs->dial has the fields that all versions share,
 * because the proof is checked before the answer reports the version. Returns ERR_PROTOCOL if the
 * message is malformed. */
tcpx_status ctl_handshake_read_dial(struct ctl_handshake *hs);

/* Acceptor: checks the dial with hs->key. Returns ERR_AUTH if the dial does not prove that key, or
 * if its uuid does not match its public key. Returns ERR_PROTOCOL if the method requires a public
 * key, which the dial lacks. */
tcpx_status ctl_handshake_check_dial(const struct ctl_handshake *hs);

/* Acceptor: completes hs->answer (step, role, auth, version, nonce, identity) and encodes it with
 * its signature and proof as answer_msg. */
tcpx_status ctl_handshake_answer(struct ctl_handshake *hs);

/* Dialler: decodes and checks answer_msg. Returns ERR_AUTH if the answer is not proven or not from
 * the wanted session, ERR_VERSION if there is no common version, and ERR_PROTOCOL if the answer is
 * malformed. If the acceptor refuses, returns the status in its answer. */
tcpx_status ctl_handshake_check_answer(struct ctl_handshake *hs);

/* The dialler makes proof_msg, and the acceptor checks it. The check returns ERR_AUTH if the proof
 * or signature is wrong, and ERR_PROTOCOL if the message is malformed or not of this handshake. */
tcpx_status ctl_handshake_proof(struct ctl_handshake *hs);
tcpx_status ctl_handshake_check_proof(const struct ctl_handshake *hs);

/* Whether both ends have key pairs, so that a complete handshake proves both public keys. */
bool ctl_handshake_proven(const struct ctl_handshake *hs);

/* Computes the session key, at either end, when the handshake is complete. Without a key exchange
 * and without a key, the session key is made of both nonces and, with BARE, of the secret. Such a
 * key is known to all who saw the handshake. */
tcpx_status ctl_handshake_session_key(const struct ctl_handshake *hs,
				      uint8_t out_key[CTL_KEY_BYTES]);

void ctl_handshake_wipe(struct ctl_handshake *hs); /* clears keys and proofs */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The decoded form of a frame header, shared by core, wire and net. */
#ifndef BASE_FRAME_H
#define BASE_FRAME_H

#include <stdint.h>

#define FRAME_HEADER_BYTES 64
#define FRAME_TRAILER_BYTES 16
#define FRAME_TABLE_MAX (64u << 10)   /* most bytes of the segment table of a frame */
#define FRAME_PAYLOAD_MAX (16u << 20) /* most bytes of the payload of a frame */
#define FRAME_REF_MAX (1u << 30)      /* most bytes of a chunk by reference */
/* most bytes of the payload of a frame on the control link */
#define FRAME_CONTROL_MAX (64u << 10)
#define FRAME_VERSION 1

/*
 * Frame types. "seq" types have a channel sequence, are acknowledged when applied, and are sent
 * again when their channel was lost. The others carry cumulative values and may be lost. Unless a
 * comment says otherwise, xfer is the id of the transfer, linear the offset in the transfer, key
 * the key of a region and offset the offset in the region.
 */
enum frame_type {
	/* data channels */
	FRAME_DATA = 1,	    /* seq; WRITE chunk: xfer, linear; key and offset, or a table */
	FRAME_RDATA = 2,    /* seq; READ chunk of the responder: xfer of the reader, linear */
	FRAME_SDATA = 3,    /* seq; SEND chunk after a CTS: xfer of the receiver, linear */
	FRAME_READ_REQ = 4, /* seq; part of a READ's source list: xfer, linear = start, offset =
			     * bytes asked for; a table. No payload */
	FRAME_SEND = 5,	    /* seq; eager SEND: xfer of the sender, linear = message number */
	FRAME_RTS = 6,	    /* seq; announces a SEND: xfer, linear = message number, offset =
			     * bytes */
	FRAME_CTS = 7,	    /* seq; xfer of the sender, key = xfer of the receiver, offset = bytes
			     * wanted (0: an error consumed the SEND; linear = its status) */
	FRAME_FINAL = 8,    /* seq; xfer of the addressee's request, linear = status (as u64 of the
			     * negated code), offset = bytes applied */
	FRAME_CANCEL = 9,   /* seq; stop sending for xfer; key = enum frame_cancel. Of a SEND:
			     * linear = message number, offset = bytes charged to the eager budget;
			     * CANCEL takes that number's place if the SEND does not arrive */
	FRAME_NOTIFY = 10,  /* seq; key = enum frame_note, xfer = notification number (BEHIND: of
			     * the transfer), linear = offset of this part, offset = total bytes */
	FRAME_NACK = 11,    /* seq; xfer of the refused frame, linear = its sequence, offset =
			     * negated status */
	FRAME_NOP = 12,	    /* seq; carries FRAME_F_ACK only */
	FRAME_ACK = 13,	    /* linear = all frames up to this sequence are applied or refused; key =
			     * all up to this one are taken out of the transport, at least linear */
	FRAME_CREDIT = 14,  /* key = enum frame_credit, linear = cumulative bytes returned; NOTIFY:
			     * offset = cumulative bytes granted beyond the first window */
	FRAME_STAGE_REQ = 15, /* staging at the destination, all cumulative bytes: linear = wanted,
			       * key = no longer wanted, offset = grants given back unused;
			       * CREDIT with FRAME_CREDIT_STAGE answers */
	FRAME_DATA_LAST = 31,
	/* reserved: 32 atomic, 33 flush, 34 write with immediate */
	/* control link */
	FRAME_HEARTBEAT = 64, /* linear = sender's clock ns, offset = the peer's last value */
	FRAME_GOODBYE = 65,   /* orderly end */
	FRAME_FENCE = 66,     /* key = channel, epoch: closed and quiesced here; linear = cumulative
			       * applied; offset = largest payload of a packet on the next
			       * connection, 0: any; payload = refused sequences (u64 seq, u64
			       * status)* */
	FRAME_CHANNELS = 67,  /* linear = number of bulk channels; the dialler may open them */
	FRAME_LOCAL = 68,     /* same-host offer: payload = abstract name and nonce */
	FRAME_PAUSE = 69,     /* linear = ms of announced silence */
	FRAME_RAILS = 70,     /* payload = addresses for data channels */
	FRAME_SHARE = 71,     /* memory that the peer may copy from directly: key = enum
			       * frame_share, xfer = its id; see docs/design/local.md */
	FRAME_COMM = 72,      /* a comm of a plugin channel: key = enum frame_comm, linear =
			       * channel, epoch of the attempt; see docs/design/messages.md */
};

enum frame_flags {
	FRAME_F_ACK = 1u << 0, /* acknowledge at once when this frame is applied */
	/* the payload uses staging grants; CTS: that of SDATA will have to */
	FRAME_F_STAGED = 1u << 2,
	/* chunks: no payload follows, the last part of the table says where the payload is;
	 * READ_REQ: the READ should be answered that way; CTS: the SEND may be sent that way */
	FRAME_F_REF = 1u << 4,
	/* chunks: the payload is the next message of the plugin channel; READ_REQ: the READ should
	 * be answered with messages; CTS: the SEND may be sent with messages */
	FRAME_F_MSG = 1u << 5,
	FRAME_F_RESERVED = 1u << 1 | 1u << 3, /* sent as 0, and ignored */
};

/* What a CREDIT returns: bytes of notifications, bytes of eager SENDs, READ_REQ frames that were
 * served, bytes of staging (a grant: usable for staged destinations). */
enum frame_credit {
	FRAME_CREDIT_NOTIFY = 0,
	FRAME_CREDIT_EAGER = 1,
	FRAME_CREDIT_READ = 2,
	FRAME_CREDIT_STAGE = 3,
	FRAME_CREDIT_COUNT = 4,
	/* Not a credit, but a request for NOTIFY credit: linear = cumulative bytes wanted, offset =
	 * cumulative bytes needed for the first notification that waits */
	FRAME_CREDIT_WISH = 4,
};
/* A NOTIFY's key. ATTACHED: of a transfer; ALONE: of none; BEHIND: of the WRITE whose DATA frame is
 * directly before it on its channel. */
enum frame_note { FRAME_NOTE_ATTACHED = 0, FRAME_NOTE_ALONE = 1, FRAME_NOTE_BEHIND = 2 };
/* A READ_REQ's key: on which channel the data should be sent; the responder may choose another.
 * BY_LANE: on the priority channel. */
enum frame_read { FRAME_READ_ANYHOW = 0, FRAME_READ_BY_PRIO = 1 };
enum frame_cancel { FRAME_CANCEL_READ = 1, FRAME_CANCEL_SEND = 2 };
enum frame_share {
	FRAME_SHARE_OFFER = 1, /* offset = region key or 0, linear = channel of the lease, epoch;
				* seq = enum frame_share_form, payload = handle */
	FRAME_SHARE_ANSWER,    /* linear = status: OK: mapped; AGAIN: ask later; else: cannot;
				* OK: offset = most bytes of a chunk, 0: FRAME_PAYLOAD_MAX;
				* seq = FRAME_SHARE_LISTS or 0 */
	FRAME_SHARE_REVOKE,    /* the memory will be unregistered */
	FRAME_SHARE_GONE,      /* the memory is no longer mapped or read */
};
enum frame_comm {
	FRAME_COMM_LISTEN = 1, /* payload = the plugin's handle, to connect to */
	FRAME_COMM_CONNECT,    /* the peer will connect: accept now */
	FRAME_COMM_READY,      /* accepted: messages may be sent */
	FRAME_COMM_FAILED,     /* the attempt failed; epoch 0: there will be none. Payload = why */
	FRAME_COMM_LOST, /* the channel of that epoch is lost. Payload = why, or what became of the
			  * messages */
};
enum frame_share_form {
	FRAME_SHARE_BYTES = 0, /* the handle suffices */
	FRAME_SHARE_FD = 1,    /* also a descriptor, to be fetched from the local listener */
};
/* seq of a SHARE ANSWER: the receiver copies many small pieces as fast as few large ones. */
#define FRAME_SHARE_LISTS 1
enum frame_trailer_status { FRAME_VALID = 1, FRAME_ABORTED = 2 };

struct frame {
	uint8_t type;
	uint16_t flags;
	uint32_t table_bytes;
	uint32_t payload_bytes;
	uint32_t epoch;
	uint64_t seq;
	uint64_t xfer;
	uint64_t linear;
	uint64_t key;
	uint64_t offset;
	uint32_t follows; /* DATA: bytes of the transfer after this chunk, at most 2^32-1; a hint.
			   * With F_REF: bytes of the last part of the table */
};

struct frame_trailer {
	uint64_t seq;
	uint32_t status;   /* enum frame_trailer_status */
	uint32_t reserved; /* sent as 0, ignored; for a checksum of the payload */
};

#endif

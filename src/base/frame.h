/* SPDX-License-Identifier: Apache-2.0 */
/* The decoded headers and trailers of frames, shared by core, wire and net. */
#ifndef BASE_FRAME_H
#define BASE_FRAME_H

#include <stdint.h>

#define FRAME_HEADER_BYTES 64
#define FRAME_TRAILER_BYTES 16
#define FRAME_TABLE_MAX (64u << 10)   /* most bytes of the segment table of a frame */
#define FRAME_PAYLOAD_MAX (16u << 20) /* most bytes of the payload of a frame */
#define FRAME_REF_MAX (1u << 30)      /* most bytes of a chunk by reference */
#define FRAME_CONTROL_MAX (64u << 10) /* most bytes of a payload on the control link */
#define FRAME_VERSION 1

/*
 * Frame types. A type marked "seq" has a channel sequence, is acknowledged when applied, and is
 * sent again if its channel was lost. The other types on data channels carry cumulative values and
 * may be lost. The names before "=" are fields of struct frame. Unless stated otherwise, xfer is
 * the id of the transfer, linear the offset in the transfer, key the key of a region, and offset
 * the offset in that region.
 */
enum frame_type {
	/* data channels */
	FRAME_DATA = 1,	    /* seq; WRITE chunk; key and offset, or a table of its pieces */
	FRAME_RDATA = 2,    /* seq; chunk that answers a READ; xfer = id at the reader */
	FRAME_SDATA = 3,    /* seq; SEND chunk after a CTS; xfer = id at the receiver */
	FRAME_READ_REQ = 4, /* seq; a table with a part of a READ's source list: linear = start of
			     * the part, offset = bytes asked for, key = enum frame_read */
	FRAME_SEND = 5,	    /* seq; eager SEND; xfer = id at the sender, linear = message number */
	FRAME_RTS = 6,	    /* seq; announces a SEND: xfer = id at the sender, linear = message
			     * number, offset = bytes of the message */
	FRAME_CTS = 7,	    /* seq; xfer = id at the SEND's sender, key = id at the receiver,
			     * offset = bytes wanted (a RECV that wants none sends FINAL instead) */
	FRAME_FINAL = 8,    /* seq; ends a request of the addressee: xfer = its id, linear = negated
			     * status, offset = bytes applied */
	FRAME_CANCEL = 9,   /* seq; cancels a READ or SEND of the sender: key = enum frame_cancel.
			     * SEND: linear = message number, offset = eager bytes charged; CANCEL
			     * uses up the number if the SEND does not arrive */
	FRAME_NOTIFY = 10,  /* seq; key = enum frame_note, xfer = notification number (PIGGYBACK: id
			     * of the WRITE), linear = offset of this part, offset = total bytes */
	FRAME_NACK = 11,    /* seq; refuses a frame: xfer = that of the refused frame, linear = its
			     * sequence, offset = negated status */
	FRAME_NOP = 12,	    /* seq; carries nothing but the flag FRAME_F_ACK */
	FRAME_ACK = 13,	    /* linear = sequence up to which all frames are applied or refused,
			     * key = sequence up to which all are taken out of the transport */
	FRAME_CREDIT = 14,  /* key = enum frame_credit, linear = cumulative units returned. NOTIFY:
			     * offset = cumulative bytes granted beyond notify_cover. STAGE: linear
			     * = cumulative bytes granted, offset = bytes to keep unrequested */
	FRAME_STAGE_REQ = 15, /* asks for staging at the destination, in cumulative bytes:
			       * linear = wanted, key = no longer wanted, offset = grants returned
			       * unused. The answer is CREDIT with FRAME_CREDIT_STAGE */
	FRAME_DATA_LAST = 31,
	/* types 32 to 34 are reserved: atomic, flush, write with immediate */
	/* control link */
	FRAME_HEARTBEAT = 64, /* linear = sender's clock in ns, offset = peer's last such value */
	FRAME_GOODBYE = 65,   /* the sender ends the link in an orderly way */
	FRAME_FENCE = 66,     /* the sender's reader of a channel has stopped: key = channel,
			       * epoch = that of the channel, linear = cumulative applied sequence,
			       * offset = largest packet payload of the next connection (0: any),
			       * payload = refusals (u64 seq, u64 negated status)* */
	FRAME_CHANNELS = 67,  /* the dialler may open channels: linear = number of bulk channels */
	FRAME_LOCAL = 68,     /* the sender's local listener: payload = nonce, abstract name */
	FRAME_PAUSE = 69,     /* announces that the sender will be silent for `linear` ms */
	FRAME_RAILS = 70,     /* payload = the sender's addresses for data channels */
	FRAME_SHARE = 71,     /* memory that the peer may copy from directly: key = enum
			       * frame_share, xfer = id of the memory; see docs/design/local.md */
	FRAME_COMM = 72,      /* comm of a plugin channel (docs/design/messages.md): key = enum
			       * frame_comm, linear = channel, epoch = that of the attempt */
};

enum frame_flags {
	FRAME_F_ACK = 1u << 0, /* the receiver acknowledges as soon as this frame is applied */
	/* The payload uses staging grants. In a CTS: the payload of SDATA must use them. */
	FRAME_F_STAGED = 1u << 2,
	/* In a chunk: no payload follows; the last part of the table says where the bytes are. In a
	 * READ_REQ: the READ should be answered by reference. In a CTS: the SEND may be sent so. */
	FRAME_F_REF = 1u << 4,
	/* In a chunk: the payload is the next message of the plugin channel. In a READ_REQ: the
	 * READ should be answered with messages. In a CTS: the SEND may be sent with messages. */
	FRAME_F_MSG = 1u << 5,
	FRAME_F_RESERVED = 1u << 1 | 1u << 3, /* sent as 0, and ignored */
};

/* What a CREDIT frame returns, in this order: bytes of notifications, bytes of eager SENDs, number
 * of READ_REQ frames served. With STAGE: what it grants, bytes of staging at the destination. */
enum frame_credit {
	FRAME_CREDIT_NOTIFY = 0,
	FRAME_CREDIT_EAGER = 1,
	FRAME_CREDIT_READ = 2,
	FRAME_CREDIT_STAGE = 3,
	FRAME_CREDIT_COUNT = 4,
	/* A request for NOTIFY credit, not a credit: linear = cumulative bytes wanted,
	 * offset = cumulative bytes that the first waiting notification needs */
	FRAME_CREDIT_COVER = 4,
};
/* The key of a NOTIFY. The notification belongs to a transfer (ATTACHED), to none (ALONE), or to
 * the WRITE whose DATA frame is directly before the NOTIFY on the channel (PIGGYBACK). */
enum frame_note { FRAME_NOTE_ATTACHED = 0, FRAME_NOTE_ALONE = 1, FRAME_NOTE_PIGGYBACK = 2 };
/* The key of a READ_REQ: on which channel the data should be sent. ANYHOW leaves the choice to the
 * responder. BY_PRIO asks for the priority channel, but the responder may choose another one. */
enum frame_read { FRAME_READ_ANYHOW = 0, FRAME_READ_BY_PRIO = 1 };
enum frame_cancel { FRAME_CANCEL_READ = 1, FRAME_CANCEL_SEND = 2 };
enum frame_share {
	FRAME_SHARE_OFFER = 1, /* offset = region key or 0, payload = handle, linear = channel of
				* the lease, epoch = its epoch, seq = enum frame_share_form */
	FRAME_SHARE_ANSWER,    /* linear = negated status: OK if mapped, AGAIN if the peer may offer
				* it again later. With OK: offset = most bytes of a chunk (0:
				* FRAME_PAYLOAD_MAX), seq = FRAME_SHARE_LISTS or 0 */
	FRAME_SHARE_REVOKE,    /* the sender will unregister the memory */
	FRAME_SHARE_GONE,      /* the sender no longer maps or reads the memory */
};
enum frame_comm {
	FRAME_COMM_LISTEN = 1, /* payload = handle of the plugin, to which the peer connects */
	FRAME_COMM_CONNECT,    /* the sender is about to connect: the peer must accept */
	FRAME_COMM_READY,      /* the sender accepted: messages may be sent to it */
	FRAME_COMM_FAILED,     /* the attempt failed, or none is made (epoch = 0): payload = why */
	FRAME_COMM_LOST, /* the channel is lost: payload = why, or in a second frame the counts of
			  * its messages, both as text */
};
enum frame_share_form {
	FRAME_SHARE_BYTES = 0, /* the handle alone opens the memory */
	FRAME_SHARE_FD = 1,    /* a descriptor is needed too; the local listener hands it out */
};
/* seq of a SHARE_ANSWER if its sender copies many small pieces as fast as few large ones */
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
			   * With FRAME_F_REF: bytes of the last part of the table */
};

struct frame_trailer {
	uint64_t seq;
	uint32_t status;   /* enum frame_trailer_status */
	uint32_t reserved; /* sent as 0, ignored; reserved for a checksum of the payload */
};

#endif
